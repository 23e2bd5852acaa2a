"""What a build folder says of the binaries in the wheel that came out of it; runs in the room, after the compile.

The standard library alone, Python 3.9 or newer; :mod:`builders.proof_elf` travels with it.  It ends with one JSON
object on its last line.  No judgement here: which files are the wheel's, which objects were written since the build
began, which symbols and which containers of device code they hold, what cargo and ninja noted.
"""

# ruff: noqa: PTH113, PTH114, PTH118, PTH119, PTH120, PTH123, PTH202, PTH207, UP031
from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from builders.proof_elf import FAULTS, Defined, Elf, add_archive, mapped

MAX_FILES = 300_000
MAX_ARCHIVE = 512 << 20  # bytes of a static library of the place that is searched for a symbol
MAX_SEARCHED = 4 << 30  # … and of all of them
MAX_LOG = 256 << 20
SHOWN = 20  # names of what is missing
SKIPPED = {".git", ".hg", "node_modules", "__pycache__"}


def main() -> int:
    request = json.loads(sys.argv[1])
    found = collect(request["tree"], request["out"], request["began"], request["libraries"])
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    return 0


def collect(tree: str, out: str, began: float, libraries: Sequence[str] = ()) -> dict[str, Any]:
    """The facts: members of the wheel, objects of the build, ninja's logs.

    :param began: seconds since the epoch; what is older was not made by this build.
    :param libraries: glob patterns of the place's static libraries, of which a link may take parts.
    """
    files, truncated = walk(tree, began)
    objects = [path for path, _ in files if path.endswith(".o")]
    archives = [path for path, _ in files if path.endswith((".a", ".rlib"))]
    defined = Defined()
    unread, digests = [], []
    for path in objects:
        try:
            with mapped(path) as data:
                defined.add(data)
                digests.append({"path": os.path.relpath(path, tree), "sha256": hashlib.sha256(data).hexdigest()})
        except FAULTS as error:
            unread.append("%s: %s" % (os.path.relpath(path, tree), error))
    for path in archives:
        try:
            add_archive(path, defined)
        except FAULTS as error:
            unread.append("%s: %s" % (os.path.relpath(path, tree), error))
    logs = [path for path, _ in files if os.path.basename(path) == ".ninja_log"]
    place, linked = Place(libraries), Linked(files)
    members = [
        member(wheel, name, digest, size, linked, tree, defined, place)
        for wheel in sorted(glob.glob(os.path.join(glob.escape(out), "*.whl")))
        for name, digest, size in binaries(wheel)
    ]
    return {
        "version": 2,
        "members": members,
        "objects": digests,
        "archives": [os.path.relpath(path, tree) for path in archives],
        "compilers": defined.compilers,
        "intermediate": len(defined.unsized),
        "unread": unread,
        "truncated": truncated,
        "ninja": [read_log(path, tree) for path in logs[:20]],
    }


def walk(tree: str, began: float) -> tuple[list[tuple[str, int]], bool]:
    """Plain files that are no older than the build, with their sizes; whether there were too many to look at."""
    found: list[tuple[str, int]] = []
    seen = 0
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            seen += 1
            if seen > MAX_FILES:
                return found, True
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                about = os.lstat(path)
                if about.st_mtime >= began and not os.path.islink(path) and os.path.isfile(path):
                    found.append((path, about.st_size))
    return found, False


