"""What a build folder says of the binaries in the wheel that came out of it; runs in the room, after the compile.

The standard library alone, Python 3.9 or newer: ``python3 -c "$(cat FILE)" REQUEST`` ends with one JSON object on its
last line.  No judgement here: which files are the wheel's, which objects were written since the build began, which
symbols and which containers of device code they hold (ELF: gABI; fat binary containers: magic, then sizes, as CUDA's
own tools walk them).
"""

# ruff: noqa: PTH114, PTH118, PTH123, PTH208
from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

MAX_FILES = 300_000
MAX_SECTIONS = 100_000  # nvcc writes one for each kernel
MAX_READ = 4 << 30
MAGIC = 0xBA55ED50
FAT_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
SKIPPED = {".git", ".hg", "node_modules", "__pycache__"}


def main() -> int:
    request = json.loads(sys.argv[1])
    sys.stdout.write("\n" + json.dumps(collect(request["tree"], request["out"], request["began"])) + "\n")
    return 0


def collect(tree: str, out: str, began: float) -> dict[str, Any]:
    """The facts: members of the wheel, objects of the build, ninja's logs."""
    files, truncated = walk(tree)
    objects, archives, logs, fingerprints = [], [], [], 0
    by_size: dict[int, list[str]] = {}
    for path, size, modified in files:
        if path.endswith(".o") and modified >= began:
            objects.append(path)
        elif path.endswith((".a", ".rlib")) and modified >= began:
            archives.append(path)
        elif path.endswith(".ninja_log"):
            logs.append(path)
        elif "/.fingerprint/" in path and modified >= began:
            fingerprints += 1
        if modified >= began:
            by_size.setdefault(size, []).append(path)
    symbols: set[str] = set()
    containers: set[str] = set()
    unread = []
    digests = []
    for path in objects:
        try:
            data = read(path)
            names, found = object_facts(data)
        except (OSError, ValueError, struct.error) as error:
            unread.append("%s: %s" % (path, error))  # noqa: UP031
            continue
        symbols |= names
        containers |= found
        digests.append({"path": os.path.relpath(path, tree), "sha256": hashlib.sha256(data).hexdigest()})
    for path in archives:
        try:
            for data in archive_members(read(path)):
                names, found = object_facts(data)
                symbols |= names
                containers |= found
        except (OSError, ValueError, struct.error) as error:
            unread.append("%s: %s" % (path, error))  # noqa: UP031
    members = [
        member(name, data, by_size, tree, symbols, containers)
        for wheel in sorted(os.listdir(out))
        if wheel.endswith(".whl")
        for name, data in binaries(os.path.join(out, wheel))
    ]
    return {
        "version": 1,
        "members": members,
        "objects": digests,
        "archives": [os.path.relpath(path, tree) for path in archives],
        "fingerprints": fingerprints,
        "unread": unread,
        "truncated": truncated,
        "ninja": [read_log(path, tree) for path in logs[:20]],
    }


def walk(tree: str) -> tuple[list[tuple[str, int, float]], bool]:
    found = []
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                about = os.lstat(path)
            except OSError:
                continue
            if not os.path.islink(path):
                found.append((path, about.st_size, about.st_mtime))
            if len(found) >= MAX_FILES:
                return found, True
    return found, False


