"""What a wheel's libraries export, kept apart from its facts: torch's own comes to a hundred thousand names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qualify.errors import MalformedError, UnverifiedError
from qualify.facts import Member, ProblemKind, WheelFacts

INDEX_VERSION = 1
_MAGIC = "wheel-assay exports"
#: Where a problem has to be for a library's exports to be in doubt (``Problem.where``), and what is a library by name.
_OF_SYMBOLS = frozenset({"ELF header", "program headers", "dynamic section", "dynamic symbols", "stored bytes", "file"})
_LIBRARY = re.compile(r"\.so(?:\.[0-9]+)*$")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ExportIndex:
    """The exported symbols of one wheel."""

    filename: str
    sha256: str
    project: str  # normalised name
    version: str
    machine: str  # "x86_64", "aarch64": of its libraries
    libraries: Mapping[str, frozenset[str]]  # soname, or file name where there is none -> mangled names
    needed: Mapping[str, tuple[str, ...]]  # soname -> its DT_NEEDED, for the same libraries

    @property
    def label(self) -> str:
        """``torch 2.14.0``."""
        return f"{self.project} {self.version}"


def index_of(facts: WheelFacts) -> ExportIndex:
    """The index of a wheel's shared libraries.

    :raises MalformedError: the wheel has a faulty library, or none at all.
    :raises UnverifiedError: a library could not be read, so that a symbol that it exports would count as missing.
    """
    libraries: dict[str, frozenset[str]] = {}
    needed: dict[str, tuple[str, ...]] = {}
    machines: set[str] = set()
    for member in facts.members:
        elf = member.elf
        if elf is None or elf.type != "dyn" or elf.interpreter:
            continue
        name = library_name(member)
        libraries[name] = libraries.get(name, frozenset()) | frozenset(elf.exports)
        needed[name] = tuple(dict.fromkeys((*needed.get(name, ()), *elf.needed)))
        machines.add(elf.machine)
    for problem in facts.problems:
        # Other faults, of device code say, leave the exports as they are.
        if problem.where not in _OF_SYMBOLS or not _LIBRARY.search(problem.member):
            continue
        where = f"{facts.filename}: {problem.member}"
        what = f"{problem.where}: {problem.detail}"
        if problem.kind is ProblemKind.MALFORMED:
            raise MalformedError(what, where=where, expected="a sound library", action="fetch the wheel again")
        raise UnverifiedError(what, where=where, expected="a library whose symbols can be read")
    if len(machines) != 1:
        found = f"libraries for {', '.join(sorted(machines))}" if machines else "no shared library"
        raise MalformedError(found, where=facts.filename, expected="a wheel with libraries for one machine")
    version = facts.dist_info.metadata_version if facts.dist_info is not None else ""
    return ExportIndex(
        facts.filename,
        facts.sha256,
        facts.name,
        version or facts.wheel_version,
        machines.pop(),
        libraries,
        needed,
    )


def library_name(member: Member) -> str:
    """What a loader knows a library by: its soname, or its file name where it has none."""
    soname = member.elf.soname if member.elf is not None else ""
    return soname or member.path.rpartition("/")[2]


def encode(index: ExportIndex) -> bytes:
    """The index as bytes: one line of JSON, then every library's names, one a line.

    The names are no JSON: 100 000 strings are split five times as fast as they are parsed.
    """
    rows = [
        {"name": name, "needed": list(index.needed[name]), "count": len(names)}
        for name, names in sorted(index.libraries.items())
    ]
    head = {
        "magic": _MAGIC,
        "version": INDEX_VERSION,
        "filename": index.filename,
        "sha256": index.sha256,
        "project": index.project,
        "release": index.version,
        "machine": index.machine,
        "libraries": rows,
    }
    body = "\n".join(_line(name) for _, names in sorted(index.libraries.items()) for name in sorted(names))
    return json.dumps(head).encode() + b"\n" + body.encode()


def _line(name: str) -> str:
    if "\n" in name:
        raise MalformedError("a symbol's name holds a line break", where=repr(name[:80]), expected="an ELF symbol")
    return name


def decode(data: bytes) -> ExportIndex:
    """The index that :func:`encode` wrote.

    :raises MalformedError: it is anything else.
    """
    head, _, body = data.partition(b"\n")
    try:
        value = json.loads(head)
        if value["magic"] != _MAGIC or value["version"] != INDEX_VERSION:
            raise ValueError("of another kind or version")
        names = body.decode().split("\n")
        libraries: dict[str, frozenset[str]] = {}
        needed: dict[str, tuple[str, ...]] = {}
        at = 0
        for row in value["libraries"]:
            name, count = _text(row["name"]), _count(row["count"])
            libraries[name] = frozenset(names[at : at + count])
            needed[name] = tuple(_text(each) for each in row["needed"])
            if len(libraries[name]) != count:
                raise ValueError(f"{name} has fewer names than it says")
            at += count
        if at != len(names) and (at, body) != (0, b""):
            raise ValueError("has more names than its libraries")
        index = ExportIndex(
            _text(value["filename"]),
            _text(value["sha256"]),
            _text(value["project"]),
            _text(value["release"]),
            _text(value["machine"]),
            libraries,
            needed,
        )
        if not _SHA256.fullmatch(index.sha256):
            raise ValueError("no sha256")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise MalformedError(f"no index of exports: {error}", expected=f"one of version {INDEX_VERSION}") from error
    return index


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
