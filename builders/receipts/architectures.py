"""Requested beside emitted: what the arch list asked for, and what every member of the wheel holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qualify.arch import ComputeCapability, Support
from qualify.coverage import entry_support
from qualify.errors import MalformedError
from qualify.facts import Entry, EntryKind, WheelFacts

_WORDS = {
    Support.EXACT: "compiled for it",
    Support.SAME_MAJOR: "runs there: same major, lower minor",
    Support.FAMILY: "runs there: of its family",
    Support.JIT: "PTX, which the driver compiles there",
    Support.UNKNOWN: "no rule says whether it runs there",
    Support.NONE: "does not run there",
}
NOTHING = "nothing that runs there"
# torch writes 9.0a+PTX, CMake 90a-real; nvcc sm_90a and compute_90a.
_DOTTED = re.compile(r"(?P<number>[1-9][0-9]?\.[0-9])[af]?(?P<ptx>\+PTX)?")
_PLAIN = re.compile(r"(?:sm_|compute_)?(?P<major>[1-9][0-9]?)(?P<minor>[0-9])[af]?(?:-real|-virtual)?")


@dataclass(frozen=True, slots=True)
class Emitted:
    """The device code of one member beside what was asked for.

    ``served``: each that was asked for -> what serves it, :data:`NOTHING` where nothing does, "" where what was asked
    for is no architecture that is known here (``Hopper``).
    """

    member: str
    requested: tuple[str, ...]
    emitted: dict[str, str]  # "sm_120f (cubin)" -> how it serves the target's device
    served: dict[str, str]
    toolkits: tuple[str, ...]  # versions of the toolkit that the code says it was compiled with

    @property
    def unserved(self) -> tuple[str, ...]:
        return tuple(name for name, said in self.served.items() if said == NOTHING)


def requested_beside_emitted(facts: WheelFacts, requested: Sequence[str], device: str) -> tuple[Emitted, ...]:
    """For each member with device code: what was asked, what it holds, and how that serves the target.

    :param requested: as the arch list writes them.
    :param device: the target's compute capability.
    """
    capability = ComputeCapability.parse(device)
    rows = []
    for member in facts.members:
        entries = [entry for container in member.containers for entry in container.entries]
        if not entries:
            continue
        emitted = {_named(entry): _WORDS[entry_support(entry, capability)] for entry in entries}
        rows.append(
            Emitted(
                member.path,
                tuple(requested),
                dict(sorted(emitted.items())),
                {name: _serving(name, entries) for name in requested},
                tuple(sorted({entry.toolkit for entry in entries if entry.toolkit})),
            )
        )
    return tuple(rows)


def dropped(rows: Iterable[Emitted]) -> tuple[str, ...]:
    """What was asked for and no member of the wheel serves, in the order of the arch list; () where no code is."""
    found = list(rows)
    return tuple(name for name in (found[0].requested if found else ()) if all(name in row.unserved for row in found))


def _serving(requested: str, entries: Sequence[Entry]) -> str:
    """What serves one that was asked for: the best that there is, of several kinds the same."""
    capability, with_ptx = _understood(requested)
    if capability is None:
        return ""
    by_support: dict[Support, set[str]] = {}
    for entry in entries:
        by_support.setdefault(entry_support(entry, capability), set()).add(_named(entry))
    had = [support for support in by_support if support is not Support.NONE]
    if not had:
        return NOTHING
    said = "; ".join(
        f"{', '.join(sorted(by_support[support]))}: {_WORDS[support]}" for support in sorted(had, key=_rank)
    )
    if with_ptx and not any(entry.kind is EntryKind.PTX for entry in entries):
        said += "; without the PTX that was asked for"
    return said


def _understood(requested: str) -> tuple[ComputeCapability | None, bool]:
    """The compute capability of an item of an arch list, and whether PTX is asked for besides."""
    if match := _DOTTED.fullmatch(requested):
        text, with_ptx = match["number"], bool(match["ptx"])
    elif match := _PLAIN.fullmatch(requested):
        text, with_ptx = f"{match['major']}.{match['minor']}", False
    else:
        return None, False
    try:
        return ComputeCapability.parse(text), with_ptx
    except MalformedError:
        return None, False


def _rank(support: Support) -> int:
    return support.rank


def _named(entry: Entry) -> str:
    return f"{entry.architecture or 'unknown architecture'} ({entry.kind.value})"
