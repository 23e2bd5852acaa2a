"""Facts as versioned JSON, and back.

``to_json`` gives the fields of :mod:`qualify.facts` under their own names; in each member it adds ``machine`` and
``device_code``, the summary by kind and architecture that scripts read.  ``from_json`` takes the fields and leaves the
additions, so that ``from_json(to_json(facts)) == facts``.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from qualify.errors import MalformedError
from qualify.facts import FACTS_VERSION, Compression, Entry, EntryKind, Member, WheelFacts

_ADDED = frozenset({"machine", "device_code"})


@dataclass(frozen=True, slots=True)
class CodeGroup:
    """All entries of one kind and architecture in one member."""

    kind: EntryKind
    architecture: str  # "" where it could not be told
    entries: int
    kernels: int  # distinct STO_CUDA_ENTRY names, for PTX distinct `.entry` names
    text_sections: int  # distinct names of kernels and device functions with a `.text.` section
    unreadable: int  # entries whose kernels could not be read
    compressions: tuple[Compression, ...]
    isas: tuple[str, ...]  # PTX ISA versions
    toolkits: tuple[str, ...]
    stored_size: int
    size: int


def code_groups(member: Member) -> tuple[CodeGroup, ...]:
    """The device code of a member by kind and architecture, architectures in the order of their numbers."""
    gathered: dict[tuple[EntryKind, str], list[Entry]] = {}
    for container in member.containers:
        for entry in container.entries:
            gathered.setdefault((entry.kind, entry.architecture), []).append(entry)
    groups = []
    for (kind, architecture), entries in sorted(gathered.items(), key=lambda item: _order(*item[0])):
        kernels = {index for entry in entries for index in entry.kernels}
        functions = {index for entry in entries for index in entry.functions}
        groups.append(
            CodeGroup(
                kind=kind,
                architecture=architecture,
                entries=len(entries),
                kernels=len(kernels),
                text_sections=len(kernels | functions),
                unreadable=sum(not entry.readable for entry in entries),
                compressions=tuple(sorted({entry.compression for entry in entries})),
                isas=tuple(sorted({entry.isa for entry in entries if entry.isa})),
                toolkits=tuple(sorted({entry.toolkit for entry in entries if entry.toolkit})),
                stored_size=sum(entry.stored_size for entry in entries),
                size=sum(entry.size for entry in entries),
            )
        )
    return tuple(groups)


def to_json(facts: WheelFacts) -> dict[str, Any]:
    """Facts as dictionaries, lists, strings, numbers and booleans alone."""
    document: dict[str, Any] = _encode(facts)
    for member, shown in zip(facts.members, document["members"], strict=True):
        shown["machine"] = member.elf.machine if member.elf else ""
        shown["device_code"] = [_encode(group) for group in code_groups(member)]
    return document


def from_json(document: Mapping[str, Any]) -> WheelFacts:
    """The facts that ``to_json`` printed.

    :raises MalformedError: where the version is another one, or a field is missing, unknown or of another type.
    """
    version = document.get("version") if isinstance(document, Mapping) else None
    if version != FACTS_VERSION:
        raise MalformedError(f"facts of version {version!r}", expected=f"version {FACTS_VERSION}")
    facts: WheelFacts = _decode(WheelFacts, document, "facts")
    return facts


def _order(kind: EntryKind, architecture: str) -> tuple[str, int, str]:
    digits = "".join(letter for letter in architecture if letter.isdigit())
    return kind, int(digits or 0), architecture


def _encode(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _encode(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(wanted: Any, value: Any, where: str) -> Any:
    """``value`` as the type of a field: a dataclass, a tuple of one type, an optional, an enumeration or a scalar."""
    origin = typing.get_origin(wanted)
    if origin is types.UnionType:
        inner = next(item for item in typing.get_args(wanted) if item is not types.NoneType)
        return None if value is None else _decode(inner, value, where)
    if origin is tuple:
        item = typing.get_args(wanted)[0]
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        if item in (int, str):
            if any(type(each) is not item for each in value):
                raise _wrong(where, f"a list of {item.__name__}", value)
            return tuple(value)
        return tuple(_decode(item, each, f"{where}[{index}]") for index, each in enumerate(value))
    if is_dataclass(wanted) and isinstance(wanted, type):
        if not isinstance(value, Mapping):
            raise _wrong(where, "an object", value)
        hints = _hints(wanted)
        extra = value.keys() - hints.keys() - (_ADDED if wanted is Member else frozenset())
        missing = hints.keys() - value.keys()
        if extra or missing:
            named = ", ".join(sorted(map(str, extra or missing)))
            raise MalformedError(f"{'unknown' if extra else 'missing'} fields: {named}", where=where)
        return wanted(**{name: _decode(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        if not isinstance(value, str) or value not in set(wanted):
            raise _wrong(where, f"one of {', '.join(wanted)}", value)
        return wanted(value)
    if type(value) is not wanted:
        raise _wrong(where, wanted.__name__, value)
    return value


def _wrong(where: str, expected: str, value: object) -> MalformedError:
    shown = repr(value)
    return MalformedError(f"found {shown[:80]}", where=where, expected=expected)
