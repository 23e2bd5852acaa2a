"""Was this wheel compiled here?  The facts come from the build folder, the judgement is made here.

A binary of the wheel was compiled here when the build folder holds the same bytes (or, stripped since, the same code),
written since the build began, and when what it exports and its device code are in objects that were compiled since
then, function for function of the same size.  What else it holds has to be in a static library of the place (the
compiler's, the toolkit's).  A prebuilt library that a build copies into place has the bytes and lacks the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from builders.engines import Room, Step
from builders.environment import Prepared
from builders.stations import listening
from qualify.errors import UnavailableError

#: Static libraries of which a link may take parts: the compiler's, the C library's, the toolkit's.
LIBRARIES = (
    "/usr/lib/gcc*/*/*/*.a",
    "/opt/rh/*/root/usr/lib/gcc/*/*/*.a",
    "/usr/*-linux-gnu/lib/*.a",
    "/usr/lib/*-linux-gnu/*.a",
    "/usr/lib64/*.a",
    "/usr/local/lib/*.a",
)
_TOOLKIT = ("lib64/*.a", "targets/*/lib/*.a")

# Loads both modules under their names, since the room has none of this package.
_LOADER = """
import sys, types
sources = {sources!r}
sys.modules["builders"] = package = types.ModuleType("builders")
package.__path__ = []
for name, text in sources:
    sys.modules[name] = module = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.exit(module.main())
