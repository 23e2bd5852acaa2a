"""The true manylinux tag of a wheel, from the floors that its binaries have, and the wheel under that tag.

PEP 600: ``manylinux_X_Y`` says that the wheel works where glibc is X.Y or newer, with the few libraries that every
such system has.  The policies are those that the wheel is judged by (:mod:`qualify.floors`).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from qualify import floors
from qualify.errors import BuildError
from qualify.facts import WheelFacts
from qualify.lines import last_line


@dataclass(frozen=True, slots=True)
class Tagging:
    """The platform tag that is true, and why: "" where none is, with the reason."""

    tag: str
    floors: dict[str, str]  # GLIBC -> "2.28", GLIBCXX -> "3.4.24", …: the highest that any member asks for
    reason: str


def true_tag(facts: WheelFacts, machine: str, provided: tuple[str, ...] = ()) -> Tagging:
    """The oldest manylinux policy that holds for every binary of a wheel, symbols and libraries alike.

    :param provided: file names, or patterns of them, of libraries that a dependency brings (torch, say).
    """
    compiled = [member.elf for member in facts.members if member.elf is not None and member.elf.machine != "cuda"]
    if not compiled:
        return Tagging("", {}, "nothing in it is compiled")
    binaries = [elf for _, elf in floors.binaries(facts, machine)]
    if foreign := sorted({elf.machine for elf in compiled if elf not in binaries}):
        return Tagging("", {}, f"it holds binaries of {', '.join(foreign)}, not only of {machine}")
    shown = {family: floor.version.removeprefix(f"{family}_") for family, floor in floors.floors(facts.members).items()}
    unknown = sorted({need.version for elf in binaries for need in floors.needs(elf) if not _known(need, machine)})
    if unknown:
        return Tagging("", shown, f"no policy knows the symbol version {unknown[0]}")
    oldest = floors.symbol_policy(facts, machine)
    if oldest is None:
        return Tagging("", shown, "no known policy allows its symbol versions")
    own = {member.path.rsplit("/", 1)[-1] for member in facts.members if member.elf is not None}
    own |= {elf.soname for elf in binaries}
    outside = {
        name
        for elf in binaries
        for name in elf.needed
        if name not in own and not floors.is_loader(name) and not _among(name, provided)
    }
    newer = [policy for policy in floors.policies(machine) if policy.glibc >= oldest.glibc]
    fitting = next((policy for policy in newer if outside <= policy.libraries), None)
    if fitting is None:
        lacking = sorted(outside - newer[-1].libraries) or sorted(outside)
        return Tagging("", shown, f"it needs {', '.join(lacking)}, which no manylinux system has to have")
    return Tagging(fitting.tag, shown, "the oldest policy under which every symbol version and library is had")


def retag(wheel: Path, platform: str) -> Path:
    """The same wheel under another platform tag, by ``wheel tags``: file name, WHEEL and RECORD change together.

    The old file is gone afterwards.

    :raises BuildError: ``wheel tags`` would not.
    """
    done = subprocess.run(
        [sys.executable, "-m", "wheel", "tags", "--platform-tag", platform, "--remove", wheel.name],
        cwd=wheel.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    made = wheel.parent / last_line(done.stdout)
    if done.returncode != 0 or not made.is_file():
        raise BuildError(
            f"wheel tags failed: {(done.stderr or done.stdout).strip()}",
            where=wheel.name,
            expected=f"the tag {platform}",
            action="python -m pip install 'wheel>=0.45'",
        )
    return made


def _known(need: floors.Need, machine: str) -> bool:
    """Whether any policy has a place for a symbol version."""
    return (
        any(need.family in policy.versions for policy in floors.policies(machine))
        and floors.rank(need, machine) is not None
    )


def _among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
