"""``python -m builders doctor [TARGET]``: one list of what a build needs, each found or not; nothing is compiled."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from builders.commands import add_plan_arguments, assignments
from qualify.errors import ExitCode

if TYPE_CHECKING:
    from builders.plan import Plan
    from builders.preflight import Facts, Item
    from qualify.matrix import LoadedMatrix

HELP = "look whether this host has what a build needs"

_HOST_MODE = (
    "this is what a build with --requirement-mode host would find; `build` installs its requirements and the toolkit "
    "by default, and --requirement-mode isolated lists what it would still lack"
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser, target_required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--python", default="", metavar="PATH", help="the interpreter that would build")
    parser.add_argument("--look-in", action="append", default=[], metavar="DIR", help="a further folder to look in")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="as if this variable were set")
    parser.add_argument(
        "--requirement-mode",
        choices=("host", "isolated"),
        default="host",
        help="host: with what is here (default); isolated: requirements and toolkit are installed first",
    )
    parser.add_argument(
        "--runtime", action="store_true", help="what a GPU's host needs to compile kernels while it serves"
    )
    parser.add_argument(
        "--in-container",
        action="store_true",
        help="look inside a container of the target's image, which is made where it isn't there",
    )
    parser.add_argument("--static", action="store_true", help="do not run the build backend's hook")
    parser.add_argument("--no-network", action="store_true", help="as if the build could fetch nothing")
    parser.add_argument("--scratch", type=Path, default=None, metavar="DIR", help="where the build would lie")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    # The collector runs in a folder of its own; symbolic links stay, since a venv's python is one.
    look_in = [
        *(str(Path(text).absolute()) for text in arguments.look_in),
        *(str(loaded.folder(text)) for text in loaded.local.look_in),
    ]
    if "/" in arguments.python:
        arguments.python = str(Path(arguments.python).absolute())
    scratch = arguments.scratch or (
        loaded.folder(loaded.local.folders.scratch) if loaded.local.folders.scratch else Path(tempfile.gettempdir())
    )
    if arguments.runtime:
        items = _look_at_runtime(loaded, arguments, look_in)
    elif arguments.target is None:
        items = _look_at_host(loaded, arguments, look_in, scratch)
    else:
        items = _look_at_target(loaded, arguments, look_in, scratch)
    code = show(items, as_json=arguments.json)
    if code and arguments.target is not None and arguments.requirement_mode == "host" and not arguments.runtime:
        print(_HOST_MODE, file=sys.stderr)
    return code


def _look_at_runtime(loaded: LoadedMatrix, arguments: argparse.Namespace, look_in: list[str]) -> tuple[Item, ...]:
    """On the host that serves: what FlashInfer and Triton compile with."""
    from builders.planning import chosen_target
    from builders.preflight_runtime import judge_runtime

    python = arguments.python or sys.executable
    if arguments.target is None:
        return judge_runtime(python, "", look_in)
    target = chosen_target(loaded, arguments.target)
    return judge_runtime(python, target.compute_capability, look_in, oldest_cuda=target.driver.oldest_cuda)


def _look_at_engine(loaded: LoadedMatrix, target: str, engine: str) -> tuple[Item, ...]:
    """The engine that would build a target: does it answer, with which API."""
    from builders.enginehosts import host_for
    from builders.engines import engine_named
    from builders.preflight_items import Item, Status
    from qualify.errors import UnavailableError

    _, host = host_for(loaded, target)
    wanted = engine if engine and engine != "auto" else "docker"
    try:
        info = engine_named(wanted, host).info()
    except UnavailableError as error:
        # Without Docker, `auto` takes this host where it is the target's machine.
        optional = engine in ("", "auto") and host is None
        return (
            Item("engine", Status.ABSENT, expected=wanted, action=f"{error.what}; {error.action}", optional=optional),
        )
    said = f"{info.name} {info.version}" + (f", API {info.api}" if info.api else "")
    return (Item("engine", Status.FOUND, version=f"{said}, {info.cores} cores, {info.memory / 1e9:.0f} GB"),)


def _look_in_container(loaded: LoadedMatrix, arguments: argparse.Namespace, plan: Plan, look_in: list[str]) -> Facts:
    """The facts of a container of the target's image, without a network."""
    from builders.bases import role_for, wish_for
    from builders.enginehosts import host_for
    from builders.engines import RoomRequest, engine_named
    from builders.inroom import room_machine
    from builders.preflight import collect, request_for
    from builders.progress import Console
    from builders.stations import run_collector

    _, host = host_for(loaded, plan.target)
    engine = engine_named("docker", host)
    machine = room_machine(plan, engine.info())
    wanted = RoomRequest(
        build_id=f"doctor-{plan.key()[:8]}",
        machine=machine,
        role=role_for("cross" if machine != plan.machine else "native"),
        base=wish_for(plan.target, loaded.matrix.targets[plan.target].base, loaded.local),
        environment_key="doctor",
    )
    with engine.open(wanted, Console(sys.stderr)) as room:
        asked = request_for(plan, look_in=look_in, environment=assignments(arguments.env), network=False)
        return collect(asked, lambda command: run_collector(room, None, {}, command))


