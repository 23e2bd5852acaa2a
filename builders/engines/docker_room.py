"""One build's containers and volumes.

Sources and results travel by the engine's own archive API, so nothing here needs the engine to see this host's
folders.  Measured facts that shaped it: ``attach(logs=True)`` loses what was written before, ``logs(follow)``
doesn't; a step killed for memory may exit with any code, ``State.OOMKilled`` tells.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from builders.engines import Outcome, Paths, RoomRequest, Say, Step, archives
from builders.engines.docker_client import GONE, APIError, Client, NotFound, answering
from builders.engines.docker_images import PLATFORMS
from builders.engines.docker_relay import Relay
from builders.host import Network, process_mark
from builders.signals import undisturbed
from qualify.errors import UnavailableError

OWNER = "wheel-assay.owner"  # label: host and process that a container or volume belongs to
KEY = "wheel-assay.key"  # label: the build key of a kept work volume
_USER = 1000  # "builder" of dockerfiles/build.Dockerfile
_ROOM = "/room"  # the work volume inside a container; dockerfiles/build.Dockerfile makes it
_PREFIX = "wheel-assay"
_WHOLE = "whole"  # a file in a kept work volume: everything that the build is made of lies there
_PROCESSES = 16_384  # the most that one step may have; a runaway ends before the engine's host does

# Runs a step and says at its end how much memory its control group took at most: cgroup v2, then v1.
_PEAK = "\x1epeak "
_WRAPPER = (
    '"$@"; code=$?; '
    "for file in /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes; do "
    "if [ -r $file ]; then printf '\\036peak %s\\n' \"$(cat $file)\"; break; fi; done; exit $code"
)


class DockerRoom:
    """One build's containers and volumes."""

    engine = "docker"
    paths = Paths(
        source=f"{_ROOM}/source", out=f"{_ROOM}/out", environment="/env", cache="/cache", tools=f"{_ROOM}/tools"
    )
    python = ""

    def __init__(self, client: Client, network: Network, request: RoomRequest, image: str, origin: str) -> None:
        self.machine = request.machine
        self.image = image
        self.image_origin = origin
        self.resumed = False
        self._client = client
        self._network = network
        self._request = request
        self._labels = {OWNER: process_mark(), "wheel-assay.build": request.build_id}
        self._keeps = bool(request.key)
        self._work = f"{_PREFIX}-work-{request.key[:16] or request.build_id}"
        self._environment = f"{_PREFIX}-env-{_environment_name(request.environment_key, image)}"
        self._cache = f"{_PREFIX}-cache-{request.machine}"
        self._door: Any = None
        self._relay: Relay | None = None

    def enter(self) -> None:
        """Make the volumes; from here on :meth:`close` has something to remove."""
        with answering():
            for lasting in (self._environment, self._cache):
                self._client.volumes.create(lasting, labels={"wheel-assay": "lasting"})
            self._open_work()
            if self._keeps and not (self._request.resume and self._is_whole()):
                # What a build left before everything was in it is of no use, and would mix with what comes now.
                self._drop_work()
                self._open_work()
            else:
                self.resumed = self._keeps
            if self._request.cache_server:
                self._relay = Relay(self._client, self.image, self._request.cache_server, self._labels)

    def _open_work(self) -> None:
        labels = {"wheel-assay": "build", KEY: self._request.key} if self._keeps else self._labels
        self._client.volumes.create(self._work, labels=labels)
        # Never started: through it the work volume is written and read.
        self._door = self._create(Step("door", ("true",)))

    def _drop_work(self) -> None:
        if self._door is not None:
            remove(self._door)
        self._client.volumes.get(self._work).remove(force=True)

    def _is_whole(self) -> bool:
        try:
            self._door.get_archive(f"{_ROOM}/{_WHOLE}")
        except NotFound:
            return False
        return True

    def keep(self) -> None:
        with answering(), archives.packed({_WHOLE: b""}) as archive:
            self._door.put_archive(_ROOM, archive.read())

    def discard(self) -> None:
        self._keeps = False

    def put(self, folder: Path, inside: str) -> None:
        with answering(), tempfile.TemporaryFile() as stream:
            archives.pack_folder(stream, folder, PurePosixPath(inside).relative_to(_ROOM), _USER)
            self._door.put_archive(_ROOM, stream)

    def fetch(self, inside: str, folder: Path) -> None:
        with answering(), tempfile.TemporaryFile() as stream:
            chunks, _ = self._door.get_archive(inside)
            for chunk in chunks:
                stream.write(chunk)
            stream.seek(0)
            archives.unpack_folder(stream, folder)

    def run(self, step: Step, say: Say) -> Outcome:
        began = time.monotonic()
        peak = 0
        with answering():
            container = self._create(step)
            clock = _Clock(container, step.timeout)
            try:
                if step.prepares:
                    _bring(container, self._network.files_inside())
                container.start()
                with clock:
                    # Closed by hand: a caller that raises would leave the engine's stream open.
                    with contextlib.closing(_whole_log(container)) as chunks:
                        for line in archives.lines(chunks):
                            text, said, number = line.partition(_PEAK)
                            if said and number.strip().isdigit():
                                peak = int(number)
                            if text or not said:
                                say(text)
                    code = int(container.wait()["StatusCode"])
                container.reload()
                killed = bool(container.attrs["State"]["OOMKilled"]) or (code == 137 and not clock.over)
            finally:
                with undisturbed():
                    remove(container)
        return Outcome(code, killed, time.monotonic() - began, clock.over, peak)

    def close(self) -> None:
        """Remove what belongs to this room alone; the environment, the cache and a kept work volume stay."""
        with contextlib.suppress(*GONE):
            for container in self._client.containers.list(all=True, filters={"label": _as_filter(self._labels)}):
                remove(container)
        if self._relay is not None:
            self._relay.close()
        if not self._keeps:
            with contextlib.suppress(*GONE):
                self._client.volumes.get(self._work).remove(force=True)

    def _create(self, step: Step) -> Any:
        environment = dict(step.environment)
        if step.prepares:
            environment = {**self._network.environment_inside(), **environment}
        request = self._request
        limits: dict[str, Any] = {"pids_limit": request.processes or _PROCESSES}
        if request.memory:
            # Without the second one swap would hide the first.
            limits.update(mem_limit=request.memory, memswap_limit=request.memory)
        if request.cores:
            limits.update(nano_cpus=request.cores * 10**9)
        return self._client.containers.create(
            self.image,
            ["/bin/sh", "-c", _WRAPPER, step.name, *step.command],
            entrypoint=[],
            platform=PLATFORMS[self.machine],
            user=f"{_USER}:{_USER}",
            working_dir=step.folder or _ROOM,
            environment=environment,
            labels=self._labels,
            network_mode=None if step.prepares else "none" if self._relay is None else self._relay.network,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            volumes={
                self._work: {"bind": _ROOM, "mode": "rw"},
                self._cache: {"bind": "/cache", "mode": "rw"},
                self._environment: {"bind": "/env", "mode": "rw" if step.prepares else "ro"},
            },
            init=True,
            **limits,
        )


