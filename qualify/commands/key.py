"""``qualify key new|show``: make a key that signs evidence, and say the public half that others trust."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from qualify.errors import ExitCode, UsageError

HELP = "make an Ed25519 key that signs evidence, or show a key's public half"

_DAYS = 365


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a key: a new file, mode 0600; its public half is printed")
    show = actions.add_parser("show", help="print the public half of a key as an entry for trusted-keys.yaml")
    for one in (new, show):
        one.add_argument("file", type=Path, metavar="KEY", help="the private key's file")
        one.add_argument("--name", default="", help="whose key it is, for messages; default: the file's name")
        one.add_argument("--days", type=int, default=_DAYS, metavar="N", help=f"the entry counts so long; {_DAYS}")
        one.add_argument("--trust", type=Path, metavar="FILE", help="add the entry to this file of trusted keys")
        one.add_argument("--json", action="store_true", help="print id and public key as JSON")
    new.add_argument(
        "--passphrase",
        action="store_true",
        help="protect the file: from WHEEL_ASSAY_KEY_PASSPHRASE, the keyring, or typed",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify import keys, trust

    if not 1 <= arguments.days <= 36_525:
        raise UsageError(f"{arguments.days} days", where="--days", expected="1 to 36525")
    name = arguments.name or arguments.file.name
    if not all(" " <= letter <= "~" for letter in name):
        raise UsageError("the name is not printable ASCII", where="--name", action="give another one")
    if arguments.action == "new":
        if arguments.trust is not None:
            _may_grow(arguments.trust)
        key = keys.new(arguments.file, keys.new_passphrase(arguments.file) if arguments.passphrase else None)
    else:
        key = keys.load(arguments.file)
    now = datetime.now(UTC)
    entry = trust.entry(key.keyid, key.public, name, now, now + timedelta(days=arguments.days))
    if arguments.trust is not None:
        _add(arguments.trust, entry)
        print(f"{arguments.trust}: trusts key {key.keyid[:12]} of {name}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"version": 1, "id": key.keyid, "public": key.public, "file": str(arguments.file)}, indent=2))
    else:
        if arguments.action == "new":
            print(f"private key: {arguments.file} (mode 0600; keep it, and show it to nobody)", file=sys.stderr)
        print(f"keys:\n{entry}", end="")
    return ExitCode.OK


def _may_grow(path: Path) -> None:
    """The file of trusted keys can take one more, before a key is made for it.

    :raises ConfigurationError: it can't.
    """
    from qualify import trust

    public = "00" * 32
    day = datetime(2000, 1, 1, tzinfo=UTC)
    trust.with_entry(_bytes(path), trust.entry(trust.keyid_of(public), public, "nobody", day, day), str(path))


def _add(path: Path, entry: str) -> None:
    from qualify import trust
    from qualify.files import locked, write_atomic

    with locked(path, purpose="qualify key"):
        write_atomic(path, trust.with_entry(_bytes(path), entry, str(path)))


def _bytes(path: Path) -> bytes | None:
    if path.is_dir():
        raise UsageError("this is a folder", where=str(path), expected="a file", action=f"name {path / 'NAME.yaml'}")
    return path.read_bytes() if path.exists() else None
