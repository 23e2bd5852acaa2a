"""Host ELF facts by pyelftools, as the reference that our reader is held against.

It goes by the section headers, builds an object for each symbol and trusts every count: for files that are known good.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from qualify.facts import Elf

# The last two are one number, 10, which pyelftools calls by the second name.
_EXPORTED = ("STB_GLOBAL", "STB_WEAK", "STB_GNU_UNIQUE", "STB_LOOS")


@dataclass(frozen=True)
class Host:
    """What both readers say of one file, in one form."""

    needed: tuple[str, ...]
    soname: str
    version_needs: frozenset[tuple[str, str]]
    imports: frozenset[tuple[str, str, str, bool]]
    exports: frozenset[str]
    executable_stack: bool | None  # None: there is no PT_GNU_STACK
    text_relocations: bool


def theirs(data: bytes) -> Host:
    """The facts as pyelftools gives them."""
    elf: Any = ELFFile(io.BytesIO(data))
    dynamic = next((segment for segment in elf.iter_segments() if isinstance(segment, DynamicSegment)), None)
    stack = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_GNU_STACK"]
    tags = list(dynamic.iter_tags()) if dynamic is not None else []
    needs = elf.get_section_by_name(".gnu.version_r")
    rows = [(library.name, aux) for library, auxes in needs.iter_versions() for aux in auxes] if needs else []
    bound = {aux["vna_other"]: (aux.name, library) for library, aux in rows}
    table, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
    imports: set[tuple[str, str, str, bool]] = set()
    exports: set[str] = set()
    for index, symbol in enumerate(table.iter_symbols() if table else ()):
        binding = symbol["st_info"]["bind"]
        if binding == "STB_LOCAL":
            continue
        if symbol["st_shndx"] == "SHN_UNDEF":
            number = versions.get_symbol(index).entry["ndx"] if versions else 1
            number = number & 0x7FFF if isinstance(number, int) else 1
            imports.add((symbol.name, *bound.get(number, ("", "")), binding == "STB_WEAK"))
        elif symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED") and binding in _EXPORTED:
            exports.add(symbol.name)
    flags = [tag.entry.d_val for tag in tags if tag.entry.d_tag == "DT_FLAGS"]
    return Host(
        needed=tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
        soname="".join(tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"),
        version_needs=frozenset((library, aux.name) for library, aux in rows),
        imports=frozenset(imports),
        exports=frozenset(exports),
        executable_stack=bool(stack[0]["p_flags"] & 1) if stack else None,
        text_relocations=any(tag.entry.d_tag == "DT_TEXTREL" for tag in tags) or any(flag & 4 for flag in flags),
    )


def ours(facts: Elf, *, stack_is_said: bool) -> Host:
    """The same of our facts; ``stack_is_said``: whether the file has a PT_GNU_STACK."""
    return Host(
        needed=facts.needed,
        soname=facts.soname,
        version_needs=frozenset((need.library, need.version) for need in facts.version_needs),
        imports=frozenset((each.name, each.version, each.library, each.weak) for each in facts.imports),
        exports=frozenset(facts.exports),
        executable_stack=facts.executable_stack if stack_is_said else None,
        text_relocations=facts.text_relocations,
    )
