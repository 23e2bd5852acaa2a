"""Everything of a build that happens in a room, from the environment to the finished wheel and its receipt."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from builders import receipts
from builders.bases import role_for, wish_for
from builders.buildrequest import BuildRequest, Run
from builders.compilercache import cache_use, cache_variables
from builders.compiling import compile_wheel
from builders.engines import EngineInfo, Room, RoomRequest
from builders.environment import EnvironmentSpec, Prepared, environment_spec
from builders.filling import (
    Materials,
    State,
    apply_patches,
    clock_of,
    put_external_sources,
    recall,
    remember,
    variables_for,
)
from builders.finishing import Finished, Made, finish, only_wheel
from builders.host import network_of
from builders.jobs import jobs_in, measure
from builders.optional import declared_optional
from builders.plan import Plan
from builders.preflight import Facts, collect, judge, refuse_if_unmet, request_for
from builders.proving import collect_proof
from builders.receipting import Circumstances, make_receipt
from builders.receipts.model import Receipt
from builders.repair import FOLDER, repair_in
from builders.requirements import lacking_of_backend
from builders.stations import computed_version, prepare, run_collector, tree_inside
from builders.store.gitmirror import Mirrors
from qualify.errors import UnavailableError


def room_machine(plan: Plan, info: EngineInfo) -> str:
    """The machine whose programs run in the room.

    :raises UnavailableError: the engine is no machine for this plan.
    """
    if plan.how == "emulate" or plan.machine in info.machines:
        return plan.machine
    if plan.how == "cross" and info.machines[0] == "x86_64":
        return info.machines[0]
    raise UnavailableError(
        f"the {info.name} engine runs on {info.machines[0]}",
        where=f"target {plan.target}, --how {plan.how}",
        expected=f"an engine on {plan.machine}",
        action="point DOCKER_HOST at such a machine, or ask for --how emulate or cross by name",
    )


def build_in_room(
    run: Run,
    plan: Plan,
    info: EngineInfo,
    machine: str,
    materials: Materials,
    mirrors: Mirrors,
    work: Path,
    deliver: Callable[[Finished, Receipt], None],
) -> None:
    """Everything that happens in the room; its work folder is given up once ``deliver`` has the wheel and receipt."""
    request, log = run.request, run.log
    timeout = request.timeout or 60.0 * run.loaded.matrix.build.timeout
    spec = environment_spec(plan, machine, request.mode, cuda_home=_cuda_home(), interpreter=request.python)
    folders = run.loaded.local.folders
    cache = run.loaded.local.compiler_cache
    wanted = RoomRequest(
        build_id=f"{plan.target}-{secrets.token_hex(4)}",
        machine=machine,
        role=role_for("cross" if machine != plan.machine else "native"),
        base=wish_for(plan.target, run.loaded.matrix.targets[plan.target].base, run.loaded.local),
        environment_key=spec.key,
        key=plan.key(),
        resume=not request.rebuild,
        memory=request.memory,
        cores=request.cores,
        cache_server=cache.server if cache is not None and plan.compiler_cache else "",
        network=network_of(run.loaded.local),
        cache=run.loaded.folder(folders.cache) if folders.cache else None,
    )
    with contextlib.ExitStack() as stack:
        with run.timed("room"):
            room = stack.enter_context(run.engine.open(wanted, log))
            if room.resumed:
                log.say("going on in the build folder of an earlier try")
            else:
                room.put(materials.root, room.paths.source)
        if spec.mode == "isolated":
            with run.timed("preflight of the place"):
                _look(run, room, plan, None, {}, "")
        log.say(f"environment: {len(spec.requirements)} requirements" + (", CUDA toolkit" if spec.toolkit else ""))
        with run.timed("environment"):
            prepared = prepare(room, spec, log)
        tree = tree_inside(room, materials.source.tree, materials.root)
        with run.timed("sources into the room"):
            state = _filled(run, room, plan, materials, prepared, tree, mirrors, work)
        with run.timed("preflight"):
            variables = variables_for(plan, room, prepared, materials)
            prepared, facts = _look_whole(run, room, plan, spec, prepared, variables, tree)
        with run.timed("compile"):
            cached = cache_variables(plan, room, run.loaded.local, work, variables)
            compiled = compile_wheel(
                room,
                prepared,
                {**variables, **cached},
                tree,
                log,
                plan.target,
                jobs=_jobs(run, room, plan),
                timeout=timeout,
            )
            use = cache_use(plan, room, cached)
        with run.timed("proof"):
            evidence = collect_proof(room, prepared, tree, state.began)
        with run.timed("repair"):
            repaired = repair_in(room, prepared, plan, log)
            room.fetch(room.paths.out, work / "out")
        place = {"machine": room.machine, "image": room.image, "image_origin": room.image_origin}
        with run.timed("finish"):
            made = Made(
                state.version,
                compiled.output,
                evidence,
                repaired,
                prepared.provided_libraries,
                tuple(crate for each in materials.vendored for crate in each.lock.crates),
                prepared.distributions,
                prepared.hashes,
                declared_optional(materials.source.tree),
            )
            wheel = only_wheel(work / "out" / FOLDER if repaired.file else work / "out", log.path)
            done = finish(wheel, plan, run.loaded, made, log.say)
        circumstances = Circumstances(
            deviations=_deviations(request, plan),
            mode=request.mode,
            network=_network_words(run, wanted),
            prepared=prepared,
            variables={**variables, **cached},
            facts=facts,
            compiled=compiled,
            cache=use,
            engine={"name": info.name, "version": info.version, "detail": info.detail, **place},
            memory=request.memory,
            cores=request.cores,
            timeout=timeout,
            seconds=run.seconds,
            began=run.began,
            ended=datetime.now(UTC),
            resumed=room.resumed,
        )
        document = make_receipt(plan, materials.source, done, circumstances, receipts.log_for(done.wheel).name)
        deliver(done, document)
        room.discard()


def _filled(
    run: Run,
    room: Room,
    plan: Plan,
    materials: Materials,
    prepared: Prepared,
    tree: str,
    mirrors: Mirrors,
    work: Path,
) -> State:
    """The room with everything in it, and patched; of a kept one only what an earlier try left word of."""
    if room.resumed:
        return recall(room, work)
    version = computed_version(room, materials.source, prepared, tree)
    if version:
        run.log.say(f"version of the clean tree: {version}")
    put_external_sources(room, plan, materials, mirrors, work)
    apply_patches(room, materials, tree, run.log)
    state = State(version, clock_of(room, prepared))
    remember(room, state, work)
    return state


def _look_whole(
    run: Run,
    room: Room,
    plan: Plan,
    spec: EnvironmentSpec,
    prepared: Prepared,
    variables: Mapping[str, str],
    tree: str,
) -> tuple[Prepared, Facts]:
    """The preflight in the finished environment; what the backend asks for besides is installed first (PEP 517)."""
    facts = _collect(run, room, plan, prepared, variables, tree)
    also = lacking_of_backend(facts, plan.torch, plan.without) if spec.mode == "isolated" else ()
    if also:
        run.log.say(f"the build backend asks for {', '.join(also)} besides")
        prepared = prepare(room, spec, run.log, also)
        facts = _collect(run, room, plan, prepared, variables, tree)
    _judge(run, plan, facts, follows=False)
    return prepared, facts


def _look(
    run: Run, room: Room, plan: Plan, prepared: Prepared | None, variables: Mapping[str, str], tree: str
) -> Facts:
    """The preflight in the room, before the environment is made.

    :raises PreflightError: something is not as the build needs it; the whole list is in the error.
    """
    facts = _collect(run, room, plan, prepared, variables, tree)
    _judge(run, plan, facts, follows=prepared is None)
    return facts


def _collect(
    run: Run, room: Room, plan: Plan, prepared: Prepared | None, variables: Mapping[str, str], tree: str
) -> Facts:
    asked = request_for(
        plan,
        python=prepared.python if prepared else "",
        tree=tree,
        look_in=run.request.look_in,
        environment={**_refused(plan, os.environ), **variables},
        network=False,
    )
    return collect(asked, lambda arguments: run_collector(room, prepared, variables, arguments))


def _judge(run: Run, plan: Plan, facts: Facts, *, follows: bool) -> None:
    items = judge(
        plan, facts, environment_follows=follows, in_store=frozenset(e.name for e in plan.needed_externals if e.commit)
    )
    for item in items:
        run.log.note(item.render())
    refuse_if_unmet(items)


def _refused(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that the build refuses.  They would not be handed on, but whoever set them meant them."""
    patterns = plan.refused_environment
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, p) for p in patterns)}


