"""Sections, symbols and containers of device code in objects and libraries, for the collector of a build's proof.

The standard library alone, Python 3.9 or newer: it travels into rooms with :mod:`builders.proof_collector`.  ELF as in
the gABI; fat binary containers by their magic and sizes, as CUDA's own tools walk them; GCC's table of symbols in
objects of intermediate code.  Files are mapped, not read, and every loop is bounded by a file's size or a constant.
"""

# ruff: noqa: PTH123, UP031
from __future__ import annotations

import contextlib
import hashlib
import mmap
import struct
from collections.abc import Iterator
from typing import Any

MAX_SECTIONS = 1_000_000  # nvcc writes one for each kernel
MAGIC = 0xBA55ED50
FAT_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
FAULTS = (OSError, ValueError, IndexError, OverflowError, struct.error)
# Symbols that linkers and the C library's start files make; no object defines them.
LINKERS = frozenset(
    (
        *("_init", "_fini", "_start", "_IO_stdin_used", "__data_start", "data_start", "_end", "end", "__end__"),
        *("_edata", "edata", "_etext", "etext", "__etext", "__bss_start", "__bss_start__", "__bss_end__", "_bss_end__"),
    )
)


class Defined:
    """What a set of objects defines."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.sized: set[tuple[str, int]] = set()  # functions, with their sizes in bytes
        self.unsized: set[str] = set()  # of intermediate code, whose functions have no size yet
        self.containers: set[bytes] = set()
        self.compilers: dict[str, int] = {}

    def add(self, data: Any) -> None:
        elf = Elf(data)
        for name, size, function in elf.symbols(2):  # SHT_SYMTAB
            self.names.add(name)
            if function:
                self.sized.add((name, size))
        for name in elf.intermediate():
            self.names.add(name)
            self.unsized.add(name)
        self.containers.update(elf.containers())
        for compiler in elf.compilers():
            self.compilers[compiler] = self.compilers.get(compiler, 0) + 1


class Elf:
    """Sections and symbols of a 64-bit little-endian ELF file."""

    def __init__(self, data: Any) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        self.data = data
        start, size, count, names = struct.unpack_from("<Q10xHHH", data, 40)
        # More sections than fit: the number and the name table's index stand in the first one.
        if start and (count == 0 or names == 0xFFFF):
            head = struct.unpack_from("<IIQQQQII", data, start)
            count, names = count or head[5], head[6] if names == 0xFFFF else names
        if (count and size < 64) or count > MAX_SECTIONS:
            raise ValueError("section headers of size %d, %d of them" % (size, count))
        self.headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + number * size) for number in range(count)]
        table = self.headers[names] if names < count else None
        self.sections = [
            (self._string(table, header[0]) if table else "", header[1], header[4], header[5])
            for header in self.headers
        ]

    @property
    def program(self) -> bool:
        """Whether it is started by itself, not loaded by another."""
        return any(name == ".interp" for name, *_ in self.sections)

    def symbols(self, kind: int) -> Iterator[tuple[str, int, bool]]:
        """Global and weak symbols that a table of this kind defines: name, size, whether it is a function."""
        for header in self.headers:
            if header[1] != kind or header[9] != 24 or header[6] >= len(self.headers):
                continue
            strings = self.headers[header[6]]
            end = min(header[4] + header[5], len(self.data) - 23)
            for at in range(header[4], end, 24):
                name, info, _, section, _, size = struct.unpack_from("<IBBHQQ", self.data, at)
                # Undefined or absolute; local; a section or a file.
                if section in (0, 0xFFF1) or info >> 4 not in (1, 2, 10) or info & 15 not in (0, 1, 2, 5, 6, 10):
                    continue
                text = self._string(strings, name)
                if text and text not in LINKERS:
                    yield text, size, info & 15 == 2

    def intermediate(self) -> Iterator[str]:
        """Names that GCC's intermediate code defines: ``name NUL comdat NUL kind visibility size slot`` each."""
        for name, _, offset, size in self.sections:
            if not name.startswith(".gnu.lto_.symtab."):
                continue
            at, end = offset, min(offset + size, len(self.data))
            while at < end:
                stop = self.data.find(b"\0", at, end)
                after = self.data.find(b"\0", stop + 1, end)
                if stop < 0 or after < 0 or after + 15 > end:
                    break
                if self.data[after + 1] in (0, 1, 4):  # defined, weakly defined, common
                    yield self.data[at:stop].decode("utf-8", "replace")
                at = after + 15

    def containers(self) -> list[bytes]:
        """sha256 of each container in the sections of device code."""
        found = []
        for name, kind, offset, size in self.sections:
            if name not in FAT_SECTIONS or kind == 8:  # SHT_NOBITS
                continue
            at, end = offset, min(offset + size, len(self.data))
            while at + 16 <= end:
                magic, _, header, length = struct.unpack_from("<IHHQ", self.data, at)
                if magic != MAGIC:
                    at += 8  # padding between containers
                    continue
                if header + length <= 0 or at + header + length > end:
                    raise ValueError("a container of device code leads out of its section")
                found.append(hashlib.sha256(self.data[at : at + header + length]).digest())
                at += header + length
                at += -at % 8
        return found

    def code(self) -> bytes:
        """sha256 of code and constants, which neither ``strip`` nor another run path changes; b"" where there are none.

        Where they lie counts too: code that was linked to another place has other distances in it.
        """
        digest, some = hashlib.sha256(), False
        for (name, kind, offset, size), header in zip(self.sections, self.headers):  # noqa: B905  Python 3.9
            # SHT_PROGBITS that is loaded (SHF_ALLOC), and executable (SHF_EXECINSTR) or one of these.
            if kind != 1 or not header[2] & 2 or not (header[2] & 4 or name in (".rodata", ".eh_frame", *FAT_SECTIONS)):
                continue
            digest.update(struct.pack("<QQ", header[3], size))
            digest.update(self.data[offset : offset + size])
            some = some or bool(header[2] & 4 and size)
        return digest.digest() if some else b""

    def compilers(self) -> set[str]:
        """What ``.comment`` says: each compiler that had a hand in it, by its own words."""
        found: set[str] = set()
        for name, kind, offset, size in self.sections:
            if name == ".comment" and kind == 1 and size < 1 << 16:  # SHT_PROGBITS
                texts = bytes(self.data[offset : offset + size]).split(b"\0")
                found.update(text.decode("utf-8", "replace")[:200] for text in texts if text)
        return found

    def build_id(self) -> str:
        for name, _, offset, size in self.sections:
            if name == ".note.gnu.build-id" and size >= 16:
                owner, length, _ = struct.unpack_from("<III", self.data, offset)
                return bytes(self.data[offset + 12 + owner : offset + 12 + owner + length]).hex()
        return ""

    def _string(self, table: tuple[int, ...], offset: int) -> str:
        start = table[4] + offset
        end = self.data.find(b"\0", start, min(table[4] + table[5], len(self.data)))
        return bytes(self.data[start:end]).decode("utf-8", "replace") if offset < table[5] and end >= 0 else ""


def add_archive(path: str, defined: Defined) -> None:
    """The ELF members of a static library (ar(5)); a thin one names files that are looked at by themselves."""
    with mapped(path) as data:
        if data[:8] == b"!<thin>\n":
            return
        if data[:8] != b"!<arch>\n":
            raise ValueError("no static library")
        at = 8
        while at + 60 <= len(data):
            size = int(data[at + 48 : at + 58])
            if data[at + 60 : at + 64] == b"\x7fELF":
                defined.add(data[at + 60 : at + 60 + size])
            at += 60 + size + size % 2


@contextlib.contextmanager
def mapped(path: str) -> Iterator[Any]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data
