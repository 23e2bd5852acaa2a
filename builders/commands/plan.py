"""``python -m builders plan TARGET``: everything that decides the bytes, and what is missing; nothing is compiled."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from builders.commands import add_plan_arguments, assignments
from qualify.errors import ExitCode

if TYPE_CHECKING:
    from builders.plan import Plan
    from builders.plan_diff import Change
    from builders.prefetch import Hole
    from builders.source_model import Source
    from qualify.matrix import LoadedMatrix

HELP = "print what a build of a target would be made of, and its holes"


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--diff",
        default="",
        metavar="PLAN",
        help="what differs from another plan: a file of `plan --json`, a receipt, or another target",
    )
    parser.add_argument("--exit-code", action="store_true", help="with --diff: end with 1 if the keys differ")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.planning import chosen_target
    from builders.source import open_source
    from qualify.matrix import load
    from qualify.scratch import scratch_folder

    loaded = load(arguments.matrix)
    assignments(arguments.set)  # a mistake in them is told before anything is fetched
    chosen_target(loaded, arguments.target)
    with scratch_folder("plan") as folder:
        source = open_source(loaded, folder / "source", progress=_say, whole=False)
        plan = _planned(loaded, arguments.target, source, arguments)
        if arguments.diff:
            return _differ(loaded, plan, source, arguments)
        holes = (*(hole.render() for hole in lacking(loaded, source, plan)), *plan.holes)
    if arguments.json:
        print(json.dumps({**plan.to_json(), "holes": holes}, indent=2))
    else:
        print("\n".join(lines(plan, holes)))
    return ExitCode.OK


def _say(message: str) -> None:
    print(message, file=sys.stderr)


def _planned(loaded: LoadedMatrix, target: str, source: Source, arguments: argparse.Namespace) -> Plan:
    from builders.planning import make_plan

    return make_plan(
        loaded,
        target,
        source=source,
        how=arguments.how,
        engine=arguments.engine,
        overrides=assignments(arguments.set),
        arch_list=arguments.arch_list,
    )


def lacking(loaded: LoadedMatrix, source: Source, plan: Plan) -> tuple[Hole, ...]:
    """What a build would fetch before its compile, since the store lacks it; nobody is asked."""
    from builders.prefetch import prefetch
    from builders.sourcing import crate_locks_of, mirrors_for, vendoring_for

    return prefetch(
        plan.externals,
        crate_locks_of(loaded, source, plan),
        mirrors=mirrors_for(loaded, offline=True),
        vendoring=vendoring_for(loaded, offline=True),
        tree=source.tree,
        progress=lambda message: None,
    ).holes


def _differ(loaded: LoadedMatrix, plan: Plan, source: Source, arguments: argparse.Namespace) -> ExitCode:
    from builders.plan_diff import plan_changes, read_plan

    named = arguments.diff
    if named in loaded.matrix.targets and not Path(named).exists():
        was = json.loads(json.dumps(_planned(loaded, named, source, arguments).to_json()))
    else:
        was = read_plan(Path(named))
        if plan.engine == "auto":  # whichever answers: the one that it was then may answer again
            plan = replace(plan, engine=str(was["engine"]))
    found = plan_changes(was, plan)
    same = was["key"] == plan.key()
    if arguments.json:
        changed = [{"field": c.field, "was": c.was, "now": c.now, "in_key": c.in_key} for c in found]
        print(
            json.dumps({"version": 1, "same": same, "was": was["key"], "now": plan.key(), "changes": changed}, indent=2)
        )
    else:
        print("\n".join(difference_lines(found, was["key"], plan.key())))
    return ExitCode.REJECTED if arguments.exit_code and not same else ExitCode.OK


def difference_lines(found: tuple[Change, ...], was: str, now: str) -> list[str]:
    """The difference as people read it; what decides no bytes stands in parentheses.

    How much memory is free at the moment is of no interest: what it does to the jobs is said.
    """
    said = []
    for change in found:
        if change.field == "host.memory":
            continue
        text = f"{change.field}: {_shown(change.was)} -> {_shown(change.now)}"
        said.append(text if change.in_key else f"({text})")
    if was == now:
        return [*said, f"the same build: key {now[:16]}"]
    return [*said, f"another build: key {was[:16]} -> {now[:16]}"]


def _shown(value: str | None) -> str:
    return "(nothing)" if value is None else value or "(empty)"


def lines(plan: Plan, holes: Sequence[str] | None = None) -> list[str]:
    """The plan as people read it.

    :param holes: what is not at hand for it; the plan's own where none are given.
    """
    holes = plan.holes if holes is None else holes
    source = plan.source
    said = [
        f"plan {plan.key()[:16]} for {plan.target}: {plan.project} {source.version or 'of unknown version'}",
        f"  source     {source.kind} {source.origin}, commit {source.commit or 'not stated'}"
        + (f" (from {source.commit_from})" if source.commit_from else ""),
    ]
    if plan.fork is not None:
        said.append(f"  fork       {plan.fork.words()} ({plan.fork.repository}, base {plan.fork.base[:12]})")
        said += [f"             {text}" for text in plan.fork.overlay]
    said += [f"  patch      {patch.file} (sha256 {patch.sha256[:12]}…)" for patch in plan.patches]
    said += [
        f"  machine    {plan.machine}, {plan.how}, engine {plan.engine}, Python {' '.join(plan.python)}",
        f"  base       {_base(plan)}",
        f"  toolkit    {plan.toolkit.requirement if plan.toolkit else 'none'}",
        f"  torch      {plan.torch or 'none'}" + (", with CUDA" if plan.torch_cuda else ""),
        f"  arch list  {plan.arch_variable}={plan.arch_list}" if plan.expects_device_code else "  arch list  none",
        f"  jobs       {plan.jobs} ({plan.host.cores} cores, {plan.host.memory / 1e9:.0f} GB, "
        f"{plan.memory_per_job / 1e9:.0f} GB a job), {plan.disk / 1e9:.0f} GB of disk",
        f"  requires   {', '.join(plan.requirements)}",
        f"  locked     {f'{len(plan.locked)} distributions by sha256' if plan.locked else 'no: what is newest counts'}",
        f"  repair     {plan.repair}",
        f"  cache      {plan.compiler_cache or 'none'}",
    ]
    said += [f"  override   {text}" for text in plan.overrides]
    if plan.shape:
        said.append(f"  shape      {plan.shape}")
    said += [f"  set        {name}={value}" for name, value in plan.environment.items()]
    said += [f"  refused    {', '.join(plan.refused_environment)}"] if plan.refused_environment else []
    said += [
        f"  crates     {crates.lock}: {crates.registry} of a registry, {crates.git} of git" for crates in plan.crates
    ]
    for external in plan.externals:
        state = external.copy or ("needed" if external.needed else "not needed here")
        submodules = f" with {', '.join(external.submodules)}" if external.submodules else ""
        exact = f" ({external.commit})" if external.commit and external.commit != external.tag else ""
        said.append(f"  external   {external.name}: {external.repository} at {external.tag}{exact}{submodules}")
        said.append(f"             {external.variable or 'no variable'}, {external.where}, {state}")
        if external.condition:
            said.append(f"             where {external.condition}")
    said += [f"  note       {note}" for note in plan.notes]
    said += [f"  hole       {hole}" for hole in holes]
    if not holes:
        said.append("  no holes")
    return said


def _base(plan: Plan) -> str:
    base = plan.base
    if base.image and base.digest:
        return f"{base.image} at {base.digest[:19]}…"
    return f"{base.image}, not locked" if base.image else base.bootstrap or "this host"
