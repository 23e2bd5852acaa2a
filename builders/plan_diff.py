"""Two plans side by side: which fields differ, and whether they make the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.plan import Plan
from qualify.errors import UsageError

MAX_BYTES = 64 << 20  # of a plan or receipt that is read
_DERIVED = frozenset({"key", "holes"})
_LABELS = ("name", "file", "lock")  # what a thing of a list is known by
_ORDER = " (order)"


@dataclass(frozen=True, slots=True)
class Change:
    """One field of which two plans say different things; None where one says nothing."""

    field: str  # "source.commit", "environment.MAX_JOBS", "externals.cutlass.commit"
    was: str | None
    now: str | None
    in_key: bool  # whether it decides bytes


def read_plan(path: Path) -> dict[str, Any]:
    """The plan in a file: what ``plan --json`` printed, or a receipt.

    :raises UsageError: it is neither.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError("too large for a plan")
        document = json.loads(path.read_text(encoding="utf-8"))
        plan: dict[str, Any] = document.get("plan", document)
        if not all(isinstance(plan[name], str) for name in ("key", "target", "engine")):
            raise ValueError("its key, target or engine is no text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"not a plan: {error}", where=str(path), expected="what `plan --json` printed, or a WHEEL.receipt.json"
        ) from error
    return plan


def changes(was: Mapping[str, Any], now: Mapping[str, Any], outside_key: frozenset[str]) -> tuple[Change, ...]:
    """Every field that differs, in the order of the fields; lists of things with a name are compared by name."""
    before, after = dict(_flat(was)), dict(_flat(now))
    fields = [*after, *(name for name in before if name not in after)]
    return tuple(
        Change(field, before.get(field), after.get(field), _top(field) not in outside_key and not _local(field))
        for field in fields
        if before.get(field) != after.get(field) and not _same_things(field, before, after)
    )


def _same_things(field: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether ``field`` is an order that says no more than what came or went."""
    if not field.endswith(_ORDER):
        return False
    return sorted(before.get(field, "").split(", ")) != sorted(after.get(field, "").split(", "))


def plan_changes(was: Mapping[str, Any], plan: Plan) -> tuple[Change, ...]:
    """What a plan of today says otherwise than one that was written down."""
    now: dict[str, Any] = json.loads(json.dumps(plan.to_json()))
    return changes(was, now, plan.outside_key())


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Field -> text; what is empty or null has no field of its own."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if name or key not in _DERIVED:
                yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        labels: list[str] = []
        for number, inner in enumerate(value):
            key = next((key for key in _LABELS if key in inner), "")
            label = str(inner.get(key, number))
            label += f" ({number})" * (label in labels)  # two of a name, from two branches of CMake, say
            labels.append(label)
            yield f"{name}.{label}", "there"
            yield from _flat({k: v for k, v in inner.items() if k != key}, f"{name}.{label}")
        yield f"{name}{_ORDER}", ", ".join(labels)
    elif isinstance(value, list | tuple):
        if value:
            yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value)


def _top(field: str) -> str:
    return field.split(".", 1)[0]


def _local(field: str) -> bool:
    """Places of one host inside fields that otherwise decide bytes."""
    of_a_source = field.startswith("externals.") and field.endswith((".copy", ".fault", ".fetched_from"))
    return of_a_source or field == "fork.behind"
