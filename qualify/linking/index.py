"""What a wheel's libraries export, kept apart from its facts: torch's own comes to hundreds of thousands of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExportIndex:
    """The exported symbols of one wheel."""

    filename: str
    sha256: str
    project: str  # normalised name
    version: str
    libraries: Mapping[str, frozenset[str]]  # soname, or file name where there is none -> mangled names
