"""Evidence files: the claims that ``check --evidence`` writes, to the disk and back.  Nothing here proves any.

Each document has one text: a file that was cut, typed, edited or only laid out anew is refused with its own reason,
before anybody looks at what it claims.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from qualify import envelope
from qualify.envelope import Signature
from qualify.errors import EvidenceError
from qualify.evidencedoc import (
    CHECK_AGAIN,
    PREDICATE_NAME,
    PREDICATE_TYPE,
    SCHEMA_VERSION,
    STATEMENT_TYPE,
    Document,
    is_moment,
    path_for,
    statement,
    targets_beside,
    to_json,
    tool_version,
)
from qualify.files import write_atomic
from qualify.matrix.model import Profile
from qualify.refusals import Reason

__all__ = ["CHECK_AGAIN", "Document", "load", "parse", "path_for", "targets_beside", "to_json", "tool_version", "write"]

_EARLIER_SCHEMA = "wheel-assay/evidence"  # what stood in files of version 1 and 2
_TARGET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_TEXT = 1000  # characters of a name, a version, a moment
_DEEPEST = 64  # lists and objects inside each other; ours have about ten
_LARGEST_DOCUMENT = 64 << 20  # bytes; vLLM's is about 10 KiB


def write(document: Document, wheel: Path) -> Path:
    """Write ``document`` beside ``wheel``, whole or not at all, and return its path."""
    path = path_for(wheel, document.target)
    write_atomic(path, to_json(document))
    return path


def load(path: Path) -> Document:
    """Read an evidence file.  Neither what it says nor its signature is proven by this.

    :raises EvidenceError: there is none, or it is not one that this version of the tool writes.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST_DOCUMENT + 1)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise EvidenceError(Reason.MISSING, "no evidence", where=str(path), action=CHECK_AGAIN) from error
    return parse(data, str(path))


def parse(data: bytes, where: str) -> Document:
    """:func:`load` for bytes.

    :param where: the name for messages.
    """
    if len(data) > _LARGEST_DOCUMENT:
        raise _not_ours(where, f"larger than {_LARGEST_DOCUMENT} bytes", Reason.TOO_LARGE)
    content = _mapping(where, "", _values(data, where))
    signature = None
    if envelope.is_envelope(content):
        inner, signature = envelope.parts(content, where)
        content = _mapping(where, "the payload", _values(inner, where))
    document = _document(where, content, signature)
    try:
        again = statement(document)
        text = to_json(document).encode()
    except (RecursionError, ValueError) as error:
        raise _not_ours(where, f"not JSON: {error}", Reason.NOT_JSON) from error
    if again != content:
        raise _contradiction(where, content, again)
    if text != data:
        raise EvidenceError(
            Reason.NOT_CANONICAL,
            "the file is not laid out as it was written: its text was changed, though not what it says",
            where=where,
            expected="the bytes that `check --evidence` wrote",
            action=CHECK_AGAIN,
        )
    return document


_TOP = {"_type", "subject", "predicateType", "predicate"}
_PARTS = {"tool": {"name", "version"}, "matrix": {"asserted_sha256"}, "policy": {"sha256"}, "facts": {"sha256"}}
_LIFTED = {"grade", "receipt", "control", "waivers"}
_KEYS = {"made", "expires", "size", "target", "profile", "observations", "device_runs", "report", *_PARTS, *_LIFTED}