def _jobs(run: Run, room: Room, plan: Plan) -> int:
    """What somebody asked for, or as many of the plan's as the place bears now that the compile begins."""
    host = run.loaded.local.engines.get(run.host_name)
    if run.request.jobs or "MAX_JOBS" in run.request.overrides or (host is not None and host.jobs):
        return plan.jobs
    place = measure(room)
    run.log.note(f"the place of the compile: {place.words()}")
    jobs = jobs_in(place, plan.jobs, plan.memory_per_job)
    if jobs < plan.jobs:
        run.log.say(f"{jobs} of the planned {plan.jobs} jobs: there are {place.words()}")
    return jobs


def _deviations(request: BuildRequest, plan: Plan) -> tuple[str, ...]:
    """What differs from what the matrix says of an ordinary build of the target."""
    return (
        *(f"--set {name}" for name in sorted(request.overrides)),
        *(["--arch-list"] if request.arch_list else []),
        *(["--how"] if request.how else []),
        *([f"--requirement-mode {request.mode}"] if request.mode != "isolated" else []),
        *(f"without requirement {name}: {reason}" for name, reason in plan.without.items()),
        *plan.overrides,
    )


def _network_words(run: Run, wanted: RoomRequest) -> str:
    if run.engine.name != "docker":
        return "open"
    return (
        f"closed during the compile, but for {wanted.cache_server}"
        if wanted.cache_server
        else ("closed during the compile")
    )


def _cuda_home() -> str:
    """The toolkit of this host: CUDA_HOME, else the one whose nvcc is on PATH."""
    nvcc = shutil.which("nvcc")
    return os.environ.get("CUDA_HOME", "") or (str(Path(nvcc).resolve().parent.parent) if nvcc else "")
