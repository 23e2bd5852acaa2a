"""``qualify publish WHEEL… --to FOLDER``: put qualified wheels where pip finds them."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from qualify.commands.proving import add_proof_arguments, proven
from qualify.errors import ExitCode, UsageError

HELP = "put wheels into a package index, from evidence of a qualified wheel alone"

OUTPUT_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheels", type=Path, nargs="+", metavar="WHEEL")
    parser.add_argument(
        "--to", metavar="FOLDER", help="made if need be; or SHARE:FOLDER; default: folders.index of matrix.local.yaml"
    )
    add_proof_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print what was published as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify import matrix
    from qualify.publishers import publisher

    loaded = matrix.load(arguments.matrix)
    to = arguments.to or loaded.local.folders.index
    if not to:
        raise UsageError("nowhere to publish to", action="give --to FOLDER, or folders.index in matrix.local.yaml")
    evidences = [evidence for wheel in arguments.wheels for evidence in proven(wheel, arguments)]
    destination = str(loaded.place(to))
    progress = _progress if sys.stderr.isatty() else None
    published = publisher("folder").publish(evidences, destination, now=datetime.now(UTC), progress=progress)
    if arguments.json:
        rows = [
            {
                "wheel": p.filename,
                "sha256": p.sha256,
                "target": p.target,
                "verdict": p.verdict,
                "index": p.index,
                "new": p.new,
            }
            for p in published
        ]
        print(json.dumps({"version": OUTPUT_VERSION, "published": rows}, indent=2))
    else:
        for row in published:
            state = "published" if row.new else "published already, the same bytes"
            print(f"{row.filename} {row.target}: {state}{' (overridden)' if row.verdict == 'overridden' else ''}")
        for index in sorted({row.index for row in published}):
            print(f"  pip install --index-url {Path(index).as_uri()}/ …")
    return ExitCode.OK


def _progress(name: str, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rcopying {name}: {done >> 20} of {total >> 20} MiB", end=end, file=sys.stderr, flush=True)
