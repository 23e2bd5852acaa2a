"""``python -m builders measure WHEEL --target ID``: install and import it where the target's programs run."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from qualify.errors import ExitCode

HELP = "install a wheel in a fresh container (or on this host, --engine local), import it and say what it reports"


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the observation as JSON")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``measure`` and ``record`` share."""
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument("--target", required=True, metavar="ID", help="whose machine, base image and label count")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="the matrix (default: matrix.yaml here or above)")
    parser.add_argument("--engine", default="auto", metavar="ENGINE", help="docker, local or auto")
    parser.add_argument("--no-deps", action="store_true", help="install the wheel alone")
    parser.add_argument(
        "--find-links",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="wheels of the dependencies; nothing comes from a network",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.planning import chosen_target
    from builders.probing import runner_for
    from builders.progress import Console
    from qualify import measuring
    from qualify.matrix import load
    from qualify.opening import read_wheel

    loaded = load(arguments.matrix)
    target = chosen_target(loaded, arguments.target)
    facts = read_wheel(arguments.wheel)
    observation = measuring.install(
        arguments.wheel,
        facts,
        measuring.subject_of(facts, loaded.matrix),
        runner_for(loaded, arguments.target, arguments.engine, Console(sys.stderr)),
        now=datetime.now(UTC),
        dependencies=not arguments.no_deps,
        find_links=arguments.find_links,
        machine=target.machine,
        labels=[target.label] if target.label else [],
    )
    if arguments.json:
        sys.stdout.write(json.dumps(measuring.to_json(observation), indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(measuring.lines(observation)) + "\n")
    return ExitCode.OK if observation.conclusive else ExitCode.UNVERIFIED
