"""Evidence: what was judged, of which bytes, by what, when.

Two values that are never mixed up:

* a :class:`Document` is a claim.  ``check --evidence`` writes one; anyone can type one, and a signature says who did.
* :class:`Evidence` is a claim that was proven here and now: the wheel hashed, read and judged again with the
  current matrix, and found to say what the document says.  Only :func:`prove` makes it, and ``record`` and
  ``publish`` take nothing else.

So a document that was typed, changed or moved beside another wheel helps nobody: what it says is compared with
what the bytes say.  What no bytes can say again (when it was made, and what a device did) rests on the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qualify import agreement, judging, opening, policies, provenance
from qualify.errors import ConfigurationError, EvidenceError, UnavailableError, UsageError
from qualify.evidencedoc import Grade, moment
from qualify.evidencejson import Document, load, path_for, targets_beside, to_json, tool_version, write
from qualify.facts import WheelFacts
from qualify.files import Digest, sha256_of
from qualify.matrix.model import Profile
from qualify.provenance import Receipt
from qualify.refusals import Reason
from qualify.report import Report, Verdict
from qualify.vouching import Demands, Voucher, grade_of, vouch

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

__all__ = [
    "Demands",
    "Document",
    "Evidence",
    "Grade",
    "Voucher",
    "from_report",
    "grade_of",
    "load",
    "path_for",
    "prove",
    "prove_each",
    "take_at_word",
    "targets_beside",
    "to_json",
    "tool_version",
    "write",
]

ReadProgress = Callable[[str, int, int], None]
Hashed = Callable[[], Digest]
ControlOf = Callable[[str], WheelFacts | None]  # of a target


class Evidence:
    """A proven claim that one wheel is qualified for one target, or let through.  :func:`prove` alone makes it."""

    __slots__ = ("_document", "_facts", "_path", "_receipt", "_report", "_voucher")
    _document: Document
    _facts: WheelFacts
    _path: Path
    _receipt: Receipt | None
    _report: Report
    _voucher: Voucher

    def __init__(
        self,
        token: object,
        document: Document,
        path: Path,
        facts: WheelFacts,
        report: Report,
        receipt: Receipt | None = None,
        voucher: Voucher | None = None,
    ) -> None:
        if token is not _PROVEN:
            raise TypeError("evidence can't be filled in by hand; qualify.evidence.prove() makes it")
        values = {"document": document, "path": path, "facts": facts, "report": report, "receipt": receipt}
        for name, value in (values | {"voucher": voucher or Voucher()}).items():
            object.__setattr__(self, f"_{name}", value)

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

    @property
    def signer(self) -> str:
        """Id of the trusted key that signed it; "" where it is unsigned, or no keys were named to look with."""
        return self._voucher.signer

    @property
    def voucher(self) -> Voucher:
        """Who vouches for it, with what a person reads."""
        return self._voucher

    @property
    def grade(self) -> Grade:
        """``device`` only where a trusted key signed for device runs that passed: no bytes say it again."""
        return grade_of(self._document, self._voucher)


_PROVEN = object()


def from_report(
    report: Report,
    facts: WheelFacts,
    loaded: LoadedMatrix,
    now: datetime,
    *,
    expires: datetime | None = None,
    observations: Sequence[Mapping[str, object]] = (),
    device_runs: Sequence[Mapping[str, object]] = (),
) -> Document:
    """The document of one report, to be written beside the wheel; unsigned.

    :param expires: from when on it doesn't hold any more; None: never by itself.
    :param observations: what ``measure --json`` printed of the wheel.
    :param device_runs: what came of running it on a device of the target's kind (docs/evidence.md).
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
        facts_sha256=agreement.facts_sha256(facts),
        report=agreement.plain(report),
        made=moment(now),
        expires=moment(expires) if expires is not None else "",
        observations=tuple(observations),
        device_runs=tuple(device_runs),
    )


def prove(
    document: Document,
    wheel: Path,
    loaded: LoadedMatrix,
    *,
    progress: ReadProgress | None = None,
    accept_overridden: bool = False,
    controls: ControlOf | None = None,
    demands: Demands | None = None,
) -> Evidence:
    """Hash, read and judge ``wheel`` again with the current matrix, and hold the result against ``document``.

    :param accept_overridden: take a wheel that only waivers let through.
    :param controls: the control that the matrix names for a target, read anew.
    :param demands: which signature, age and rank it must have; None: none is looked at, and nobody vouches for it.
    :raises UnavailableError: the matrix names a control, and it is not to be had here.
    :raises EvidenceError: anything differs, or the wheel is not qualified; each way with a reason of its own.
    :raises ConfigurationError: the matrix holds a waiver that nobody can grant.
    """
    (proven,) = prove_each(
        [document],
        wheel,
        loaded,
        progress=progress,
        accept_overridden=accept_overridden,
        controls=controls,
        demands=demands,
    )
    return proven


