"""``qualify publish WHEEL… --to FOLDER``: put qualified wheels where pip finds them."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.commands.evidence_options import add_trust_arguments, demands_of
from qualify.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from qualify.evidence import Evidence

HELP = "put wheels into a package index, from evidence of a qualified wheel alone"

OUTPUT_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheels", type=Path, nargs="+", metavar="WHEEL")
    parser.add_argument(
        "--to", metavar="FOLDER", help="made if need be; or SHARE:FOLDER; default: folders.index of matrix.local.yaml"
    )
    parser.add_argument(
        "--target", default="", metavar="ID", help="default: every target whose evidence lies beside the wheel"
    )
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="default: as docs/matrix.md says")
    parser.add_argument(
        "--accept-profile",
        choices=["release", "upstream"],
        default="release",
        help="the least profile that the evidence must have; upstream: someone else's wheel, usable on the target",
    )
    parser.add_argument(
        "--accept-overridden", action="store_true", help="take wheels that only waivers let through; the page says so"
    )
    parser.add_argument(
        "--control", type=Path, metavar="FILE", help="where the control lies that the matrix names with its sha256"
    )
    add_trust_arguments(parser, signed=True)
    parser.add_argument("--json", action="store_true", help="print what was published as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify import matrix
    from qualify.publishers import publisher

    loaded = matrix.load(arguments.matrix)
    to = arguments.to or loaded.local.folders.index
    if not to:
        raise UsageError("nowhere to publish to", action="give --to FOLDER, or folders.index in matrix.local.yaml")
    evidences = [evidence for wheel in arguments.wheels for evidence in _proven(wheel, arguments)]
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


def _proven(wheel: Path, arguments: argparse.Namespace) -> tuple[Evidence, ...]:
    """Prove all evidence of one wheel that is asked for.

    :raises RefusedError: there is none, it proves nothing, or its profile is not enough.
    """
    from qualify import evidence, matrix
    from qualify.controls import Controls
    from qualify.errors import RefusedError

    if not wheel.is_file():
        raise UsageError("no such file", where=str(wheel), action="name a wheel")
    loaded = matrix.load(arguments.matrix)
    if arguments.target and arguments.target not in loaded.matrix.targets:
        raise UsageError(f"target {arguments.target!r} is not in the matrix", expected=", ".join(loaded.matrix.targets))
    targets = (arguments.target,) if arguments.target else evidence.targets_beside(wheel)
    if not targets:
        raise RefusedError(
            "no evidence beside the wheel",
            where=str(wheel),
            expected=evidence.path_for(wheel, "<target>").name,
            action="judge it: qualify check WHEEL --target ID --evidence",
        )
    documents = []
    for target in targets:
        path = evidence.path_for(wheel, target)
        document = evidence.load(path)
        if document.target != target:
            raise RefusedError(
                f"evidence for {document.target} under the name of {target}",
                where=path.name,
                action="put it back under its own name",
            )
        if document.profile != "release" and arguments.accept_profile != document.profile:
            raise RefusedError(
                f"judged with the profile {document.profile}",
                where=path.name,
                expected="profile release",
                action="judge it with --profile release, or say --accept-profile upstream",
            )
        documents.append(document)
    print(f"proving {wheel.name} for {', '.join(targets)} again", file=sys.stderr)
    controls = Controls(loaded, at=arguments.control).of_target
    return evidence.prove_each(
        documents,
        wheel,
        loaded,
        accept_overridden=arguments.accept_overridden,
        controls=controls,
        demands=demands_of(arguments, loaded, signed=arguments.signed),
    )


def _progress(name: str, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rcopying {name}: {done >> 20} of {total >> 20} MiB", end=end, file=sys.stderr, flush=True)