def binaries(wheel: str) -> Iterator[tuple[str, str, int]]:
    """Name, sha256 and size of each ELF file of a wheel that is no bare cubin."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as stream:
                head = stream.read(20)
                if head[:4] != b"\x7fELF" or head[18:20] == b"\xbe\x00":  # EM_CUDA, 190
                    continue
                digest, size = hashlib.sha256(head), len(head)
                for block in iter(lambda: stream.read(1 << 20), b""):
                    digest.update(block)
                    size += len(block)
            yield entry.filename, digest.hexdigest(), size


def member(
    wheel: str,
    name: str,
    digest: str,
    size: int,
    linked: Linked,
    tree: str,
    defined: Defined,
    place: Place,
) -> dict[str, Any]:
    """One binary of the wheel beside what the build folder holds."""
    twins = linked.with_bytes(digest, size)
    same = "bytes" if twins else ""
    if not twins:
        twins = linked.with_code(wheel, name)
        same = "code" if twins else ""
    by_cargo = next((path for path in twins if path in linked.by_cargo), "")
    found: dict[str, Any] = {
        "name": name,
        "sha256": digest,
        "size": size,
        "twin": os.path.relpath(twins[0], tree) if twins else "",
        "same": same,
        "cargo": os.path.relpath(by_cargo, tree) if by_cargo else "",
        "build_id": "",
        "exports": 0,
        "exports_missing": [],
        "exports_missing_count": 0,
        "differing": [],
        "differing_count": 0,
        "containers": 0,
        "containers_missing": 0,
        "libraries": [],
        "problem": "",
    }
    if twins:
        try:
            with mapped(twins[0]) as data:
                found.update(beside(Elf(data), defined, place))
        except FAULTS as error:
            found["problem"] = str(error)
    return found


class Linked:
    """Files of the build folder that a binary of the wheel may be a copy of."""

    def __init__(self, files: list[tuple[str, int]]) -> None:
        self.files = files
        self.by_cargo = cargo_outputs([path for path, _ in files])
        self.by_code: dict[bytes, list[str]] | None = None

    def with_bytes(self, digest: str, size: int) -> list[str]:
        return [path for path, length in self.files if length == size and sha256_of(path) == digest]

    def with_code(self, wheel: str, name: str) -> list[str]:
        """Those with the same code: an install step strips symbols and rewrites run paths."""
        if self.by_code is None:
            self.by_code = {}
            for path, _ in self.files:
                if not path.endswith((".o", ".a", ".rlib")) and (code := code_of(path)):
                    self.by_code.setdefault(code, []).append(path)
        with zipfile.ZipFile(wheel) as archive, tempfile.NamedTemporaryFile() as copy:
            with archive.open(name) as stream:
                shutil.copyfileobj(stream, copy, 1 << 20)
            copy.flush()
            code = code_of(copy.name)
        # What has its symbols still comes first.
        return sorted(self.by_code.get(code, []), key=os.path.getsize, reverse=True) if code else []


def code_of(path: str) -> bytes:
    """A binary's code, as :meth:`Elf.code` hashes it; b"" for what is none."""
    try:
        with mapped(path) as data:
            return Elf(data).code()
    except FAULTS:
        return b""


def beside(elf: Elf, defined: Defined, place: Place) -> dict[str, Any]:
    """What a binary exports (or, where that is nothing, defines) and carries, beside what the objects define."""
    exported = list(elf.symbols(11)) or list(elf.symbols(2))  # SHT_DYNSYM, SHT_SYMTAB
    if elf.program:
        # Its data may be copies of other libraries' (stdout), and what it exports is next to nothing.
        exported = [each for kind in (2, 11) for each in elf.symbols(kind) if each[2]]
    names = {name for name, _, _ in exported}
    containers = elf.containers()
    missing = names - defined.names
    lost = {each for each in containers if each not in defined.containers}
    found, used = place.supply(missing, lost) if missing or lost else (Defined(), [])
    missing -= found.names
    lost -= found.containers
    sized = {name for name, _ in defined.sized} | {name for name, _ in found.sized}
    differing = {
        name
        for name, size, function in exported
        if function and size and name in sized and name not in defined.unsized
        if (name, size) not in defined.sized and (name, size) not in found.sized
    }
    return {
        "build_id": elf.build_id(),
        "exports": len(names),
        "exports_missing": first(missing),
        "exports_missing_count": len(missing),
        "differing": first(differing),
        "differing_count": len(differing),
        "containers": len(containers),
        "containers_missing": len([each for each in containers if each in lost]),
        "libraries": used,
    }


def first(names: set[str]) -> list[str]:
    """A few of them, what Python calls first."""
    return sorted(names, key=lambda name: (not name.startswith("PyInit_"), name))[:SHOWN]


