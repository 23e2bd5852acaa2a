"""``qualify measure WHEEL``: what the wheel says of itself, installed, or as far as it can be read."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from qualify.errors import ExitCode

HELP = "read (or, with --local, install and import) a wheel and say its versions, commit and build mode"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument("--target", default="", metavar="ID", help="whose machine and label to measure for")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="default: as docs/matrix.md says")
    add_runner_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the observation as JSON")


def add_runner_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where a wheel is installed; ``record`` takes the same."""
    parser.add_argument(
        "--local",
        action="store_true",
        help="install into a fresh environment on this host and import it: runs the wheel's code",
    )
    parser.add_argument("--python", default=sys.executable, metavar="EXE", help="the interpreter for --local")
    parser.add_argument("--no-deps", action="store_true", help="with --local: leave the dependencies out")
    parser.add_argument(
        "--find-links",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="with --local: a folder with the dependencies' wheels; nothing comes from a network",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify import matrix, measuring
    from qualify.errors import ConfigurationError, UsageError
    from qualify.matrix.model import Matrix
    from qualify.opening import read_wheel
    from qualify.probes.local import LocalRunner

    chosen: Matrix | None = None
    try:
        chosen = matrix.load(arguments.matrix).matrix
    except ConfigurationError:
        # Without a matrix the wheel's own layout says what to import; one that was named must be right.
        if arguments.matrix is not None or arguments.target:
            raise
    machine, labels = "", list[str]()
    if arguments.target and chosen is not None:
        if arguments.target not in chosen.targets:
            raise UsageError(f"target {arguments.target!r} is not in the matrix", expected=", ".join(chosen.targets))
        target = chosen.targets[arguments.target]
        machine, labels = target.machine, [target.label] if target.label else []
    facts = read_wheel(arguments.wheel)
    subject = measuring.subject_of(facts, chosen)
    now = datetime.now(UTC)
    if arguments.local:
        observation = measuring.install(
            arguments.wheel,
            facts,
            subject,
            LocalRunner(arguments.python),
            now=now,
            dependencies=not arguments.no_deps,
            find_links=arguments.find_links,
            machine=machine,
            labels=labels,
        )
    else:
        observation = measuring.read(facts, subject, now=now, machine=machine, labels=labels)
    if arguments.json:
        print(json.dumps(measuring.to_json(observation), indent=2))
    else:
        print("\n".join(measuring.lines(observation)))
    return ExitCode.OK if observation.conclusive else ExitCode.UNVERIFIED
