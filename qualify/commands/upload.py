"""``qualify upload WHEEL… --to NAME``: put qualified wheels onto a server with the legacy upload API."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from qualify.commands.proving import add_proof_arguments, proven
from qualify.errors import ExitCode, UsageError

HELP = "upload wheels to an index server, from evidence of a qualified wheel alone; without --apply, say what would go"

OUTPUT_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheels", type=Path, nargs="+", metavar="WHEEL")
    parser.add_argument(
        "--to", required=True, metavar="SERVER", help="a name that twine resolves (.pypirc), or the upload address"
    )
    parser.add_argument("--index", default="", metavar="URL", help="the simple index of it; default: simple/ beside it")
    parser.add_argument(
        "--rules",
        choices=("public", "any"),
        default="",
        help="which tags and versions it takes; default: public for the servers that twine knows by name, else any",
    )
    parser.add_argument("--size-limit", type=int, default=0, metavar="MIB", help="the largest file that it takes")
    parser.add_argument("--apply", action="store_true", help="upload; without it nothing is sent")
    add_proof_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print what was uploaded as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.publishers import destination
    from qualify.publishers.upload import Uploader

    if arguments.size_limit < 0:
        raise UsageError("no size", where="--size-limit", expected="MiB, 1 or more")
    to = destination.resolve(
        arguments.to, index=arguments.index, rules=arguments.rules, size_limit=arguments.size_limit << 20
    )
    evidences = [evidence for wheel in arguments.wheels for evidence in proven(wheel, arguments)]
    with Uploader(to) as uploader:
        plan = uploader.plan(evidences)
        if arguments.apply:
            uploader.upload(plan, progress=_progress)
    rows = [
        {
            "wheel": row.candidate.filename,
            "sha256": row.candidate.sha256,
            "targets": [evidence.target for evidence in row.candidate.evidences],
            "verdict": row.candidate.evidences[0].report.verdict.value,
            "state": "there" if row.there else "uploaded" if arguments.apply else "missing",
        }
        for row in plan
    ]
    index = destination.redacted(to.index)
    if arguments.json:
        answer = {"version": OUTPUT_VERSION, "to": to.shown, "index": index, "applied": arguments.apply, "wheels": rows}
        print(json.dumps(answer, indent=2))
        return ExitCode.OK
    words = {"there": "is there already", "uploaded": "uploaded and read back", "missing": "would be uploaded"}
    for row, shown in zip(plan, rows, strict=True):
        print(f"{row.candidate.filename} {' '.join(shown['targets'])}: {words[str(shown['state'])]}")
    if arguments.apply:
        projects = sorted({f"{row.candidate.project}=={row.candidate.version}" for row in plan})
        print(f"  pip install --no-deps --index-url {index} {' '.join(projects)}")
    else:
        print("nothing was sent; say --apply")
    return ExitCode.OK


def _progress(name: str, done: int, total: int) -> None:
    if not done:
        print(f"sending {name}, {total >> 20} MiB", file=sys.stderr)
