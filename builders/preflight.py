"""The preflight: one list of all that is wrong, before any compile, within seconds.

Facts first, judgement second.  :func:`collect` has the collector run where the build will run (this host, or a
container) and gives its facts; :func:`judge` compares them with the plan and touches nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from packaging.requirements import Requirement

from builders.plan import GB, Plan
from builders.preflight_items import Facts, Item, Status
from builders.preflight_surroundings import (
    judge_environment,
    judge_externals,
    judge_interpreter,
    judge_machine,
    judge_requirements,
    judge_resources,
    judge_torch,
)
from builders.preflight_toolkit import judge_toolkit
from builders.preflight_tools import judge_headers, judge_tools
from builders.requirements import Environment, unmet
from builders.toolsearch import (
    Request,
    collector_source,
    demands,
    header_folders,
    look_in_folders,
    question,
    run_here,
    this_host,
)
from builders.toolsearch_collector import VERSION
from qualify.errors import PreflightError, UnavailableError
from qualify.lines import last_line
from qualify.matrix.model import Build

__all__ = [
    "Facts",
    "Item",
    "Run",
    "Status",
    "ask_backend",
    "collect",
    "hook_of",
    "judge",
    "judge_known",
    "judge_tools_alone",
    "refuse_if_unmet",
    "request_for",
    "static_requirements_met",
]

# Runs a Python 3.8 or newer with these arguments where the build will run, and returns what it wrote to stdout.
Run = Callable[[Sequence[str]], str]


def request_for(
    plan: Plan,
    *,
    python: str = "",
    tree: str = "",
    look_in: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    folders: Sequence[str] = (),
    network: bool = True,
    in_store: frozenset[str] = frozenset(),
    caller: Mapping[str, str] | None = None,
) -> Request:
    """What to ask the place where ``plan`` will be built.

    :param python: the interpreter that builds, a path there; "" for the one that runs the collector.
    :param tree: the source tree, a path there; "" leaves the build backend's hook unasked.
    :param look_in: further folders that may hold tools or headers.
    :param environment: what the build will have besides the plan's own, ``PATH`` say.
    :param folders: whose free disk space counts.
    :param network: whether the build may clone; without, external sources need local copies.
    :param in_store: names of external sources that nobody need be asked for.
    :param caller: the environment of whoever asks for the build (default: this process's).  A variable in it that the
        plan refuses is told even where the place of the build would not inherit it.
    """
    return Request(
        python=python,
        environment={
            **_refused(plan, os.environ if caller is None else caller),
            **plan.build_environment(),
            **(environment or {}),
        },
        look_in=look_in_folders(look_in),
        headers_in=header_folders(look_in),
        tools=tuple(question(tool) for tool in plan.tools if tool.commands),
        watch=plan.refused_environment,
        folders=tuple(folders),
        remotes=tuple(
            dict.fromkeys(
                external.fetched_from or external.repository
                for external in plan.needed_externals
                if network and not external.copy and external.name not in in_store
            )
        ),
        requirements=plan.requirements,
        hook=hook_of(plan, tree) if tree else None,
    )


def _refused(plan: Plan, caller: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in caller.items()
        if any(fnmatchcase(name, pattern) for pattern in plan.refused_environment)
    }


def judge_known(plan: Plan, caller: Mapping[str, str]) -> tuple[Item, ...]:
    """What refuses a build whatever its place is like: the plan alone tells, before anything is fetched or made.

    Variables of the caller that the plan refuses, local copies that are no such source, CMake that can't be read.
    """
    copies = replace(plan, externals=tuple(external for external in plan.externals if external.copy))
    return (*judge_environment({"environment": _refused(plan, caller)}), *judge_externals(copies, {}))


def hook_of(plan: Plan, tree: str) -> dict[str, Any]:
    """What the collector needs to ask the build backend of ``tree``, a path of the place where it runs."""
    return {"tree": tree, "backend": plan.backend.name, "backend_path": list(plan.backend.path)}


def collect(request: Request, run: Run) -> Facts:
    """The facts of the place where ``run`` runs its Python.

    The build backend's hook fails when one of its static requirements is missing: it is asked once those are met.

    :raises UnavailableError: the place gave no facts.
    """
    facts = {**_run(replace(request, hook=None), run), "hook_asked": request.hook is not None}
    if request.hook is not None and static_requirements_met(request.requirements, facts):
        return ask_backend(request, facts, run)
    return facts


def static_requirements_met(requirements: Sequence[str], facts: Facts) -> bool:
    """Whether the interpreter has everything that the build backend needs to be asked."""
    if not facts.get("interpreter"):
        return False
    installed = Environment.of(facts["interpreter"])
    return not any(unmet(requirement, installed) for requirement in requirements)


def ask_backend(request: Request, facts: Facts, run: Run) -> Facts:
    """``facts`` with the answer of the backend's hook, which runs the project's own code."""
    hook = _run(replace(request, tools=(), remotes=(), look_in=(), headers_in=()), run)["hook"]
    return {**facts, "hook": hook, "hook_asked": True}


def _run(request: Request, run: Run) -> Facts:
    answer = run(["-c", collector_source(), json.dumps(request.to_json())])
    last = last_line(answer)
    try:
        facts: Any = json.loads(last) if last else None
    except ValueError:
        facts = None
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise UnavailableError(
            "the place of the build gave no facts",
            where=last[:200] or "no output",
            expected="one JSON object from the collector",
        )
    return facts


def judge(
    plan: Plan, facts: Facts, *, environment_follows: bool = False, in_store: frozenset[str] = frozenset()
) -> tuple[Item, ...]:
    """Everything that the build needs, each found or not, as the facts say.

    :param environment_follows: the isolated environment isn't made yet: its requirements, and the tools that they and
        the toolkit bring, are listed as ``not looked at`` and do not refuse.
    :param in_store: names of external sources that were fetched into the store, at their exact commits.
    """
    brought = brought_tools(plan) if environment_follows else frozenset()
    return (
        *judge_machine(plan, facts),
        *judge_environment(facts),
        *judge_interpreter(plan.python, facts),
        *judge_tools(plan.tools, facts, plan=plan, brought=brought),
        *(judge_toolkit(facts) if "nvcc" not in brought else ()),
        *judge_headers(facts, demanded=any(tool.name == "python.h" for tool in plan.tools)),
        *judge_requirements(plan, facts, environment_follows=environment_follows),
        *judge_torch(plan, facts, environment_follows=environment_follows),
        *judge_externals(plan, facts, in_store),
        *judge_resources(facts, memory=plan.memory_per_job, disk=plan.disk),
    )


def brought_tools(plan: Plan) -> frozenset[str]:
    """The tools that an isolated environment brings: the toolkit's compiler, and requirements named like a tool."""
    names = {Requirement(text).name.lower() for text in plan.requirements}
    return frozenset({tool.name for tool in plan.tools if tool.name in names} | ({"nvcc"} if plan.toolkit else set()))


def refuse_if_unmet(items: Sequence[Item]) -> None:
    """Do nothing if the build may begin.

    :raises PreflightError: it may not; the error holds the whole list.
    """
    wrong = [item for item in items if item.refuses]
    if not wrong:
        return
    listed = "\n".join(f"    {item.render()}" for item in wrong)
    things = "1 thing is not as the build needs it"
    if len(wrong) > 1:
        things = f"{len(wrong)} things are not as the build needs them"
    raise PreflightError(f"{things}; nothing was compiled\n{listed}", where="preflight")


def judge_tools_alone(
    build: Build,
    *,
    python: str = "",
    look_in: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    folders: Sequence[str] = (),
    run: Run = run_here,
) -> tuple[Item, ...]:
    """The tools that a matrix demands, for themselves: without a target, a source or requirements."""
    host = this_host()
    tools = demands(build.tools, only=None, machine=host.machine, how="native", host=host)
    request = Request(
        python=python,
        environment=environment or {},
        look_in=look_in_folders(look_in),
        headers_in=header_folders(look_in),
        tools=tuple(question(tool) for tool in tools if tool.commands),
        watch=build.refused_environment,
        folders=tuple(folders),
    )
    facts = collect(request, run)
    return (
        *judge_environment(facts),
        *judge_tools(tools, facts, plan=None),
        *judge_toolkit(facts),
        *judge_headers(facts, demanded=any(tool.name == "python.h" for tool in tools)),
        *judge_resources(facts, memory=build.memory_per_job * GB, disk=build.disk * GB),
    )
