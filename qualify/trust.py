"""Whose signatures count: ``trusted-keys.yaml``, or a folder of such files.

It holds public keys alone, each with the days from which and until which it counts, and whether it was revoked.  The
file is worth what its folder is worth: whoever can write it decides what is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints

from qualify.errors import ConfigurationError
from qualify.matrix.document import Problem, dotted, parse
from qualify.matrix.loader import refusal, shown_path
from qualify.matrix.model import NonEmpty, Sha256, Strict
from qualify.matrix.validate import validate

FILE_NAME = "trusted-keys.yaml"
VARIABLE = "WHEEL_ASSAY_TRUST"
TRUST_VERSION = 1
_LARGEST = 1 << 20  # bytes of one file
_MOST_FILES = 1000

Day = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class TrustedKey(Strict):
    """One public key whose signatures count."""

    id: Sha256  # of its canonical form, as securesystemslib and TUF compute it
    public: Sha256  # the 32 bytes of the Ed25519 key, in hex
    name: NonEmpty  # whose it is, for messages
    valid_from: Day  # the day's beginning, UTC
    valid_until: Day  # the day's end, UTC
    revoked: StrictBool = False  # nothing that it signed counts, whenever that says it was made
    why: str = ""  # it was revoked

    @property
    def start(self) -> datetime:
        """When it begins to count."""
        return datetime.combine(datetime.fromisoformat(self.valid_from).date(), time(), UTC)

    @property
    def end(self) -> datetime:
        """From when on it doesn't count any more."""
        return datetime.combine(datetime.fromisoformat(self.valid_until).date(), time(), UTC) + timedelta(days=1)


class TrustFile(Strict):
    """All of one file."""

    version: Literal[1] = 1  # of this form
    keys: tuple[TrustedKey, ...] = Field(default=())


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The keys that are trusted here, by id."""

    keys: Mapping[str, TrustedKey]
    path: Path  # where they stand, for messages


def keyid_of(public: str) -> str:
    """The id of an Ed25519 key: sha256 of the canonical JSON of type, scheme and value.

    :param public: 32 bytes in lower-case hex.
    """
    key = {"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}
    return hashlib.sha256(json.dumps(key, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def find(named: Path | None, matrix_path: Path | None) -> Path | None:
    """The file or folder that is named, else that of WHEEL_ASSAY_TRUST, else the file beside the matrix, else None."""
    if named is not None:
        return named
    if variable := os.environ.get(VARIABLE, ""):
        return Path(variable)
    beside = matrix_path.with_name(FILE_NAME) if matrix_path is not None else None
    return beside if beside is not None and beside.exists() else None


def load(path: Path) -> TrustedKeys:
    """The trusted keys of a file, or of every ``*.yaml`` in a folder.

    :raises ConfigurationError: there is none, one is wrong (with its lines), or two entries are of one key.
    """
    files = _files(path)
    keys: dict[str, TrustedKey] = {}
    for file in files:
        for key in _read(file).keys:
            if key.id in keys:
                what = f"key {key.id[:12]} stands in another file of the folder too"
                raise ConfigurationError(what, where=shown_path(file), action="leave one of the two entries out")
            keys[key.id] = key
    return TrustedKeys(keys, path)


def parse_file(data: bytes, where: str) -> TrustFile:
    """One file's content.

    :raises ConfigurationError: every problem stands in it with its line.
    """
    if len(data) > _LARGEST:
        raise ConfigurationError(f"larger than {_LARGEST >> 20} MiB", where=where, action="name a file of keys")
    try:
        document = parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"byte {error.start} isn't UTF-8", where=where, action="save the file as UTF-8"
        ) from error
    content, problems = validate(TrustFile, document)
    if content is not None:
        ids = [key.id for key in content.keys]
        for number, key in enumerate(content.keys):
            twice = ("id", "it stands twice", "leave one of the two entries out") if key.id in ids[:number] else None
            if wrong := twice or _wrong(key):
                at = ("keys", number, wrong[0])
                problems.append(Problem(document.line(at), dotted(at), wrong[1], wrong[2]))
    if content is None or problems:
        raise refusal(problems, where)
    return content


def entry(keyid: str, public: str, name: str, start: datetime, end: datetime) -> str:
    """The lines of one entry under ``keys:``, as they stand in a file."""
    return (
        f'  - id: "{keyid}"\n'
        f'    public: "{public}"\n'
        f"    name: {json.dumps(name)}\n"
        f'    valid_from: "{start.astimezone(UTC).date().isoformat()}"\n'
        f'    valid_until: "{end.astimezone(UTC).date().isoformat()}"\n'
        "    revoked: false\n"
    )


def with_entry(before: bytes | None, added: str, where: str) -> bytes:
    """A file's bytes with one more entry at its end; None makes a new one.  Every byte that was there stays.

    :raises ConfigurationError: what is there is no file of keys, or its last lines are none that can be added to.
    """
    if before is None:
        return f"version: {TRUST_VERSION}\nkeys:\n{added}".encode()
    known = parse_file(before, where).keys
    text = before.decode("utf-8")
    after = (text if text.endswith("\n") else text + "\n") + added
    try:
        whole = parse_file(after.encode(), where).keys
    except ConfigurationError:
        whole = ()
    if any(key.id in added for key in known):
        raise ConfigurationError("the key stands there already", where=where, action="edit its entry by hand")
    if whole[:-1] != known or len(whole) != len(known) + 1:
        raise ConfigurationError(
            "there is no place at its end for one more key",
            where=where,
            expected="a list of entries under keys: as the last thing in it, each indented by two blanks",
            action="add the entry by hand",
        )
    return after.encode()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.iterdir() if each.suffix == ".yaml" and each.is_file())
    if not files or len(files) > _MOST_FILES:
        raise ConfigurationError(
            f"{len(files)} files of trusted keys",
            where=shown_path(path),
            expected=f"*.yaml, 1 to {_MOST_FILES} of them",
            action="name another folder, or a file",
        )
    return files


def _read(path: Path) -> TrustFile:
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except FileNotFoundError as error:
        raise ConfigurationError(
            "no such file", where=shown_path(path), action="make one: qualify key new FILE --trust FILE"
        ) from error
    return parse_file(data, shown_path(path))


def _wrong(key: TrustedKey) -> tuple[str, str, str] | None:
    """What a pattern can't see: field, what is wrong, what to do."""
    if keyid_of(key.public) != key.id:
        return "id", f"it is not the id of the public key, {keyid_of(key.public)}", "take the entry from `key show`"
    if not re.fullmatch(r"[\x20-\x7e]+", key.name):
        return "name", "it is not printable ASCII", "write another name"
    for field in ("valid_from", "valid_until"):
        try:
            datetime.fromisoformat(getattr(key, field))
            _ = key.end if field == "valid_until" else key.start
        except (ValueError, OverflowError):
            return field, f'"{getattr(key, field)}" is no day', "write a day of the calendar"
    if key.start >= key.end:
        return "valid_until", f"it ends before it begins, on {key.valid_from}", "mend one of the two"
    return None
