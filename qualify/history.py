"""What was changed in a pin and why: one line of JSON for each, beside the matrix, and none is ever changed or removed.

``matrix.yaml`` has ``matrix.history.jsonl``.  The whole file is written anew with one line more, by a rename, so that
no kill leaves half a line; lines end at line feeds alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from qualify import identity
from qualify.errors import ConfigurationError, UnavailableError
from qualify.files import write_atomic

HISTORY_VERSION = 1
MAX_SIZE = 64 << 20  # bytes

CORRECTED = "corrected"
ADVANCED = "advanced"
ROLLED_BACK = "rolled back"
# What moves a pin from one commit to another; ``commit`` stands in ``before`` and in ``after`` of such an entry.
MOVES = (ADVANCED, ROLLED_BACK)


@dataclass(frozen=True, slots=True)
class Entry:
    """One change.  ``before`` and ``after`` hold what was changed, as JSON values."""

    when: str  # ISO 8601, UTC
    what: str  # "corrected", "advanced", "rolled back"
    target: str  # "" where it is about the pin itself
    by: str
    reason: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    report: str = ""  # of a sync cycle: its path, relative to the matrix


_KEYS = frozenset(field.name for field in fields(Entry))


def path_for(matrix: Path) -> Path:
    return matrix.with_name(f"{matrix.stem}.history.jsonl")


def read(matrix: Path) -> tuple[Entry, ...]:
    """The history of a matrix, the oldest first; () where there is none.

    :raises ConfigurationError: a line is none of ours; with its number.
    :raises UnavailableError: it can't be read.
    """
    return tuple(_entry(line, matrix, number) for number, line in enumerate(_lines(path_for(matrix)), 1))


def append(matrix: Path, entry: Entry) -> Path:
    """Write one line more; the caller holds the matrix's lock.

    The same change once more as the last line (a command that was killed between the two files, and run again) is not
    written twice.

    :raises ConfigurationError: the history can't be understood, and nothing is added to what nobody can read.
    """
    path = path_for(matrix)
    known = read(matrix)
    if known and _change(known[-1]) == _change(entry):
        return path
    lines = [*_lines(path), json.dumps({"version": HISTORY_VERSION, **asdict(entry)}, ensure_ascii=True).encode()]
    write_atomic(path, b"".join(line + b"\n" for line in lines))
    return path


def moved(entries: Iterable[Entry], commit: str, now: str) -> bool:
    """Whether the recorded moves lead from ``commit`` to ``now``: what stands at the first is behind, and not wrong."""
    position = commit
    for entry in entries:
        before, after = entry.before.get("commit"), entry.after.get("commit")
        if entry.what in MOVES and isinstance(before, str) and isinstance(after, str):
            position = after if _same(before, position) else position
    return not _same(commit, now) and _same(position, now)


def _same(a: str, b: str) -> bool:
    return identity.commit_match(a, b) is identity.CommitMatch.SAME


def _change(entry: Entry) -> dict[str, Any]:
    """What an entry says but for the time."""
    return {name: value for name, value in asdict(entry).items() if name != "when"}


def _lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SIZE + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnavailableError(error.strerror or str(error), where=str(path)) from error
    if len(data) > MAX_SIZE:
        raise ConfigurationError(f"is larger than {MAX_SIZE >> 20} MiB", where=str(path), expected="a history")
    if data and not data.endswith(b"\n"):
        raise ConfigurationError("the last line has no end", where=str(path), action="put the whole line back")
    return data.split(b"\n")[:-1]


def _entry(line: bytes, matrix: Path, number: int) -> Entry:
    where = f"{path_for(matrix).name}:{number}"
    try:
        value = json.loads(line)
        version = value.pop("version")
        if version != HISTORY_VERSION or isinstance(version, bool):
            raise ValueError(f"version {version!r}, and this tool reads {HISTORY_VERSION}")
        if not _KEYS - {"report"} <= value.keys() <= _KEYS:
            raise ValueError("keys are missing or unknown")
        texts = [value.get(name, "") for name in ("when", "what", "target", "by", "reason", "report")]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a text is none")
        if not isinstance(value["before"], dict) or not isinstance(value["after"], dict):
            raise ValueError("before and after are no objects")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ConfigurationError(
            f"no entry of a history: {error}", where=where, action="put back what was written; lines are only added"
        ) from error
    return Entry(**value)
