"""The dynamic symbol table of a host ELF file, found and counted as a loader does it.

A loader knows no section headers.  It finds the table by ``DT_SYMTAB``, looks names up through the hash tables, and
reaches every other symbol through the relocations that name it; no field says how many symbols there are.  So the
count is the greatest that any of these can reach, and a section ``.dynsym`` that says less, or lies elsewhere, is a
contradiction that other tools fall for.

Format: System V ABI, chapter 5; symbol versions by the Linux Standard Base, section 10.7; ``DT_GNU_HASH`` as the GNU
linker writes it (``bfd/elflink.c``).
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from qualify.errors import UnverifiedError
from qualify.facts import Import, VersionNeed
from qualify.readers.binary import Budget, Strings, check_extent, text, unpack, unpacked
from qualify.readers.elf import Header

_MOST_SYMBOLS = 4_000_000
_COST, _SHARE = 256, 1 << 20  # bytes that a symbol takes beside its name, and how many are taken at a time
_STB_LOCAL, _STB_GLOBAL, _STB_WEAK, _STB_GNU_UNIQUE = 0, 1, 2, 10
_EXPORTED = frozenset({_STB_GLOBAL, _STB_WEAK, _STB_GNU_UNIQUE})
_VISIBLE = frozenset({0, 3})  # STV_DEFAULT, STV_PROTECTED
_VERSION_INDEX, _FIRST_VERSION = 0x7FFF, 2  # bit 15 hides a definition from unversioned references; 0 local, 1 global
_EM_MIPS, _EM_S390, _EM_ALPHA = 8, 22, 0x9026


@dataclass(frozen=True, slots=True)
class Relocations:
    """One table of relocations: its place in the file, its size in bytes, and whether rows carry an addend."""

    start: int
    size: int
    addends: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the dynamic section says that symbols are; places are offsets in the file, -1 where there is none."""

    symbols: int
    hash: int
    gnu_hash: int
    versions: int
    own_versions: bool  # whether the file defines versions of its own (DT_VERDEF)
    relocations: tuple[Relocations, ...]


@dataclass(frozen=True, slots=True)
class DynamicSymbols:
    imports: tuple[Import, ...]  # sorted by name and version
    exports: tuple[str, ...]  # distinct, sorted
    unbound: str = ""  # an import that is bound to a version of which the file says nothing


def count_symbols(data: bytes, header: Header, tables: Tables) -> int:
    """How many symbols a loader can reach, the null symbol included.

    :raises MalformedError: where a table that counts them does not lie inside the file.
    :raises UnverifiedError: where there are more than are looked at.
    """
    count = 1
    if tables.hash >= 0:
        count = max(count, _hash_count(data, header, tables.hash))
    if tables.gnu_hash >= 0:
        count = max(count, _gnu_hash_count(data, header, tables.gnu_hash))
    if header.machine != _EM_MIPS:  # whose r_info has another layout
        for relocations in tables.relocations:
            count = max(count, 1 + _highest_symbol(data, header, relocations))
    if count > _MOST_SYMBOLS:
        raise UnverifiedError(f"there are {count} of them, more than the {_MOST_SYMBOLS} that are looked at")
    return count


def symbol_size(header: Header) -> int:
    """The bytes of one symbol."""
    return _layout(header).size


def _layout(header: Header) -> struct.Struct:
    # st_name, st_info, st_other, st_shndx; value and size say nothing that is wanted here.
    return struct.Struct(header.order + ("IBBH16x" if header.bits == 64 else "I8xBBH"))


