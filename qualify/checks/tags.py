"""The file name's platform tags against the target's machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.facts import MemberKind
from qualify.report import Severity

#: Kinds of member that the host's loader maps.
HOST_BINARIES = frozenset({MemberKind.EXTENSION, MemberKind.LIBRARY, MemberKind.EXECUTABLE})

_LINUX = re.compile(r"(?:linux|manylinux1|manylinux2010|manylinux2014|manylinux_[0-9]+_[0-9]+)_(?P<machine>\w+)")


def platforms(case: Case) -> tuple[str, ...]:
    """The distinct platform tags of the file name, sorted."""
    return tuple(sorted({tag.rpartition("-")[2] for tag in case.facts.tags}))


def machine_of(platform: str) -> str:
    """``"manylinux_2_28_aarch64"`` -> ``"aarch64"``; "" for what is no tag of Linux with glibc."""
    match = _LINUX.fullmatch(platform)
    return match["machine"] if match else ""


@check("TAG001", "other-machine")
def other_machine(case: Case) -> Iterator[Observation]:
    """The wheel's tags are those of another machine or system than the target's.

    Why: an installer on the target refuses the file; forced in, no extension loads.

    Mend: take the wheel of the target's machine, or build it there (`nox -s build-<target>`).
    """
    wanted = case.policy.machine
    tags = platforms(case)
    if case.has_wheel_name and not any(tag == "any" or machine_of(tag) == wanted for tag in tags):
        expected = f"manylinux or linux of {wanted}, the machine of {case.policy.target}"
        yield Observation("", f"platform tag {', '.join(tags)}", expected, f"take the wheel for {wanted}")


@check("TAG002", "any-with-binaries", upstream=Severity.NOTE)
def any_with_binaries(case: Case) -> Iterator[Observation]:
    """The tag says that the wheel runs anywhere, and the wheel holds binaries of one machine.

    Why: an installer takes it on every machine, where it then fails to load.

    Mend: let the build state its platform (`Root-Is-Purelib: false`, `wheel tags --platform-tag`).
    """
    if set(platforms(case)) == {"any"}:
        for member in case.facts.members:
            if member.kind in HOST_BINARIES and member.elf is not None:
                found = f"a binary of {member.elf.machine} under the platform tag any"
                yield Observation(member.path, found, "a platform tag", "retag with `wheel tags --platform-tag`")
