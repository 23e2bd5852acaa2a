"""What a binary needs of the host: C and C++ libraries, as symbol versions, and the interpreter, by its suffix."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from qualify.checks.suffixes import VERSIONS, modules_of, suffix_of
from qualify.facts import Member
from qualify.floors import FAMILIES, Need, exceeds, machine_of_elf, needs, parse, rank, symbols_at
from qualify.matrix.model import Ceilings

_FIELDS = dict(zip(FAMILIES, ("glibc", "glibcxx", "cxxabi", "gcc"), strict=True))


def ceiling_of(ceilings: Ceilings | None, family: str) -> str:
    """The ceiling of a family of symbol versions; "" where none is asked."""
    value = None if ceilings is None else getattr(ceilings, _FIELDS[family])
    return value or ""


def highest_above(member: Member, family: str, ceiling: str) -> Need | None:
    """The highest need of a binary that is surely above ``ceiling``; None where none is."""
    if member.elf is None or not ceiling:
        return None
    machine, limit = machine_of_elf(member.elf), parse(ceiling)
    above = [need for need in needs(member.elf) if need.family == family and exceeds(need, limit, machine)]
    return max(above, key=lambda need: (rank(need, machine) or (), need.text), default=None)


def untold(member: Member, ceilings: Ceilings | None) -> Iterator[Need]:
    """The needs of a binary that nobody can hold against a ceiling, or that are no version of any release."""
    if member.elf is None:
        return
    machine = machine_of_elf(member.elf)
    for need in needs(member.elf):
        if need.family in FAMILIES:
            ceiling = ceiling_of(ceilings, need.family)
            if rank(need, machine) is None or (ceiling and exceeds(need, parse(ceiling), machine) is None):
                yield need


def above_ceilings(member: Member, ceilings: Ceilings | None) -> str:
    """What keeps a binary from being loaded under the target's ceilings; "" where nothing does."""
    for family in FAMILIES:
        if need := highest_above(member, family, ceiling_of(ceilings, family)):
            return need.version
    return ""


def spelled(member: Member, *found: Need, count: int = 3, width: int = 60) -> str:
    """Needs with the symbols that set them: ``GLIBC_2.34 (dlopen, pthread_create and 2 more)``."""
    texts = []
    for need in found:
        names = symbols_at(member.elf, need.version) if member.elf is not None else ()
        shown = [name if len(name) <= width else f"{name[: width - 1]}…" for name in names[:count]]
        more = f" and {len(names) - count} more" if len(names) > count else ""
        texts.append(f"{need.version} ({', '.join(shown)}{more})" if shown else need.version)
    return ", ".join(texts)


def importable(member: Member, machine: str, pythons: Collection[str]) -> bool:
    """Whether one of ``pythons`` ("3.12"; none: any CPython) on ``machine`` finds this extension by its name.

    A file that defines no module is imported by nobody: it is loaded by its path, whatever it is called.
    """
    suffix = suffix_of(member.path)
    if suffix is None or member.elf is None or not modules_of(member.elf):
        return True
    numbers = tuple((int(major), int(minor)) for major, _, minor in (each.partition(".") for each in pythons))
    return any(suffix.imported_by(version, machine) for version in numbers or VERSIONS)