def prove_each(
    documents: Sequence[Document],
    wheel: Path,
    loaded: LoadedMatrix,
    *,
    progress: ReadProgress | None = None,
    accept_overridden: bool = False,
    controls: ControlOf | None = None,
    demands: Demands | None = None,
    hashed: Hashed | None = None,
) -> tuple[Evidence, ...]:
    """:func:`prove` for several targets of one wheel, which is hashed and read once; all hold, or none is given.

    :param hashed: gives the wheel's hash where somebody began to hash it earlier; reading hashes it again in any case.
    """
    policies.require_grantable(loaded)
    vouchers = _about(documents, wheel, loaded, demands, hashed)
    facts = opening.read_wheel(wheel, progress=progress)
    for document in documents:
        if facts.sha256 != document.sha256:
            raise EvidenceError(
                Reason.WHEEL_CHANGED,
                "the wheel changed while it was read",
                where=str(wheel),
                action="leave it alone, run again",
            )
    accepted = _accepted(accept_overridden)
    return tuple(
        _judged_again(document, wheel, facts, loaded, accepted, _control(document, loaded, controls), voucher)
        for document, voucher in zip(documents, vouchers, strict=True)
    )


def take_at_word(
    documents: Sequence[Document],
    wheel: Path,
    loaded: LoadedMatrix,
    demands: Demands,
    *,
    accept_overridden: bool = False,
    hashed: Hashed | None = None,
) -> tuple[Voucher, ...]:
    """Hash the wheel, and take the judgement at the word of who signed it: nothing is read or judged again.

    Bytes, matrix, receipt, checks, tables, signature and age are held against the documents.  What comes out is no
    :class:`Evidence`, and nothing can be published or recorded on it.

    :param demands: must ask for a signature.
    :param hashed: gives the wheel's hash where somebody began to hash it earlier.
    :raises UsageError: they don't.
    :raises EvidenceError: anything differs, or the wheel is not qualified; each way with a reason of its own.
    """
    if not demands.signed:
        raise UsageError("without judging again only a trusted signature counts", action="leave --accept-unsigned out")
    vouchers = _about(documents, wheel, loaded, demands, hashed)
    receipt = provenance.beside(wheel)
    for document in documents:
        where = path_for(wheel, document.target).name
        agreement.same_rules(document, where)
        agreement.same_receipt(document, receipt, where)
        _let_through(str(document.report.get("verdict")), wheel, document.target, _accepted(accept_overridden), where)
    return vouchers


def _about(
    documents: Sequence[Document],
    wheel: Path,
    loaded: LoadedMatrix,
    demands: Demands | None,
    hashed: Hashed | None,
) -> tuple[Voucher, ...]:
    """Each document meets the demands, and is about this wheel and this matrix: all that takes one hash and no more."""
    vouchers = tuple(
        vouch(document, demands, path_for(wheel, document.target).name) if demands is not None else Voucher()
        for document in documents
    )
    digest = hashed() if hashed is not None else sha256_of(wheel)
    for document in documents:
        where = path_for(wheel, document.target).name
        agreement.same_wheel(document, wheel, digest, where)
        agreement.same_matrix(document, loaded, where)
    return vouchers


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
        raise EvidenceError(Reason.CONTROL, what, where=where, expected=error.expected, action=error.action) from error
    agreement.same_control(document, facts, where)
    return facts


def _judged_again(
    document: Document,
    wheel: Path,
    facts: WheelFacts,
    loaded: LoadedMatrix,
    accepted: Collection[Verdict],
    control: WheelFacts | None,
    voucher: Voucher,
) -> Evidence:
    where = path_for(wheel, document.target).name
    context = judging.Context(
        matrix=loaded.matrix,
        target=document.target,
        profile=Profile(document.profile),
        control=control,
        receipt=agreement.same_receipt(document, provenance.beside(wheel), where),
    )
    report = judging.judge(facts, context)
    agreement.same_result(document, facts, report, where)
    _let_through(report.verdict.value, wheel, report.target, accepted, where)
    return Evidence(_PROVEN, document, wheel, facts, report, context.receipt, voucher)


def _accepted(overridden: bool) -> Collection[Verdict]:
    return (Verdict.QUALIFIED, Verdict.OVERRIDDEN) if overridden else (Verdict.QUALIFIED,)


def _let_through(verdict: str, wheel: Path, target: str, accepted: Collection[Verdict], where: str) -> None:
    if verdict in {each.value for each in accepted}:
        return
    see = f"see qualify check {wheel.name} --target {target}"
    raise EvidenceError(
        Reason.NOT_QUALIFIED,
        f"the wheel is {verdict} for {target}",
        where=where,
        expected="a qualified wheel",
        action=f"{see}; or say --accept-overridden" if verdict == Verdict.OVERRIDDEN else see,
    )