def read_symbols(
    data: bytes,
    header: Header,
    tables: Tables,
    count: int,
    strings: Strings,
    needs: Mapping[int, VersionNeed],
    budget: Budget | None = None,
) -> DynamicSymbols:
    """One walk over ``count`` symbols.

    :param needs: the rows of ``.gnu.version_r`` by version index.
    :param budget: bytes that the symbols of a whole wheel may take.
    :raises MalformedError: where table, versions or a name do not lie inside the file.
    :raises UnverifiedError: where the budget is spent.
    """
    layout = _layout(header)
    check_extent(tables.symbols, count * layout.size, len(data), "the table")
    versions: Sequence[int] = ()
    if tables.versions >= 0:
        check_extent(tables.versions, 2 * count, len(data), "the table of versions")
        versions = _numbers(data, header, tables.versions, count, "H")
    imports: set[tuple[str, str, str, bool]] = set()
    exports: set[str] = set()
    unbound = ""
    spent = 0
    rows = unpacked(layout, data, tables.symbols, count)
    for index, (offset, info, other, section) in enumerate(rows):
        binding = info >> 4
        if binding == _STB_LOCAL or (section and not (binding in _EXPORTED and other & 3 in _VISIBLE)):
            continue
        name = strings.get(offset)
        spent += _COST + len(name)
        if spent > _SHARE:
            _take(budget, spent)
            spent = 0
        if section:
            exports.add(text(name))
            continue
        version = versions[index] & _VERSION_INDEX if versions else 0
        need = needs.get(version)
        if need is None and version >= _FIRST_VERSION and not tables.own_versions:
            unbound = unbound or text(name)
        weak = binding == _STB_WEAK
        imports.add((text(name), need.version, need.library, weak) if need else (text(name), "", "", weak))
    _take(budget, spent)
    return DynamicSymbols(tuple(Import(*row) for row in sorted(imports)), tuple(sorted(exports)), unbound)


def _take(budget: Budget | None, amount: int) -> None:
    if budget is not None and not budget.take(amount):
        raise UnverifiedError("the wheel's dynamic symbols take more memory than is spent on them")


def _hash_count(data: bytes, header: Header, at: int) -> int:
    """``nchain`` of ``DT_HASH``: one chain link for each symbol."""
    wide = header.bits == 64 and header.machine in (_EM_S390, _EM_ALPHA)
    layout = struct.Struct(header.order + ("QQ" if wide else "II"))
    return unpack(layout, data, at, "the hash table")[1]


def _gnu_hash_count(data: bytes, header: Header, at: int) -> int:
    """Past the end of the last chain; a table without any symbol says the first that it would hold."""
    buckets, first, bloom, _ = unpack(struct.Struct(header.order + "4I"), data, at, "the GNU hash table")
    start = at + 16 + bloom * header.bits // 8
    if buckets > _MOST_SYMBOLS:
        raise UnverifiedError(f"the GNU hash table has {buckets} buckets, more than the {_MOST_SYMBOLS} looked at")
    check_extent(start, 4 * buckets, len(data), "the GNU hash table")
    last = max(_numbers(data, header, start, buckets, "I"), default=0)
    if last < first:
        return first
    word = struct.Struct(header.order + "I")
    chains = start + 4 * buckets
    while last < _MOST_SYMBOLS and not unpack(word, data, chains + 4 * (last - first), "a GNU hash chain")[0] & 1:
        last += 1
    return last + 1


def _highest_symbol(data: bytes, header: Header, table: Relocations) -> int:
    """The greatest symbol index of a table of relocations: the upper part of each ``r_info``."""
    width = header.bits // 8
    row = width * (3 if table.addends else 2)
    size = table.size - table.size % row
    check_extent(table.start, size, len(data), "the table of relocations")
    if size == 0:
        return 0
    # 64 bits: symbol and type are the halves of r_info; 32 bits: the symbol is all but the lowest byte.
    upper = (3 if header.order == "<" else 2) if header.bits == 64 else 1
    highest = max(_numbers(data, header, table.start, size // 4, "I")[upper :: row // 4])
    return highest if header.bits == 64 else highest >> 8


def _numbers(data: bytes, header: Header, start: int, count: int, code: Literal["H", "I"]) -> Sequence[int]:
    """``count`` numbers of 16 or 32 bits, not made into objects before they are asked for."""
    view = memoryview(data)[start : start + count * (2 if code == "H" else 4)]
    if (header.order == "<") == (sys.byteorder == "little"):
        return view.cast(code)
    swapped = array(code, view.tobytes())
    swapped.byteswap()
    return swapped
