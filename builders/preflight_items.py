"""One line of the preflight's list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# What the collector says; see builders/toolsearch_collector.py.
Facts = Mapping[str, Any]


class Status(StrEnum):
    """How one thing that the build needs was met with."""

    FOUND = "found"
    NOT_ON_PATH = "not on PATH"  # it is there, and the build does not look where it is
    ABSENT = "absent"
    WRONG_VERSION = "wrong version"
    NOT_LOOKED_AT = "not looked at"
    UNMET = "unmet"


@dataclass(frozen=True)
class Item:
    """One thing that the build needs.

    ``optional`` items are told and do not refuse: what the build makes for itself before it compiles.
    """

    name: str
    status: Status
    path: str = ""
    version: str = ""
    expected: str = ""
    action: str = ""
    optional: bool = False

    @property
    def refuses(self) -> bool:
        return self.status is not Status.FOUND and not self.optional

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "status": self.status.value,
            "path": self.path,
            "version": self.version,
            "expected": self.expected,
            "action": self.action,
            "refuses": self.refuses,
        }

    def render(self) -> str:
        """One line: the name, what it is like, what was expected, what to do."""
        seen = " ".join(part for part in (self.version, f"at {self.path}" if self.path else "") if part)
        parts = [f"{self.name}: {self.status.value}" + (f" ({seen})" if seen else "")]
        if self.expected and self.status is not Status.FOUND:
            parts.append(f"expected {self.expected}")
        if self.action:
            parts.append(self.action)
        return "; ".join(parts)
