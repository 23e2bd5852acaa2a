"""The plan: one frozen value with everything that decides the bytes of a wheel, made without compiling anything.

Engines act on a plan and decide nothing.  It prints as JSON and has a key, the sha256 of the part that decides the
bytes; how many jobs run, which machine it runs on and where local copies lie do not, and enter no key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from builders.externals import External, read_externals
from builders.externals_copies import copy_fault
from builders.requirements import Backend, less, read_backend, replaced
from builders.source import open_source
from builders.source_model import Progress, Source, say_nothing
from builders.toolsearch import Host, ToolDemand, demands, this_host
from qualify.errors import UsageError
from qualify.matrix.model import Build, Shape, Target
from qualify.matrix.rules import unknown_architecture
from qualify.scratch import scratch_folder

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

PLAN_VERSION = 1
GB = 10**9

How = Literal["native", "cross", "emulate"]

# Fields that say where and how fast a build runs, not what comes out of it.
_NOT_IN_KEY = frozenset({"jobs", "host", "unread"})


@dataclass(frozen=True)
class SourcePlan:
    """The source, without its place on this host."""

    kind: str
    commit: str
    commit_from: str
    version: str
    origin: str
    sha256: str


@dataclass(frozen=True)
class ToolkitPlan:
    """The CUDA toolkit; the version is the target's, the requirement what the package index is asked for."""

    version: str
    requirement: str


@dataclass(frozen=True)
class BasePlan:
    """The image that a Docker engine builds in, or what it is bootstrapped from."""

    image: str
    bootstrap: str


@dataclass(frozen=True)
class Plan:
    """What will be built, for what, from what and with what.

    ``toolkit`` and ``torch_cuda`` are ``None`` / ``False`` where the shape of the build needs none.  ``environment`` is
    whole: what the matrix, the source, the arch list and ``--set`` say; nothing of the caller's own environment is in
    it.  ``MAX_JOBS`` and the variables of local copies are added by :meth:`build_environment`.
    """

    version: int
    project: str
    target: str
    machine: str
    compute_capability: str
    python: tuple[str, ...]
    how: How
    engine: str
    shape: str  # why this is not the target's ordinary build; "" where it is
    expects_device_code: bool
    label: str
    arch_variable: str
    arch_list: str
    source: SourcePlan
    base: BasePlan
    toolkit: ToolkitPlan | None
    torch: str
    torch_cuda: bool
    backend: Backend
    requirements: tuple[str, ...]  # the tree's PEP 518 list, torch replaced by the target's
    without: Mapping[str, str]  # requirement that the shape of the build does without -> why
    environment: Mapping[str, str]
    refused_environment: tuple[str, ...]
    tools: tuple[ToolDemand, ...]
    externals: tuple[External, ...]
    unread: tuple[str, ...]  # "file:line: why": CMake that could not be read, so its external sources are not known
    jobs: int
    memory_per_job: int  # bytes
    disk: int  # bytes
    host: Host

    @property
    def needed_externals(self) -> tuple[External, ...]:
        return tuple(external for external in self.externals if external.needed)

    @property
    def holes(self) -> tuple[str, ...]:
        """What the build would have to fetch while it compiles, or what could not be read; for people."""
        missing = [
            f"{e.name}: {e.repository} at {e.tag} has no local copy (variable {e.variable or 'none'}; {e.where})"
            for e in self.needed_externals
            if not e.copy
        ]
        faulty = [f"{e.name}: {e.fault} ({e.copy})" for e in self.needed_externals if e.fault]
        return (*missing, *faulty, *(f"not looked at: {text}" for text in self.unread))

    def build_environment(self) -> dict[str, str]:
        """``environment`` with the number of jobs and the variables that point at local copies (paths of this host)."""
        copies = {e.variable: e.copy for e in self.needed_externals if e.variable and e.copy}
        return {**self.environment, "MAX_JOBS": str(self.jobs), **copies}

    def to_json(self) -> dict[str, Any]:
        """The whole plan with its key and its holes."""
        return {**asdict(self), "holes": list(self.holes), "key": self.key()}

    def key(self) -> str:
        """sha256 over the canonical JSON of everything that decides the bytes."""
        facts = {name: value for name, value in asdict(self).items() if name not in _NOT_IN_KEY}
        facts["externals"] = [asdict(replace(external, copy="", fault="")) for external in self.externals]
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


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
    progress: Progress = say_nothing,
) -> Plan:
    """Plan one target.  Nothing is compiled, and the package index is asked for the sdist alone.

    :param source: the opened source; without one it is opened in a temporary folder and thrown away.
    :param how: instead of the target's own.
    :param engine: the engine that will act on it; "" for the target's own.
    :param overrides: variables of the build's environment (``--set NAME=VALUE``), over the matrix's.
    :param arch_list: instead of the target's own.
    :param host: the machine that the engine runs on; this one where none is given.
    :raises UsageError: no such target.
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
        copies={name: str(loaded.folder(path)) for name, path in loaded.local.external_sources.items()},
        needed=needs_externals,
    )
    backend = read_backend(source.tree)
    host = host or this_host()
    how = how or wanted.how
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
        source=SourcePlan(source.kind, source.commit, source.commit_from, source.version, source.origin, source.sha256),
        base=BasePlan(wanted.base.image, wanted.base.bootstrap),
        toolkit=toolkit_plan(wanted, build) if needs_toolkit else None,
        torch=wanted.torch,
        torch_cuda=needs_torch_cuda,
        backend=backend,
        requirements=less(replaced(backend.requires, wanted.torch), shape.without if shape else {}),
        without=dict(sorted(shape.without.items())) if shape else {},
        environment=dict(sorted(environment.items())),
        refused_environment=build.refused_environment,
        tools=demands(build.tools, only=shape.tools if shape else None, machine=wanted.machine, how=how, host=host),
        externals=tuple(replace(e, fault=copy_fault(e)) if e.needed else e for e in externals),
        unread=unread if needs_externals else (),
        jobs=_jobs(jobs_by_hand) if jobs_by_hand else jobs_for(host, build.memory_per_job * GB),
        memory_per_job=build.memory_per_job * GB,
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
    return ToolkitPlan(target.toolkit, f"cuda-toolkit[{','.join(build.toolkit_extras)}]=={wanted}")


def jobs_for(host: Host, memory_per_job: int) -> int:
    """Compile jobs at a time: one a core, as far as the memory reaches, and at least one."""
    return max(1, min(host.cores, host.memory // memory_per_job))
