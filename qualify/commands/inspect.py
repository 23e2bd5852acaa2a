"""``qualify inspect``: what a wheel holds, without any judgement."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from qualify.errors import ExitCode
from qualify.facts import Depth, ProblemKind
from qualify.factsjson import to_json
from qualify.lines import lines_of
from qualify.opening import read_wheel

HELP = "show what a wheel holds: its compiled members, their device code and kernels"
_TEXT_WIDTH = 120


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=Path, help="path of a .whl file")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON")
    parser.add_argument(
        "--depth",
        choices=[str(depth) for depth in Depth],
        default=str(Depth.KERNELS),
        help="headers: every member, and of device code the headers alone; kernels (default): every payload as well",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the facts; 1 where a part of the wheel is malformed, 3 where one could not be read, else 0."""
    progress = _progress if sys.stderr.isatty() else None
    facts = read_wheel(arguments.wheel, depth=Depth(arguments.depth), progress=progress)
    if arguments.json:
        # Without indentation the encoder written in C does the work: the facts of a big wheel are megabytes.
        sys.stdout.write(json.dumps(to_json(facts)) + "\n")
    else:
        from rich.console import Console

        from qualify.renderers.facts import page

        console = Console(width=None if sys.stdout.isatty() else _TEXT_WIDTH, highlight=False, emoji=False)
        with console.capture() as shown:
            console.print(page(facts))
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines_of(shown.get())))
    for problem in facts.problems:
        place = ": ".join(part for part in (problem.member, problem.where) if part)
        print(f"{problem.kind}: {place}: {problem.detail}", file=sys.stderr)
    return ExitCode.worst([_CODES[problem.kind] for problem in facts.problems])


_CODES = {
    ProblemKind.MALFORMED: ExitCode.REJECTED,
    ProblemKind.UNREADABLE: ExitCode.UNVERIFIED,
    ProblemKind.ENVIRONMENT: ExitCode.UNAVAILABLE,
}


def _progress(path: str, done: int, total: int) -> None:
    end = "\n" if done >= total else ""
    print(f"\r\x1b[Kreading {100 * done // total:3d} % {path[-60:]}", end=end, file=sys.stderr, flush=True)
