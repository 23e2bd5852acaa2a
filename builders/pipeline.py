"""From a target of the matrix to a wheel with its receipt: the stations in their order, on whichever engine.

source -> plan, and what it refuses -> fetch -> claim -> environment -> version -> patches -> preflight -> compile ->
proof -> repair -> tag -> label -> receipt.  Nothing is compiled unless the preflight is content, and the output folder
gets a wheel whole, with its receipt, or nothing.  A build that is stopped leaves its folder, and the next one of the
same plan goes on in it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from builders import receipts
from builders.buildrequest import BuildRequest, Built, Run
from builders.enginehosts import host_for
from builders.engines import Engine, EngineInfo, choose_engine
from builders.externals_lock import write_externals_lock
from builders.filling import Materials
from builders.finishing import Finished
from builders.host import work_folder
from builders.inroom import build_in_room, room_machine
from builders.plan import Plan
from builders.planning import chosen_target, make_plan
from builders.prefetch import prefetch, refuse_holes
from builders.preflight import judge_known, refuse_if_unmet
from builders.progress import BuildLog
from builders.receipts.model import Receipt
from builders.signals import interruptible
from builders.source import open_source
from builders.source_model import Source
from builders.sourcing import crate_locks_of, mirrors_for, vendoring_for
from builders.store import store_of
from builders.store.claims import claimed
from builders.store.gitmirror import Mirrors
from builders.toolsearch import Host, this_host
from builders.vendor import Vendored
from qualify.errors import UsageError
from qualify.files import copy_atomic, locked, write_atomic
from qualify.matrix import LoadedMatrix

__all__ = ["BuildRequest", "Built", "build"]

_LOCK_SECONDS = 6 * 3600.0


def build(loaded: LoadedMatrix, request: BuildRequest, stderr: TextIO, engine: Engine | None = None) -> Built:
    """Build one target.

    :param engine: instead of the one that the request names.
    :raises UsageError: no such target, engine or way.
    :raises UnavailableError: no engine, no network, no base; or another process builds it and nobody wants to wait.
    :raises PreflightError: the source, the plan or the preflight refused; nothing was compiled.
    :raises BuildError: the build failed after its compile began.
    """
    target = chosen_target(loaded, request.target)
    if request.out.exists() and not request.out.is_dir():
        raise UsageError("no folder", where=f"--out {request.out}", expected="a folder, or a name for one")
    name, host = host_for(loaded, request.target, request.engine_host)
    request.out.mkdir(parents=True, exist_ok=True)
    log = BuildLog(request.out / f"{request.target}.log", stderr, verbose=request.verbose)
    with interruptible(), locked(request.out / request.target, timeout=_LOCK_SECONDS, purpose="a build"), log:
        chosen = engine or choose_engine(request.engine or target.engine, target.machine, log.say, host)
        if host is not None:
            log.say(f"engine host: {name}")
        run = Run(loaded, request, log, datetime.now(UTC), chosen, name)
        scratch = loaded.local.folders.scratch
        with work_folder(loaded.folder(scratch) if scratch else None) as folder:
            return _build(run, folder)


def _build(run: Run, work: Path) -> Built:
    """Everything up to the room: source, plan, what is built already, what has to be fetched, the claim."""
    request, log, loaded = run.request, run.log, run.loaded
    info = run.engine.info()
    mirrors = mirrors_for(loaded, offline=request.offline, progress=log.say)
    root = work / "source"
    with run.timed("source"):
        source = open_source(loaded, root, progress=log.say, offline=request.offline, mirrors=mirrors)
        plan = make_plan(
            loaded,
            request.target,
            source=source,
            how=request.how,
            engine=run.engine.name,
            overrides=request.overrides,
            arch_list=request.arch_list,
            host=_host(info, request),
            jobs=request.jobs or _jobs_of(loaded, run.host_name),
        )
    log.say(f"{plan.project} {source.version} at {source.commit or 'no commit'} for {plan.target}, {plan.how}")
    if plan.fork is not None:
        log.say(f"fork: {plan.fork.words()}")
    for note in plan.notes:
        log.note(note)
    if found := _built_before(run, plan):
        return found
    # Before anything is fetched, and before an engine makes an image or a room.
    refuse_if_unmet(judge_known(plan, os.environ))
    with run.timed("fetch"):
        plan, vendored = _fetch(run, plan, source, mirrors)
    if found := _built_before(run, plan):
        return found
    machine = room_machine(plan, info)
    store = store_of(loaded)
    materials = Materials(source, root, plan.externals, vendored)
    with claimed(store.claims, plan.key(), target=plan.target, log=log.path, wait=request.wait, say=log.say) as waited:
        if waited and (found := _built_before(run, plan)):
            return found
        built: list[Built] = []

        def deliver(done: Finished, receipt: Receipt) -> None:
            built.append(_deliver(run, done, receipt))

        build_in_room(run, plan, info, machine, materials, mirrors, work, deliver)
        return built[0]


def _built_before(run: Run, plan: Plan) -> Built | None:
    """A wheel of the output folder whose receipt bears the plan's key."""
    request = run.request
    found = None if request.rebuild else receipts.find_built(request.out, plan.key(), run.engine.name)
    if found is None:
        return None
    run.log.say(f"nothing to do: {found.name} was built from this plan")
    return Built(found, receipts.path_for(found), receipts.log_for(found), True)


