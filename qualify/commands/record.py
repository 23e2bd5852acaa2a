"""``qualify record WHEEL --target ID``: write what was measured of a qualified wheel into the matrix."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.commands.evidence_options import add_trust_arguments, demands_of
from qualify.commands.measure import add_runner_arguments
from qualify.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from qualify.recording import Correction

_SHORTEST_REASON = 8  # characters, as of a waiver's

HELP = "measure a qualified wheel and write the values into the matrix, from its evidence alone"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument("--target", required=True, metavar="ID")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="the file that is written")
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="default: WHEEL.<target>.evidence.json")
    parser.add_argument(
        "--accept-overridden", action="store_true", help="take a wheel that only waivers let through; the entry says so"
    )
    parser.add_argument(
        "--control", type=Path, metavar="FILE", help="where the control lies that the matrix names with its sha256"
    )
    add_trust_arguments(parser, signed=True)
    add_runner_arguments(parser)
    add_correction_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print what was recorded as JSON")


def add_correction_arguments(parser: argparse.ArgumentParser) -> None:
    """What replaces a wrong measurement; the builders' command has the same."""
    parser.add_argument(
        "--correct",
        action="store_true",
        help="replace what is recorded, at the same commit; it is kept in the history beside the matrix",
    )
    parser.add_argument("--reason", default="", metavar="TEXT", help="with --correct: what was wrong")
    parser.add_argument("--by", default="", metavar="WHO", help="with --correct: who says so")


def correction_of(arguments: argparse.Namespace) -> Correction | None:
    """:raises UsageError: a correction without a reason or a name, or a reason without a correction."""
    from qualify.recording import Correction

    reason, by = arguments.reason.strip(), arguments.by.strip()
    if not arguments.correct:
        if reason or by:
            raise UsageError("--reason and --by belong to --correct", expected="--correct --reason TEXT --by WHO")
        return None
    if len(reason) < _SHORTEST_REASON or not by:
        raise UsageError(
            "a correction says why and by whom",
            where="--correct",
            expected=f"--reason TEXT of {_SHORTEST_REASON} letters or more, and --by WHO",
        )
    return Correction(reason, by)


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify import matrix, recording
    from qualify.probes.local import LocalRunner

    print(f"proving {arguments.wheel.name} for {arguments.target} again", file=sys.stderr)
    recorded = recording.record(
        arguments.wheel,
        arguments.target,
        matrix_path=arguments.matrix,
        evidence_path=arguments.evidence,
        runner=LocalRunner(arguments.python) if arguments.local else None,
        dependencies=not arguments.no_deps,
        find_links=arguments.find_links,
        accept_overridden=arguments.accept_overridden,
        control=arguments.control,
        demands=demands_of(arguments, matrix.load(arguments.matrix), signed=arguments.signed),
        correct=correction_of(arguments),
        now=datetime.now(UTC),
    )
    if arguments.json:
        print(json.dumps(recording.to_json(recorded), indent=2))
    else:
        print("\n".join(recording.lines(recorded)))
    return ExitCode.OK
