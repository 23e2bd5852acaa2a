"""Cubins: which GPU one is for, by which toolkit, and the kernels that it really holds.

A kernel is a function symbol with STO_CUDA_ENTRY in ``st_other`` whose code lies in an executable section of this
file.  A ``.text.`` section without such a symbol is a device function.  The cubin that a device link leaves in every
library built by nvcc has neither.

Format: measured on nvcc 13.0's output and vLLM 0.33.0's wheels; ABI version 7 by LLVM's ``ELF.h`` and the wheels of
toolkits 11 and 12 (``EF_CUDA_SM``: bits 0 to 7 in version 7, bits 8 to 15 in version 8).  The ``a`` of an architecture
stands in bit 0x800 of the flags in version 7 (ptxas 12.0 to 12.9), in bit 0x8 of version 8 as ptxas 12.9 writes it;
ptxas 13 writes neither, and its note tells.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache

from qualify.arch import BEFORE_13
from qualify.errors import MalformedError, UnverifiedError
from qualify.readers.binary import Strings, check_extent, command_line, unpack
from qualify.readers.elf import (
    EM_CUDA,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
    Header,
    read_header,
    section_rows,
)

_SHT_PROGBITS, _SHT_NOTE = 1, 7
_STT_FUNC, _STO_CUDA_ENTRY, _SHN_XINDEX = 2, 0x10, 0xFFFF
_SYMBOL = struct.Struct("<IBBHQQ")
_INDEX = struct.Struct("<I")
_NOTE = struct.Struct("<3I")
_CUINFO = struct.Struct("<3H")
_TKINFO = struct.Struct("<6I")  # two numbers, then where the strings begin: source, tool, release, build, command line
_USUAL_NOTE = 2048
_IS_ENTRY = bytes(1 if other & _STO_CUDA_ENTRY else 0 for other in range(256))
_SPECIFIC_IN_7, _SPECIFIC_IN_8 = 0x800, 0x8
_MOST_NOTES, _LARGEST_NOTE = 16, 4 << 20
_TKINFO_TYPE, _CUINFO_TYPE, _CUINFO_FORM = 2000, 1000, 2
_ARCH = re.compile(rb"(?:^|[\0 ])-(?:arch|-gpu-name)[ =]*sm_(\d{1,4})([a-z]?)(?![0-9a-z_])")
_RELEASE = re.compile(rb"Cuda compilation tools, release (\d{1,3}\.\d{1,3})")


@dataclass(frozen=True, slots=True)
class Cubin:
    sm: int  # of the header
    specific: bool | None  # whether the header says that it is for one architecture alone (`a`); None: it says neither
    note_sms: tuple[int, ...]  # distinct SM numbers of the notes; more than one where units were linked
    note_architectures: tuple[str, ...]  # distinct ``-arch`` values of the notes: "sm_120f"
    toolkit: str  # "13.0"; "<13" where there is no note, and the ABI version tells that much; else ""
    options: str  # the command line of the note, "-arch sm_120f -m 64"; distinct ones of linked units, one a line
    kernels: tuple[bytes, ...]  # distinct names, in the order of the symbol table
    functions: tuple[bytes, ...]  # distinct names of other `.text.` sections


def is_cubin(data: bytes) -> bool:
    """Whether an ELF file of machine EM_CUDA begins here."""
    return len(data) >= 20 and data[:4] == b"\x7fELF" and data[18:20] == b"\xbe\0"


def read_cubin(data: bytes) -> Cubin:
    """Read one cubin.

    :raises MalformedError: where it breaks the rules of its format.
    :raises UnverifiedError: where its ABI version or class is not known here.
    """
    header = read_header(data)
    if header.machine != EM_CUDA:
        raise MalformedError(f"is an ELF file of machine {header.machine}, not of CUDA ({EM_CUDA})")
    if header.bits != 64 or header.order != "<":
        raise UnverifiedError("is a 32-bit or big-endian cubin, which is not known here")
    # First of all: where the ABI version is unknown, nothing that follows is known to be where it is looked for.
    sm, specific = _sm(header), _specific(header)
    rows, names_index = section_rows(data, header)
    if not rows:
        raise MalformedError("has no section headers, so that nothing can be told of its kernels")
    names = _strings(data, rows, names_index, "a section's name")
    symbols = [index for index, row in enumerate(rows) if row[1] == SHT_SYMTAB]
    if len(symbols) != 1:
        raise MalformedError(f"has {len(symbols)} symbol tables instead of one")
    kernels, owned = _kernels(data, rows, symbols[0])
    functions = _functions(rows, owned, kernels, names)
    sms, architectures, toolkit, options = _notes(data, rows, names)
    if not toolkit and header.abi_version == 7:
        toolkit = BEFORE_13  # 12.8 writes version 7 for all but Blackwell and leaves no note; 13.0 writes 8 alone
    return Cubin(sm, specific, sms, architectures, toolkit, options, tuple(kernels), functions)


def _sm(header: Header) -> int:
    if header.abi_version == 8:
        return (header.flags >> 8) & 0xFF
    if header.abi_version == 7:
        return header.flags & 0xFF
    raise UnverifiedError(f"has ABI version {header.abi_version}, which is not known here")


def _specific(header: Header) -> bool | None:
    if header.abi_version == 7:
        return bool(header.flags & _SPECIFIC_IN_7)
    return True if header.flags & _SPECIFIC_IN_8 else None


def _strings(data: bytes, rows: list[tuple[int, ...]], index: int, what: str) -> Strings:
    if not 0 < index < len(rows):
        raise MalformedError(f"{what}: section {index} is to hold the strings, of {len(rows)}")
    offset, size = rows[index][4], rows[index][5]
    check_extent(offset, size, len(data), what)
    return Strings(data, offset, offset + size, what)


def _kernels(data: bytes, rows: list[tuple[int, ...]], table: int) -> tuple[dict[bytes, None], set[int]]:
    """Distinct kernel names in order, and the sections that hold their code."""
    _, _, _, _, offset, size, link, _, _, entry_size = rows[table]
    check_extent(offset, size, len(data), "the symbol table")
    if size % _SYMBOL.size or entry_size != _SYMBOL.size:
        raise MalformedError("the symbol table does not hold whole symbols")
    strings = _strings(data, rows, link, "a symbol's name")
    extended = _extended_table(data, rows, table)
    kernels: dict[bytes, None] = {}
    owned: set[int] = set()
    # Most symbols are no kernels: the byte that tells is looked for in one pass before any of them is unpacked.
    marks = data[offset + 5 : offset + size : _SYMBOL.size].translate(_IS_ENTRY)
    unpack_symbol, step = _SYMBOL.unpack_from, _SYMBOL.size
    index = marks.find(1)
    while index >= 0:
        name, info, _, section, _, _ = unpack_symbol(data, offset + index * step)
        if info & 15 == _STT_FUNC and section:
            if section == _SHN_XINDEX:
                section = unpack(_INDEX, extended, 4 * index, "the table of a symbol's section indices")[0]
            label = strings.get(name)
            if section not in owned:
                _check_code(data, rows, section, label)
                owned.add(section)
            kernels[label] = None
        index = marks.find(1, index + 1)
    return kernels, owned


def _extended_table(data: bytes, rows: list[tuple[int, ...]], table: int) -> bytes:
    """The section indices that do not fit into a symbol; empty where there is no such table."""
    for _, kind, _, _, offset, size, link, _, _, _ in rows:
        if kind == SHT_SYMTAB_SHNDX and link == table:
            check_extent(offset, size, len(data), "the table of section indices")
            return data[offset : offset + size]
    return b""


def _check_code(data: bytes, rows: list[tuple[int, ...]], section: int, label: bytes) -> None:
    if section >= len(rows):
        raise MalformedError(f"kernel {label[:80]!r} lies in section {section}, of {len(rows)}")
    _, kind, flags, _, offset, size, *_ = rows[section]
    if kind != _SHT_PROGBITS or not flags & SHF_EXECINSTR or size == 0:
        raise MalformedError(f"kernel {label[:80]!r} lies in a section that holds no code")
    check_extent(offset, size, len(data), "a kernel's code")


def _functions(
    rows: list[tuple[int, ...]], owned: set[int], kernels: dict[bytes, None], names: Strings
) -> tuple[bytes, ...]:
    found: dict[bytes, None] = {}
    for index, row in enumerate(rows):
        if row[2] & SHF_EXECINSTR and row[1] != SHT_NOBITS and index not in owned:
            name = names.get(row[0])
            if name.startswith(b".text.") and name[6:] not in kernels:
                found[name[6:]] = None
    return tuple(found)


def _notes(
    data: bytes, rows: list[tuple[int, ...]], names: Strings
) -> tuple[tuple[int, ...], tuple[str, ...], str, str]:
    """SM numbers, architectures, toolkit and command lines of all notes."""
    sms: dict[int, None] = {}
    architectures: dict[str, None] = {}
    options: dict[str, None] = {}
    toolkit = ""
    count = 0
    for row in rows:
        if row[1] != _SHT_NOTE or not names.get(row[0]).startswith(b".note.nv."):
            continue
        offset, size = row[4], row[5]
        check_extent(offset, size, len(data), "a note")
        count += 1
        if count > _MOST_NOTES or size > _LARGEST_NOTE:
            raise MalformedError(f"has more notes than a compiler writes (section {count}, {size} bytes)")
        for kind, payload in _note_payloads(data[offset : offset + size]):
            if kind == _CUINFO_TYPE and len(payload) >= _CUINFO.size:
                form, sm, version = _CUINFO.unpack_from(payload)
                sms[sm] = None
                if form == _CUINFO_FORM:  # form 1, of toolkit 12.8, has another number there
                    toolkit = f"{version // 10}.{version % 10}"
            elif kind == _TKINFO_TYPE:
                named, release, command = (_tool if len(payload) <= _USUAL_NOTE else _tool.__wrapped__)(payload)
                architectures.update(dict.fromkeys(named))
                toolkit = toolkit or release
                options[command] = None
    return tuple(sms), tuple(architectures), toolkit, "\n".join(filter(None, options))


@lru_cache(maxsize=1024)  # a wheel has thousands of cubins and a few command lines
def _tool(payload: bytes) -> tuple[tuple[str, ...], str, str]:
    """Architectures, release and command line of one ``.note.nv.tkinfo``; empty where it does not say."""
    architectures = tuple(f"sm_{int(number)}{suffix.decode()}" for number, suffix in _ARCH.findall(payload))
    release = _RELEASE.search(payload)
    command = b""
    if len(payload) >= _TKINFO.size:
        start = _TKINFO.size + _TKINFO.unpack_from(payload)[5]
        stop = payload.find(b"\0", start)
        command = payload[start:stop] if stop > start else b""
    return architectures, release[1].decode() if release else "", command_line(command)


def _note_payloads(block: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(block):
        owner, size, kind = unpack(_NOTE, block, at, "a note")
        start = at + _NOTE.size + -(-owner // 4) * 4
        check_extent(start, size, len(block), "a note")
        if block[at + _NOTE.size : at + _NOTE.size + owner] == b"NVIDIA Corp\0":
            found.append((kind, block[start : start + size]))
        at = start + -(-size // 4) * 4
    return found
