"""``python -m builders record WHEEL --target ID``: measure in a container and record, from evidence alone."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from builders.commands.measure import add_arguments
from qualify.errors import ExitCode

HELP = "measure a qualified wheel in a container and write the values into the matrix, from its evidence alone"


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="default: WHEEL.<target>.evidence.json")
    parser.add_argument("--json", action="store_true", help="print what was recorded as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.probing import runner_for
    from builders.progress import Console
    from qualify import measuring, recording
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
        now=datetime.now(UTC),
    )
    measured = recorded.measured.model_dump(mode="json")
    if arguments.json:
        content = {
            "version": measuring.OBSERVATION_VERSION,
            "target": recorded.target,
            "new": recorded.new,
            "measured": measured,
            "observation": measuring.to_json(recorded.observation),
        }
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
    else:
        state = "recorded" if recorded.new else "recorded already, with the same values"
        sys.stdout.write(f"{recorded.path.name}: measured.{recorded.target}: {state}\n")
        sys.stdout.writelines(f"  {name}: {value}\n" for name, value in measured.items())
    return ExitCode.OK