def _look_at_host(
    loaded: LoadedMatrix, arguments: argparse.Namespace, look_in: list[str], scratch: Path
) -> tuple[Item, ...]:
    """Without a target: the matrix's tools for themselves, the headers and the room; no source is opened."""
    from builders.preflight import judge_tools_alone

    build = loaded.matrix.build
    return judge_tools_alone(
        build,
        python=arguments.python,
        look_in=look_in,
        environment=assignments(arguments.env),
        folders=[str(scratch)],
    )


def _look_at_target(
    loaded: LoadedMatrix, arguments: argparse.Namespace, look_in: list[str], scratch: Path
) -> tuple[Item, ...]:
    from builders.planning import chosen_target, make_plan
    from builders.preflight import ask_backend, collect, hook_of, judge, request_for, static_requirements_met
    from builders.preflight_sources import judge_claims, judge_crates
    from builders.source import open_source
    from builders.sourcing import crate_locks_of, in_store, mirrors_for, vendoring_for
    from builders.store import store_of
    from builders.store.claims import stale_claims
    from builders.toolsearch import run_here
    from qualify.scratch import scratch_folder

    def say(message: str) -> None:
        print(message, file=sys.stderr)

    chosen_target(loaded, arguments.target)  # before anything is fetched for it
    follows = arguments.requirement_mode == "isolated"
    with scratch_folder("doctor") as folder:
        # The whole tree is for the backend's hook alone, which runs only once the static requirements are met.
        source = open_source(loaded, folder / "read", progress=say, whole=False)
        plan = make_plan(
            loaded,
            arguments.target,
            source=source,
            how=arguments.how,
            engine=arguments.engine,
            overrides=assignments(arguments.set),
            arch_list=arguments.arch_list,
        )
        known = (
            *_look_at_engine(loaded, plan.target, arguments.engine),
            *judge_crates(crate_locks_of(loaded, source, plan), vendoring_for(loaded)),
            *judge_claims(stale_claims(store_of(loaded).claims)),
        )
        stored = in_store(plan, mirrors_for(loaded))
        say("looking")
        if arguments.in_container:
            facts = _look_in_container(loaded, arguments, plan, look_in)
            return (*known, *judge(plan, facts, environment_follows=True, in_store=stored))
        request = request_for(
            plan,
            python=arguments.python,
            look_in=look_in,
            environment=assignments(arguments.env),
            folders=[str(scratch)],
            network=not arguments.no_network,
        )
        facts = collect(request, run_here)
        if not (arguments.static or follows) and static_requirements_met(plan.requirements, facts):
            tree = open_source(loaded, folder / "whole", progress=say).tree
            say("asking the build backend")
            facts = ask_backend(replace(request, hook=hook_of(plan, str(tree))), facts, run_here)
        return (*known, *judge(plan, facts, environment_follows=follows, in_store=stored))


def show(items: tuple[Item, ...], *, as_json: bool) -> ExitCode:
    """Print the list; 8 if anything in it refuses."""
    refusing = [item for item in items if item.refuses]
    if as_json:
        print(json.dumps({"version": 1, "items": [item.to_json() for item in items]}, indent=2))
    else:
        for item in items:
            mark = "no " if item.refuses else ("ok " if item.status == "found" else "-  ")
            print(f"{mark} {item.render()}")
        print(f"{len(refusing)} of {len(items)} are not as the build needs them" if refusing else "all is there")
    return ExitCode.PREFLIGHT if refusing else ExitCode.OK
