"""``python -m builders record WHEEL --target ID``: measure in a container and record, from evidence alone."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from builders.commands.measure import add_arguments
from qualify.commands.evidence_options import add_trust_arguments, demands_of
from qualify.commands.record import add_correction_arguments, correction_of
from qualify.errors import ExitCode

HELP = "measure a qualified wheel in a container and write the values into the matrix, from its evidence alone"


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="default: WHEEL.<target>.evidence.json")
    parser.add_argument(
        "--accept-overridden", action="store_true", help="take a wheel that only waivers let through; the entry says so"
    )
    add_trust_arguments(parser, signed=True)
    add_correction_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print what was recorded as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.probing import runner_for
    from builders.progress import Console
    from qualify import recording
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    recorded = recording.record(
        arguments.wheel,
        arguments.target,
        matrix_path=arguments.matrix,
        evidence_path=arguments.evidence,
        runner=runner_for(loaded, arguments.target, arguments.engine, Console(sys.stderr)),
        dependencies=not arguments.no_deps,
        find_links=arguments.find_links,
        accept_overridden=arguments.accept_overridden,
        demands=demands_of(arguments, loaded, signed=arguments.signed),
        correct=correction_of(arguments),
        now=datetime.now(UTC),
    )
    if arguments.json:
        print(json.dumps(recording.to_json(recorded), indent=2))
    else:
        print("\n".join(recording.lines(recorded)))
    return ExitCode.OK
