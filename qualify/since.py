"""What is asked otherwise than when the last evidence of the same bytes was made.

A verdict under other bounds or expectations is another verdict, though it may read the same: the report says so.
Evidence of other bytes, or that says nothing that this tool can read, is no base for that, and the report says that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qualify import policies
from qualify.errors import MalformedError, RefusedError
from qualify.evidencejson import Document, load, path_for, tool_version
from qualify.report import PolicyChange, Report, Since
from qualify.reportjson import from_json


def beside(report: Report, wheel: Path) -> Since | None:
    """The report held against the evidence that lies beside the wheel; None where there is none."""
    path = path_for(wheel, report.target)
    if not path.is_file():
        return None
    try:
        document = load(path)
    except RefusedError as error:
        return Since(path.name, "", "", error.what, ())
    return against(report, document, path.name)


def chosen(report: Report, given: Sequence[tuple[str, Document]]) -> Since:
    """The report held against that of the given evidence which fits it best: same bytes, then same target.

    :param given: file name and content of each, at least one.
    """

    def fit(row: tuple[str, Document]) -> int:
        document = row[1]
        return 2 * (document.target == report.target) + (document.sha256 == report.sha256)

    name, document = max(given, key=fit)
    return against(report, document, name)


def against(report: Report, document: Document, name: str) -> Since:
    """The report held against one document of earlier evidence."""
    verdict = str(document.report.get("verdict", ""))
    reason = ""
    if document.sha256 != report.sha256:
        reason = f"it is of other bytes, sha256 {document.sha256[:12]}"
    elif document.target != report.target:
        reason = f"it is for {document.target}"
    elif report.policy is None:
        reason = "nothing could be judged this time"
    if reason:
        return Since(name, document.made, verdict, reason, ())
    try:
        inner = {key: value for key, value in document.report.items() if key != "version"}
        earlier = from_json(inner, int(str(document.report.get("version"))))
    except (MalformedError, ValueError) as error:
        return Since(name, document.made, verdict, str(error), ())
    if earlier.policy is None or report.policy is None:
        return Since(name, document.made, verdict, "it says nothing of what was asked", ())
    changes = policies.changes(earlier.policy, report.policy)
    if document.tool_version != tool_version():
        changes = (PolicyChange("tool", document.tool_version, tool_version()), *changes)
    return Since(name, document.made, verdict, "", changes)
