"""Small ELF files of hosts: shared libraries and executables that the usual readers accept.

``host_elf`` lays out one segment that maps the whole file (virtual address = offset), a dynamic segment, the dynamic
symbol table with its versions and hash tables, and any further section that a test wants, such as ``.nv_fatbin``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MACHINES = {"x86_64": 62, "aarch64": 183, "i386": 3, "arm": 40, "riscv64": 243, "ppc": 20, "ppc64": 21, "s390x": 22}
TYPES = {"none": 0, "rel": 1, "exec": 2, "dyn": 3, "core": 4}
BINDINGS = {"local": 0, "global": 1, "weak": 2, "unique": 10}
VISIBILITIES = {"default": 0, "internal": 1, "hidden": 2, "protected": 3}
_OF_32_BITS = ("i386", "arm", "ppc")
_BIG_ENDIAN = ("ppc", "ppc64", "s390x")

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOBITS, SHT_DYNSYM = 1, 2, 3, 4, 5, 6, 8, 11
SHT_GNU_HASH, SHT_GNU_VERNEED, SHT_GNU_VERSYM = 0x6FFFFFF6, 0x6FFFFFFE, 0x6FFFFFFF


@dataclass(frozen=True)
class Form:
    """Class and byte order, and the layouts that follow from them."""

    bits: int = 64
    order: str = "<"

    def pack(self, wide: str, narrow: str, *values: int) -> bytes:
        return struct.pack(self.order + (wide if self.bits == 64 else narrow), *values)

    def flat(self, layout: str, *values: int) -> bytes:
        """What looks the same in both classes."""
        return struct.pack(self.order + layout, *values)

    def symbol(self, name: int, info: int, other: int, section: int, value: int, size: int) -> bytes:
        if self.bits == 64:
            return self.flat("IBBHQQ", name, info, other, section, value, size)
        return self.flat("IIIBBH", name, value, size, info, other, section)

    def relocation(self, place: int, symbol: int) -> bytes:
        """With an addend of 0; the type is 6 (R_X86_64_GLOB_DAT)."""
        return self.pack("QQQ", "III", place, (symbol << 32 | 6) if self.bits == 64 else (symbol << 8 | 6), 0)

    def section(self, row: Sequence[int]) -> bytes:
        return self.pack("IIQQQQIIQQ", "10I", *row)

    def segment(self, kind: int, flags: int, place: int, size: int, align: int) -> bytes:
        if self.bits == 64:
            return self.flat("IIQQQQQQ", kind, flags, place, place, place, size, size, align)
        return self.flat("8I", kind, place, place, place, size, size, flags, align)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of the header, of a program header, of a section header."""
        return (64, 56, 64) if self.bits == 64 else (52, 32, 40)


WIDE = Form()
_STACK = "stack"


@dataclass(frozen=True)
class Symbol:
    """One dynamic symbol, where a test wants more than ``undefined`` and ``defined`` say.

    ``version`` is ``"GLIBC_2.28"``, or ``"GLIBC_2.28:libm.so.6"`` where two libraries have a version of that name.
    """

    name: str
    defined: bool = True
    binding: str = "global"
    visibility: str = "default"
    version: str = ""


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


