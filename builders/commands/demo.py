"""``python -m builders demo``: the whole line on the example."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from qualify.errors import ExitCode

HELP = "walk the whole line on the example: build, qualify, measure, record, publish, install, and three broken wheels"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", type=Path, default=Path("out/demo"), metavar="DIR", help="default: out/demo")
    parser.add_argument("--engine", default="auto", choices=["auto", "docker", "local"], help="default: auto")
    parser.add_argument("--target", default="", help="default: the first target of this machine")
    parser.add_argument("--example", type=Path, default=None, metavar="DIR", help="default: examples/axpy")
    parser.add_argument("--resume", action="store_true", help="take the wheels that an earlier run built in --work")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.demo import EXAMPLE, Options, demo

    options = Options(
        example=arguments.example or EXAMPLE,
        work=arguments.work,
        engine=arguments.engine,
        target=arguments.target,
        resume=arguments.resume,
    )
    demo(options, _say)
    return ExitCode.OK


def _say(text: str) -> None:
    # Flushed, so that it stands before what the command that it announces prints.
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
