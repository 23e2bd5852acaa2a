"""Host ELF files: the facts that installers and loaders go by.

Read with ``struct`` alone.  pyelftools builds an object for each symbol and takes counts and links from the file on
trust, which costs seconds on a 300 MB library and has no bound on a hostile one; the tests hold this reader against it.

Format: System V ABI, chapters 4 and 5; symbol versions by the Linux Standard Base, section 10.7.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from qualify.errors import AssayError, MalformedError
from qualify.facts import Elf, VersionNeed
from qualify.readers.binary import Budget, Problems, Strings, check_extent, text, unpack
from qualify.readers.dynsym import DynamicSymbols, Relocations, Tables, count_symbols, read_symbols, symbol_size
from qualify.readers.elf import (
    EM_CUDA,
    SHT_DYNSYM,
    Header,
    Section,
    Segment,
    read_header,
    read_sections,
    read_segments,
)

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_GNU_STACK = 1, 2, 3, 0x6474E551
_PF_X = 1
_DT_NEEDED, _DT_PLTRELSZ, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_STRSZ = 1, 2, 4, 5, 6, 7, 8, 10
_DT_SONAME, _DT_RPATH, _DT_REL, _DT_RELSZ, _DT_PLTREL, _DT_TEXTREL, _DT_JMPREL = 14, 15, 17, 18, 20, 22, 23
_DT_RUNPATH, _DT_FLAGS, _DT_GNU_HASH, _DT_VERSYM = 29, 30, 0x6FFFFEF5, 0x6FFFFFF0
_DT_FLAGS_1, _DT_VERDEF, _DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFB, 0x6FFFFFFC, 0x6FFFFFFE, 0x6FFFFFFF
_DF_TEXTREL, _DF_1_PIE = 0x4, 0x08000000
# What a unit of relocatable device code calls before main(); `nvcc -dlink` defines one for each unit that it links.
_LINKED = "__cudaRegisterLinkedBinary_"
_MACHINES = {3: "i386", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", EM_CUDA: "cuda", 243: "riscv64"}
_MACHINES |= {20: "ppc", 21: "ppc64", 258: "loongarch64"}
# Where a file has no PT_GNU_STACK, glibc takes DEFAULT_STACK_PERMS of the machine's `stackinfo.h`: with PF_X on these,
# without it on aarch64 and ppc64.  (Linux decides for itself for the main program alone.)
_EXECUTABLE_BY_DEFAULT = frozenset({"i386", "x86_64", "arm", "s390x", "ppc"})
_TYPES = {0: "none", 1: "rel", 2: "exec", 3: "dyn", 4: "core"}
_MOST_DYNAMIC, _MOST_VERSIONS = 65_536, 65_536


@dataclass(frozen=True, slots=True)
class HostElf:
    facts: Elf
    position_independent_executable: bool
    sections: tuple[Section, ...]  # empty where there are no section headers
    has_section_headers: bool
    unlinked: str = ""  # an undefined symbol that only the link of relocatable device code defines


def read_host_elf(data: bytes, problems: Problems, symbol_budget: Budget | None = None) -> HostElf:
    """What loaders go by in a file of any machine.

    :param symbol_budget: bytes that the dynamic symbols of a whole wheel may take.
    :raises MalformedError: where the header cannot be read; smaller faults go to ``problems``.
    """
    header = read_header(data)
    machine = _MACHINES.get(header.machine, f"em-{header.machine}")
    kind = _TYPES.get(header.type, f"et-{header.type}")
    sections: tuple[Section, ...] = ()
    try:
        sections = read_sections(data, header)
    except MalformedError as error:
        problems.malformed("section headers", str(error))
    interpreter, dynamic, loads = "", None, []
    executable_stack = kind in ("dyn", "exec") and machine in _EXECUTABLE_BY_DEFAULT
    try:
        for segment in read_segments(data, header):
            if segment.type == _PT_LOAD:
                loads.append((segment.address, segment.offset, segment.size))
            elif segment.type == _PT_INTERP:
                check_extent(segment.offset, segment.size, len(data), "the interpreter's name")
                interpreter = text(data[segment.offset : segment.offset + min(segment.size, 4096)].rstrip(b"\0"))
            elif segment.type == _PT_DYNAMIC:
                dynamic = segment
            elif segment.type == _PT_GNU_STACK:
                executable_stack = bool(segment.flags & _PF_X)
        if kind in ("dyn", "exec") and header.machine != EM_CUDA:
            _check_loads(loads, len(data))
    except MalformedError as error:
        problems.malformed("program headers", str(error))
    reader = _Dynamic(data, header, loads)
    symbols = DynamicSymbols((), ())
    if dynamic is not None:
        with _reported(problems, "dynamic section"):
            reader.read(dynamic, problems)
        with _reported(problems, "dynamic symbols"):
            symbols = _symbols(reader, sections, symbol_budget, problems)
    inits = (name.removeprefix("PyInit_") for name in symbols.exports if name.startswith("PyInit_"))
    facts = Elf(
        bits=header.bits,
        little_endian=header.order == "<",
        machine=machine,
        type=kind,
        soname=reader.soname,
        needed=tuple(reader.needed),
        rpath=tuple(reader.rpath),
        runpath=tuple(reader.runpath),
        version_needs=tuple(reader.version_needs),
        python_inits=tuple(inits),
        interpreter=interpreter,
        imports=symbols.imports,
        exports=symbols.exports,
        executable_stack=executable_stack,
        text_relocations=_DT_TEXTREL in reader.values or bool(reader.values.get(_DT_FLAGS, 0) & _DF_TEXTREL),
    )
    unlinked = next((symbol.name for symbol in symbols.imports if symbol.name.startswith(_LINKED)), "")
    pie = bool(reader.values.get(_DT_FLAGS_1, 0) & _DF_1_PIE)
    return HostElf(facts, pie, sections, bool(sections), unlinked)


def _check_loads(loads: list[tuple[int, int, int]], end: int) -> None:
    """Every loaded byte lies in the file, and no address is loaded twice, so that an address means one place."""
    reached = 0
    for address, offset, size in sorted(load for load in loads if load[2]):
        check_extent(offset, size, end, "a loaded segment")
        if address < reached:
            raise MalformedError(f"two segments are loaded to address {address:#x}")
        reached = address + size


@contextmanager
def _reported(problems: Problems, where: str) -> Iterator[None]:
    try:
        yield
    except MalformedError as error:
        problems.malformed(where, error.what)
    except AssayError as error:
        problems.unreadable(where, error.what)


class _Dynamic:
    """The dynamic section, found as a loader finds it: by program headers and addresses, not by section names."""

    def __init__(self, data: bytes, header: Header, loads: list[tuple[int, int, int]]) -> None:
        self.data, self.header, self.loads = data, header, loads
        self.values: dict[int, int] = {}
        self.strings = Strings(data, 0, 0, "a dynamic string")
        self.soname = ""
        self.needed: list[str] = []
        self.rpath: list[str] = []
        self.runpath: list[str] = []
        self.version_needs: list[VersionNeed] = []
        self.needs_by_index: dict[int, VersionNeed] = {}

    def read(self, segment: Segment, problems: Problems) -> None:
        """Read every entry up to the end mark, which is where a loader stops, whatever size the segment says."""
        layout = struct.Struct(self.header.order + ("QQ" if self.header.bits == 64 else "II"))
        start = self._find(segment.address)
        if start < 0:
            if segment.size:
                raise MalformedError(f"it is loaded to address {segment.address:#x}, where no segment is")
            return  # a file of debugging information, whose segments have no bytes
        if start != segment.offset:
            problems.malformed("dynamic section", f"is loaded from {start:#x}, and said to be at {segment.offset:#x}")
        rows: list[tuple[int, int]] = []
        at = start
        while (row := unpack(layout, self.data, at, "an entry"))[0]:
            rows.append((row[0], row[1]))
            at += layout.size
            if len(rows) > _MOST_DYNAMIC:
                raise MalformedError(f"it has more than {_MOST_DYNAMIC} entries")
        if at + layout.size > start + segment.size:
            problems.malformed("dynamic section", f"goes on behind the {segment.size} bytes that its header says")
        self.values = values = dict(rows)
        start = max(0, self.place(_DT_STRTAB, "the dynamic strings"))
        self.strings = strings = Strings(self.data, start, start + values.get(_DT_STRSZ, 0), "a dynamic string")
        for tag, value in rows:
            if tag in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH):
                name = text(strings.get(value))
                if tag == _DT_NEEDED:
                    self.needed.append(name)
                elif tag == _DT_SONAME:
                    self.soname = name
                else:
                    (self.rpath if tag == _DT_RPATH else self.runpath).extend(name.split(":"))
        at = self.place(_DT_VERNEED, "the symbol versions")
        if at >= 0:
            self._versions(at, values.get(_DT_VERNEEDNUM, 0), strings)

    def place(self, tag: int, what: str) -> int:
        """The offset in the file of the address that an entry holds; -1 where there is no such entry."""
        if tag not in self.values:
            return -1
        found = self._find(self.values[tag])
        if found < 0:
            raise MalformedError(f"{what} at address {self.values[tag]:#x} lie in no segment")
        return found

    def _find(self, address: int) -> int:
        for start, offset, size in self.loads:
            if start <= address < start + size:
                return offset + address - start
        return -1

    def relocations(self) -> tuple[Relocations, ...]:
        """Every table of relocations that names symbols."""
        values = self.values
        found = []
        for tag, size, addends in (
            (_DT_RELA, _DT_RELASZ, True),
            (_DT_REL, _DT_RELSZ, False),
            (_DT_JMPREL, _DT_PLTRELSZ, values.get(_DT_PLTREL) == _DT_RELA),
        ):
            if values.get(size, 0):
                at = self.place(tag, "relocations")
                if at >= 0:
                    found.append(Relocations(at, values[size], addends))
        return tuple(found)

    def _versions(self, at: int, count: int, strings: Strings) -> None:
        """Follow the rows as a loader does, which looks at no count; a count that says less hides rows from others."""
        need = struct.Struct(self.header.order + "HHIII")
        aux = struct.Struct(self.header.order + "IHHII")
        libraries, right = 0, True
        following = 1
        while following:
            _, versions, library, first, following = unpack(need, self.data, at, "a needed version")
            name = text(strings.get(library))
            libraries += 1
            found, place, after = 0, at, first
            while after:
                place += after
                _, _, index, version, after = unpack(aux, self.data, place, "a needed version")
                found += 1
                row = VersionNeed(name, text(strings.get(version)))
                self.version_needs.append(row)
                self.needs_by_index[index] = row
                if len(self.version_needs) > _MOST_VERSIONS:
                    raise MalformedError(f"it needs more than {_MOST_VERSIONS} symbol versions")
            if libraries > _MOST_VERSIONS:
                raise MalformedError(f"it needs versions of more than {_MOST_VERSIONS} libraries")
            right = right and found == versions
            at += following
        if not right or libraries != count:
            raise MalformedError("the needed symbol versions are more or fewer than it says")


def _symbols(
    dynamic: _Dynamic, sections: tuple[Section, ...], budget: Budget | None, problems: Problems
) -> DynamicSymbols:
    at = dynamic.place(_DT_SYMTAB, "the dynamic symbols")
    if at < 0:
        return DynamicSymbols((), ())
    tables = Tables(
        symbols=at,
        hash=dynamic.place(_DT_HASH, "the hash table"),
        gnu_hash=dynamic.place(_DT_GNU_HASH, "the GNU hash table"),
        versions=dynamic.place(_DT_VERSYM, "the versions of symbols"),
        own_versions=_DT_VERDEF in dynamic.values,
        relocations=dynamic.relocations(),
    )
    count = count_symbols(dynamic.data, dynamic.header, tables)
    for section in sections:
        if section.type == SHT_DYNSYM:
            listed = section.size // symbol_size(dynamic.header)
            if section.offset != at or listed < count:
                detail = f"the section {section.name} lists {listed} of them at {section.offset:#x}, a loader finds "
                problems.malformed("dynamic symbols", f"{detail}{count} at {at:#x}")
            else:
                count = listed
    found = read_symbols(dynamic.data, dynamic.header, tables, count, dynamic.strings, dynamic.needs_by_index, budget)
    if found.unbound:
        detail = f"{found.unbound[:80]} is bound to a version that is not among those that the file needs"
        problems.malformed("dynamic symbols", detail)
    return found