"""


class Provenance(StrEnum):
    """Where a binary of the wheel comes from."""

    COMPILED = "compiled here"
    LINKED = "linked here by cargo"
    ALLOWED = "brought by the tree"
    FOREIGN = "foreign"
    UNSEEN = "could not be looked at"


@dataclass(frozen=True, slots=True)
class MemberProof:
    """One binary of the wheel; ``why`` tells what speaks for the provenance, for people."""

    name: str
    provenance: Provenance
    why: str
    sha256: str  # as it came out of the build, before any repair
    build_id: str
    libraries: tuple[str, ...]  # static libraries of the place that parts of it come from


@dataclass(frozen=True, slots=True)
class Proof:
    """All binaries of the wheel, and what the build folder says of the compile."""

    members: tuple[MemberProof, ...]
    objects: Mapping[str, str]  # path in the build folder -> sha256, of all objects compiled here
    objects_sha256: str  # over the sorted digests of all objects
    compilers: Mapping[str, int]  # what the objects say compiled them -> how many do
    ninja: tuple[Mapping[str, Any], ...]  # of each log: path, format, steps, slowest, again
    unread: tuple[str, ...]

    def of(self, *provenances: Provenance) -> tuple[MemberProof, ...]:
        return tuple(member for member in self.members if member.provenance in provenances)


def collect_proof(room: Room, prepared: Prepared, tree: str, began: float) -> Mapping[str, Any]:
    """What the build folder says, collected in the room.

    :param tree: the project's folder in the room.
    :param began: seconds since the epoch by the room's clock; nothing of the build is older.
    :raises UnavailableError: it could not be collected.
    """
    toolkit = [f"{prepared.cuda_home}/{pattern}" for pattern in _TOOLKIT] if prepared.cuda_home else []
    request = json.dumps(
        {"tree": tree, "out": room.paths.out, "began": began, "libraries": [*toolkit, *LIBRARIES]},
    )
    lines: list[str] = []
    outcome = room.run(Step("proof", (prepared.python, "-I", "-c", program(), request)), listening(lines))
    answer = next((line for line in reversed(lines) if line.startswith('{"')), "")
    if outcome.code != 0 or not answer:
        raise UnavailableError(
            f"the build folder could not be looked at: {lines[-1] if lines else outcome.code}",
            where="proof",
            expected="one line of JSON from the collector",
            action="the build folder is kept; build again to go on in it",
        )
    found: dict[str, Any] = json.loads(answer)
    return found


def program() -> str:
    """The collector as one program for ``python3 -c``."""
    names = ("builders.proof_elf", "builders.proof_collector")
    folder = resources.files("builders")
    sources = [(name, folder.joinpath(f"{name.partition('.')[2]}.py").read_text(encoding="utf-8")) for name in names]
    return _LOADER.format(sources=sources)


def judged_proof(facts: Mapping[str, Any], prebuilt: Mapping[str, str]) -> Proof:
    """The judgement on every binary of the wheel.

    :param prebuilt: patterns of compiled files that the tree may bring, with the reason.
    """
    objects = {str(item["path"]): str(item["sha256"]) for item in facts["objects"]}
    members = tuple(_member(item, facts, prebuilt) for item in facts["members"])
    return Proof(
        members,
        objects,
        hashlib.sha256("\n".join(sorted(objects.values())).encode("ascii")).hexdigest(),
        {str(name): int(count) for name, count in sorted(facts["compilers"].items())},
        tuple(facts["ninja"]),
        tuple(str(text) for text in facts["unread"]),
    )


def _member(item: Mapping[str, Any], facts: Mapping[str, Any], prebuilt: Mapping[str, str]) -> MemberProof:
    name = str(item["name"])
    allowed = next((reason for pattern, reason in prebuilt.items() if fnmatchcase(name, pattern)), "")
    provenance, why = (Provenance.ALLOWED, allowed) if allowed else _judged(item, facts)
    if provenance is Provenance.FOREIGN and (excuse := _not_seen(facts)):
        provenance, why = Provenance.UNSEEN, f"{excuse}; {why}"
    return MemberProof(
        name, provenance, why, str(item["sha256"]), str(item["build_id"]), tuple(map(str, item["libraries"]))
    )


def _not_seen(facts: Mapping[str, Any]) -> str:
    """Why what speaks against a binary may be a gap in what was looked at; "" where all was seen."""
    if facts["truncated"]:
        return "the build folder holds more files than are looked at"
    if facts["unread"]:
        return f"{len(facts['unread'])} objects or archives could not be read, the first: {facts['unread'][0]}"
    return ""


def _judged(item: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[Provenance, str]:
    objects, twin = len(facts["objects"]), item["twin"]
    if not twin:
        said = "no file that was made since the build began has its bytes or its code"
        return Provenance.FOREIGN, said if objects else f"{said}, and nothing was compiled in the build folder"
    if item["problem"]:
        return Provenance.UNSEEN, f"it can't be read: {item['problem']}"
    if item["cargo"]:
        return Provenance.LINKED, f"cargo linked {item['cargo']} and noted what it is made of"
    if not objects:
        return Provenance.FOREIGN, "nothing was compiled since the build began"
    exports, missing = int(item["exports"]), int(item["exports_missing_count"])
    if not exports:
        return Provenance.UNSEEN, "it exports nothing and is stripped, so nothing in it can be found in an object"
    if missing and not _made_again(item, facts):
        names = ", ".join(item["exports_missing"][:3])
        return Provenance.FOREIGN, f"no object compiled here defines {missing} of its {exports} symbols: {names}"
    lost, containers = int(item["containers_missing"]), int(item["containers"])
    if lost and facts["intermediate"]:
        return Provenance.UNSEEN, f"{lost} of its {containers} containers of device code may be in intermediate code"
    if lost:
        return Provenance.FOREIGN, f"no object compiled here has {lost} of its {containers} containers of device code"
    differing = int(item["differing_count"])
    if differing and not _again(facts):
        names = ", ".join(item["differing"][:3])
        return Provenance.FOREIGN, f"{differing} of its functions have another size in the objects: {names}"
    return Provenance.COMPILED, _said(item, facts, exports - missing, containers)


def _said(item: Mapping[str, Any], facts: Mapping[str, Any], had: int, containers: int) -> str:
    said = f"{had} of {item['exports']} symbols"
    if containers:
        said += f" and {containers} of {containers} containers of device code"
    said += f" are in {len(facts['objects'])} objects compiled here"
    if item["libraries"]:
        said += f" or in {', '.join(Path(name).name for name in item['libraries'])}"
    if again := _again(facts):
        said += f"; made again later by another command: {', '.join(again[:3])}"
    if item["same"] == "code":
        said += "; stripped, or with another run path"
    return f"{said}; {item['twin']}"


def _again(facts: Mapping[str, Any]) -> list[str]:
    """Objects that ninja made twice by different commands: of the first, nothing is left."""
    return [str(output) for log in facts["ninja"] for output in log["again"] if str(output).endswith(".o")]


def _made_again(item: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether what is missing went with an object that another extension's compile wrote over.

    torch's builder compiles one source for each extension that names it, into one object; the module's entry bears
    the extension's name, and everything else is in the later object as well.
    """
    return (
        int(item["exports_missing_count"]) == 1
        and str(item["exports_missing"][0]).startswith("PyInit_")
        and int(item["exports"]) > 1
        and bool(_again(facts))
    )
