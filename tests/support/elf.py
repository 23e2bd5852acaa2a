"""Small ELF64 files of the host: shared libraries and executables that the usual readers accept.

``host_elf`` lays out one segment that maps the whole file (virtual address = offset), a dynamic segment, the dynamic
symbol table with its versions, and any further section that a test wants, such as ``.nv_fatbin``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MACHINES = {"x86_64": 62, "aarch64": 183, "i386": 3, "riscv64": 243}
TYPES = {"rel": 1, "exec": 2, "dyn": 3}

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_HASH, SHT_DYNAMIC, SHT_NOBITS, SHT_DYNSYM = 1, 2, 3, 5, 6, 8, 11
SHT_GNU_VERNEED, SHT_GNU_VERSYM = 0x6FFFFFFE, 0x6FFFFFFF


@dataclass(frozen=True)
class Section:
    """One section; ``link`` names another section, ``address`` follows the offset where it is true."""

    name: str
    data: bytes = b""
    type: int = SHT_PROGBITS
    flags: int = 2
    link: str = ""
    info: int = 0
    align: int = 8
    entsize: int = 0
    size: int | None = None  # a lying sh_size
    offset: int | None = None  # a lying sh_offset


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._at: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        if text not in self._at:
            self._at[text] = len(self.data)
            self.data += text.encode("utf-8", "surrogateescape") + b"\0"
        return self._at[text]


def _sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def host_elf(
    machine: str = "x86_64",
    *,
    elf_type: str = "dyn",
    soname: str = "",
    needed: Sequence[str] = ("libc.so.6",),
    rpath: str | None = None,
    runpath: str | None = None,
    version_needs: Mapping[str, Sequence[str]] | None = None,
    defined: Sequence[str] = (),
    undefined: Sequence[str] = (),
    sections: Mapping[str, bytes] | Sequence[Section] = (),
    interpreter: str = "",
    section_headers: bool = True,
) -> bytes:
    """An ELF64 little-endian file.

    :param version_needs: library -> symbol versions; an undefined symbol written ``"memcpy@GLIBC_2.14"`` is bound to
        that version.
    :param defined: names of defined functions, such as ``PyInit__C``.
    :param sections: further sections by name, or :class:`Section` values.
    :param section_headers: False leaves the section headers out, as some strippers do.
    """
    needs = {"libc.so.6": ("GLIBC_2.17",)} if version_needs is None else version_needs
    strings = _Strings()
    version_index, verneed = _version_needs(needs, strings)
    dynsym = bytearray(24)
    versym = bytearray(2)
    names = [""]
    for name in undefined:
        plain, _, version = name.partition("@")
        dynsym += struct.pack("<IBBHQQ", strings.add(plain), 0x12, 0, 0, 0, 0)
        versym += struct.pack("<H", version_index.get(version, 1))
        names.append(plain)
    for name in defined:
        dynsym += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, 1, 0x40, 16)
        versym += struct.pack("<H", 1)
        names.append(name)
    entries = [(1, strings.add(library)) for library in needed]
    for tag, text in ((14, soname or None), (15, rpath), (29, runpath)):
        if text is not None:
            entries.append((tag, strings.add(text)))

    extra = (
        [Section(name, data) for name, data in sections.items()] if isinstance(sections, Mapping) else list(sections)
    )
    chain = [0] * len(names)
    head = 0
    for index in range(1, len(names)):
        chain[index], head = head, index
    hash_table = struct.pack(f"<III{len(chain)}I", 1, len(names), head, *chain)

    parts = [Section(".text", b"\xc3" * 16, flags=6)]
    if interpreter:
        parts.append(Section(".interp", interpreter.encode() + b"\0"))
    parts += [
        Section(".dynstr", bytes(strings.data), SHT_STRTAB),
        Section(".dynsym", bytes(dynsym), SHT_DYNSYM, link=".dynstr", info=1, entsize=24),
        Section(".hash", hash_table, SHT_HASH, link=".dynsym", entsize=4),
        Section(".gnu.version", bytes(versym), SHT_GNU_VERSYM, link=".dynsym", entsize=2),
    ]
    if verneed:
        parts.append(Section(".gnu.version_r", verneed, SHT_GNU_VERNEED, link=".dynstr", info=len(needs)))
    segments = 2 + bool(interpreter)
    offset = 64 + 56 * segments
    offsets: dict[str, int] = {}
    for part in parts:
        offset = -(-offset // 8) * 8
        offsets[part.name] = offset
        offset += len(part.data)
    entries += [(4, offsets[".hash"]), (5, offsets[".dynstr"]), (6, offsets[".dynsym"])]
    entries += [(10, len(strings.data)), (11, 24), (0x6FFFFFF0, offsets[".gnu.version"])]
    if verneed:
        entries += [(0x6FFFFFFE, offsets[".gnu.version_r"]), (0x6FFFFFFF, len(needs))]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in [*entries, (0, 0)])
    parts.append(Section(".dynamic", dynamic, SHT_DYNAMIC, flags=3, link=".dynstr", entsize=16))
    return assemble(
        [*parts, *extra],
        machine=MACHINES[machine],
        elf_type=TYPES[elf_type],
        segments=[".dynamic", *([".interp"] if interpreter else [])],
        section_headers=section_headers,
    )


def _version_needs(needs: Mapping[str, Sequence[str]], strings: _Strings) -> tuple[dict[str, int], bytes]:
    index: dict[str, int] = {}
    blob = bytearray()
    libraries = list(needs.items())
    for position, (library, versions) in enumerate(libraries):
        following = 16 + 16 * len(versions) if position + 1 < len(libraries) else 0
        blob += struct.pack("<HHIII", 1, len(versions), strings.add(library), 16 if versions else 0, following)
        for place, version in enumerate(versions):
            index[version] = len(index) + 2
            after = 16 if place + 1 < len(versions) else 0
            blob += struct.pack("<IHHII", _sysv_hash(version), 0, index[version], strings.add(version), after)
    return index, bytes(blob)


def assemble(
    sections: Sequence[Section],
    *,
    machine: int,
    elf_type: int,
    flags: int = 0,
    osabi: int = 0,
    abi_version: int = 0,
    segments: Sequence[str] = (),
    section_headers: bool = True,
    extended_numbering: bool = False,
) -> bytes:
    """Put sections into an ELF64 file: header, program headers, sections, section names, section headers.

    :param segments: names of sections that get a program header of their own (``.dynamic``, ``.interp``); where any
        is given, one PT_LOAD maps the whole file at address 0.
    :param extended_numbering: write the section count and the string table's index into section 0, as files with more
        than 65279 sections do.
    """
    names = _Strings()
    place = {section.name: index for index, section in enumerate(sections, start=1)}
    count = len(sections) + 2
    headers = len(segments) + 1 if segments else 0
    body = bytearray(64 + 56 * headers)
    rows: list[bytes] = []
    extent: dict[str, tuple[int, int]] = {}
    for section in [*sections, Section(".shstrtab", type=SHT_STRTAB, flags=0)]:
        name = names.add(section.name)
        body += bytes(-len(body) % section.align)
        data = bytes(names.data) if section.name == ".shstrtab" and section.type == SHT_STRTAB else section.data
        offset = len(body) if section.offset is None else section.offset
        size = len(data) if section.size is None else section.size
        extent[section.name] = (len(body), len(data))
        row = (name, section.type, section.flags, offset if section.flags & 2 else 0, offset, size)
        link = place.get(section.link, 0)
        rows.append(struct.pack("<IIQQQQIIQQ", *row, link, section.info, section.align, section.entsize))
        if section.type != SHT_NOBITS:
            body += data
    body += bytes(-len(body) % 8)
    table = len(body) if section_headers else 0
    zero = bytearray(64)
    if extended_numbering:
        struct.pack_into("<Q", zero, 32, count)
        struct.pack_into("<I", zero, 40, count - 1)
    numbers = (0, 0) if not section_headers else (0, 0xFFFF) if extended_numbering else (count, count - 1)
    ident = b"\x7fELF" + bytes([2, 1, 1, osabi, abi_version]) + bytes(7)
    body[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", elf_type, machine, 1, 0, 64 if headers else 0, table, flags, 64, 56, headers, 64, *numbers
    )
    if section_headers:
        body += zero + b"".join(rows)
    if segments:
        kinds = {".dynamic": 2, ".interp": 3}
        program = [struct.pack("<IIQQQQQQ", 1, 7, 0, 0, 0, len(body), len(body), 4096)]
        for segment in segments:
            at, size = extent[segment]
            program.append(struct.pack("<IIQQQQQQ", kinds[segment], 6, at, at, at, size, size, 8))
        body[64 : 64 + 56 * headers] = b"".join(program)
    return bytes(body)
