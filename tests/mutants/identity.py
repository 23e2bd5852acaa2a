"""Wheels with one fault that the checks IDN are for."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.unit.judging_support import wheel

MUTANTS = (
    Case("another commit", lambda: wheel(commit="g" + "f" * 40), "IDN001"),
    Case("no commit", lambda: wheel(commit=None), "IDN002"),
    Case("no commit, and another version", lambda: wheel(version="0.2.0", commit=None), "IDN003"),
    Case("the pinned commit under another version", lambda: wheel(version="0.1.1"), "IDN004"),
    Case("foreign binaries, by its own word", lambda: wheel(version="0.1.0+precompiled"), "IDN005"),
    Case("a changed tree", lambda: wheel(version="0.1.0+d20260904"), "IDN006"),
    Case("a mark that nothing explains", lambda: wheel(version="0.1.0+thor"), "IDN007"),
)
