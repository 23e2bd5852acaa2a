"""The commands of ``python -m builders``, one module each, and the arguments that those share which plan a build."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from qualify.errors import UsageError

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def add_plan_arguments(parser: argparse.ArgumentParser, *, target_required: bool = True) -> None:
    """What decides a plan: target, matrix, engine, how, arch list and variables."""
    parser.add_argument(
        "target", metavar="TARGET", nargs=None if target_required else "?", help="a target of the matrix"
    )
    parser.add_argument("--matrix", type=Path, help="the matrix file (default: WHEEL_ASSAY_MATRIX, else the nearest)")
    parser.add_argument("--engine", choices=("docker", "local", "auto"), default="", help="default: the target's own")
    parser.add_argument("--how", choices=("native", "cross", "emulate"), default=None, help="default: the target's own")
    parser.add_argument("--arch-list", default="", metavar="LIST", help="instead of the target's own")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the build's environment"
    )


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping; of a name that is given twice the last counts.

    :raises UsageError: one is no assignment.
    """
    found = {}
    for text in texts:
        match = _ASSIGNMENT.fullmatch(text)
        if not match:
            raise UsageError(f"{text!r} sets nothing", expected="NAME=VALUE")
        found[match[1]] = match[2]
    return found