class Place:
    """Static libraries of the place, looked at once something of a binary is in no object of the build."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = patterns
        self.read: dict[str, Defined] = {}
        self.left = MAX_SEARCHED

    def supply(self, names: set[str], containers: set[bytes]) -> tuple[Defined, list[str]]:
        """What the libraries define of all this, and the names of those that do."""
        whole, used = Defined(), []
        for path in self._paths():
            if names <= whole.names and containers <= whole.containers:
                break
            had = self._of(path)
            if not (names & had.names) - whole.names and not (containers & had.containers) - whole.containers:
                continue
            used.append(os.path.basename(path))
            whole.names |= had.names
            whole.sized |= had.sized
            whole.containers |= had.containers
        return whole, used

    def _paths(self) -> list[str]:
        found: dict[str, None] = {}
        for pattern in self.patterns:
            for path in sorted(glob.glob(pattern)):
                found[os.path.realpath(path)] = None
        return list(found)

    def _of(self, path: str) -> Defined:
        if path not in self.read:
            self.read[path] = had = Defined()
            with contextlib.suppress(*FAULTS):
                size = os.path.getsize(path)
                if size <= min(MAX_ARCHIVE, self.left):
                    self.left -= size
                    add_archive(path, had)
        return self.read[path]


def cargo_outputs(paths: list[str]) -> set[str]:
    """Files that cargo linked since the build began: in a target's ``deps``, with its note and its fingerprint."""
    there = set(paths)
    prints = set()
    for path in paths:
        folder, name = os.path.split(path)
        target, mark = os.path.split(os.path.dirname(folder))
        if mark == ".fingerprint" and not name.startswith(("dep-", "invoked", "output-")):
            kind, _, crate = name.partition("-")
            if kind in ("bin", "lib") and not crate.endswith(".json"):
                prints.add((target, crate.replace("-", "_")))
    found = set()
    for path in paths:
        folder, name = os.path.split(path)
        target, mark = os.path.split(folder)
        if mark != "deps" or name.endswith((".d", ".rlib", ".rmeta", ".o", ".a")):
            continue
        stem = name[:-3] if name.endswith(".so") else name
        crate = re.sub(r"-[0-9a-f]{16}$", "", stem)
        crate = crate[3:] if name.endswith(".so") and crate.startswith("lib") else crate
        notes = {os.path.join(folder, stem + ".d"), os.path.join(folder, re.sub("^lib", "", stem) + ".d")}
        if (target, crate.replace("-", "_")) in prints and notes & there:
            found.add(path)
    return found


def sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def read_log(path: str, tree: str) -> dict[str, Any]:
    """A ``.ninja_log`` (versions 5 to 7): start, end, mtime, output, hash of the command; milliseconds.

    A step with several outputs has a line for each, with the same times and hash; a later line for an output counts
    instead of an earlier one, and another hash says that it was made again by another command.
    """
    last: dict[str, tuple[int, int, str]] = {}
    again = set()
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        head = file.readline(1 << 16).strip()
        for line in file if os.path.getsize(path) <= MAX_LOG else ():
            parts = line.rstrip("\n").split("\t")
            if len(parts) != 5 or not (parts[0].isdigit() and parts[1].isdigit()):
                continue
            if parts[3] in last and last[parts[3]][2] != parts[4]:
                again.add(parts[3])
            last[parts[3]] = (int(parts[0]), int(parts[1]), parts[4])
    steps: dict[tuple[int, int, str], str] = {}
    for output, times in last.items():
        steps.setdefault(times, output)
    slowest = sorted(steps.items(), key=lambda item: (item[0][0] - item[0][1], item[1]))[:10]
    return {
        "path": os.path.relpath(path, tree),
        "format": head.lstrip("# "),
        "steps": len(steps),
        "slowest": [
            {"output": shown(output, tree), "milliseconds": end - start} for (start, end, _), output in slowest
        ],
        "again": sorted(shown(output, tree) for output in again)[:SHOWN],
    }


def shown(output: str, tree: str) -> str:
    """An output by its path in the build folder, where it lies there."""
    return os.path.relpath(output, tree) if output.startswith(tree + "/") else output


if __name__ == "__main__":
    sys.exit(main())
