"""How a plan is made: from the matrix, an opened source, and what this site and host are like; nothing is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from builders.bases import read_lock
from builders.compilerfloor import Floor, compiler_floor
from builders.crates import read_crate_locks
from builders.externals import read_externals
from builders.externals_copies import copy_fault
from builders.externals_lock import read_externals_lock, resolved
from builders.plan import (
    GB,
    PLAN_VERSION,
    BasePlan,
    CratesPlan,
    ForkPlan,
    How,
    PatchPlan,
    Plan,
    SourcePlan,
    ToolkitPlan,
)
from builders.requirements import less, read_backend, replaced
from builders.requirements_lock import lock_lines, locked_elsewhere, locked_for, read_requirements_lock
from builders.requirements_overrides import file_differences, overridden
from builders.source import open_source
from builders.source_model import Progress, Source, say_nothing
from builders.toolfloors import cargo_floor, raised, rust_toolchain
from builders.toolkit import PINS, pinned_toolkit
from builders.toolsearch import Host, demands, this_host
from qualify.errors import UsageError
from qualify.matrix.model import Build, Shape, Target
from qualify.matrix.rules import unknown_architecture
from qualify.scratch import scratch_folder

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix


def make_plan(
    loaded: LoadedMatrix,
    target: str,
    *,
    source: Source | None = None,
    how: How | None = None,
    engine: str = "",
    overrides: Mapping[str, str] | None = None,
    arch_list: str = "",
    host: Host | None = None,
    jobs: int = 0,
    use_lock: bool = True,
    caller: Mapping[str, str] | None = None,
    progress: Progress = say_nothing,
) -> Plan:
    """Plan one target.  Nothing is compiled, and the package index is asked for the sdist alone.

    :param source: the opened source; without one it is opened in a temporary folder and thrown away.
    :param how: instead of the target's own.
    :param engine: the engine that will act on it; "" for the target's own.
    :param overrides: variables of the build's environment (``--set NAME=VALUE``), over the matrix's.
    :param arch_list: instead of the target's own.
    :param host: the machine that the engine runs on; this one where none is given.
    :param jobs: instead of what its cores and memory allow.
    :param use_lock: False leaves requirements.lock.yaml unread, for who writes it anew.
    :param caller: the environment of whoever asks (this process's): what the matrix allows of it reaches the build.
    :raises UsageError: no such target.
    :raises ConfigurationError: an override of the matrix that changes nothing.
    :raises PreflightError: the lock of requirements was made for others.
    """
    wanted = chosen_target(loaded, target)  # before anything is fetched for it
    if source is None:
        with scratch_folder("plan") as folder:
            opened = open_source(loaded, folder / "source", progress=progress, whole=False)
            return make_plan(
                loaded,
                target,
                source=opened,
                how=how,
                engine=engine,
                overrides=overrides,
                arch_list=arch_list,
                host=host,
                jobs=jobs,
                use_lock=use_lock,
                caller=caller,
            )
    matrix = loaded.matrix
    build = matrix.build
    overrides = dict(overrides or {})
    jobs_by_hand = overrides.pop("MAX_JOBS", "")  # how many run decides no bytes, so it is no part of the environment
    shape = chosen_shape(build, {**build.environment, **overrides})
    needs_toolkit = shape.toolkit if shape else build.expects_device_code
    needs_torch_cuda = shape.torch if shape else build.torch
    needs_externals = shape.external_sources if shape else True
    if needs_toolkit:
        arch_list = _arch_list(build, wanted, arch_list, overrides)
    arch_list = arch_list or wanted.arch_list
    environment = {
        **allowed(build, os.environ if caller is None else caller),
        **build.environment,
        **(shape.environment if shape else {}),
        **({build.arch_variable: arch_list} if needs_toolkit and build.arch_variable else {}),
        **source.environment,
        **overrides,
    }
    externals, unread = read_externals(
        source.tree,
        build.external_sources,
        overrides=build.external_overrides,
        variables=known_variables(build, environment),
        copies={
            name: path if "://" in path else str(loaded.folder(path))
            for name, path in loaded.local.external_sources.items()
        },
        folders=build.external_folders,
        needed=needs_externals,
    )
    externals = resolved(externals, read_externals_lock(loaded.path.parent))
    backend = read_backend(source.tree)
    host = host or this_host()
    how = how or wanted.how
    listed, overrides_said = overridden(replaced(backend.requires, wanted.torch), build.requirements)
    requirements = less(listed, shape.without if shape else {})
    toolkit = toolkit_plan(wanted, build) if needs_toolkit else None
    needs_crates = build.rust is not None and (shape is None or "cargo" in shape.tools)
    locks = read_crate_locks(source.tree, build.rust) if needs_crates and build.rust else ()
    machine = host.machine if how == "cross" else wanted.machine
    memory_per_job = build.memory_per_job * GB * threads_of(build, environment)
    lock = read_requirements_lock(loaded.path.parent) if use_lock else {}
    asked = (*requirements, *((toolkit.requirement, *toolkit.exact) if toolkit else ()))
    locked = locked_for(lock, target, wanted.python, machine, asked)
    return Plan(
        version=PLAN_VERSION,
        project=matrix.project.name,
        target=target,
        machine=wanted.machine,
        compute_capability=wanted.compute_capability,
        python=wanted.python,
        how=how,
        engine=engine or wanted.engine,
        shape=shape.reason if shape else "",
        expects_device_code=needs_toolkit,
        label=wanted.label,
        arch_variable=build.arch_variable,
        arch_list=arch_list,
        architectures=tuple(arch_list.replace(";", " ").split()) if needs_toolkit else (),
        source=SourcePlan(source.kind, source.commit, source.commit_from, source.version, source.origin, source.sha256),
        patches=tuple(PatchPlan(patch.file, patch.sha256) for patch in matrix.pin.patches),
        fork=fork_plan(source),
        crates=tuple(CratesPlan(lock.path, lock.sha256, len(lock.registry), len(lock.git)) for lock in locks),
        base=base_plan(wanted, machine),
        toolkit=toolkit,
        torch=wanted.torch,
        torch_cuda=needs_torch_cuda,
        backend=backend,
        requirements=requirements,
        without=dict(sorted(shape.without.items())) if shape else {},
        overrides=overrides_said,
        locked=lock_lines(locked),
        environment=dict(sorted(environment.items())),
        refused_environment=build.refused_environment,
        tools=raised(
            demands(build.tools, only=shape.tools if shape else None, machine=wanted.machine, how=how, host=host),
            tool_floors(source, build, known_variables(build, environment)),
            toolchain=rust_toolchain(source.tree, build.rust.toolchain) if build.rust else "",
        ),
        externals=tuple(replace(e, fault=copy_fault(e)) if e.needed else e for e in externals),
        unread=unread if needs_externals else (),
        repair=build.repair,
        compiler_cache=build.compiler_cache if needs_toolkit or build.expects_device_code else "",
        notes=(
            *source.notes,
            *locked_elsewhere(lock, target, wanted.python, machine),
            *file_differences(source.tree, build.requirements_files, backend.requires),
        ),
        jobs=jobs or (_jobs(jobs_by_hand) if jobs_by_hand else jobs_for(host, memory_per_job)),
        memory_per_job=memory_per_job,
        disk=build.disk * GB,
        host=host,
    )


def _jobs(text: str) -> int:
    """:raises UsageError: no number of jobs."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(f"{text!r} is no number of jobs", where="--set MAX_JOBS", expected="1 or more")
    return int(text)


def _arch_list(build: Build, target: Target, asked: str, overrides: Mapping[str, str]) -> str:
    """The architectures to compile for; the variable set by hand is an arch list too.

    :raises UsageError: it names nothing that could be compiled for.
    """
    by_hand = bool(build.arch_variable) and build.arch_variable in overrides
    chosen = overrides[build.arch_variable] if by_hand else asked or target.arch_list
    fault = unknown_architecture(chosen) if build.arch_variable == "TORCH_CUDA_ARCH_LIST" else None
    if fault is not None or not chosen.strip():
        raise UsageError(
            f"{fault!r} is no architecture of {build.arch_variable}" if fault else "the arch list is empty",
            where=f"--set {build.arch_variable}" if by_hand else "--arch-list",
            expected=f"{target.arch_list}, say",
        )
    return chosen


def chosen_target(loaded: LoadedMatrix, target: str) -> Target:
    """The target of that name.

    :raises UsageError: there is none; the names that there are stand in it.
    """
    if target not in loaded.matrix.targets:
        raise UsageError(
            f"no target {target}", where=str(loaded.path.name), expected="one of " + ", ".join(loaded.matrix.targets)
        )
    return loaded.matrix.targets[target]


def chosen_shape(build: Build, environment: Mapping[str, str]) -> Shape | None:
    """The first shape of the matrix whose every value is set in the build's environment."""
    for shape in build.shapes:
        if all(environment.get(name) == value for name, value in shape.when.items()):
            return shape
    return None


def known_variables(build: Build, environment: Mapping[str, str]) -> dict[str, str]:
    """The CMake variables whose values are known; ``$NAME`` in the matrix stands for a variable of the environment."""
    known = {
        name: environment.get(value[1:]) if value.startswith("$") else value
        for name, value in build.cmake_variables.items()
    }
    return {name: value for name, value in known.items() if value is not None}


def toolkit_plan(target: Target, build: Build) -> ToolkitPlan:
    """The toolkit as one requirement: the ``cuda-toolkit`` distribution pins each part, its parts alone do not."""
    wanted = target.toolkit if target.toolkit.count(".") >= 2 else f"{target.toolkit}.*"
    pins = PINS.get(pinned_toolkit(target.toolkit))
    exact = tuple(f"{name}=={version}" for name, version in pins.items()) if pins else ()
    return ToolkitPlan(target.toolkit, f"cuda-toolkit[{','.join(build.toolkit_extras)}]=={wanted}", exact)


def base_plan(target: Target, machine: str) -> BasePlan:
    """The base with the digest that the lock has for it, for programs of ``machine``."""
    digest = read_lock()[0].get(f"{target.base.image}@{machine}", "") if target.base.image else ""
    return BasePlan(target.base.image, target.base.bootstrap, digest)


def fork_plan(source: Source) -> ForkPlan | None:
    """What the source says of its upstream."""
    fork = source.fork
    if fork is None:
        return None
    overlay = tuple(f"{commit} {subject}" for commit, subject in fork.overlay)
    return ForkPlan(fork.repository, fork.base, overlay, -1 if fork.behind is None else fork.behind)


def allowed(build: Build, caller: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that the matrix lets through, and no other."""
    return {
        name: value
        for name, value in caller.items()
        if any(fnmatchcase(name, pattern) for pattern in build.allowed_environment)
        and not any(fnmatchcase(name, pattern) for pattern in build.refused_environment)
    }


def tool_floors(source: Source, build: Build, variables: Mapping[str, str]) -> tuple[Floor | None, ...]:
    """What the tree itself says of the oldest tools that it takes."""
    return (
        compiler_floor(source.tree, build.external_sources, variables) if build.external_sources else None,
        cargo_floor(source.tree, build.rust.toolchain) if build.rust else None,
    )


def threads_of(build: Build, environment: Mapping[str, str]) -> int:
    """How many threads one compiler has, as the build's environment says; 1 where nothing does."""
    text = environment.get(build.threads_variable, "") if build.threads_variable else ""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 1000 else 1


def jobs_for(host: Host, memory_per_job: int) -> int:
    """Compile jobs at a time: one a core, as far as the memory reaches, and at least one."""
    return max(1, min(host.cores, host.memory // memory_per_job))
