"""Wheels that are one fault away from a good one, each for one check; and near misses, which are no fault.

A family of checks has a module here, named as the family's file under ``qualify/checks``.  It holds ``MUTANTS``, cases
with the code of the check that has to speak, and may hold ``NEAR_MISSES``, cases that have to pass; both are collected
from whatever modules there are.  ``making.py`` holds what several families build their wheels from.
"""

from __future__ import annotations

import importlib
import pkgutil

from tests.mutants.case import Case

_MODULES = [
    importlib.import_module(f"{__name__}.{module.name}")
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
]
MUTANTS: tuple[Case, ...] = tuple(case for module in _MODULES for case in getattr(module, "MUTANTS", ()))
NEAR_MISSES: tuple[Case, ...] = tuple(case for module in _MODULES for case in getattr(module, "NEAR_MISSES", ()))

__all__ = ["MUTANTS", "NEAR_MISSES", "Case"]
