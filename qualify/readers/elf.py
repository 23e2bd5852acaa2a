"""What every ELF file has, of hosts and of GPUs: its header, sections and segments.

Format: System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from qualify.errors import MalformedError
from qualify.readers.binary import Strings, check_extent, text, unpack

MAGIC = b"\x7fELF"
EM_CUDA = 190
SHT_NOBITS, SHT_DYNAMIC, SHT_DYNSYM, SHT_SYMTAB, SHT_SYMTAB_SHNDX = 8, 6, 11, 2, 18
SHF_EXECINSTR, SHF_COMPRESSED = 0x4, 0x800
_MOST_SECTIONS = 200_000


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    address: int


@dataclass(frozen=True, slots=True)
class Header:
    """The ELF header with the layout that follows from class and byte order."""

    bits: int
    order: str  # "<" or ">"
    osabi: int
    abi_version: int
    type: int
    machine: int
    flags: int
    section_table: int
    section_count: int  # e_shnum as written; 0 also where it stands in section 0
    section_size: int
    names_index: int
    program_table: int
    program_count: int
    program_size: int

    def section_layout(self) -> struct.Struct:
        return struct.Struct(self.order + ("IIQQQQIIQQ" if self.bits == 64 else "10I"))


@dataclass(frozen=True, slots=True)
class Segment:
    type: int
    flags: int
    offset: int
    address: int
    size: int  # in the file


def read_header(data: bytes) -> Header:
    """The header of any ELF file.

    :raises MalformedError: where it is cut short, or class or byte order are none.
    """
    if len(data) < 52 or data[:4] != MAGIC:
        raise MalformedError("the ELF header is cut short")
    if data[4] not in (1, 2) or data[5] not in (1, 2) or data[6] != 1:
        raise MalformedError(f"the ELF header says class {data[4]}, byte order {data[5]}, version {data[6]}")
    bits, order = (64 if data[4] == 2 else 32), ("<" if data[5] == 1 else ">")
    layout = struct.Struct(order + ("HHIQQQIHHHHHH" if bits == 64 else "HHIIIIIHHHHHH"))
    kind, machine, _, _, phoff, shoff, flags, _, phsize, phnum, shsize, shnum, names = unpack(
        layout, data, 16, "the ELF header"
    )
    return Header(
        bits, order, data[7], data[8], kind, machine, flags, shoff, shnum, shsize, names, phoff, phnum, phsize
    )


def section_rows(data: bytes, header: Header) -> tuple[list[tuple[int, ...]], int]:
    """The section headers as raw rows, and the index of the section of names.

    Each row is (name, type, flags, address, offset, size, link, info, align, entry size).  More than 65279 sections
    keep their count and the index in section 0.

    :raises MalformedError: where the table does not lie inside the file.
    """
    if header.section_table == 0:
        return [], 0
    layout = header.section_layout()
    if header.section_size != layout.size:
        raise MalformedError(f"its section headers say {header.section_size} bytes each instead of {layout.size}")
    count, names = header.section_count, header.names_index
    if count == 0 or names == 0xFFFF:
        first = unpack(layout, data, header.section_table, "section header 0")
        count = count or first[5]
        names = first[6] if names == 0xFFFF else names
    if count > _MOST_SECTIONS:
        raise MalformedError(f"it says {count} sections, more than the {_MOST_SECTIONS} that are looked at")
    check_extent(header.section_table, count * layout.size, len(data), "the table of section headers")
    table = memoryview(data)[header.section_table : header.section_table + count * layout.size]
    rows = list(layout.iter_unpack(table))
    if rows and names >= len(rows):
        raise MalformedError(f"section {names} is to hold the section names, of {len(rows)}")
    return rows, names


def read_sections(data: bytes, header: Header) -> tuple[Section, ...]:
    """Every section with its name; sizes are held against the file's end, but for those without bytes in it."""
    rows, names = section_rows(data, header)
    if not rows:
        return ()
    _, _, _, _, names_at, names_size, *_ = rows[names]
    check_extent(names_at, names_size, len(data), "the section of names")
    strings = Strings(data, names_at, names_at + names_size, "a section's name")
    sections = []
    for index, (name, kind, flags, address, offset, size, link, info, _, _) in enumerate(rows):
        label = text(strings.get(name)) if index else ""
        if index and kind != SHT_NOBITS:
            check_extent(offset, size, len(data), f"section {label}")
        sections.append(Section(label, kind, flags, offset, size, link, info, address))
    return tuple(sections)


def read_segments(data: bytes, header: Header) -> list[Segment]:
    """Every program header; what they point at is not looked at.

    :raises MalformedError: where the table does not lie inside the file.
    """
    if header.program_count == 0:
        return []
    layout = struct.Struct(header.order + ("IIQQQQQQ" if header.bits == 64 else "8I"))
    if header.program_size != layout.size:
        raise MalformedError(f"they say {header.program_size} bytes each instead of {layout.size}")
    check_extent(header.program_table, header.program_count * layout.size, len(data), "the table of program headers")
    table = memoryview(data)[header.program_table : header.program_table + header.program_count * layout.size]
    if header.bits == 64:
        return [
            Segment(kind, flags, offset, address, size)
            for kind, flags, offset, address, _, size, _, _ in layout.iter_unpack(table)
        ]
    return [
        Segment(kind, flags, offset, address, size)
        for kind, offset, address, _, size, _, flags, _ in layout.iter_unpack(table)
    ]
