"""How reports are shown: one file and one line in ``RENDERERS`` each.

A renderer turns reports into the text that goes to stdout; it prints nothing itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from qualify.errors import UsageError
from qualify.report import Report


class Renderer(Protocol):
    """A module with this function."""

    def render(self, reports: Sequence[Report], *, width: int, color: bool) -> str:
        """The text of all reports.  ``width`` is in columns; a machine-readable form ignores both settings."""


#: Name -> module; imported where it is asked for, so that JSON does not wait for the table's library.
RENDERERS: Mapping[str, str] = MappingProxyType(
    {
        "text": "qualify.renderers.text",
        "json": "qualify.renderers.json",
        "junit": "qualify.renderers.junit",
    }
)


def renderer(name: str) -> Renderer:
    """:raises UsageError: there is no renderer of that name."""
    if name not in RENDERERS:
        raise UsageError(f"no renderer is called {name!r}", expected=f"one of {', '.join(RENDERERS)}")
    module: Renderer = importlib.import_module(RENDERERS[name])
    return module


__all__ = ["RENDERERS", "Renderer", "renderer"]
