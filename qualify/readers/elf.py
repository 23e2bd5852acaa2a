"""Host ELF files: the facts that installers and loaders go by, and the sections that hold device code.

Read with ``struct`` alone.  pyelftools builds an object for each symbol and takes counts and links from the file on
trust, which costs seconds on a 300 MB library and has no bound on a hostile one; the tests hold this reader against it.

Format: System V ABI, chapters 4 and 5; symbol versions by the Linux Standard Base, section 10.7.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from qualify.errors import MalformedError
from qualify.facts import Elf, VersionNeed
from qualify.readers.binary import Problems, Strings, check_extent, text, unpack

MAGIC = b"\x7fELF"
EM_CUDA = 190
SHT_NOBITS, SHT_DYNAMIC, SHT_DYNSYM, SHT_SYMTAB, SHT_SYMTAB_SHNDX = 8, 6, 11, 2, 18
SHT_GNU_VERNEED = 0x6FFFFFFE
SHF_EXECINSTR, SHF_COMPRESSED = 0x4, 0x800
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29
_DT_FLAGS_1, _DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFB, 0x6FFFFFFE, 0x6FFFFFFF
_DF_1_PIE = 0x08000000
# What a unit of relocatable device code calls before main(); `nvcc -dlink` defines one for each unit that it links.
_LINKED = b"__cudaRegisterLinkedBinary_"
_MACHINES = {3: "i386", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", EM_CUDA: "cuda", 243: "riscv64"}
_MACHINES |= {20: "ppc", 21: "ppc64", 258: "loongarch64"}
_TYPES = {0: "none", 1: "rel", 2: "exec", 3: "dyn", 4: "core"}
_MOST_DYNAMIC, _MOST_VERSIONS, _MOST_SECTIONS = 65_536, 65_536, 200_000


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
class HostElf:
    facts: Elf
    position_independent_executable: bool
    sections: tuple[Section, ...]  # empty where there are no section headers
    has_section_headers: bool
    unlinked: str = ""  # an undefined symbol that only the link of relocatable device code defines


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


def read_host_elf(data: bytes, problems: Problems) -> HostElf:
    """What loaders go by in a file of any machine.

    :raises MalformedError: where the header cannot be read; smaller faults go to ``problems``.
    """
    header = read_header(data)
    sections: tuple[Section, ...] = ()
    try:
        sections = read_sections(data, header)
    except MalformedError as error:
        problems.malformed("section headers", str(error))
    interpreter, dynamic, loads = "", None, []
    try:
        for kind, offset, address, size in _segments(data, header):
            if kind == _PT_LOAD:
                loads.append((address, offset, size))
            elif kind == _PT_INTERP:
                check_extent(offset, size, len(data), "the interpreter's name")
                interpreter = text(data[offset : offset + min(size, 4096)].rstrip(b"\0"))
            elif kind == _PT_DYNAMIC:
                dynamic = (offset, size)
    except MalformedError as error:
        problems.malformed("program headers", str(error))
    reader = _Dynamic(data, header, loads)
    try:
        if dynamic is not None:
            reader.read(*dynamic)
    except MalformedError as error:
        problems.malformed("dynamic section", str(error))
    inits: tuple[str, ...] = ()
    unlinked = ""
    try:
        inits, unlinked = _dynamic_symbols(data, header, sections)
    except MalformedError as error:
        problems.malformed("dynamic symbols", str(error))
    facts = Elf(
        bits=header.bits,
        little_endian=header.order == "<",
        machine=_MACHINES.get(header.machine, f"em-{header.machine}"),
        type=_TYPES.get(header.type, f"et-{header.type}"),
        soname=reader.soname,
        needed=tuple(reader.needed),
        rpath=tuple(reader.rpath),
        runpath=tuple(reader.runpath),
        version_needs=tuple(reader.version_needs),
        python_inits=inits,
        interpreter=interpreter,
        imports=(),
        exports=(),
        executable_stack=False,
        text_relocations=False,
    )
    return HostElf(facts, bool(reader.flags & _DF_1_PIE), sections, bool(sections), unlinked)


def _segments(data: bytes, header: Header) -> list[tuple[int, int, int, int]]:
    """(type, offset, address, size in the file) of each program header."""
    if header.program_count == 0:
        return []
    layout = struct.Struct(header.order + ("IIQQQQQQ" if header.bits == 64 else "8I"))
    if header.program_size != layout.size:
        raise MalformedError(f"they say {header.program_size} bytes each instead of {layout.size}")
    check_extent(header.program_table, header.program_count * layout.size, len(data), "the table of program headers")
    table = memoryview(data)[header.program_table : header.program_table + header.program_count * layout.size]
    if header.bits == 64:
        return [(kind, offset, address, size) for kind, _, offset, address, _, size, _, _ in layout.iter_unpack(table)]
    return [(kind, offset, address, size) for kind, offset, address, _, size, _, _, _ in layout.iter_unpack(table)]


class _Dynamic:
    """The dynamic section, found as a loader finds it: by program headers and addresses, not by section names."""

    def __init__(self, data: bytes, header: Header, loads: list[tuple[int, int, int]]) -> None:
        self.data, self.header, self.loads = data, header, loads
        self.soname = ""
        self.needed: list[str] = []
        self.rpath: list[str] = []
        self.runpath: list[str] = []
        self.version_needs: list[VersionNeed] = []
        self.flags = 0

    def read(self, offset: int, size: int) -> None:
        layout = struct.Struct(self.header.order + ("QQ" if self.header.bits == 64 else "II"))
        check_extent(offset, size, len(self.data), "the dynamic section")
        rows: list[tuple[int, int]] = []
        for tag, value in layout.iter_unpack(memoryview(self.data)[offset : offset + size - size % layout.size]):
            if tag == 0:
                break
            rows.append((tag, value))
            if len(rows) > _MOST_DYNAMIC:
                raise MalformedError(f"it has more than {_MOST_DYNAMIC} entries")
        values = dict(rows)
        start = self._place(values[_DT_STRTAB], "the dynamic strings") if _DT_STRTAB in values else 0
        strings = Strings(self.data, start, start + values.get(_DT_STRSZ, 0), "a dynamic string")
        self.flags = values.get(_DT_FLAGS_1, 0)
        for tag, value in rows:
            if tag in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH):
                name = text(strings.get(value))
                if tag == _DT_NEEDED:
                    self.needed.append(name)
                elif tag == _DT_SONAME:
                    self.soname = name
                else:
                    (self.rpath if tag == _DT_RPATH else self.runpath).extend(name.split(":"))
        if _DT_VERNEED in values:
            at = self._place(values[_DT_VERNEED], "the symbol versions")
            self._versions(at, values.get(_DT_VERNEEDNUM, 0), strings)

    def _place(self, address: int, what: str) -> int:
        for start, offset, size in self.loads:
            if start <= address < start + size:
                return offset + address - start
        raise MalformedError(f"{what} at address {address:#x} lie in no segment")

    def _versions(self, at: int, count: int, strings: Strings) -> None:
        need = struct.Struct(self.header.order + "HHIII")
        aux = struct.Struct(self.header.order + "IHHII")
        for _ in range(min(count, _MOST_VERSIONS)):
            _, versions, library, first, following = unpack(need, self.data, at, "a needed version")
            name = text(strings.get(library))
            place = at + first
            for _ in range(versions):
                _, _, _, version, after = unpack(aux, self.data, place, "a needed version")
                self.version_needs.append(VersionNeed(name, text(strings.get(version))))
                if len(self.version_needs) > _MOST_VERSIONS:
                    raise MalformedError(f"it needs more than {_MOST_VERSIONS} symbol versions")
                if after == 0:
                    break
                place += after
            if following == 0:
                break
            at += following


def _dynamic_symbols(data: bytes, header: Header, sections: tuple[Section, ...]) -> tuple[tuple[str, ...], str]:
    """Names of the defined functions ``PyInit_*``, without the prefix, and the first undefined ``_LINKED*``."""
    layout = struct.Struct(header.order + ("IBBHQQ" if header.bits == 64 else "IIIBBH"))
    tables = [section for section in sections if section.type == SHT_DYNSYM]
    if not tables:
        return (), ""
    if len(tables) > 1 or not 0 < tables[0].link < len(sections):
        raise MalformedError("there is more than one table of them, or it has no strings")
    symbols, strings = tables[0], sections[tables[0].link]
    check_extent(strings.offset, strings.size, len(data), "the table of strings")
    start, end = strings.offset, strings.offset + strings.size
    if data.find(b"PyInit_", start, end) < 0 and data.find(_LINKED, start, end) < 0:
        return (), ""
    names = Strings(data, start, end, "a symbol's name")
    found: set[str] = set()
    unlinked = ""
    table = memoryview(data)[symbols.offset : symbols.offset + symbols.size - symbols.size % layout.size]
    for row in layout.iter_unpack(table):
        where = row[3] if header.bits == 64 else row[5]
        if where and data.startswith(b"PyInit_", start + row[0], end):
            found.add(text(names.get(row[0]).removeprefix(b"PyInit_")))
        elif not where and not unlinked and data.startswith(_LINKED, start + row[0], end):
            unlinked = text(names.get(row[0]))
    return tuple(sorted(found)), unlinked
