"""What a binary needs of the host: C and C++ libraries, as symbol versions, and the interpreter, by its suffix."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from qualify.facts import Member
from qualify.matrix.model import Ceilings

Version = tuple[int, ...]

#: Version needs of glibc that are no numbers, and the release that brought them.
_SPECIAL: Mapping[str, Version] = MappingProxyType({"GLIBC_ABI_DT_RELR": (2, 36)})


def parse(text: str) -> Version:
    """``"2.28"`` -> (2, 28)."""
    return tuple(int(part) for part in text.split("."))


def needs(member: Member, prefix: str) -> tuple[tuple[Version, str] | None, tuple[str, ...]]:
    """A binary's highest need under ``prefix`` with its spelling, and the needs that are no numbers."""
    numbers: list[tuple[Version, str]] = []
    others: list[str] = []
    for need in member.elf.version_needs if member.elf is not None else ():
        if not need.version.startswith(f"{prefix}_"):
            continue
        text = need.version.removeprefix(f"{prefix}_")
        if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})*", text):
            numbers.append((parse(text), need.version))
        elif need.version in _SPECIAL:
            numbers.append((_SPECIAL[need.version], need.version))
        else:
            others.append(need.version)
    return max(numbers, default=None), tuple(dict.fromkeys(others))


def above(member: Member, prefix: str, ceiling: str) -> str:
    """The need of a binary that is above ``ceiling``; "" where none is."""
    highest, _ = needs(member, prefix)
    return highest[1] if highest is not None and highest[0] > parse(ceiling) else ""


def above_ceilings(member: Member, ceilings: Ceilings | None) -> str:
    """What keeps a binary from being loaded under the target's ceilings; "" where nothing does."""
    if ceilings is None:
        return ""
    return above(member, "GLIBC", ceilings.glibc) or above(member, "GLIBCXX", ceilings.glibcxx)


_SUFFIX = re.compile(
    r"\.(?P<name>cpython|pypy|graalpy)-?(?P<major>[0-9])(?P<minor>[0-9]*)(?P<flags>[a-z]*)(-(?P<host>[^./]+))?\.so"
)


def importable(member: Member, machine: str, pythons: Collection[str]) -> bool:
    """Whether one of ``pythons`` ("3.12"; none: any CPython) on ``machine`` finds this extension by its name.

    A file that defines no ``PyInit_*`` is imported by nobody: it is loaded by its path, whatever it is called.
    """
    match = _SUFFIX.search(member.path)
    if match is None or member.elf is None or not member.elf.python_inits:
        return True
    if match["name"] != "cpython" or (match["host"] and match["host"] != f"{machine}-linux-gnu"):
        return False
    return not pythons or (not match["flags"] and f"{match['major']}.{match['minor']}" in pythons)
