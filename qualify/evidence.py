"""Evidence: what was judged, of which bytes, by what, when.

Two values that are never mixed up:

* a :class:`Document` is a claim.  ``check --evidence`` writes one; anyone can type one.
* :class:`Evidence` is a claim that was proven here and now: the wheel hashed, read and judged again with the
  current matrix, and found to say what the document says.  Only :func:`prove` makes it, and ``record`` and
  ``publish`` take nothing else.

So a document that was typed, changed or moved beside another wheel helps nobody: what it says is compared with
what the bytes say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qualify import factsjson, judging, opening, policies, provenance
from qualify.errors import ConfigurationError, RefusedError, UnavailableError, UsageError
from qualify.evidencejson import CHECK_AGAIN, Document, load, path_for, targets_beside, to_json, tool_version, write
from qualify.facts import WheelFacts
from qualify.files import Digest, sha256_of
from qualify.matrix.model import Profile
from qualify.provenance import Receipt
from qualify.report import Report, Verdict
from qualify.reportjson import to_json as to_report_json

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

__all__ = [
    "Document",
    "Evidence",
    "from_report",
    "load",
    "path_for",
    "prove",
    "prove_each",
    "targets_beside",
    "to_json",
    "tool_version",
    "write",
]

ReadProgress = Callable[[str, int, int], None]
ControlOf = Callable[[str], WheelFacts | None]  # of a target


class Evidence:
    """A proven claim that one wheel is qualified for one target, or let through.  :func:`prove` alone makes it."""

    __slots__ = ("_document", "_facts", "_path", "_receipt", "_report")
    _document: Document
    _facts: WheelFacts
    _path: Path
    _receipt: Receipt | None
    _report: Report

    def __init__(
        self,
        token: object,
        document: Document,
        path: Path,
        facts: WheelFacts,
        report: Report,
        receipt: Receipt | None = None,
    ) -> None:
        if token is not _PROVEN:
            raise TypeError("evidence can't be filled in by hand; qualify.evidence.prove() makes it")
        values = {"_document": document, "_path": path, "_facts": facts, "_report": report, "_receipt": receipt}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"evidence can't be changed: {name}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("evidence can't be copied or pickled; it is proven where it is used")

    @property
    def document(self) -> Document:
        """What was proven."""
        return self._document

    @property
    def wheel(self) -> Path:
        """The file that was hashed and judged."""
        return self._path

    @property
    def facts(self) -> WheelFacts:
        """What was read from it in the proof."""
        return self._facts

    @property
    def report(self) -> Report:
        """The verdict of the proof: qualified, or overridden where its taker accepts that."""
        return self._report

    @property
    def receipt(self) -> Receipt | None:
        """The receipt beside the wheel that it was judged with."""
        return self._receipt

    @property
    def sha256(self) -> str:
        return self._document.sha256

    @property
    def target(self) -> str:
        return self._document.target

    @property
    def profile(self) -> Profile:
        return Profile(self._document.profile)


_PROVEN = object()


def from_report(report: Report, facts: WheelFacts, loaded: LoadedMatrix, now: datetime) -> Document:
    """The document of one report, to be written beside the wheel.

    :raises UsageError: report and facts are not of the same bytes, or the target is not the matrix's.
    """
    if report.sha256 != facts.sha256:
        raise UsageError("report and facts are of different wheels", where=report.wheel)
    if report.target not in loaded.matrix.targets:
        raise UsageError(
            f"target {report.target!r} is not in the matrix",
            where=report.wheel,
            action="evidence needs a target of the matrix: give --matrix and --target",
        )
    return Document(
        tool_version=tool_version(),
        filename=facts.filename,
        sha256=facts.sha256,
        size=facts.size,
        target=report.target,
        profile=str(report.profile),
        matrix_sha256=loaded.asserted_sha256,
        facts_sha256=_facts_sha256(facts),
        report=_plain(replace(report, since=None)),  # what changed since earlier evidence is no claim about the wheel
        made=now.astimezone(UTC).isoformat(timespec="seconds"),
    )


def prove(
    document: Document,
    wheel: Path,
    loaded: LoadedMatrix,
    *,
    progress: ReadProgress | None = None,
    accept_overridden: bool = False,
    controls: ControlOf | None = None,
) -> Evidence:
    """Hash, read and judge ``wheel`` again with the current matrix, and hold the result against ``document``.

    :param accept_overridden: take a wheel that only waivers let through.
    :param controls: the control that the matrix names for a target, read anew.
    :raises UnavailableError: the matrix names a control, and it is not to be had here.
    :raises RefusedError: anything differs, or the wheel is not qualified; each way with a reason of its own.
    :raises ConfigurationError: the matrix holds a waiver that nobody can grant.
    """
    return prove_each(
        [document], wheel, loaded, progress=progress, accept_overridden=accept_overridden, controls=controls
    )[0]


def prove_each(
    documents: Sequence[Document],
    wheel: Path,
    loaded: LoadedMatrix,
    *,
    progress: ReadProgress | None = None,
    accept_overridden: bool = False,
    controls: ControlOf | None = None,
) -> tuple[Evidence, ...]:
    """:func:`prove` for several targets of one wheel, which is hashed and read once; all hold, or none is given."""
    policies.require_grantable(loaded)
    digest = sha256_of(wheel)
    for document in documents:
        where = path_for(wheel, document.target).name
        _same_wheel(document, wheel, digest, where)
        _same_matrix(document, loaded, where)
    facts = opening.read_wheel(wheel, progress=progress)
    if facts.sha256 != digest.sha256:
        raise RefusedError("the wheel changed while it was read", where=str(wheel), action="leave it alone, run again")
    accepted = (Verdict.QUALIFIED, Verdict.OVERRIDDEN) if accept_overridden else (Verdict.QUALIFIED,)
    return tuple(
        _judged_again(document, wheel, facts, loaded, accepted, _control(document, loaded, controls))
        for document in documents
    )


def _control(document: Document, loaded: LoadedMatrix, controls: ControlOf | None) -> WheelFacts | None:
    named = loaded.matrix.targets[document.target].control
    if named is None:
        return None
    if controls is None:
        raise UnavailableError(
            f"the control {named.wheel} of {document.target} is not at hand",
            where=document.filename,
            expected="the wheel that the evidence was held against",
        )
    where = path_for(Path(document.filename), document.target).name
    try:
        facts = controls(document.target)
    except ConfigurationError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        raise RefusedError(what, where=where, expected=error.expected, action=error.action) from error
    _same_control(document, facts, where)
    return facts


def _same_control(document: Document, control: WheelFacts | None, where: str) -> None:
    """What the document was held against is what is at hand; that it says so rightly is seen when judging again."""
    policy = document.report.get("policy")
    claimed = policy.get("control") if isinstance(policy, Mapping) else None
    sha256 = claimed.get("sha256") if isinstance(claimed, Mapping) else None
    if control is not None and control.sha256 != sha256:
        raise RefusedError(
            f"held against {f'a control of sha256 {str(sha256)[:12]}' if sha256 else 'no control'}",
            where=where,
            expected=f"{control.filename}, sha256 {control.sha256[:12]}",
            action=CHECK_AGAIN,
        )


def _same_receipt(document: Document, receipt: Receipt | None, where: str) -> Receipt | None:
    """The receipt that the wheel was judged with lies beside it still, with the same bytes."""
    claimed = document.report.get("receipt")
    found = receipt.sha256 if receipt is not None else ""
    if found != claimed:
        raise RefusedError(
            f"judged {f'with a receipt of sha256 {str(claimed)[:12]}' if claimed else 'without a receipt'}",
            where=where,
            expected=f"as beside the wheel: {f'a receipt of sha256 {found[:12]}' if found else 'none'}",
            action=CHECK_AGAIN,
        )
    return receipt


def _judged_again(
    document: Document,
    wheel: Path,
    facts: WheelFacts,
    loaded: LoadedMatrix,
    accepted: Collection[Verdict],
    control: WheelFacts | None,
) -> Evidence:
    where = path_for(wheel, document.target).name
    context = judging.Context(
        matrix=loaded.matrix,
        target=document.target,
        profile=Profile(document.profile),
        control=control,
        receipt=_same_receipt(document, provenance.beside(wheel), where),
    )
    report = judging.judge(facts, context)
    _same_result(document, facts, report, where)
    if report.verdict not in accepted:
        see = f"see qualify check {wheel.name} --target {report.target}"
        raise RefusedError(
            f"the wheel is {report.verdict} for {report.target}",
            where=where,
            expected="a qualified wheel",
            action=f"{see}; or say --accept-overridden" if report.verdict is Verdict.OVERRIDDEN else see,
        )
    return Evidence(_PROVEN, document, wheel, facts, report, context.receipt)


def _same_matrix(document: Document, loaded: LoadedMatrix, where: str) -> None:
    if document.matrix_sha256 != loaded.asserted_sha256:
        raise RefusedError(
            f"judged with another matrix (asserted part {document.matrix_sha256[:12]})",
            where=where,
            expected=f"the current one, {loaded.asserted_sha256[:12]}",
            action=CHECK_AGAIN,
        )
    if document.target not in loaded.matrix.targets:
        raise RefusedError(f"target {document.target!r} is not in the matrix", where=where, action=CHECK_AGAIN)


def _same_wheel(document: Document, wheel: Path, digest: Digest, where: str) -> None:
    if document.sha256 != digest.sha256 or document.size != digest.size:
        what = (
            "evidence of another wheel" if document.filename != wheel.name else "the wheel's bytes are not those judged"
        )
        raise RefusedError(
            f"{what}: sha256 {document.sha256[:12]}, {document.size} bytes",
            where=where,
            expected=f"sha256 {digest.sha256[:12]}, {digest.size} bytes",
            action=CHECK_AGAIN,
        )
    if document.filename != wheel.name:
        raise RefusedError(
            f"judged under the name {document.filename}", where=where, expected=wheel.name, action=CHECK_AGAIN
        )


def _same_result(document: Document, facts: WheelFacts, report: Report, where: str) -> None:
    """What the document says of the wheel is what the wheel says now."""
    again = _plain(report)
    this = tool_version()
    hint = f" (written by version {document.tool_version}, this is {this})" if document.tool_version != this else ""
    if document.report.get("verdict") != again["verdict"]:
        raise RefusedError(
            f"says {document.report.get('verdict')!r}, and judging again says {again['verdict']!r}{hint}",
            where=where,
            action=CHECK_AGAIN,
        )
    if _canonical(document.report) != _canonical(again):
        differing = sorted(key for key in {*document.report, *again} if document.report.get(key) != again.get(key))
        raise RefusedError(f"judging again differs in {', '.join(differing)}{hint}", where=where, action=CHECK_AGAIN)
    if document.facts_sha256 != _facts_sha256(facts):
        raise RefusedError(f"what is read from the wheel now has another digest{hint}", where=where, action=CHECK_AGAIN)


def _facts_sha256(facts: WheelFacts) -> str:
    return hashlib.sha256(_canonical(factsjson.to_json(facts))).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _plain(report: Report) -> dict[str, object]:
    """The whole report as the plain values that JSON gives back."""
    plain: dict[str, object] = json.loads(_canonical({"version": report.version, **to_report_json(report)}))
    return plain