def _fetch(run: Run, plan: Plan, source: Source, mirrors: Mirrors) -> tuple[Plan, tuple[Vendored, ...]]:
    """What the build would otherwise fetch while it compiles, in the store; the plan with every commit exact.

    :raises PreflightError, UnavailableError: there are holes; the error lists them all.
    """
    loaded, offline = run.loaded, run.request.offline
    found = prefetch(
        plan.externals,
        crate_locks_of(loaded, source, plan),
        mirrors=mirrors,
        vendoring=vendoring_for(loaded, offline=offline, progress=run.log.say),
        tree=source.tree,
        progress=run.log.say,
    )
    refuse_holes(found.holes, plan.target)
    if found.resolved:
        path = write_externals_lock(loaded.path.parent, found.resolved)
        run.log.say(f"locked in {path.name}: {', '.join(found.resolved)}")
    return replace(plan, externals=found.externals), found.vendored


def _deliver(run: Run, done: Finished, document: Receipt) -> Built:
    """The wheel, its log, and last its receipt, which alone says that all is there."""
    out = run.request.out
    wheel = out / done.wheel.name
    receipts.path_for(wheel).unlink(missing_ok=True)
    copy_atomic(done.wheel, wheel, sha256=done.facts.sha256)
    run.log.say(f"built {wheel.name} in {sum(run.seconds.values()):.0f} s")
    copy_atomic(run.log.path, receipts.log_for(wheel))
    write_atomic(receipts.path_for(wheel), receipts.to_text(document.model_dump(mode="json")))
    return Built(wheel, receipts.path_for(wheel), receipts.log_for(wheel), False)


def _host(info: EngineInfo, request: BuildRequest) -> Host:
    """The machine that the engine runs on, with no more cores and memory than a step may have.

    Of an engine on this host, what is free here counts: what other programs and, on unified memory, the GPU have taken
    is gone.  Of another machine the engine says what there is in all.
    """
    here = this_host()
    machine = info.machines[0]
    cores = info.cores if info.remote and info.cores else min(here.cores, info.cores or here.cores)
    memory = info.memory if info.remote and info.memory else min(here.memory, info.memory or here.memory)
    return Host(
        machine,
        min(cores, request.cores) if request.cores else cores,
        min(memory, request.memory) if request.memory else memory,
    )


def _jobs_of(loaded: LoadedMatrix, host_name: str) -> int:
    """The jobs that matrix.local.yaml gives an engine's host; 0 where it doesn't."""
    host = loaded.local.engines.get(host_name)
    return host.jobs if host is not None else 0
