"""CPython's stable ABI: which symbols are in it, since which version, and what a binary takes of it.

The list is data: ``qualify/data/abi3.json``, written by ``tools/refresh_abi3.py`` from abi3info, which is CPython's own
``Misc/stable_abi.toml``.  Rules: PEP 384 and PEP 652 (what is in the stable ABI of 3.x stays in it), PEP 803
(``abi3t``, the stable ABI of free-threaded builds, from 3.15 on).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from qualify.errors import MalformedError
from qualify.facts import Elf

Minor = tuple[int, int]  # (3, 11)

_DATA = Path(__file__).with_name("data") / "abi3.json"

#: Conditions of symbols that release builds of CPython on Linux meet.  The others (MS_WINDOWS, USE_STACKCHECK, which is
#: Windows as well, Py_REF_DEBUG, a debug build) name symbols that such an interpreter does not have.
_ON_LINUX = frozenset({"", "HAVE_FORK", "PY_HAVE_THREAD_NATIVE_ID"})


@dataclass(frozen=True, slots=True)
class StableAbi:
    """The list, as a release build of CPython on Linux has it."""

    source: str  # version of abi3info
    added: Mapping[str, Minor]  # symbol -> first version
    elsewhere: Mapping[str, str]  # symbol that such a build does not have -> the condition under which one has it
    newest: Minor  # the last version that the list knows something of


def minor(text: str) -> Minor:
    """``"3.11"`` -> (3, 11).

    :raises MalformedError: for anything but two plain numbers.
    """
    major, dot, rest = text.partition(".")
    if not (dot and major.isascii() and major.isdigit() and rest.isascii() and rest.isdigit() and len(text) < 12):
        raise MalformedError(f"{text!r} is no version of Python", expected='major.minor, as in "3.11"')
    return int(major), int(rest)


def parse(text: str) -> StableAbi:
    """The list from its JSON text.

    :raises MalformedError: where it is none.
    """
    try:
        document = json.loads(text)
        rows = {name: (minor(added), condition) for name, (added, _, condition) in document["symbols"].items()}
        source = document["abi3info"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedError(f"no list of the stable ABI: {error}", action="run tools/refresh_abi3.py") from error
    if not rows or not isinstance(source, str):
        raise MalformedError("a list of the stable ABI without symbols", action="run tools/refresh_abi3.py")
    return StableAbi(
        source,
        MappingProxyType({name: added for name, (added, condition) in rows.items() if condition in _ON_LINUX}),
        MappingProxyType({name: condition for name, (_, condition) in rows.items() if condition not in _ON_LINUX}),
        max(added for added, _ in rows.values()),
    )


@cache
def stable_abi() -> StableAbi:
    """The list that comes with this tool."""
    return parse(_DATA.read_text(encoding="utf-8"))


_MODULES = ("PyInit_", "PyInitU_", "PyModExport_", "PyModExportU_")  # PEP 489 and PEP 793


def is_interpreters(name: str) -> bool:
    """Whether a symbol has a name that CPython keeps for its own, and is no extension's entry point."""
    if not name.startswith(("Py", "_Py")):
        return False
    rest = name[2:] if name[0] == "P" else name[3:]
    return (rest[:1].isupper() or rest[:1] == "_") and not name.startswith(_MODULES)


@dataclass(frozen=True, slots=True)
class Use:
    """What one binary takes of the interpreter, of symbols that it does not load without."""

    needs: Mapping[str, Minor]  # symbol of the stable ABI -> its first version
    outside: tuple[str, ...]  # symbols of the interpreter that are not in it; sorted

    @property
    def lowest(self) -> Minor:
        """The first version that has every needed symbol of the stable ABI; (3, 2), the first with one, without any."""
        return max(self.needs.values(), default=(3, 2))

    def above(self, floor: Minor) -> dict[str, Minor]:
        """Needed symbols that are newer than ``floor``, the newest first."""
        late = ((name, added) for name, added in self.needs.items() if added > floor)
        return dict(sorted(late, key=lambda each: (tuple(-part for part in each[1]), each[0])))


def use_of(elf: Elf, own: Iterable[str] = ()) -> Use:
    """The undefined symbols of ``elf`` that libpython provides.

    Those are the names that CPython keeps for itself: ``Py`` and ``_Py`` before a capital or ``_``.  Left aside are
    weak ones, without which the file loads all the same, ``PyInit_`` and ``PyModExport_``, which are names of modules,
    and what ``own`` defines: the names that files of the wheel export.
    """
    listed = stable_abi().added
    needs: dict[str, Minor] = {}
    outside: set[str] = set()
    defined = frozenset(own)
    for each in elf.imports:
        name = each.name
        if not is_interpreters(name) or each.weak or each.version or name in defined:
            continue
        if name in listed:
            needs[name] = listed[name]
        else:
            outside.add(name)
    return Use(MappingProxyType(needs), tuple(sorted(outside)))
