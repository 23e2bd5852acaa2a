"""``python -m builders plan TARGET``: everything that decides the bytes, and what is missing; nothing is compiled."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from builders.commands import add_plan_arguments, assignments
from qualify.errors import ExitCode

if TYPE_CHECKING:
    from builders.plan import Plan

HELP = "print what a build of a target would be made of, and its holes"


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.plan import make_plan
    from qualify.matrix import load

    plan = make_plan(
        load(arguments.matrix),
        arguments.target,
        how=arguments.how,
        engine=arguments.engine,
        overrides=assignments(arguments.set),
        arch_list=arguments.arch_list,
        progress=lambda message: print(message, file=sys.stderr),
    )
    if arguments.json:
        print(json.dumps(plan.to_json(), indent=2))
    else:
        print("\n".join(lines(plan)))
    return ExitCode.OK


def lines(plan: Plan) -> list[str]:
    """The plan as people read it."""
    source = plan.source
    said = [
        f"plan {plan.key()[:16]} for {plan.target}: {plan.project} {source.version or 'of unknown version'}",
        f"  source     {source.kind} {source.origin}, commit {source.commit or 'not stated'}"
        + (f" (from {source.commit_from})" if source.commit_from else ""),
        f"  machine    {plan.machine}, {plan.how}, engine {plan.engine}, Python {' '.join(plan.python)}",
        f"  base       {plan.base.image or plan.base.bootstrap or 'this host'}",
        f"  toolkit    {plan.toolkit.requirement if plan.toolkit else 'none'}",
        f"  torch      {plan.torch or 'none'}" + (", with CUDA" if plan.torch_cuda else ""),
        f"  arch list  {plan.arch_variable}={plan.arch_list}" if plan.expects_device_code else "  arch list  none",
        f"  jobs       {plan.jobs} ({plan.host.cores} cores, {plan.host.memory / 1e9:.0f} GB)",
        f"  requires   {', '.join(plan.requirements)}",
    ]
    if plan.shape:
        said.append(f"  shape      {plan.shape}")
    said += [f"  set        {name}={value}" for name, value in plan.environment.items()]
    for external in plan.externals:
        state = external.copy or ("to be fetched" if external.needed else "not needed here")
        submodules = f" with {', '.join(external.submodules)}" if external.submodules else ""
        said.append(f"  external   {external.name}: {external.repository} at {external.tag}{submodules}")
        said.append(f"             {external.variable or 'no variable'}, {external.where}, {state}")
        if external.condition:
            said.append(f"             where {external.condition}")
    said += [f"  hole       {hole}" for hole in plan.holes]
    if not plan.holes:
        said.append("  no holes")
    return said
