"""All that the doctor looks at for one target: source, store, engine, and the place of the build."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from builders.doctor_container import Looked, engine_item, look_in_container
from builders.enginehosts import host_for
from builders.engines import engine_named
from builders.engines.docker import DockerEngine
from builders.environment import REPAIR_TOOLS
from builders.plan import How, Plan
from builders.planning import chosen_target, make_plan
from builders.preflight import (
    ask_backend,
    collect,
    hook_of,
    judge,
    judge_tools_alone,
    request_for,
    static_requirements_met,
)
from builders.preflight_items import Facts, Item, Status
from builders.preflight_repair import PATCHELF, judge_repair_on_host, judge_repair_tools
from builders.preflight_sources import judge_claims, judge_crates
from builders.progress import Console
from builders.source import open_source
from builders.source_model import Source
from builders.sourcing import crate_locks_of, in_store, mirrors_for, vendoring_for
from builders.store import store_of
from builders.store.claims import stale_claims
from builders.toolsearch import question, run_here
from qualify.errors import PreflightError, UnavailableError
from qualify.matrix import LoadedMatrix
from qualify.scratch import scratch_folder


@dataclass(frozen=True, slots=True)
class Asked:
    """What the doctor is asked; see ``python -m builders doctor --help`` for each."""

    target: str
    scratch: Path
    how: How | None = None
    engine: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    arch_list: str = ""
    python: str = ""
    look_in: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    isolated: bool = False
    static: bool = False
    network: bool = True
    in_container: bool = False
    make_image: bool = False


def look_at_target(loaded: LoadedMatrix, asked: Asked, console: Console) -> tuple[Item, ...]:
    """One list of what a build of the target needs, each found or not; nothing is compiled.

    A source that can't be had hides nothing else: the tools that the matrix names are looked at all the same.

    :raises UsageError: no such target.
    """
    chosen_target(loaded, asked.target)  # before anything is fetched for it
    with scratch_folder("doctor") as folder:
        try:
            # The whole tree is for the backend's hook alone, which runs only once the static requirements are met.
            source = open_source(loaded, folder / "read", progress=console.say, whole=False)
            plan = make_plan(
                loaded,
                asked.target,
                source=source,
                how=asked.how,
                engine=asked.engine,
                overrides=asked.overrides,
                arch_list=asked.arch_list,
            )
        except (PreflightError, UnavailableError) as error:
            return (_no_source(error), *_look_at_engine(loaded, asked), *_look_at_tools(loaded, asked))

        def whole() -> Path:
            return open_source(loaded, folder / "whole", progress=console.say).tree

        known = (
            _source_item(source),
            *_look_at_engine(loaded, asked),
            *judge_crates(crate_locks_of(loaded, source, plan), vendoring_for(loaded)),
            *judge_claims(stale_claims(store_of(loaded).claims)),
        )
        if asked.in_container:
            return (*known, *_in_container(loaded, asked, plan, console, whole))
        return (*known, *_on_host(loaded, asked, plan, console, whole))


def _on_host(
    loaded: LoadedMatrix, asked: Asked, plan: Plan, console: Console, whole: Callable[[], Path]
) -> tuple[Item, ...]:
    stored = in_store(plan, mirrors_for(loaded))
    repair = REPAIR_TOOLS if plan.repair == "auditwheel" else ()
    console.say("looking")
    request = request_for(
        plan,
        python=asked.python,
        look_in=asked.look_in,
        environment={**_addresses(loaded), **asked.environment},
        folders=[str(asked.scratch)],
        network=asked.network,
        in_store=stored,
    )
    request = replace(request, tools=(*request.tools, *([question(PATCHELF)] if repair else [])))
    facts = collect(request, run_here)
    if not (asked.static or asked.isolated) and static_requirements_met(plan.requirements, facts):
        tree = whole()
        console.say("asking the build backend")
        facts = ask_backend(replace(request, hook=hook_of(plan, str(tree))), facts, run_here)
    repairing = judge_repair_tools(repair, None) if asked.isolated else judge_repair_on_host(repair, facts)
    return (*judge(plan, facts, environment_follows=asked.isolated, in_store=stored), *repairing)


def _in_container(
    loaded: LoadedMatrix, asked: Asked, plan: Plan, console: Console, whole: Callable[[], Path]
) -> tuple[Item, ...]:
    stored = in_store(plan, mirrors_for(loaded))
    _, host = host_for(loaded, plan.target)
    console.say("looking into a container")
    seen = look_in_container(
        loaded,
        plan,
        DockerEngine(host),
        console,
        look_in=asked.look_in,
        environment=asked.environment,
        make_image=asked.make_image,
        tree=None if asked.static else whole,
    )
    if seen.facts is None:
        return seen.items
    # What a build fetches, it fetches from here and not from the container.
    facts = {**seen.facts, "remotes": _remotes(loaded, asked, plan, stored)}
    follows = seen.prepared is None
    return (
        *seen.items,
        *judge(plan, facts, environment_follows=follows, in_store=stored),
        *_repair_in_container(plan, seen),
    )


def _repair_in_container(plan: Plan, seen: Looked) -> tuple[Item, ...]:
    """A cross build's wheel gets its true tag alone, since auditwheel can't load the target's libraries."""
    cross = seen.facts is not None and seen.facts["machine"] != plan.machine
    wanted = REPAIR_TOOLS if plan.repair == "auditwheel" and not cross else ()
    return judge_repair_tools(wanted, seen.prepared.repair_tools if seen.prepared else None)


