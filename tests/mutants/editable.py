"""Wheels with one fault that the checks EDI are for."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.unit.judging_support import wheel

MUTANTS = (
    Case("an editable install's finder", lambda: wheel(files={"__editable___axpy_finder.py": "x = 1\n"}), "EDI001"),
    Case("a path to a source tree", lambda: wheel(files={"axpy.pth": "/home/me/src/axpy\n"}), "EDI002"),
    Case(
        "the hook of another backend's editable install",
        lambda: wheel(files={"axpy-editable.pth": "import _axpy_editable_loader\n", "_axpy_editable_loader.py": ""}),
        "EDI002",
    ),
)