def _document(where: str, content: Mapping[str, object], signature: Signature | None) -> Document:
    _of_this_form(where, content)
    _exactly(where, "", content, _TOP)
    filename, sha256 = _subject(where, content["subject"])
    predicate = _mapping(where, "predicate", content["predicate"])
    _exactly(where, "predicate", predicate, _KEYS)
    inner = {name: _mapping(where, name, predicate[name]) for name in _PARTS}
    for name, keys in _PARTS.items():
        _exactly(where, name, inner[name], keys)
    size = predicate["size"]
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _not_ours(where, "size is no number of bytes")
    expires = predicate["expires"]
    document = Document(
        tool_version=_text(where, "tool.version", inner["tool"]["version"]),
        filename=filename,
        sha256=sha256,
        size=size,
        target=_text(where, "target", predicate["target"]),
        profile=_text(where, "profile", predicate["profile"]),
        matrix_sha256=_text(where, "matrix.asserted_sha256", inner["matrix"]["asserted_sha256"]),
        facts_sha256=_text(where, "facts.sha256", inner["facts"]["sha256"]),
        report=_mapping(where, "report", predicate["report"]),
        made=_moment(where, "made", predicate["made"]),
        expires="" if expires is None else _moment(where, "expires", expires),
        observations=_rows(where, "observations", predicate["observations"]),
        device_runs=_rows(where, "device_runs", predicate["device_runs"]),
        signature=signature,
    )
    if not _TARGET.fullmatch(document.target):
        raise _not_ours(where, f"target {document.target!r}")
    if document.profile not in set(Profile):
        raise _not_ours(where, f"profile {document.profile!r}")
    _repeats(where, document)
    _about_this_wheel(where, document)
    return document


def _of_this_form(where: str, content: Mapping[str, object]) -> None:
    """It is a statement with our predicate, in this version."""
    if content.get("schema") == _EARLIER_SCHEMA:
        version = content.get("version")
        raise EvidenceError(
            Reason.EARLIER_FORM,
            f"evidence in the earlier form, schema version {version!r}, which can't be signed",
            where=where,
            expected=f"an in-toto statement, schema version {SCHEMA_VERSION}",
            action=CHECK_AGAIN,
        )
    if content.get("_type") != STATEMENT_TYPE:
        raise _not_ours(where, f"of type {content.get('_type')!r}, no in-toto statement")
    kind = content.get("predicateType")
    if kind == PREDICATE_TYPE:
        return
    if isinstance(kind, str) and re.fullmatch(re.escape(PREDICATE_NAME) + "[0-9]{1,6}", kind):
        newer = int(kind.removeprefix(PREDICATE_NAME)) > SCHEMA_VERSION
        raise EvidenceError(
            Reason.NEWER_FORM if newer else Reason.EARLIER_FORM,
            f"schema version {kind.removeprefix(PREDICATE_NAME)}{', newer than this tool knows' if newer else ''}",
            where=where,
            expected=f"schema version {SCHEMA_VERSION}",
            action="use the version of the tool that wrote it, or " + CHECK_AGAIN,
        )
    raise EvidenceError(
        Reason.OTHER_PREDICATE,
        f"a statement of another kind: predicateType {kind!r}",
        where=where,
        expected=PREDICATE_TYPE,
        action="name an evidence file",
    )


def _subject(where: str, value: object) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 1:
        raise _not_ours(where, "not about exactly one subject")
    subject = _mapping(where, "subject", value[0])
    _exactly(where, "subject", subject, {"name", "digest"})
    digest = _mapping(where, "subject.digest", subject["digest"])
    _exactly(where, "subject.digest", digest, {"sha256"})
    sha256 = _text(where, "subject.digest.sha256", digest["sha256"])
    if not _SHA256.fullmatch(sha256):
        raise _not_ours(where, "subject.digest.sha256 is no sha256")
    return _text(where, "subject.name", subject["name"]), sha256


def _repeats(where: str, document: Document) -> None:
    """The report repeats what it is about: a document that was edited in one place contradicts itself."""
    inner = {
        "wheel": document.filename,
        "sha256": document.sha256,
        "target": document.target,
        "profile": document.profile,
    }
    for key, value in inner.items():
        if document.report.get(key) != value:
            raise EvidenceError(
                Reason.CONTRADICTION,
                f"contradicts itself: {key} is {value!r} outside the report and {document.report.get(key)!r} in it",
                where=where,
                action=CHECK_AGAIN,
            )


