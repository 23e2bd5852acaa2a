"""``python -m builders lock TARGET``: resolve the environment of a build and write it down by sha256."""

from __future__ import annotations

import argparse
import json
import sys

from builders.commands import add_plan_arguments, assignments
from qualify.errors import ExitCode, UsageError

HELP = "resolve a target's build requirements and lock them, each by its sha256"


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser)
    parser.add_argument("--python", default="", metavar="X.Y", help="for this Python (default: each of the target's)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.planning import make_plan
    from builders.requirements_lock import resolve, write_requirements_lock
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    plan = make_plan(
        loaded,
        arguments.target,
        how=arguments.how,
        engine=arguments.engine,
        overrides=assignments(arguments.set),
        arch_list=arguments.arch_list,
        use_lock=False,
        progress=lambda message: print(message, file=sys.stderr),
    )
    if arguments.python and arguments.python not in plan.python:
        raise UsageError(
            f"{plan.target} is not for Python {arguments.python}", where="--python", expected=" or ".join(plan.python)
        )
    machine = plan.machine if plan.how != "cross" else plan.host.machine
    written = {}
    for python in [arguments.python] if arguments.python else plan.python:
        print(f"resolving for Python {python} on {machine}", file=sys.stderr)
        entry = resolve((*plan.requirements, *plan.toolkit_requirements), python, machine)
        path = write_requirements_lock(loaded.path.parent, plan.target, python, entry)
        written[python] = list(entry.distributions)
    if arguments.json:
        print(json.dumps({"version": 1, "target": plan.target, "locked": written}, indent=2))
    else:
        for python, distributions in written.items():
            print(f"{plan.target}, Python {python}: {len(distributions)} distributions in {path.name}")
    return ExitCode.OK
