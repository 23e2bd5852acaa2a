"""Was this wheel compiled here?  The facts come from the build folder, the judgement is made here.

A binary of the wheel was compiled here when the build folder holds the same bytes, written since the build began, and
when what it exports and its device code are in objects that were compiled since then.  A prebuilt library that a build
copies into place has the first and lacks the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from importlib import resources
from typing import Any

from builders.engines import Room, Step
from builders.environment import Prepared
from builders.stations import listening
from qualify.errors import UnavailableError

# The wheel's binaries and the objects may differ by a few symbols: of static libraries of the compiler and toolkit.
_FROM_ELSEWHERE = 0.05


class Provenance(StrEnum):
    """Where a binary of the wheel comes from."""

    COMPILED = "compiled here"
    LINKED = "linked here by cargo"
    ALLOWED = "brought by the tree"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class MemberProof:
    """One binary of the wheel; ``why`` tells what speaks for the provenance, for people."""

    name: str
    provenance: Provenance
    why: str
    sha256: str  # as it came out of the build, before any repair
    build_id: str


@dataclass(frozen=True, slots=True)
class Proof:
    """All binaries of the wheel, and what the build folder says of the compile."""

    members: tuple[MemberProof, ...]
    objects: int
    objects_sha256: str  # over the sorted digests of all objects
    ninja: tuple[Mapping[str, Any], ...]  # of each log: path, format, steps, slowest
    unread: tuple[str, ...]

    @property
    def foreign(self) -> tuple[MemberProof, ...]:
        return tuple(member for member in self.members if member.provenance is Provenance.FOREIGN)


def collect_proof(room: Room, prepared: Prepared, tree: str, began: float) -> Mapping[str, Any]:
    """What the build folder says, collected in the room.

    :param tree: the project's folder in the room.
    :param began: seconds since the epoch by the room's clock; nothing of the build is older.
    :raises UnavailableError: it could not be collected.
    """
    request = json.dumps({"tree": tree, "out": room.paths.out, "began": began})
    source = resources.files("builders").joinpath("proof_collector.py").read_text(encoding="utf-8")
    lines: list[str] = []
    outcome = room.run(Step("proof", (prepared.python, "-I", "-c", source, request)), listening(lines))
    answer = next((line for line in reversed(lines) if line.startswith('{"')), "")
    if outcome.code != 0 or not answer:
        raise UnavailableError(
            f"the build folder could not be looked at: {lines[-1] if lines else outcome.code}", where="proof"
        )
    found: dict[str, Any] = json.loads(answer)
    return found


def judged_proof(facts: Mapping[str, Any], prebuilt: Mapping[str, str]) -> Proof:
    """The judgement on every binary of the wheel.

    :param prebuilt: patterns of compiled files that the tree may bring, with the reason.
    """
    digests = sorted(item["sha256"] for item in facts["objects"])
    members = tuple(_member(item, facts, prebuilt) for item in facts["members"])
    return Proof(
        members, len(digests), _digest(digests), tuple(facts["ninja"]), tuple(str(text) for text in facts["unread"])
    )


def _member(item: Mapping[str, Any], facts: Mapping[str, Any], prebuilt: Mapping[str, str]) -> MemberProof:
    name = str(item["name"])

    def verdict(provenance: Provenance, why: str) -> MemberProof:
        return MemberProof(name, provenance, why, str(item["sha256"]), str(item["build_id"]))

    allowed = next((reason for pattern, reason in prebuilt.items() if fnmatchcase(name, pattern)), "")
    if allowed:
        return verdict(Provenance.ALLOWED, allowed)
    if item["problem"]:
        return verdict(Provenance.FOREIGN, f"it can't be read: {item['problem']}")
    if not item["twin"]:
        return verdict(Provenance.FOREIGN, "no file that was made since the build began has its bytes")
    by_cargo = any(part in f"/{item['twin']}" for part in ("/release/", "/target/"))
    if facts["fingerprints"] and by_cargo and not item["exports"]:
        return verdict(Provenance.LINKED, f"{item['twin']}, with {facts['fingerprints']} of cargo's fingerprints")
    objects = len(facts["objects"])
    if not objects:
        return verdict(Provenance.FOREIGN, "nothing was compiled since the build began")
    missing, exports = int(item["exports_missing_count"]), int(item["exports"])
    entry = [symbol for symbol in item["exports_missing"] if symbol.startswith("PyInit_")]
    if entry or (exports and missing > max(2, exports * _FROM_ELSEWHERE)):
        shown = ", ".join(entry or item["exports_missing"][:3])
        return verdict(
            Provenance.FOREIGN, f"no object that was compiled here defines {missing} of its {exports} symbols: {shown}"
        )
    lost, containers = int(item["containers_missing"]), int(item["containers"])
    if lost > _linked_containers(containers):
        return verdict(
            Provenance.FOREIGN, f"{lost} of its {containers} containers of device code are in no object compiled here"
        )
    said = f"{exports - missing} of {exports} symbols"
    if containers:
        said += f" and {containers - lost} of {containers} containers of device code"
    return verdict(Provenance.COMPILED, f"{said} are in {objects} objects compiled here; {item['twin']}")


def _linked_containers(containers: int) -> int:
    """Containers that come from a static library of the toolkit or torch (cudadevrt, say): few beside its own."""
    return max(1, containers // 20) if containers > 1 else 0


def _digest(digests: list[str]) -> str:
    import hashlib

    return hashlib.sha256("\n".join(digests).encode("ascii")).hexdigest()
