"""Kept tables: what the C and C++ libraries of a host export, and which torch release brought a function.

Both are data with their sources in them, made anew by ``tools/refresh_hostlibs.py`` and
``tools/refresh_torch_stable.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

Release = tuple[int, ...]


@lru_cache(maxsize=1)
def host_libraries() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Name -> the libraries that export it, each with the oldest symbol version: ``(("libm.so.6", "GLIBC_2.29"),)``.

    Libraries are those of GCC and glibc; the dynamic loader is ``ld.so``.
    """
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for library, versions in _load("hostlibs.json")["libraries"].items():
        for version, names in versions.items():
            for name in names.split(" "):
                found[name] = (*found.get(name, ()), (library, version))
    return MappingProxyType(found)


@lru_cache(maxsize=1)
def stable_functions() -> Mapping[str, str]:
    """Function of torch's stable C interface -> the release that it belongs to, ``"2.11.0"``."""
    functions = _load("torch_stable.json")["functions"]
    return MappingProxyType({name: release for release, names in functions.items() for name in names.split(" ")})


def release_of(text: str) -> Release:
    """``"2.11.0"`` -> (2, 11, 0)."""
    return tuple(int(part) for part in text.split("."))


def _load(name: str) -> Any:
    return json.loads((resources.files("qualify") / "data" / name).read_text(encoding="utf-8"))
