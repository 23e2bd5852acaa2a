"""From a target of the matrix to a wheel with its receipt: the stations in their order, on whichever engine.

source -> plan -> environment -> preflight -> compile -> tag -> label -> receipt.  Nothing is compiled unless the
preflight is content, and the output folder gets a wheel whole, with its receipt, or nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TextIO

from builders import receipt as receipts
from builders.bases import role_for, wish_for
from builders.compiling import compile_wheel
from builders.engines import Engine, EngineInfo, Room, RoomRequest, choose_engine
from builders.environment import Mode, Prepared, environment_spec
from builders.finishing import Finished, finish, only_wheel
from builders.host import network_of, work_folder
from builders.plan import How, Plan
from builders.planning import chosen_target, make_plan
from builders.preflight import Facts, collect, judge, refuse_if_unmet, request_for
from builders.progress import BuildLog
from builders.signals import interruptible
from builders.source import open_source
from builders.stations import prepare, run_collector, tree_inside, variables_for
from builders.toolsearch import Host, this_host
from qualify.errors import UnavailableError, UsageError
from qualify.evidence import tool_version
from qualify.files import copy_atomic, locked, write_atomic
from qualify.matrix import LoadedMatrix

_LOCK_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What a person asks for, beside the matrix."""

    target: str
    out: Path
    engine: str = ""  # "" takes the target's
    how: How | None = None
    arch_list: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = "isolated"
    python: str = ""  # the interpreter of the place that builds
    memory: int = 0  # bytes that a step may take; 0 for no limit
    engine_host: str = ""  # "" takes the target's, or the engine that answers here
    cores: int = 0  # that a step may use; 0 for all
    jobs: int = 0  # 0 for as many as cores and memory allow
    timeout: float = 0.0  # seconds that a compile may take; 0 for any
    offline: bool = False
    wait: bool = True  # where another process builds the same plan
    look_in: tuple[str, ...] = ()
    rebuild: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    wheel: Path
    receipt: Path
    log: Path
    reused: bool


@dataclass(slots=True)
class _Run:
    """What one build gathers on its way."""

    loaded: LoadedMatrix
    request: BuildRequest
    log: BuildLog
    began: datetime
    engine_name: str
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - began, 2)


def build(loaded: LoadedMatrix, request: BuildRequest, stderr: TextIO, engine: Engine | None = None) -> Built:
    """Build one target.

    :param engine: instead of the one that the request names.
    :raises UsageError: no such target, engine or way.
    :raises UnavailableError: no engine, no network, no base.
    :raises PreflightError: the preflight refused; nothing was compiled.
    :raises BuildError: the build failed after its compile began.
    """
    target = chosen_target(loaded, request.target)
    if request.out.exists() and not request.out.is_dir():
        raise UsageError("no folder", where=f"--out {request.out}", expected="a folder, or a name for one")
    request.out.mkdir(parents=True, exist_ok=True)
    log = BuildLog(request.out / f"{request.target}.log", stderr, verbose=request.verbose)
    with interruptible(), locked(request.out / request.target, timeout=_LOCK_SECONDS, purpose="a build"), log:
        chosen = engine or choose_engine(request.engine or target.engine, target.machine, log.say)
        run = _Run(loaded, request, log, datetime.now(UTC), chosen.name)
        scratch = loaded.local.folders.scratch
        with work_folder(loaded.folder(scratch) if scratch else None) as folder:
            return _build(run, chosen, folder)


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


def _build(run: _Run, engine: Engine, work: Path) -> Built:
    request, log, info = run.request, run.log, engine.info()
    root = work / "source"
    with run.timed("source"):
        source = open_source(run.loaded, root, progress=log.say)
        plan = make_plan(
            run.loaded,
            request.target,
            source=source,
            how=request.how,
            engine=engine.name,
            overrides=request.overrides,
            arch_list=request.arch_list,
            host=_host(request.memory),
        )
    log.say(f"{plan.project} {source.version} at {source.commit or 'no commit'} for {plan.target}, {plan.how}")
    if not request.rebuild and (found := receipts.find_built(request.out, plan.key(), engine.name)):
        log.say(f"nothing to do: {found.name} was built from this plan")
        return Built(found, receipts.path_for(found), receipts.log_for(found), True)
    machine = room_machine(plan, info)
    spec = environment_spec(plan, machine, request.mode, cuda_home=_cuda_home(), interpreter=request.python)
    folders = run.loaded.local.folders
    wanted = RoomRequest(
        build_id=f"{plan.target}-{secrets.token_hex(4)}",
        machine=machine,
        role=role_for("cross" if machine != plan.machine else "native"),
        base=wish_for(plan.target, run.loaded.matrix.targets[plan.target].base, run.loaded.local),
        environment_key=spec.key,
        memory=request.memory,
        network=network_of(run.loaded.local),
        cache=run.loaded.folder(folders.cache) if folders.cache else None,
    )
    with contextlib.ExitStack() as stack:
        with run.timed("room"):
            room = stack.enter_context(engine.open(wanted, log))
            room.put(root, room.paths.source)
        if spec.mode == "isolated":
            with run.timed("preflight of the place"):
                _look(run, room, plan, None, {}, "")
        log.say(f"environment: {len(spec.requirements)} requirements" + (", CUDA toolkit" if spec.toolkit else ""))
        with run.timed("environment"):
            prepared = prepare(room, spec, log)
        tree = tree_inside(room, source.tree, root)
        with run.timed("preflight"):
            variables = variables_for(plan, room, prepared)
            facts = _look(run, room, plan, prepared, variables, tree)
        with run.timed("compile"):
            compile_wheel(room, prepared, variables, tree, log, plan.target, jobs=plan.jobs, timeout=request.timeout)
        room.fetch(room.paths.out, work / "out")
        place = {"machine": room.machine, "image": room.image, "image_origin": room.image_origin}
    with run.timed("finish"):
        done = finish(only_wheel(work / "out", log.path), plan, run.loaded, prepared.provided_libraries, log.say)
    engine_part = {"name": info.name, "version": info.version, "detail": info.detail, **place}
    document = {
        "version": receipts.RECEIPT_VERSION,
        "key": plan.key(),
        **done.document,
        **_circumstances(run, plan, prepared, variables, facts),
        "engine": engine_part,
        "plan": plan.to_json(),
    }
    return _deliver(run, done, document)