class _Clock:
    """Ends a container whose time is over; ``over`` tells that it was so."""

    def __init__(self, container: Any, seconds: float) -> None:
        self.over = False
        self._container = container
        self._timer = threading.Timer(seconds, self._end) if seconds else None

    def _end(self) -> None:
        self.over = True
        with contextlib.suppress(*GONE):
            self._container.kill()

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *error: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


def demand_emulation(room: DockerRoom) -> None:
    """:raises UnavailableError: the engine's kernel does not run programs of the room's machine."""
    said: list[str] = []
    try:
        room.run(Step("machine", ("uname", "-m")), said.append)
    except UnavailableError as error:
        said.append(error.what)
    if room.machine not in said:
        raise UnavailableError(
            f"the engine's kernel runs no {room.machine} programs: {said[-1] if said else 'no word'}",
            where="docker",
            expected=f"qemu for {room.machine}, registered with flag F",
            action=f"on the engine's host: apt-get install qemu-user-static binfmt-support; update-binfmts --enable "
            f"qemu-{room.machine}",
        )


def remove(container: Any) -> None:
    """Remove a container, whatever it does; one that is gone already is gone."""
    with contextlib.suppress(NotFound, APIError):
        container.remove(force=True, v=True)


def _bring(container: Any, files: Mapping[str, bytes]) -> None:
    """Put the host's certificate authorities and pip's mirrors into a container that is not started yet."""
    if files:
        with archives.packed({name.lstrip("/"): content for name, content in files.items()}) as archive:
            container.put_archive("/", archive.read())


def _environment_name(key: str, image: str) -> str:
    """An environment holds interpreters and libraries of its image, so it is another one on another image."""
    return hashlib.sha256(f"{key} {image}".encode()).hexdigest()[:16]


def _as_filter(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in labels.items()]


def _whole_log(container: Any) -> Generator[bytes, None, None]:
    """The container's output as it comes, to its very end.

    Following ends when the container stops, which may be before its last line is in the log; what is missing then
    is there once the engine says that the container has ended.
    """
    seen = 0
    with _log_stream(container, follow=True) as stream:
        for chunk in stream:
            seen += len(chunk)
            yield chunk
    container.wait()
    with _log_stream(container, follow=False) as stream:
        for chunk in stream:
            if seen < len(chunk):
                yield chunk[seen:]
            seen = max(0, seen - len(chunk))


@contextlib.contextmanager
def _log_stream(container: Any, *, follow: bool) -> Iterator[Iterable[bytes]]:
    stream = container.logs(stream=True, follow=follow)
    try:
        yield stream
    finally:
        # The stream's own close() leaves the descriptor to the garbage collector; the response's doesn't.
        stream._response.close()
