"""Who reads which field, watched while the code runs.

Each field of a watched class becomes a descriptor that notes who asks for it: the module and function that the asking
frame belongs to.  What a class's own constructor, comparison or serializer reads is no use of a value, and neither is
what a test reads; a method or property of the class itself counts for whoever called it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from pydantic import BaseModel

#: What a value does for itself, whoever its class is.
_OWN = frozenset(
    {"__init__", "__post_init__", "__eq__", "__hash__", "__repr__", "__lt__", "__getstate__", "__reduce__"}
)


def fields_of(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass or of a pydantic model, inherited ones included."""
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind))
    return tuple(kind.model_fields) if issubclass(kind, BaseModel) else ()


@dataclass
class Reads:
    """Class and field -> "module.function" of everybody who read it."""

    packages: tuple[str, ...]
    serializers: frozenset[str]  # modules, and "module.function" or "module.Class.function"
    places: dict[tuple[type, str], set[str]] = field(default_factory=dict)

    def note(self, kind: type, name: str, frame: FrameType | None) -> None:
        """One read from ``frame``."""
        while frame is not None and _of_the_class(frame, kind) and self._place(frame) not in self.serializers:
            if frame.f_code.co_name in _OWN:
                return
            frame = frame.f_back
        if frame is None:
            return
        module, place = str(frame.f_globals.get("__name__", "")), self._place(frame)
        ours = module.partition(".")[0] in self.packages
        if ours and frame.f_code.co_name not in _OWN and not {module, place} & self.serializers:
            self.places.setdefault((kind, name), set()).add(place)

    def unread(self, kinds: Collection[type]) -> list[str]:
        """``Class.field`` of every field that nobody read."""
        return [
            f"{kind.__name__}.{name}" for kind in kinds for name in fields_of(kind) if (kind, name) not in self.places
        ]

    @staticmethod
    def _place(frame: FrameType) -> str:
        qualified = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        return f"{frame.f_globals.get('__name__', '')}.{qualified.partition('.<locals>')[0]}"


def _of_the_class(frame: FrameType, kind: type) -> bool:
    """Whether a frame runs a method of the class, or a comprehension in one."""
    qualified = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return qualified.startswith(f"{kind.__name__}.") and frame.f_globals.get("__name__") == kind.__module__


class _Watched:
    """A field that notes who asks for it; it keeps its values where they were."""

    def __init__(self, reads: Reads, kind: type, name: str, slot: Any) -> None:
        self._reads, self._kind, self._name, self._slot = reads, kind, name, slot

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self if self._slot is None else self._slot
        self._reads.note(self._kind, self._name, sys._getframe(1))
        if self._slot is not None:
            return self._slot.__get__(instance, owner)
        try:
            return instance.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, instance: Any, value: Any) -> None:
        if self._slot is not None:
            self._slot.__set__(instance, value)
        else:
            instance.__dict__[self._name] = value


@contextmanager
def watched(kinds: Collection[type], packages: Collection[str], serializers: Collection[str]) -> Iterator[Reads]:
    """Note every read of a field of ``kinds`` by code of ``packages`` that is none of ``serializers``."""
    reads = Reads(tuple(packages), frozenset(serializers))
    before: list[tuple[type, str, Any, bool]] = []
    try:
        for kind in kinds:
            for name in fields_of(kind):
                own = name in vars(kind)
                slot = vars(kind).get(name)
                before.append((kind, name, slot, own))
                is_slot = own and hasattr(slot, "__set__")
                type.__setattr__(kind, name, _Watched(reads, kind, name, slot if is_slot else None))
        yield reads
    finally:
        for kind, name, slot, own in reversed(before):
            if own:
                type.__setattr__(kind, name, slot)
            else:
                type.__delattr__(kind, name)
