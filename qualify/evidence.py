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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qualify import factsjson, judging, opening
from qualify.errors import RefusedError, UsageError
from qualify.facts import WheelFacts
from qualify.files import Digest, sha256_of, write_atomic
from qualify.matrix.model import Profile
from qualify.report import Report, Verdict
from qualify.report import to_json as to_report_json

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

SCHEMA = "wheel-assay/evidence"
SCHEMA_VERSION = 1
SUFFIX = ".evidence.json"

_LARGEST_DOCUMENT = 64 << 20  # bytes; vLLM's whole report is far below one MiB
_CHECK_AGAIN = "judge the wheel again: qualify check WHEEL --target ID --evidence"

ReadProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Document:
    """An evidence file's content, not proven.  ``report`` is the whole report as plain JSON values."""

    tool_version: str
    filename: str
    sha256: str
    size: int  # bytes
    target: str
    profile: str
    matrix_sha256: str  # of everything that the matrix asserts
    facts_sha256: str  # of the facts as canonical JSON
    report: Mapping[str, object]
    made: str  # ISO 8601, UTC


class Evidence:
    """A proven claim that one wheel is qualified for one target.  It comes out of :func:`prove` alone."""

    __slots__ = ("_document", "_facts", "_path", "_report")
    _document: Document
    _facts: WheelFacts
    _path: Path
    _report: Report

    def __init__(self, token: object, document: Document, path: Path, facts: WheelFacts, report: Report) -> None:
        if token is not _PROVEN:
            raise TypeError("evidence can't be filled in by hand; qualify.evidence.prove() makes it")
        for name, value in (("_document", document), ("_path", path), ("_facts", facts), ("_report", report)):
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
        """The verdict of the proof; always qualified."""
        return self._report

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


def tool_version() -> str:
    """The installed version of this tool; "0+unknown" where it runs from a tree that isn't installed."""
    try:
        return metadata.version("wheel-assay")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def path_for(wheel: Path, target: str) -> Path:
    """Where the evidence of ``wheel`` for ``target`` lies: beside the wheel."""
    return wheel.with_name(f"{wheel.name}.{target}{SUFFIX}")


def targets_beside(wheel: Path) -> tuple[str, ...]:
    """Ids of the targets for which an evidence file lies beside ``wheel``, sorted."""
    start = f"{wheel.name}."
    names = (path.name for path in wheel.parent.iterdir()) if wheel.parent.is_dir() else ()
    found = [name[len(start) : -len(SUFFIX)] for name in names if name.startswith(start) and name.endswith(SUFFIX)]
    return tuple(sorted(target for target in found if target))


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
        report=_plain(report),
        made=now.astimezone(UTC).isoformat(timespec="seconds"),
    )


def to_json(document: Document) -> str:
    """The text of an evidence file."""
    content = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "tool": {"name": "wheel-assay", "version": document.tool_version},
        "made": document.made,
        "wheel": {"filename": document.filename, "sha256": document.sha256, "size": document.size},
        "target": document.target,
        "profile": document.profile,
        "matrix": {"asserted_sha256": document.matrix_sha256},
        "facts": {"sha256": document.facts_sha256},
        "report": document.report,
    }
    return json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def write(document: Document, wheel: Path) -> Path:
    """Write ``document`` beside ``wheel``, whole or not at all, and return its path."""
    path = path_for(wheel, document.target)
    write_atomic(path, to_json(document))
    return path


