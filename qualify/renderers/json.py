"""Reports as one JSON object: the contract of ``check --json`` (docs/schema/report.schema.json)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from qualify.report import Report
from qualify.reportjson import document


def render(reports: Sequence[Report], *, width: int, color: bool) -> str:
    """One object, indented, ASCII alone: a member's name may hold what a terminal or a pipe cannot take."""
    return json.dumps(document(reports), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
