"""The options by which commands name keys, ages and what joins evidence; shared so that they mean one thing."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import UsageError

if TYPE_CHECKING:
    from qualify.evidence import Demands
    from qualify.matrix import LoadedMatrix

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LARGEST = 16 << 20  # bytes of an observation or a device run


def add_trust_arguments(parser: argparse.ArgumentParser, *, signed: bool = False) -> None:
    """``--trust`` and ``--max-age``.

    :param signed: and ``--signed``, for commands that take unsigned evidence unless they are told.
    """
    if signed:
        parser.add_argument(
            "--signed", action="store_true", help="refuse evidence that no trusted key has signed (docs/evidence.md)"
        )
    parser.add_argument(
        "--trust",
        type=Path,
        metavar="FILE",
        help="trusted keys: a file, or a folder of them; default: WHEEL_ASSAY_TRUST, or trusted-keys.yaml beside the "
        "matrix",
    )
    parser.add_argument("--max-age", metavar="AGE", help="refuse older evidence: 90m, 12h, 30d, 8w")


def demands_of(arguments: argparse.Namespace, loaded: LoadedMatrix, *, signed: bool = False) -> Demands:
    """What :func:`add_trust_arguments` asks of evidence, at this moment.

    :param signed: refuse what no trusted key has signed.
    :raises UsageError: an age that is none.
    :raises ConfigurationError: the trusted keys are wrong.
    """
    from qualify import trust
    from qualify.evidence import Demands

    path = trust.find(arguments.trust, loaded.path)
    return Demands(
        now=datetime.now(UTC),
        trust=trust.load(path) if path is not None else None,
        signed=signed,
        max_age=age(arguments.max_age, "--max-age") if arguments.max_age else None,
    )


def age(text: str, option: str) -> timedelta:
    """A length of time: a whole number and m, h, d or w.

    :raises UsageError: it is written otherwise, or longer than a century.
    """
    match = re.fullmatch(r"([0-9]{1,7})([mhdw])", text)
    span = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else timedelta(0)
    if not timedelta(0) < span <= timedelta(days=36_525):
        raise UsageError(f"{text!r} is no length of time", where=option, expected="90m, 12h, 30d or 8w")
    return span


def joined(path: Path, sha256: str, what: str) -> Mapping[str, object]:
    """An observation or a device run, read from a file: a JSON object that says which bytes it is of.

    :param what: "an observation", for messages.
    :raises UsageError: it is none, or of other bytes.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError("no such file", where=str(path), action=f"name {what}") from error
    if len(data) > _LARGEST:
        raise UsageError(f"larger than {_LARGEST >> 20} MiB", where=str(path), expected=what)
    try:
        content = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", where=str(path), expected=what) from error
    if not isinstance(content, dict) or content.get("sha256") != sha256:
        found = content.get("sha256") if isinstance(content, dict) else "nothing"
        raise UsageError(
            f"{what} of other bytes: sha256 {str(found)[:12]}",
            where=str(path),
            expected=f"one of this wheel, sha256 {sha256[:12]}",
            action="measure, or run, the wheel itself",
        )
    return content


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