def _remotes(loaded: LoadedMatrix, asked: Asked, plan: Plan, stored: frozenset[str]) -> Facts:
    request = request_for(plan, environment=_addresses(loaded), network=asked.network, in_store=stored)
    alone = replace(request, tools=(), look_in=(), headers_in=(), folders=())
    remotes: Facts = collect(alone, run_here)["remotes"] if alone.remotes else {}
    return remotes


def _addresses(loaded: LoadedMatrix) -> dict[str, str]:
    """git's own settings by which this site's mirrors stand for the addresses that trees name."""
    replaced = loaded.local.git_mirrors
    settings = {"GIT_CONFIG_COUNT": str(len(replaced))} if replaced else {}
    for number, (prefix, place) in enumerate(replaced.items()):
        settings[f"GIT_CONFIG_KEY_{number}"] = f"url.{place}.insteadOf"
        settings[f"GIT_CONFIG_VALUE_{number}"] = prefix
    return settings


def _look_at_engine(loaded: LoadedMatrix, asked: Asked) -> tuple[Item, ...]:
    """The engine that would build the target: whether it answers, and with which API."""
    name, host = host_for(loaded, asked.target)
    wanted = asked.engine or loaded.matrix.targets[asked.target].engine
    by_choice = wanted == "auto" and host is None and not asked.in_container
    engine = "docker" if wanted == "auto" or asked.in_container else wanted
    try:
        return (engine_item(engine_named(engine, host).info()),)
    except UnavailableError as error:
        said = "; ".join(part for part in (error.what, error.action) if part)
        # Without Docker, `auto` takes this host where it is the target's machine.
        expected = engine if host is None else f"{engine} of {name}"
        return (Item("engine", Status.ABSENT, expected=expected, action=said, optional=by_choice),)


def _look_at_tools(loaded: LoadedMatrix, asked: Asked) -> tuple[Item, ...]:
    if asked.in_container:
        return ()
    with contextlib.suppress(UnavailableError):
        return judge_tools_alone(
            loaded.matrix.build,
            python=asked.python,
            look_in=asked.look_in,
            environment=asked.environment,
            folders=[str(asked.scratch)],
        )
    return ()


def _source_item(source: Source) -> Item:
    return Item("source", Status.FOUND, source.origin, f"{source.version or source.kind}, commit {source.commit}")


def _no_source(error: PreflightError | UnavailableError) -> Item:
    """``absent`` where it could not be fetched, ``unmet`` where it is not what the pin says."""
    status = Status.ABSENT if isinstance(error, UnavailableError) else Status.UNMET
    said = "; ".join(part for part in (error.what, error.action) if part)
    return Item("source", status, error.where, expected=error.expected, action=said)
