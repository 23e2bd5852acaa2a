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
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from builders.engines import EngineInfo, Listener, Outcome, Paths, RoomRequest, Say, Step
from builders.host import cache_folder, network_of, work_folder
from qualify.errors import UnavailableError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GRACE_SECONDS = 5.0


class LocalEngine:
    """This host."""

    name = "local"

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    def info(self) -> EngineInfo:
        return EngineInfo(self.name, platform.release(), (platform.machine(),), "this host")

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
        root = self._root or request.cache or cache_folder()
        with work_folder(root) as work:
            yield LocalRoom(request, work, root)


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
            environment=str(root / "environments" / request.environment_key[:16]),
            cache=str(root / "build-cache"),
            tools=str(work / "tools"),
        )
        for folder in (self.paths.out, self.paths.environment, self.paths.cache, self.paths.tools):
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._network = request.network or network_of()
        self._home = work / "home"
        self._home.mkdir()

    def put(self, folder: Path, inside: str) -> None:
        shutil.copytree(folder, inside, symlinks=True, dirs_exist_ok=True)

    def fetch(self, inside: str, folder: Path) -> None:
        shutil.copytree(inside, folder, dirs_exist_ok=True)

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
        try:
            assert process.stdout is not None
            with process.stdout as stream:
                for raw in stream:
                    for line in raw.decode("utf-8", "replace").rstrip("\n").split("\r"):
                        say(line)
            code = process.wait()
        finally:
            _end(process)
        killed = code != 0 and _memory_kills() > killed_before
        return Outcome(code, killed, time.monotonic() - began)


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
        rows = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith("oom_kill ")), 0)
