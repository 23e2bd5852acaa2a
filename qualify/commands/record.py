"""``qualify record WHEEL --target ID``: write what was measured of a qualified wheel into the matrix."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from qualify.commands.evidence_options import add_trust_arguments, demands_of
from qualify.commands.measure import add_runner_arguments
from qualify.errors import ExitCode

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
    parser.add_argument("--json", action="store_true", help="print what was recorded as JSON")


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
        now=datetime.now(UTC),
    )
    if arguments.json:
        print(json.dumps(recording.to_json(recorded), indent=2))
    else:
        print("\n".join(recording.lines(recorded)))
    return ExitCode.OK