def binaries(wheel: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as stream:
                head = stream.read(20)
                if head[:4] == b"\x7fELF" and head[18:20] != b"\xbe\x00":  # not a cubin (EM_CUDA, 190)
                    yield entry.filename, head + stream.read(MAX_READ)


def member(
    name: str, data: bytes, by_size: dict[int, list[str]], tree: str, symbols: set[str], containers: set[str]
) -> dict[str, Any]:
    """One binary of the wheel beside what the build folder holds."""
    digest = hashlib.sha256(data).hexdigest()
    twin = ""
    for path in by_size.get(len(data), []):
        if hashlib.sha256(read(path)).hexdigest() == digest:
            twin = os.path.relpath(path, tree)
            break
    try:
        elf = Elf(data)
        exported = elf.defined(11)  # SHT_DYNSYM
        fat = fat_containers(elf)
        build_id = elf.build_id()
        problem = ""
    except (ValueError, struct.error) as error:
        exported, fat, build_id, problem = set(), [], "", str(error)
    return {
        "name": name,
        "sha256": digest,
        "size": len(data),
        "twin": twin,
        "build_id": build_id,
        "exports": len(exported),
        "exports_missing": sorted(exported - symbols)[:20],
        "exports_missing_count": len(exported - symbols),
        "containers": len(fat),
        "containers_missing": len([each for each in fat if each not in containers]),
        "problem": problem,
    }


def object_facts(data: bytes) -> tuple[set[str], set[str]]:
    """The symbols that an object defines, and the containers of device code in it."""
    elf = Elf(data)
    return elf.defined(2), set(fat_containers(elf))  # SHT_SYMTAB


def fat_containers(elf: Elf) -> list[str]:
    """sha256 of each container in the sections of device code."""
    found = []
    for name, kind, offset, size in elf.sections:
        if name not in FAT_SECTIONS or kind == 8:  # SHT_NOBITS
            continue
        at, end = offset, min(offset + size, len(elf.data))
        while at + 16 <= end:
            magic, _, header, length = struct.unpack_from("<IHHQ", elf.data, at)
            if magic != MAGIC:
                at += 8  # padding between containers
                continue
            if header + length <= 0 or at + header + length > end:
                raise ValueError("a container of device code leads out of its section")
            found.append(hashlib.sha256(elf.data[at : at + header + length]).hexdigest())
            at += header + length
            at += -at % 8
    return found


class Elf:
    """Sections and symbols of a 64-bit little-endian ELF file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        self.data = data
        start, size, count, names = struct.unpack_from("<Q10xHHH", data, 40)
        # More sections than fit: the number and the name table's index stand in the first one.
        if start and (count == 0 or names == 0xFFFF):
            first = struct.unpack_from("<IIQQQQII", data, start)
            count, names = count or first[5], first[6] if names == 0xFFFF else names
        if size < 64 or count > MAX_SECTIONS:
            raise ValueError("section headers of size %d, %d of them" % (size, count))  # noqa: UP031
        self.headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + number * size) for number in range(count)]
        table = self.headers[names] if names < count else None
        self.sections = [
            (self._string(table, header[0]) if table else "", header[1], header[4], header[5])
            for header in self.headers
        ]

    def defined(self, kind: int) -> set[str]:
        """Names of global and weak symbols that a table of this kind defines."""
        found: set[str] = set()
        for header in self.headers:
            if header[1] != kind or header[9] != 24 or header[6] >= len(self.headers):
                continue
            strings = self.headers[header[6]]
            end = min(header[4] + header[5], len(self.data) - 23)
            for at in range(header[4], end, 24):
                name, info, _, section = struct.unpack_from("<IBBH", self.data, at)
                if section in (0, 0xFFF1) or info >> 4 not in (1, 2, 10) or info & 15 not in (0, 1, 2, 6, 10):
                    continue
                text = self._string(strings, name)
                if text and text not in LINKERS:
                    found.add(text)
        return found

    def build_id(self) -> str:
        for name, _, offset, size in self.sections:
            if name == ".note.gnu.build-id" and size >= 16:
                owner, length, _ = struct.unpack_from("<III", self.data, offset)
                return self.data[offset + 12 + owner : offset + 12 + owner + length].hex()
        return ""

    def _string(self, table: tuple[int, ...], offset: int) -> str:
        start = table[4] + offset
        end = self.data.find(b"\0", start, min(table[4] + table[5], len(self.data)))
        return self.data[start:end].decode("utf-8", "replace") if offset < table[5] and end >= 0 else ""


# Symbols that linkers make; no object defines them.
LINKERS = {"_init", "_fini", "_edata", "_end", "__bss_start", "_start", "__data_start", "data_start", "_IO_stdin_used"}


def archive_members(data: bytes) -> Iterator[bytes]:
    """The ELF members of a static library (ar(5))."""
    if data[:8] != b"!<arch>\n":
        raise ValueError("no static library")
    at = 8
    while at + 60 <= len(data):
        size = int(data[at + 48 : at + 58])
        content = data[at + 60 : at + 60 + size]
        if content[:4] == b"\x7fELF":
            yield content
        at += 60 + size + size % 2


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_READ)


def read_log(path: str, tree: str) -> dict[str, Any]:
    """A ``.ninja_log``: start, end, mtime, output, hash of the command; milliseconds."""
    steps: dict[str, int] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
        for line in file:
            parts = line.rstrip("\n").split("\t")
            if len(parts) >= 5 and parts[0].isdigit() and parts[1].isdigit():
                steps[parts[3]] = int(parts[1]) - int(parts[0])
    slowest = sorted(steps.items(), key=lambda item: -item[1])[:10]
    return {
        "path": os.path.relpath(path, tree),
        "format": first,
        "steps": len(steps),
        "slowest": [{"output": output, "milliseconds": spent} for output, spent in slowest],
    }


if __name__ == "__main__":
    sys.exit(main())