def _gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode("utf-8", "surrogateescape"):
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def host_elf(
    machine: str = "x86_64",
    *,
    elf_type: str = "dyn",
    soname: str = "",
    needed: Sequence[str] | None = None,
    rpath: str | None = None,
    runpath: str | None = None,
    version_needs: Mapping[str, Sequence[str]] | None = None,
    defined: Sequence[str] = (),
    undefined: Sequence[str] = (),
    weak: Sequence[str] = (),
    symbols: Sequence[Symbol] = (),
    sections: Mapping[str, bytes] | Sequence[Section] = (),
    interpreter: str = "",
    section_headers: bool = True,
    executable_stack: bool | None = False,
    text_relocations: bool = False,
    flags: int = 0,
    hash_style: str = "sysv",
    relocations: bool = False,
) -> bytes:
    """A shared library or executable, of 64 bits and little-endian where the machine is no other.

    :param needed: by default, libc and the libraries of ``version_needs``, as a linker writes them.
    :param version_needs: library -> symbol versions; an undefined symbol written ``"memcpy@GLIBC_2.14"`` is bound to
        that version, ``"log@GLIBC_2.29:libm.so.6"`` to that of that library.
    :param defined: names of defined functions, such as ``PyInit__C``.
    :param weak: undefined symbols that may stay so, written as those of ``undefined``.
    :param symbols: further symbols; undefined ones are put before the defined ones.
    :param sections: further sections by name, or :class:`Section` values.
    :param section_headers: False leaves the section headers out, as some strippers do.
    :param executable_stack: the PF_X flag of PT_GNU_STACK; None leaves that header out.
    :param text_relocations: whether there is a ``DT_TEXTREL``.
    :param flags: ``DT_FLAGS``, where it is not 0 (4 is DF_TEXTREL).
    :param hash_style: ``"sysv"``, ``"gnu"``, ``"both"`` or ``"none"``.
    :param relocations: whether one names each undefined symbol; a loader finds those by relocations alone.
    """
    form = Form(32 if machine in _OF_32_BITS else 64, ">" if machine in _BIG_ENDIAN else "<")
    needs = {"libc.so.6": ("GLIBC_2.28",)} if version_needs is None else version_needs
    needed = tuple(dict.fromkeys(("libc.so.6", *needs))) if needed is None else needed
    strings = _Strings()
    version_index, verneed = _version_needs(form, needs, strings)
    everything = [
        *(Symbol(name.partition("@")[0], False, version=name.partition("@")[2]) for name in undefined),
        *(Symbol(name.partition("@")[0], False, "weak", version=name.partition("@")[2]) for name in weak),
        *(symbol for symbol in symbols if not symbol.defined),
        *(Symbol(name) for name in defined),
        *(symbol for symbol in symbols if symbol.defined),
    ]
    dynsym = bytearray(form.symbol(0, 0, 0, 0, 0, 0))
    symbol_size = len(dynsym)
    versym = bytearray(2)
    for symbol in everything:
        info, place = BINDINGS[symbol.binding] << 4 | 2, (1, 0x40, 16) if symbol.defined else (0, 0, 0)
        dynsym += form.symbol(strings.add(symbol.name), info, VISIBILITIES[symbol.visibility], *place)
        versym += form.flat("H", version_index[symbol.version] if symbol.version else 1)
    entries = [(1, strings.add(library)) for library in needed]
    for tag, text in ((14, soname or None), (15, rpath), (29, runpath)):
        if text is not None:
            entries.append((tag, strings.add(text)))
    entries += [(22, 0)] if text_relocations else []
    entries += [(30, flags)] if flags else []

    extra = (
        [Section(name, data) for name, data in sections.items()] if isinstance(sections, Mapping) else list(sections)
    )
    parts = [Section(".text", b"\xc3" * 16, flags=6)]
    if interpreter:
        parts.append(Section(".interp", interpreter.encode() + b"\0"))
    parts += [
        Section(".dynstr", bytes(strings.data), SHT_STRTAB),
        Section(".dynsym", bytes(dynsym), SHT_DYNSYM, link=".dynstr", info=1, entsize=symbol_size),
        Section(".gnu.version", bytes(versym), SHT_GNU_VERSYM, link=".dynsym", entsize=2),
    ]
    if hash_style in ("sysv", "both"):
        parts.append(Section(".hash", _hash_table(form, machine, everything), SHT_HASH, link=".dynsym", entsize=4))
    if hash_style in ("gnu", "both"):
        parts.append(Section(".gnu.hash", _gnu_hash_table(form, everything), SHT_GNU_HASH, link=".dynsym"))
    if verneed:
        parts.append(Section(".gnu.version_r", verneed, SHT_GNU_VERNEED, link=".dynstr", info=len(needs)))
    unbound = [index for index, symbol in enumerate(everything, start=1) if not symbol.defined]
    if relocations and unbound:
        rows = b"".join(form.relocation(0x40, index) for index in unbound)
        size = len(rows) // len(unbound)
        parts.append(Section(".rela.dyn", rows, SHT_RELA, link=".dynsym", entsize=size))
        entries += [(8, len(rows)), (9, size)]
    kinds = [".dynamic", *([".interp"] if interpreter else []), *([] if executable_stack is None else [_STACK])]
    header, program_header, _ = form.sizes
    offset = header + program_header * (1 + len(kinds))
    tags = {".hash": 4, ".dynstr": 5, ".dynsym": 6, ".rela.dyn": 7, ".gnu.hash": 0x6FFFFEF5}
    tags |= {".gnu.version": 0x6FFFFFF0, ".gnu.version_r": 0x6FFFFFFE}
    for part in parts:
        offset = -(-offset // 8) * 8
        if part.name in tags:
            entries.append((tags[part.name], offset))
        offset += len(part.data)
    entries += [(10, len(strings.data)), (11, symbol_size)]
    if verneed:
        entries.append((0x6FFFFFFF, len(needs)))
    dynamic = b"".join(form.pack("QQ", "II", *entry) for entry in [*entries, (0, 0)])
    width = len(form.pack("QQ", "II", 0, 0))
    parts.append(Section(".dynamic", dynamic, SHT_DYNAMIC, flags=3, link=".dynstr", entsize=width))
    return assemble(
        [*parts, *extra],
        machine=MACHINES[machine],
        elf_type=TYPES[elf_type],
        segments=kinds,
        section_headers=section_headers,
        executable_stack=bool(executable_stack),
        form=form,
    )


def _hash_table(form: Form, machine: str, symbols: Sequence[Symbol]) -> bytes:
    """``DT_HASH`` of one bucket, the last symbol first."""
    chain = [0, *range(len(symbols))]
    # The entries are of 64 bits on s390x (its ELF supplement), of 32 everywhere else.
    letter = "Q" if machine == "s390x" else "I"
    return form.flat(f"{3 + len(chain)}{letter}", 1, len(chain), len(symbols), *chain)


def _gnu_hash_table(form: Form, symbols: Sequence[Symbol]) -> bytes:
    """``DT_GNU_HASH`` of one bucket and a bloom filter that lets everything through."""
    hashed = [_gnu_hash(symbol.name) for symbol in symbols if symbol.defined]
    first = 1 + len(symbols) - len(hashed)
    chain = [value & ~1 for value in hashed[:-1]] + [value | 1 for value in hashed[-1:]]
    everything = form.pack("Q", "I", (1 << form.bits) - 1)
    head = form.flat("4I", 1, first if hashed else 1, 1, 5) + everything
    return head + form.flat(f"{1 + len(chain)}I", first if hashed else 0, *chain)


def _version_needs(form: Form, needs: Mapping[str, Sequence[str]], strings: _Strings) -> tuple[dict[str, int], bytes]:
    """Version indices by ``"GLIBC_2.17"`` (of the last library that has it) and ``"GLIBC_2.17:libc.so.6"``."""
    index: dict[str, int] = {}
    blob = bytearray()
    libraries = list(needs.items())
    number = 1
    for position, (library, versions) in enumerate(libraries):
        following = 16 + 16 * len(versions) if position + 1 < len(libraries) else 0
        blob += form.flat("HHIII", 1, len(versions), strings.add(library), 16 if versions else 0, following)
        for place, version in enumerate(versions):
            number += 1
            index[version] = index[f"{version}:{library}"] = number
            after = 16 if place + 1 < len(versions) else 0
            blob += form.flat("IHHII", _sysv_hash(version), 0, number, strings.add(version), after)
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
    executable_stack: bool = False,
    form: Form = WIDE,
) -> bytes:
    """Put sections into an ELF file: header, program headers, sections, section names, section headers.

    :param segments: names of sections that get a program header of their own (``.dynamic``, ``.interp``), or
        ``"stack"`` for PT_GNU_STACK; where any is given, one PT_LOAD maps the whole file at address 0.
    :param extended_numbering: write the section count and the string table's index into section 0, as files with more
        than 65279 sections do.
    """
    header_size, program_size, section_size = form.sizes
    names = _Strings()
    place = {section.name: index for index, section in enumerate(sections, start=1)}
    count = len(sections) + 2
    headers = len(segments) + 1 if segments else 0
    body = bytearray(header_size + program_size * headers)
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
        rows.append(form.section((*row, link, section.info, section.align, section.entsize)))
        if section.type != SHT_NOBITS:
            body += data
    body += bytes(-len(body) % 8)
    table = len(body) if section_headers else 0
    zero = (0,) * 10
    if extended_numbering:
        zero = (0, 0, 0, 0, 0, count, count - 1, 0, 0, 0)
    numbers = (0, 0) if not section_headers else (0, 0xFFFF) if extended_numbering else (count, count - 1)
    ident = b"\x7fELF" + bytes([form.bits // 32, 1 if form.order == "<" else 2, 1, osabi, abi_version]) + bytes(7)
    values = (elf_type, machine, 1, 0, header_size if headers else 0, table, flags, header_size, program_size, headers)
    body[:header_size] = ident + form.pack("HHIQQQIHHHHHH", "HHIIIIIHHHHHH", *values, section_size, *numbers)
    if section_headers:
        body += form.section(zero) + b"".join(rows)
    if segments:
        kinds = {".dynamic": 2, ".interp": 3}
        program = [form.segment(1, 7, 0, len(body), 4096)]
        for segment in segments:
            if segment == _STACK:
                program.append(form.segment(0x6474E551, 7 if executable_stack else 6, 0, 0, 16))
            else:
                program.append(form.segment(kinds[segment], 6, *extent[segment], 8))
        body[header_size : header_size + program_size * headers] = b"".join(program)
    return bytes(body)
