"""Where a build runs: one file and one line in :data:`ENGINES` for each engine.

An engine decides nothing.  It opens a room for one build (:class:`Room`) and runs the steps that the pipeline
hands it.  Inside a room every path is one of :class:`Paths`; two of its folders outlive the room: the
environment (what PEP 518 asks for, and the toolkit) and the cache.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from builders.bases import BaseWish
from builders.host import Network
from qualify.errors import UnavailableError, UsageError
from qualify.matrix.local import EngineHost

Say = Callable[[str], None]  # one line of a log, without its end of line


class Listener(Protocol):
    """Who hears what an engine does."""

    def say(self, text: str) -> None:
        """A line for people."""

    def detail(self, text: str) -> None:
        """A line of a tool's output, of which people see one now and then."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What answered: name, version, and the machines it can run, the native one first."""

    name: str
    version: str
    machines: tuple[str, ...]
    detail: str = ""
    api: str = ""  # the version of the engine's API; "" where it has none
    cores: int = 0  # of the engine's host, as far as the engine may use them; 0 where it doesn't say
    memory: int = 0  # bytes that new work may take there; 0 where it doesn't say
    remote: bool = False  # may be another machine's: this host's memory says nothing of it
    host_id: str = ""  # equal for two ways to one engine, and for no two engines; "" where it can't be told


@dataclass(frozen=True, slots=True)
class RoomRequest:
    """What a build needs of its room.

    ``machine`` is that of the programs that run in it: x86_64 for a cross build.  ``role`` names the image:
    "build" or "cross".  Rooms of one ``environment_key`` share one environment folder.  ``memory`` in bytes is the
    most that a step may take, swap included; 0 for no limit; ``cores`` and ``processes`` likewise.

    ``key`` names a work folder that is kept until :meth:`Room.discard`, so that a build which was stopped goes on in
    it; "" for one that goes with the room.  Without ``resume`` what an earlier build left there is removed first.
    ``cache_server`` is the one address that a step without a network may
    still reach, "" for none.  ``network`` is how the package index is reached,
    ``cache`` a folder of this host for an engine that keeps things here; where they are not given, this host's own.
    """

    build_id: str
    machine: str
    role: str
    base: BaseWish
    environment_key: str
    key: str = ""
    memory: int = 0
    cores: int = 0
    processes: int = 0
    cache_server: str = ""
    resume: bool = True
    network: Network | None = None
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class Paths:
    """Folders inside a room."""

    source: str
    out: str
    environment: str
    cache: str
    tools: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command in a room.

    ``prepares``: the one kind of step that may reach the network and write to the environment; every other
    runs without a network.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    prepares: bool = False
    timeout: float = 0.0  # seconds of wall time; 0 for any


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended; seconds of wall time, and the most memory that it took at once (bytes; 0: nobody counted)."""

    code: int
    killed_for_memory: bool
    seconds: float
    timed_out: bool = False
    peak_memory: int = 0


class Room(Protocol):
    """A place for one build, gone when its context ends."""

    engine: str
    machine: str
    image: str  # content id of the image; "" where there is none
    image_origin: str  # "registry", "bootstrap" or "host"
    paths: Paths
    python: str  # an interpreter of the room that can make environments; "" to be looked for by version
    resumed: bool  # the work folder is that of an earlier try, and everything that was to be put into it is there

    def put(self, folder: Path, inside: str) -> None:
        """Copy the contents of a folder of this host to ``inside``."""

    def fetch(self, inside: str, folder: Path) -> None:
        """Copy the contents of ``inside`` to a folder of this host."""

    def keep(self) -> None:
        """All that the build is made of lies in the work folder: a later room of the same key goes on from here."""

    def discard(self) -> None:
        """The work folder is of no further use; it goes when the room closes."""

    def run(self, step: Step, say: Say) -> Outcome:
        """Run one step to its end; every line of its output goes to ``say`` as it comes.

        :raises UnavailableError: the engine went away.
        """


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that an engine keeps when rooms close, and that can be made again."""

    kind: Literal["work", "environment", "cache"]
    name: str  # of a volume, or the path of a folder
    since: float  # seconds since the epoch: when it was made
    size: int  # bytes; -1 where nobody says
    used: bool  # a room that is open needs it now


class Engine(Protocol):
    name: str

    def info(self) -> EngineInfo:
        """:raises UnavailableError: it does not answer."""

    def open(self, request: RoomRequest, listener: Listener) -> AbstractContextManager[Room]:
        """:raises UnavailableError: this engine can't give such a room."""

    def kept(self) -> tuple[Kept, ...]:
        """What it keeps: work folders of builds that did not end well, environments and caches.

        :raises UnavailableError: it does not answer.
        """

    def drop(self, kept: Kept) -> bool:
        """Remove one of :meth:`kept`; False where a room took it into use meanwhile.

        :raises UnavailableError: it does not answer.
        """


ENGINES = {
    "docker": "builders.engines.docker:DockerEngine",
    "local": "builders.engines.local:LocalEngine",
}


def engine_named(name: str, host: EngineHost | None = None) -> Engine:
    """The engine of that name, not yet asked for anything.

    :param host: where it answers, for an engine that may be another machine's.
    :raises UsageError: no such engine, or it is this host alone.
    """
    try:
        module, _, attribute = ENGINES[name].partition(":")
    except KeyError:
        raise UsageError(
            f"no engine is named {name!r}", where="--engine", expected=", ".join(("auto", *ENGINES))
        ) from None
    kind = getattr(importlib.import_module(module), attribute)
    if host is not None and name != "docker":
        raise UsageError(f"the {name} engine has no host", where="--engine-host", expected="--engine docker")
    made: Engine = kind(host) if host is not None else kind()
    return made


def choose_engine(name: str, machine: str, say: Say, host: EngineHost | None = None) -> Engine:
    """The engine to use; for ``auto`` Docker where it answers, else this host, and ``say`` tells which and why.

    An engine whose ``host`` is named is that one: nothing stands in for it.

    :raises UnavailableError: the named engine does not answer, or none can run ``machine``.
    """
    if name != "auto" or host is not None:
        engine = engine_named("docker" if name == "auto" else name, host)
        engine.info()
        return engine
    docker = engine_named("docker")
    try:
        docker.info()
    except UnavailableError as error:
        local = engine_named("local")
        if machine not in local.info().machines:
            raise UnavailableError(
                f"{error.what}, and this host is no {machine}",
                where="engine",
                expected=f"a Docker engine, or a host of machine {machine}",
                action=error.action,
            ) from error
        say(f"engine: local, in an isolated environment on this host, since Docker does not answer: {error.what}")
        return local
    say("engine: docker")
    return docker