def _look(
    run: _Run, room: Room, plan: Plan, prepared: Prepared | None, variables: Mapping[str, str], tree: str
) -> Facts:
    """The preflight in the room, before the environment is made (without one) and again in it.

    :raises PreflightError: something is not as the build needs it; the whole list is in the error.
    """
    asked = request_for(
        plan,
        python=prepared.python if prepared else "",
        tree=tree,
        look_in=run.request.look_in,
        environment={**_refused(plan, os.environ), **variables},
        network=False,
    )
    facts = collect(asked, lambda arguments: run_collector(room, prepared, variables, arguments))
    items = judge(plan, facts, environment_follows=prepared is None)
    for item in items:
        run.log.note(item.render())
    refuse_if_unmet(items)
    return facts


def _refused(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that the build refuses.  They would not be handed on, but whoever set them meant them."""
    patterns = plan.refused_environment
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, p) for p in patterns)}


def _circumstances(
    run: _Run, plan: Plan, prepared: Prepared, variables: Mapping[str, str], facts: Facts
) -> dict[str, Any]:
    """The receipt's part on how the wheel was made."""
    request = run.request
    deviations = [
        *(f"--set {name}" for name in sorted(request.overrides)),
        *(["--arch-list"] if request.arch_list else []),
        *(["--how"] if request.how else []),
        *([f"--requirement-mode {request.mode}"] if request.mode != "isolated" else []),
        *(f"without requirement {name}: {reason}" for name, reason in plan.without.items()),
    ]
    return {
        "how": plan.how,
        "network": "closed during the compile" if run.engine_name == "docker" else "open",
        "requirement_mode": request.mode,
        "deviations": deviations,
        "environment": {
            "python": prepared.python_version,
            "distributions": dict(prepared.distributions),
            "reused": prepared.reused,
            "variables": dict(sorted(variables.items())),
        },
        "tools": receipts.tools_used(facts),
        "jobs": plan.jobs,
        "memory_limit": request.memory,
        "seconds": dict(run.seconds),
        "began": run.began.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": {"machine": plan.host.machine, "cores": plan.host.cores, "memory": plan.host.memory},
        "tool": {"name": "wheel-assay", "version": tool_version()},
    }


def _deliver(run: _Run, done: Finished, document: dict[str, Any]) -> Built:
    """The wheel, its log, and last its receipt, which alone says that all is there."""
    out = run.request.out
    wheel = out / done.wheel.name
    document["log"] = receipts.log_for(wheel).name
    receipts.path_for(wheel).unlink(missing_ok=True)
    copy_atomic(done.wheel, wheel, sha256=done.facts.sha256)
    run.log.say(f"built {wheel.name} in {sum(run.seconds.values()):.0f} s")
    copy_atomic(run.log.path, receipts.log_for(wheel))
    write_atomic(receipts.path_for(wheel), receipts.to_text(document))
    return Built(wheel, receipts.path_for(wheel), receipts.log_for(wheel), False)


def _host(limit: int) -> Host:
    """This machine with no more memory than the limit, so that the jobs fit in it."""
    host = this_host()
    return replace(host, memory=min(host.memory, limit)) if limit else host


def _cuda_home() -> str:
    """The toolkit of this host: CUDA_HOME, else the one whose nvcc is on PATH."""
    nvcc = shutil.which("nvcc")
    return os.environ.get("CUDA_HOME", "") or (str(Path(nvcc).resolve().parent.parent) if nvcc else "")
