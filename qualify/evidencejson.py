"""Evidence files: the claims that ``check --evidence`` writes, to JSON and back.  Nothing here proves any.

A file that was cut, typed or written by a newer version is refused with its own reason, before anybody looks at
what it claims.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from qualify.errors import RefusedError
from qualify.files import write_atomic
from qualify.matrix.model import Profile

SCHEMA = "wheel-assay/evidence"
SCHEMA_VERSION = 2
SUFFIX = ".evidence.json"
CHECK_AGAIN = "judge the wheel again: qualify check WHEEL --target ID --evidence"

_TARGET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LARGEST_DOCUMENT = 64 << 20  # bytes; vLLM's is about 10 KiB


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
        raise RefusedError("no evidence", where=str(path), action=CHECK_AGAIN) from error
    if len(data) > _LARGEST_DOCUMENT:
        raise _not_ours(path, f"larger than {_LARGEST_DOCUMENT} bytes")
    try:
        content = json.loads(data, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _not_ours(path, f"not JSON: {error}") from error
    return _document(path, content)


_PARTS = {
    "tool": {"name", "version"},
    "wheel": {"filename", "sha256", "size"},
    "matrix": {"asserted_sha256"},
    "facts": {"sha256"},
}


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
            action="use the version of the tool that wrote it, or " + CHECK_AGAIN,
        )
    _exactly(path, "", top, {"schema", "version", "made", "target", "profile", "report", *_PARTS})
    parts = {name: _mapping(path, name, top[name]) for name in _PARTS}
    for name, keys in _PARTS.items():
        _exactly(path, name, parts[name], keys)
    report = _mapping(path, "report", top["report"])
    wheel = parts["wheel"]
    size = wheel.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _not_ours(path, "wheel.size is no number of bytes")
    document = Document(
        tool_version=_text(path, "tool.version", parts["tool"].get("version")),
        filename=_text(path, "wheel.filename", wheel.get("filename")),
        sha256=_text(path, "wheel.sha256", wheel.get("sha256")),
        size=size,
        target=_text(path, "target", top["target"]),
        profile=_text(path, "profile", top["profile"]),
        matrix_sha256=_text(path, "matrix.asserted_sha256", parts["matrix"].get("asserted_sha256")),
        facts_sha256=_text(path, "facts.sha256", parts["facts"].get("sha256")),
        report=report,
        made=_text(path, "made", top["made"]),
    )
    if not _TARGET.fullmatch(document.target):
        raise _not_ours(path, f"target {document.target!r}")
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
                action=CHECK_AGAIN,
            )
    return document


def _exactly(path: Path, name: str, value: Mapping[str, object], keys: set[str]) -> None:
    if set(value) != keys:
        different = ", ".join(sorted(set(value) ^ keys))
        raise _not_ours(path, f"keys missing or unknown{f' in {name}' if name else ''}: {different}")


def _mapping(path: Path, name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _not_ours(path, f"{name or 'the top level'} is no object")
    return value


def _text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _not_ours(path, f"{name} is no text")
    return value


def _not_ours(path: Path, why: str) -> RefusedError:
    return RefusedError(f"not an evidence document: {why}", where=str(path), action=CHECK_AGAIN)


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