def _about_this_wheel(where: str, document: Document) -> None:
    """What was measured, and what ran, were these bytes; and it ran on the target's kind of device."""
    for number, row in enumerate(document.observations):
        if row.get("sha256") != document.sha256:
            raise foreign(Reason.OBSERVATION, f"observations[{number}]", row.get("sha256"), document.sha256, where)
    for number, row in enumerate(document.device_runs):
        name = f"device_runs[{number}]"
        if row.get("sha256") != document.sha256:
            raise foreign(Reason.DEVICE_RUN, name, row.get("sha256"), document.sha256, where)
        device = row.get("device")
        ran_on = device.get("compute_capability") if isinstance(device, Mapping) else None
        wanted = document.asked().get("compute_capability")
        if not isinstance(row.get("outcome"), str):
            raise _not_ours(where, f"{name} says no outcome", Reason.DEVICE_RUN)
        if row.get("target") != document.target or ran_on is None or ran_on != wanted:
            found = f"{row.get('target')}, compute capability {ran_on}"
            expected = f"{document.target}, compute capability {wanted}"
            raise foreign(Reason.DEVICE_RUN, name, found, expected, where)


def foreign(reason: Reason, name: str, found: object, expected: str, where: str) -> EvidenceError:
    """The refusal of a measurement or a run that is of something else."""
    return EvidenceError(
        reason, f"{name} is of {found}", where=where, expected=expected, action="measure, or run, the wheel itself"
    )


def _contradiction(where: str, content: Mapping[str, object], again: dict[str, Any]) -> EvidenceError:
    predicate = content["predicate"]
    found = predicate if isinstance(predicate, Mapping) else {}
    different = sorted(key for key, value in again["predicate"].items() if found.get(key) != value)
    return EvidenceError(
        Reason.CONTRADICTION,
        f"contradicts itself: {', '.join(different) or 'its head'} and the rest of it disagree",
        where=where,
        action=CHECK_AGAIN,
    )


def _values(data: bytes, where: str) -> object:
    try:
        content = json.loads(data, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _not_ours(where, f"not JSON: {error}", Reason.NOT_JSON) from error
    level: list[object] = [content]
    for _ in range(_DEEPEST):
        level = [inner for value in level if isinstance(value, (dict, list)) for inner in _inside(value)]
        if not level:
            return content
    raise _not_ours(where, f"more than {_DEEPEST} lists and objects inside each other")


def _inside(value: dict[str, object] | list[object]) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value


def _rows(where: str, name: str, value: object) -> tuple[Mapping[str, object], ...]:
    if not isinstance(value, list):
        raise _not_ours(where, f"{name} is no list")
    return tuple(_mapping(where, f"{name}[{number}]", row) for number, row in enumerate(value))


def _moment(where: str, name: str, value: object) -> str:
    text = _text(where, name, value)
    if not is_moment(text):
        raise _not_ours(where, f"{name} is no moment in UTC such as 2026-11-30T12:00:00+00:00")
    return text


def _exactly(where: str, name: str, value: Mapping[str, object], keys: set[str]) -> None:
    if set(value) != keys:
        different = ", ".join(sorted(set(value) ^ keys))
        raise _not_ours(where, f"keys missing or unknown{f' in {name}' if name else ''}: {different}")


def _mapping(where: str, name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _not_ours(where, f"{name or 'the top level'} is no object")
    return value


def _text(where: str, name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _not_ours(where, f"{name} is no text")
    if len(value) > _LONGEST_TEXT or not value.isprintable():
        raise _not_ours(where, f"{name} is no text that can be shown: {value[:100]}")
    return value


def _not_ours(where: str, why: str, reason: Reason = Reason.NOT_EVIDENCE) -> EvidenceError:
    return EvidenceError(reason, f"not an evidence document: {why}", where=where, action=CHECK_AGAIN)


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
