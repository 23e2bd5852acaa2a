"""Which engine host builds which target: the hosts that answer, and for each target the best of them.

One engine builds one target at a time, since a build takes all the cores and memory that it gets.  A target goes to a
host of its own machine where one answers; else it is made as it says itself (or as is asked for by name) on another:
cross-compiled or emulated.  Nothing is emulated because there happens to be no better host.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from builders.enginehosts import HERE, address_of, checked, wanted_host
from builders.engines import EngineInfo, engine_named
from builders.plan import How
from qualify.errors import AssayError, ConfigurationError, UnavailableError
from qualify.matrix import LoadedMatrix
from qualify.matrix.local import EngineHost
from qualify.matrix.model import Target

# The local engine of this host; no entry of `engines` bears a space.
THIS_HOST = "this host"
_CROSS_FROM = "x86_64"  # the machine that has cross compilers


@dataclass(frozen=True, slots=True)
class Host:
    """One place that builds: an engine that answers, or why it doesn't (``fault``, then no machine is known)."""

    name: str
    engine: str  # "docker" or "local"
    address: str  # equal for two names of one engine, which builds one target at a time under both
    machine: str = ""
    version: str = ""
    cores: int = 0
    memory: int = 0  # bytes
    fault: str = ""

    @property
    def usable(self) -> bool:
        return not self.fault


@dataclass(frozen=True, slots=True)
class Job:
    """A target to be built, and what its choice of a host depends on."""

    target: str
    machine: str
    engine: str  # "auto", "docker" or "local"
    how: How  # where no host of its machine answers
    host: str = ""  # the name of the only host that may; "" for any


Probe = Callable[[EngineHost | None], EngineInfo]


def jobs_for(loaded: LoadedMatrix, targets: Sequence[str], how: How | None = None) -> tuple[Job, ...]:
    """The jobs of targets, each once, in the order in which they are named.

    :param how: instead of what each says for itself; it counts where no host of its machine answers.
    :raises ConfigurationError: one is bound to a host that matrix.local.yaml doesn't name.
    """
    jobs = []
    for name in dict.fromkeys(targets):
        target: Target = loaded.matrix.targets[name]
        host = wanted_host(loaded, name)
        if host and host != HERE and host not in loaded.local.engines:
            raise ConfigurationError(
                f"no engine host {host}",
                where=f"target {name}",
                expected=f"one of {', '.join((HERE, *loaded.local.engines))}",
                action="name it under `engines` of matrix.local.yaml beside the matrix",
            )
        if host and target.engine == "local":
            raise ConfigurationError(
                f"its engine is local, and its engine host {host}",
                where=f"target {name}",
                expected="engine: docker, or no engine_host",
            )
        jobs.append(Job(name, target.machine, target.engine, how or target.how, host))
    return tuple(jobs)


def ask_engine(host: EngineHost | None) -> EngineInfo:
    """:raises UnavailableError: no Docker engine answers there."""
    return engine_named("docker", host).info()


def find_hosts(loaded: LoadedMatrix, jobs: Iterable[Job], probe: Probe = ask_engine) -> tuple[Host, ...]:
    """Every place that may build one of the jobs, asked at the same time: those that don't answer say why.

    This host's own interpreter is among them where a job asks for the local engine, or no Docker engine answers here.

    :raises ConfigurationError: an entry of `engines` is no address that is safe to use.
    """
    jobs = tuple(jobs)
    places: dict[str, EngineHost | None] = {HERE: None}
    places.update({name: checked(name, host) for name, host in loaded.local.engines.items()})
    bound = {job.host for job in jobs}
    if "" not in bound:  # each is bound to one: the others need not be asked
        places = {name: host for name, host in places.items() if name in bound}
    with ThreadPoolExecutor(max_workers=16) as pool:
        found = list(pool.map(lambda item: _asked(item[0], item[1], probe), places.items()))
    docker_is_here = any(host.name == HERE and host.usable for host in found)
    if any(job.engine == "local" or (job.engine == "auto" and not docker_is_here) for job in jobs):
        found.append(_this_host())
    return tuple(found)


def _asked(name: str, place: EngineHost | None, probe: Probe) -> Host:
    address = address_of(place)
    try:
        info = probe(place)
    except UnavailableError as error:
        return Host(name, "docker", address, fault=error.what)
    return Host(name, "docker", address, info.machines[0], info.version, info.cores, info.memory)


def _this_host() -> Host:
    return Host(THIS_HOST, "local", THIS_HOST, platform.machine())


def way(job: Job, host: Host) -> How | None:
    """How a host would make a job's wheel; None where it can't, or nobody asked for the way in which it could."""
    if not host.usable or (job.host and job.host != host.name):
        return None
    if job.engine not in ("auto", host.engine):
        return None
    if host.machine == job.machine:
        return "native"
    if host.engine == "local":
        return None
    if job.how == "cross":
        return "cross" if host.machine == _CROSS_FROM else None
    return "emulate" if job.how == "emulate" else None


def fitting(job: Job, hosts: Iterable[Host]) -> tuple[Host, ...]:
    """The hosts that make a job's wheel in the best way that any of them has; () where none can."""
    ranked = [(_rank(job, host), host) for host in hosts]
    best = min((rank for rank, _ in ranked if rank is not None), default=None)
    return tuple(host for rank, host in ranked if rank is not None and rank == best)


def _rank(job: Job, host: Host) -> tuple[int, int] | None:
    """Natively before otherwise; in a container before on this host itself, as ``auto`` has it."""
    found = way(job, host)
    if found is None:
        return None
    return (0 if found == "native" else 1, 0 if host.engine == "docker" else 1)


def next_job(host: Host, waiting: Sequence[Job], hosts: Sequence[Host]) -> Job | None:
    """The first job of a host's queue: of those for which no host is better than this one."""
    return next((job for job in waiting if host in fitting(job, hosts)), None)


def unplaced(job: Job, hosts: Collection[Host]) -> AssayError:
    """Why no host builds a job, and what would."""
    where = f"target {job.target}"
    if job.host:
        host = next((host for host in hosts if host.name == job.host), None)
        if host is not None and host.fault:
            return UnavailableError(
                f"its engine host {job.host} is not there: {host.fault}",
                where=where,
                action="start it, or bind the target to another under `engine_hosts` of matrix.local.yaml",
            )
        machine = host.machine if host is not None else "another machine"
        return UnavailableError(
            f"its engine host {job.host} is a machine {machine}, which makes no {job.machine} wheel {job.how}",
            where=where,
            expected=f"a host of machine {job.machine}",
            action="bind it to another, or ask for --how cross or emulate by name",
        )
    said = "; ".join(f"{host.name}: {host.fault or host.machine}" for host in hosts)
    return UnavailableError(
        f"no host makes its {job.machine} wheel {job.how}",
        where=where,
        expected=f"a host of machine {job.machine} among {said}",
        action="start one, name one under `engines` of matrix.local.yaml, or ask for --how cross or emulate by name",
    )
