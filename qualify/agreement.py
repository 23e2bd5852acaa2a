"""Whether a document agrees with what is here: the wheel's bytes, the matrix, the other inputs, and the judgement.

Each function holds one thing against the document, and refuses with a reason of its own where the two differ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from qualify import factsjson, policies
from qualify.checks import CHECKS
from qualify.checks.catalogue import severities
from qualify.errors import EvidenceError
from qualify.evidencedoc import CHECK_AGAIN, Document, tool_version
from qualify.facts import WheelFacts
from qualify.files import Digest
from qualify.matrix import LoadedMatrix
from qualify.provenance import Receipt
from qualify.refusals import Reason
from qualify.report import Report
from qualify.reportjson import to_json as to_report_json

_MOST_CHANGES = 4  # of a policy that one message lists


def same_wheel(document: Document, wheel: Path, digest: Digest, where: str) -> None:
    """The document is about these bytes, under this name."""
    if document.sha256 != digest.sha256 or document.size != digest.size:
        reason, what = Reason.WHEEL_CHANGED, "the wheel's bytes are not those judged"
        if document.filename != wheel.name:
            reason, what = Reason.OTHER_WHEEL, "evidence of another wheel"
        raise EvidenceError(
            reason,
            f"{what}: sha256 {document.sha256[:12]}, {document.size} bytes",
            where=where,
            expected=f"sha256 {digest.sha256[:12]}, {digest.size} bytes",
            action="get the wheel that it is of, or " + CHECK_AGAIN,
        )
    if document.filename != wheel.name:
        raise EvidenceError(
            Reason.WHEEL_NAME,
            f"judged under the name {document.filename}",
            where=where,
            expected=wheel.name,
            action=CHECK_AGAIN,
        )


def same_matrix(document: Document, loaded: LoadedMatrix, where: str) -> None:
    """It was judged with what the matrix asserts now."""
    if document.matrix_sha256 != loaded.asserted_sha256:
        raise EvidenceError(
            Reason.OTHER_MATRIX,
            f"judged with another matrix (asserted part {document.matrix_sha256[:12]})",
            where=where,
            expected=f"the current one, {loaded.asserted_sha256[:12]}",
            action=CHECK_AGAIN,
        )
    if document.target not in loaded.matrix.targets:
        raise EvidenceError(
            Reason.UNKNOWN_TARGET, f"target {document.target!r} is not in the matrix", where=where, action=CHECK_AGAIN
        )


def same_control(document: Document, control: WheelFacts | None, where: str) -> None:
    """What the document was held against is what is at hand; that it says so rightly is seen when judging again."""
    claimed = document.asked().get("control")
    sha256 = claimed.get("sha256") if isinstance(claimed, Mapping) else None
    if control is not None and control.sha256 != sha256:
        raise EvidenceError(
            Reason.CONTROL,
            f"held against {f'a control of sha256 {str(sha256)[:12]}' if sha256 else 'no control'}",
            where=where,
            expected=f"{control.filename}, sha256 {control.sha256[:12]}",
            action=CHECK_AGAIN,
        )


def same_receipt(document: Document, receipt: Receipt | None, where: str) -> Receipt | None:
    """The receipt that the wheel was judged with lies beside it still, with the same bytes."""
    claimed = document.report.get("receipt")
    found = receipt.sha256 if receipt is not None else ""
    if found != claimed:
        raise EvidenceError(
            Reason.RECEIPT,
            f"judged {f'with a receipt of sha256 {str(claimed)[:12]}' if claimed else 'without a receipt'}",
            where=where,
            expected=f"as beside the wheel: {f'a receipt of sha256 {found[:12]}' if found else 'none'}",
            action=CHECK_AGAIN,
        )
    return receipt


def same_rules(document: Document, where: str) -> None:
    """Checks, severities and tables of data are those of this tool: as much of the policy as needs no wheel."""
    asked = document.asked()
    now = {"checks": {check.code: severities(check) for check in CHECKS}, "data": dict(policies.data_tables())}
    _same_policy(document, {key: asked.get(key) for key in now}, now, where)


def same_result(document: Document, facts: WheelFacts, report: Report, where: str) -> None:
    """What the document says of the wheel is what the wheel says now."""
    again = plain(report)
    asked = again.get("policy")
    if document.report.get("policy") != asked and document.asked() and isinstance(asked, Mapping):
        _same_policy(document, document.asked(), asked, where)
    hint = _hint(document)
    if document.report.get("verdict") != again["verdict"]:
        raise EvidenceError(
            Reason.VERDICT,
            f"says {document.report.get('verdict')!r}, and judging again says {again['verdict']!r}{hint}",
            where=where,
            action=CHECK_AGAIN,
        )
    if _canonical(document.report) != _canonical(again):
        differing = sorted(key for key in {*document.report, *again} if document.report.get(key) != again.get(key))
        raise EvidenceError(
            Reason.REPORT, f"judging again differs in {', '.join(differing)}{hint}", where=where, action=CHECK_AGAIN
        )
    if document.facts_sha256 != facts_sha256(facts):
        raise EvidenceError(
            Reason.FACTS,
            f"what is read from the wheel now has another digest{hint}",
            where=where,
            action=CHECK_AGAIN,
        )


def facts_sha256(facts: WheelFacts) -> str:
    """The digest of facts in their canonical JSON."""
    return hashlib.sha256(_canonical(factsjson.to_json(facts))).hexdigest()


def plain(report: Report) -> dict[str, object]:
    """The whole report as the plain values that JSON gives back.

    What changed since earlier evidence is no claim about the wheel, and is left out.
    """
    values = to_report_json(replace(report, since=None))
    result: dict[str, object] = json.loads(_canonical({"version": report.version, **values}))
    return result


def _same_policy(document: Document, before: Mapping[str, object], now: Mapping[str, object], where: str) -> None:
    changes = policies.changes(before, now)
    if not changes:
        return
    shown = [f"{each.field}: {each.before} then, {each.now} now" for each in changes[:_MOST_CHANGES]]
    more = f", and {len(changes) - len(shown)} more" if len(changes) > len(shown) else ""
    raise EvidenceError(
        Reason.OTHER_POLICY,
        f"judged by another policy: {'; '.join(shown)}{more}{_hint(document)}",
        where=where,
        expected="the policy of this matrix and this version of the tool",
        action=CHECK_AGAIN,
    )


def _hint(document: Document) -> str:
    this = tool_version()
    return f" (written by version {document.tool_version}, this is {this})" if document.tool_version != this else ""


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
