"""``python -m builders prune``: remove what builds left, and what they would make again."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualify.errors import ExitCode, UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builders.engines import Engine, Kept
    from qualify.matrix import LoadedMatrix

HELP = "remove kept build folders, environments and compiler caches"
_DAY = 86_400.0
_GB = 10**9


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="the matrix (default: matrix.yaml here or above)")
    parser.add_argument("--all", action="store_true", help="environments and compiler caches too, of any age")
    parser.add_argument(
        "--older", type=_days, metavar="DAYS", help="build folders and environments made at least so long ago"
    )
    parser.add_argument("--engine", default="", metavar="ENGINE", help="docker or local (default: both)")
    parser.add_argument("--engine-host", default="", metavar="NAME", help="of matrix.local.yaml, for docker")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and remove nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.matrix import load

    if arguments.all and arguments.older is not None:
        raise UsageError("--all and --older", where="prune", expected="one of both", action="leave one out")
    rows: list[dict[str, Any]] = []
    missing: list[UnavailableError] = []
    for engine in _engines(load(arguments.matrix), arguments):
        try:
            for kept in engine.kept():
                rows += _treat(engine, kept, arguments)
        except UnavailableError as error:
            missing.append(error)
    _print(rows, missing, arguments)
    if missing and (arguments.engine or arguments.engine_host):
        return ExitCode.UNAVAILABLE
    return ExitCode.OK


def _engines(loaded: LoadedMatrix, arguments: argparse.Namespace) -> Iterator[Engine]:
    from builders.enginehosts import checked
    from builders.engines import engine_named
    from builders.engines.local import LocalEngine

    name, host = arguments.engine_host, None
    if name:
        if name not in loaded.local.engines:
            raise UsageError(
                f"no engine host {name}",
                where="--engine-host",
                expected=", ".join(loaded.local.engines) or "none named",
            )
        host = checked(name, loaded.local.engines[name])
    folder = loaded.local.folders.cache
    for wanted in [arguments.engine or "docker"] if host or arguments.engine else ["docker", "local"]:
        if wanted == "local" and host is None:
            yield LocalEngine(loaded.folder(folder) if folder else None)
        else:
            yield engine_named(wanted, host)


def _treat(engine: Engine, kept: Kept, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Remove one thing, or say why not, in one row; none where nobody asked for it."""
    age = max(0.0, time.time() - kept.since)
    wanted = (
        arguments.all
        or (kept.kind == "work" and arguments.older is None)
        or (kept.kind != "cache" and arguments.older is not None and age >= arguments.older * _DAY)
    )
    if not wanted:
        return []
    if kept.used:
        outcome = "in use"
    elif arguments.dry_run:
        outcome = "would go"
    else:
        outcome = "removed" if engine.drop(kept) else "in use"
    row = {"engine": engine.name, "kind": kept.kind, "name": kept.name, "bytes": kept.size}
    return [{**row, "days": round(age / _DAY, 1), "outcome": outcome}]


def _print(rows: list[dict[str, Any]], missing: list[UnavailableError], arguments: argparse.Namespace) -> None:
    if arguments.json:
        document = {"version": 1, "rows": rows, "not_asked": [str(error) for error in missing]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    for error in missing:
        sys.stderr.write(f"not asked: {error}\n")
    for row in rows:
        size = f"{row['bytes'] / _GB:.2f} GB" if row["bytes"] >= 0 else "size unknown"
        sys.stdout.write(f"{row['outcome']}: {row['kind']} {row['name']}, {size}, {row['days']:.1f} days old\n")
    gone = [row for row in rows if row["outcome"] in ("removed", "would go")]
    freed = sum(max(0, row["bytes"]) for row in gone) / _GB
    sys.stdout.write(f"{len(gone)} {'to go' if arguments.dry_run else 'removed'}, {freed:.2f} GB\n")


def _days(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is no number of days")
    return value
