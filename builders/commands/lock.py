"""``python -m builders lock TARGET``: resolve the environment of a build and write it down by sha256."""

from __future__ import annotations

import argparse
import json
import os
import sys

from builders.commands import add_plan_arguments, assignments
from qualify.errors import ExitCode, UsageError

HELP = "resolve a target's build requirements and lock them, each by its sha256"


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser)
    parser.add_argument("--python", default="", metavar="X.Y", help="for this Python (default: each of the target's)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.environment import environment_spec, linked_of_target
    from builders.host import network_of, work_folder
    from builders.planning import make_plan
    from builders.requirements_lock import FILE, Locked, place_of, write_requirements_lock
    from builders.requirements_resolve import glibc_of, resolve
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
    glibc = glibc_of(loaded.matrix.targets[plan.target])
    requested = (*plan.requirements, *plan.toolkit_requirements)
    toolkit = environment_spec(plan, machine, "isolated").toolkit
    resolved: dict[str, Locked] = {}
    with work_folder() as folder:
        variables = {**os.environ, **network_of(loaded.local).environment_here(os.environ, folder)}
        for python in [arguments.python] if arguments.python else plan.python:
            print(f"resolving for Python {python} on {machine}, glibc {glibc}", file=sys.stderr)
            own = resolve(requested, python, machine, glibc=glibc, environment=variables)
            linked = linked_of_target(plan, toolkit)
            others = resolve(linked, python, plan.machine, glibc=glibc, with_dependencies=False, environment=variables)
            resolved[place_of(python, machine)] = Locked(requested, own, others)
    # Written when all are there: a lock of half the Pythons would refuse the others.
    for place, entry in resolved.items():
        write_requirements_lock(loaded.path.parent, plan.target, place, entry)
    if arguments.json:
        entries = {
            place: {"distributions": list(e.distributions), "target": list(e.target)} for place, e in resolved.items()
        }
        print(json.dumps({"version": 1, "target": plan.target, "locked": entries}, indent=2))
    else:
        for place, entry in resolved.items():
            more = f" and {len(entry.target)} of {plan.machine}" if entry.target else ""
            print(f"{plan.target}, Python {place}: {len(entry.distributions)} distributions{more} in {FILE}")
    return ExitCode.OK
