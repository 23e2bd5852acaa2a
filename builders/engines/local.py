"""The local engine: an isolated environment on this host, for when no container engine answers.

Isolated means: the variables of the caller are not handed on, PATH holds the environment and the system's folders
alone.  It does not mean that the network is closed; the receipt says which engine it was.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from builders import toolsearch_collector
from builders.engines import EngineInfo, Kept, Listener, Outcome, Paths, RoomRequest, Say, Step
from builders.engines.local_kept import BUILDS, CACHE, ENVIRONMENTS, drop_folder, kept_folders, using
from builders.host import cache_folder, network_of, work_folder
from builders.signals import undisturbed
from qualify.errors import UnavailableError
from qualify.lines import lines_of

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GRACE_SECONDS = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_SECONDS = 0.5  # between two looks at what a step's processes take
_WHOLE = "whole"  # in a kept work folder: everything that a build is made of lies there


class LocalEngine:
    """This host."""

    name = "local"

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    def info(self) -> EngineInfo:
        memory = toolsearch_collector.memory()
        known = [value for value in (memory["available"], memory["limit"]) if value is not None]
        return EngineInfo(
            self.name,
            platform.release(),
            (platform.machine(),),
            "this host",
            cores=toolsearch_collector.cores(),
            memory=min(known, default=0),
            host_id=f"local {socket.gethostname()}",
        )

    @contextlib.contextmanager
    def open(self, request: RoomRequest, listener: Listener) -> Iterator[LocalRoom]:
        if request.machine != platform.machine() or request.role != "build":
            raise UnavailableError(
                f"the local engine makes wheels for this host's machine alone, {platform.machine()}",
                where="--engine local",
                expected=f"a build whose programs run on {platform.machine()}, not a cross build or one for another",
                action="use --engine docker",
            )
        if request.memory:
            raise UnavailableError(
                "the local engine can't limit memory",
                where="--memory",
                action="use --engine docker, or --set MAX_JOBS=1",
            )
        if request.processes or request.cache_server:
            raise UnavailableError(
                "the local engine can't limit processes, and closes no network",
                where="--processes" if request.processes else "compiler_cache of matrix.local.yaml",
                action="use --engine docker",
            )
        root = self._root or request.cache or cache_folder()
        with kept_work_folder(root, request) as work, contextlib.ExitStack() as stack:
            room = LocalRoom(request, work, root)
            stack.enter_context(using(root, (work, Path(room.paths.environment), Path(room.paths.cache))))
            try:
                yield room
            finally:
                if request.key and room.discarded:
                    with undisturbed():
                        shutil.rmtree(work, ignore_errors=True)

    def kept(self) -> tuple[Kept, ...]:
        return kept_folders(self._root or cache_folder())

    def drop(self, kept: Kept) -> bool:
        return drop_folder(self._root or cache_folder(), kept)


@contextlib.contextmanager
def kept_work_folder(root: Path, request: RoomRequest) -> Iterator[Path]:
    """A folder for one build: gone afterwards, or, under a key, kept; one that never became whole is made anew."""
    if not request.key:
        with work_folder(root) as work:
            yield work
        return
    work = root / BUILDS / request.key[:16]
    if not (request.resume and (work / _WHOLE).is_file()):
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    yield work


class LocalRoom:
    """Folders of this host and child processes."""

    engine = "local"
    image = ""
    image_origin = "host"
    python = sys.executable

    def __init__(self, request: RoomRequest, work: Path, root: Path) -> None:
        self.machine = request.machine
        self.paths = Paths(
            source=str(work / "source"),
            out=str(work / "out"),
            environment=str(root / ENVIRONMENTS / request.environment_key[:16]),
            cache=str(root / CACHE),
            tools=str(work / "tools"),
        )
        for folder in (self.paths.out, self.paths.environment, self.paths.cache, self.paths.tools):
            Path(folder).mkdir(parents=True, exist_ok=True)
        self.resumed = (work / _WHOLE).is_file()
        self.discarded = False
        self._work = work
        self._cores = request.cores
        self._network = request.network or network_of()
        self._home = work / "home"
        self._home.mkdir(exist_ok=True)

    def put(self, folder: Path, inside: str) -> None:
        shutil.copytree(folder, inside, symlinks=True, dirs_exist_ok=True)

    def fetch(self, inside: str, folder: Path) -> None:
        shutil.copytree(inside, folder, dirs_exist_ok=True)

    def keep(self) -> None:
        (self._work / _WHOLE).touch()

    def discard(self) -> None:
        self.discarded = True

    def run(self, step: Step, say: Say) -> Outcome:
        environment = {"PATH": SYSTEM_PATH, "HOME": str(self._home), "LANG": "C.UTF-8", "TMPDIR": str(self._home)}
        if step.prepares:
            environment.update(self._network.environment_here(os.environ, self._home))
        environment.update(step.environment)
        began, killed_before = time.monotonic(), _memory_kills()
        try:
            process = subprocess.Popen(
                list(step.command),
                cwd=step.folder or None,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # A session of its own, so that the whole family can be ended and Ctrl-C reaches us alone.
                start_new_session=True,
            )
        except OSError as error:
            raise UnavailableError(
                f"{step.command[0]} did not start: {error.strerror}", where=f"step {step.name}"
            ) from error
        with _watched(process, step.timeout) as watch:
            try:
                if self._cores:
                    with contextlib.suppress(OSError):
                        os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[: self._cores])
                assert process.stdout is not None
                with process.stdout as stream:
                    for raw in stream:
                        for line in raw.decode("utf-8", "replace").rstrip("\n").split("\r"):
                            say(line)
                code = process.wait()
            finally:
                _end(process)
        killed = code != 0 and _memory_kills() > killed_before
        return Outcome(code, killed, time.monotonic() - began, watch.timed_out, watch.peak)


class _Watch:
    """Beside a step: the most memory that its processes had at once, and the end of its time."""

    def __init__(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        self.peak = 0  # bytes, resident, all processes of the session together, as far as the samples saw them
        self.timed_out = False
        self._process = process
        self._ends = time.monotonic() + timeout if timeout else None
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(_SAMPLE_SECONDS):
            self.peak = max(self.peak, _resident(self._process.pid))
            if self._ends is not None and time.monotonic() >= self._ends:
                self.timed_out = True
                _end(self._process)
                return


@contextlib.contextmanager
def _watched(process: subprocess.Popen[bytes], timeout: float) -> Iterator[_Watch]:
    watch = _Watch(process, timeout)
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()


def _resident(session: int) -> int:
    """Bytes resident in all processes of a session (proc(5): field 6 of stat is the session, 24 the pages)."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if len(fields) > 21 and fields[3] == str(session):
            total += int(fields[21]) * _PAGE
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a step's whole family: asked first, then killed."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        try:
            process.wait(timeout=_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if not _group_lives(process.pid):
            return


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _memory_kills() -> int:
    """How many processes this kernel has killed for memory since it started (``oom_kill`` of /proc/vmstat)."""
    try:
        rows = lines_of(Path("/proc/vmstat").read_text(encoding="ascii"))
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith("oom_kill ")), 0)
