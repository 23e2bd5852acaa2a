"""Where receipts lie, how they are written, and how a wheel is found again by its receipt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from builders.receipts.model import RECEIPT_VERSION
from qualify.files import sha256_of
from qualify.lines import lines_of
from qualify.provenance import SUFFIX
from qualify.provenance import path_for as path_for

LOG_SUFFIX = ".log"


def to_text(document: Mapping[str, Any]) -> str:
    """A receipt as it is written."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def log_for(wheel: Path) -> Path:
    return wheel.with_name(wheel.name + LOG_SUFFIX)


def tools_used(facts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Tool -> path and version line, as the collector saw the first one on PATH, where the build runs."""
    used: dict[str, dict[str, str]] = {}
    for name, found in facts.get("tools", {}).items():
        first = next(iter(found.get("on_path", ())), None)
        if first is not None:
            used[name] = {"path": first["path"], "version": _version_line(first["output"])}
    return used


def find_built(out: Path, key: str, engine: str) -> Path | None:
    """A wheel in ``out`` that a build of the same key made on the same engine, with the bytes of its receipt."""
    for path in sorted(out.glob(f"*{SUFFIX}")):
        wheel = path.with_name(path.name.removesuffix(SUFFIX))
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            same = (document["version"], document["key"], document["engine"]["name"]) == (RECEIPT_VERSION, key, engine)
            recorded = document["wheel"]["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no receipt of ours: the wheel is built again
        if same and wheel.is_file() and sha256_of(wheel).sha256 == recorded:
            return wheel
    return None


def _version_line(output: str) -> str:
    """The line of ``TOOL --version`` that states a version: nvcc's is its last but one."""
    lines: Iterable[str] = [line.strip() for line in lines_of(output) if line.strip()]
    return next((line for line in lines if "release" in line), next(iter(lines), ""))