def load(path: Path) -> Document:
    """Read an evidence file.  What it says is not proven by this.

    :raises RefusedError: there is none, or it is not one that this version of the tool writes.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST_DOCUMENT + 1)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise RefusedError("no evidence", where=str(path), action=_CHECK_AGAIN) from error
    if len(data) > _LARGEST_DOCUMENT:
        raise _not_ours(path, f"larger than {_LARGEST_DOCUMENT} bytes")
    try:
        content = json.loads(data, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _not_ours(path, f"not JSON: {error}") from error
    return _document(path, content)


def prove(document: Document, wheel: Path, loaded: LoadedMatrix, *, progress: ReadProgress | None = None) -> Evidence:
    """Hash, read and judge ``wheel`` again with the current matrix, and hold the result against ``document``.

    :raises RefusedError: anything differs, or the wheel is not qualified; each way with a reason of its own.
    """
    where = path_for(wheel, document.target).name
    _same_wheel(document, wheel, sha256_of(wheel), where)
    if document.matrix_sha256 != loaded.asserted_sha256:
        raise RefusedError(
            f"judged with another matrix (asserted part {document.matrix_sha256[:12]})",
            where=where,
            expected=f"the current one, {loaded.asserted_sha256[:12]}",
            action=_CHECK_AGAIN,
        )
    if document.target not in loaded.matrix.targets:
        raise RefusedError(f"target {document.target!r} is not in the matrix", where=where, action=_CHECK_AGAIN)
    facts = opening.read_wheel(wheel, progress=progress)
    if facts.sha256 != document.sha256:
        raise RefusedError("the wheel changed while it was read", where=str(wheel), action="leave it alone, run again")
    report = _judge(facts, loaded, document.target, Profile(document.profile))
    _same_result(document, facts, report, where)
    if report.verdict is not Verdict.QUALIFIED:
        raise RefusedError(
            f"the wheel is {report.verdict} for {report.target}",
            where=where,
            expected="a qualified wheel",
            action=f"see qualify check {wheel.name} --target {report.target}",
        )
    return Evidence(_PROVEN, document, wheel, facts, report)


def _judge(facts: WheelFacts, loaded: LoadedMatrix, target: str, profile: Profile) -> Report:
    return judging.judge(facts, judging.Context(matrix=loaded.matrix, target=target, profile=profile))


def _same_wheel(document: Document, wheel: Path, digest: Digest, where: str) -> None:
    if document.sha256 != digest.sha256 or document.size != digest.size:
        what = (
            "evidence of another wheel" if document.filename != wheel.name else "the wheel's bytes are not those judged"
        )
        raise RefusedError(
            f"{what}: sha256 {document.sha256[:12]}, {document.size} bytes",
            where=where,
            expected=f"sha256 {digest.sha256[:12]}, {digest.size} bytes",
            action=_CHECK_AGAIN,
        )
    if document.filename != wheel.name:
        raise RefusedError(
            f"judged under the name {document.filename}", where=where, expected=wheel.name, action=_CHECK_AGAIN
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
            action=_CHECK_AGAIN,
        )
    if _canonical(document.report) != _canonical(again):
        differing = sorted(key for key in {*document.report, *again} if document.report.get(key) != again.get(key))
        raise RefusedError(f"judging again differs in {', '.join(differing)}{hint}", where=where, action=_CHECK_AGAIN)
    if document.facts_sha256 != _facts_sha256(facts):
        raise RefusedError(
            f"what is read from the wheel now has another digest{hint}", where=where, action=_CHECK_AGAIN
        )


def _facts_sha256(facts: WheelFacts) -> str:
    return hashlib.sha256(_canonical(factsjson.to_json(facts))).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _plain(report: Report) -> dict[str, object]:
    """The whole report as the plain values that JSON gives back."""
    plain: dict[str, object] = json.loads(_canonical({"version": report.version, **to_report_json(report)}))
    return plain


# -- reading a document ----------------------------------------------------------------------------------------


def _document(path: Path, content: object) -> Document:
    top = _mapping(path, "", content)
    if top.get("schema") != SCHEMA:
        raise _not_ours(path, f"schema {top.get('schema')!r}")
    version = top.get("version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        raise RefusedError(
            f"schema version {version!r}{', newer than this tool knows' if newer else ''}",
            where=str(path),
            expected=f"schema version {SCHEMA_VERSION}",
            action="use the version of the tool that wrote it, or " + _CHECK_AGAIN,
        )
    known = {"schema", "version", "tool", "made", "wheel", "target", "profile", "matrix", "facts", "report"}
    if set(top) != known:
        raise _not_ours(path, f"keys missing or unknown: {', '.join(sorted(set(top) ^ known))}")
    wheel = _mapping(path, "wheel", top["wheel"])
    report = _mapping(path, "report", top["report"])
    size = wheel.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _not_ours(path, "wheel.size is no number of bytes")
    document = Document(
        tool_version=_text(path, "tool.version", _mapping(path, "tool", top["tool"]).get("version")),
        filename=_text(path, "wheel.filename", wheel.get("filename")),
        sha256=_text(path, "wheel.sha256", wheel.get("sha256")),
        size=size,
        target=_text(path, "target", top["target"]),
        profile=_text(path, "profile", top["profile"]),
        matrix_sha256=_text(
            path, "matrix.asserted_sha256", _mapping(path, "matrix", top["matrix"]).get("asserted_sha256")
        ),
        facts_sha256=_text(path, "facts.sha256", _mapping(path, "facts", top["facts"]).get("sha256")),
        report=report,
        made=_text(path, "made", top["made"]),
    )
    if document.profile not in set(Profile):
        raise _not_ours(path, f"profile {document.profile!r}")
    # The report repeats what it is about: a document that was edited in one place contradicts itself.
    inner = {
        "wheel": document.filename,
        "sha256": document.sha256,
        "target": document.target,
        "profile": document.profile,
    }
    for key, value in inner.items():
        if report.get(key) != value:
            raise RefusedError(
                f"contradicts itself: {key} is {value!r} outside the report and {report.get(key)!r} in it",
                where=str(path),
                action=_CHECK_AGAIN,
            )
    return document


def _mapping(path: Path, name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _not_ours(path, f"{name or 'the top level'} is no object")
    return value


def _text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _not_ours(path, f"{name} is no text")
    return value


def _not_ours(path: Path, why: str) -> RefusedError:
    return RefusedError(f"not an evidence document: {why}", where=str(path), action=_CHECK_AGAIN)


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
