"""One build's containers and volumes.

Sources and results travel by the engine's own archive API, so nothing here needs the engine to see this host's
folders; both are checked by hash.  A step that was killed for memory may exit with any code: the engine's flag tells,
or the count that its control group keeps, which also knows of a child whose parent went on.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from builders.engines import Outcome, Paths, RoomRequest, Say, Step, archives
from builders.engines.docker_client import GONE, APIError, Client, NotFound, answering
from builders.engines.docker_images import PLATFORMS
from builders.engines.docker_kept import KEY, KIND, LASTING, PREFIX, WORK
from builders.engines.docker_output import whole_log
from builders.engines.docker_relay import NO_NAMES, Relay
from builders.engines.docker_watch import Watch
from builders.engines.docker_wrapper import WRAPPER, End
from builders.host import Network, process_mark
from builders.signals import undisturbed
from qualify.errors import UnavailableError

OWNER = "wheel-assay.owner"  # label: host and process that a container or volume belongs to
_USER = 1000  # "builder" of dockerfiles/build.Dockerfile
_ROOM = "/room"  # the work volume inside a container; dockerfiles/build.Dockerfile makes it
_WHOLE = "whole"  # a file in a kept work volume: everything that the build is made of lies there
_WAIT_SECONDS = 600  # for the end of a container whose output has ended
_PROCESSES = 16_384  # the most that one step may have; a runaway ends before the engine's host does
_CONFLICT = 409  # HTTP: the name is taken

_SUMS = ".sums"  # in the work volume: what was put there since the last step, and must have arrived as it was


class DockerRoom:
    """One build's containers and volumes."""

    engine = "docker"
    paths = Paths(
        source=f"{_ROOM}/source", out=f"{_ROOM}/out", environment="/env", cache="/cache", tools=f"{_ROOM}/tools"
    )
    python = ""

    def __init__(
        self,
        client: Client,
        network: Network,
        request: RoomRequest,
        image: str,
        origin: str,
        ask: Callable[[], object] | None = None,
    ) -> None:
        self.machine = request.machine
        self.image = image
        self.image_origin = origin
        self.resumed = False
        self._client = client
        self._network = network
        self._request = request
        self._labels = {OWNER: process_mark(), "wheel-assay.build": request.build_id}
        self._keeps = bool(request.key)
        self._work = f"{PREFIX}-work-{request.key[:16] or request.build_id}"
        self._environment = f"{PREFIX}-env-{_environment_name(request.environment_key, image)}"
        self._cache = f"{PREFIX}-cache-{request.machine}"
        self._door: Any = None
        self._relay: Relay | None = None
        self._mark = secrets.token_hex(8)
        self._unchecked: dict[str, str] = {}  # path in the room -> sha256 of what was put there
        self._ask = ask or client.ping
        self._gone = False

    def enter(self) -> None:
        """Make the volumes; from here on :meth:`close` has something to remove."""
        with answering():
            for lasting in (self._environment, self._cache):
                self._client.volumes.create(lasting, labels={KIND: LASTING})
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
        labels = {KIND: WORK, KEY: self._request.key} if self._keeps else self._labels
        self._client.volumes.create(self._work, labels=labels)
        # Never started: through it the work volume is written and read.  Of a kept one it has the volume's name, which
        # an engine gives once: builds whose claims lie in two stores still meet here.
        try:
            self._door = self._create(Step("door", ("true",)), name=self._work if self._keeps else None)
        except APIError as error:
            if error.status_code != _CONFLICT or not self._keeps:
                raise
            raise self._taken() from error

    def _taken(self) -> UnavailableError:
        """Another build on this engine has the work volume open."""
        self._keeps = True  # nothing of the other's is removed
        owner = ""
        with contextlib.suppress(*GONE, APIError):
            owner = str(self._client.containers.get(self._work).labels.get(OWNER, ""))
        return UnavailableError(
            f"another build has the build folder open: {f'process {owner}' if owner else 'nobody knows which'}",
            where=f"docker: volume {self._work}",
            expected="one build of a plan at a time on an engine",
            action=f"wait for it; if that process is gone, remove its container {self._work}",
        )

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
        """What arrives is held against what was sent before the next step runs."""
        with answering(), tempfile.TemporaryFile() as stream:
            archives.pack_folder(stream, folder, PurePosixPath(inside).relative_to(_ROOM), _USER)
            self._door.put_archive(_ROOM, stream)
        self._unchecked.update({f"{inside}/{name}": digest for name, digest in archives.digests(folder).items()})

    def fetch(self, inside: str, folder: Path) -> None:
        """:raises UnavailableError: what arrived is not what lies in the room."""
        with answering(), tempfile.TemporaryFile() as stream:
            chunks, _ = self._door.get_archive(inside)
            for chunk in chunks:
                stream.write(chunk)
            stream.seek(0)
            archives.unpack_folder(stream, folder)
        lines: list[str] = []
        command = 'cd "$1" && find . -type f -exec sha256sum --binary {} +'
        outcome = self.run(Step("sums", ("sh", "-c", command, "sums", inside)), lines.append)
        there = archives.parse_digests(lines)
        here = archives.digests(folder)
        wrong = [name for name, digest in there.items() if here.get(name) != digest]
        if outcome.code != 0 or wrong:
            raise UnavailableError(
                f"what came back of {inside} is not what lies there: {', '.join(wrong[:3]) or lines}",
                where="docker",
                action="run again; the connection to the engine changes what it carries",
            )

    def run(self, step: Step, say: Say) -> Outcome:
        began = time.monotonic()
        end = End(self._mark)
        with answering():
            sums = self._bring_sums()
            container = self._create(step, sums)
            watch = Watch(container, step.timeout, self._ask)
            try:
                if step.prepares:
                    _bring(container, self._network.files_inside())
                container.start()
                # Closed by hand: a caller that raises would leave the engine's stream open.
                with watch, contextlib.closing(whole_log(container, watch)) as chunks:
                    for line in archives.lines(chunks):
                        text, marked = end.heard(line)
                        if text or not marked:
                            say(text)
                code = int(container.wait(timeout=_WAIT_SECONDS)["StatusCode"])
                container.reload()
                killed = bool(container.attrs["State"]["OOMKilled"])
            finally:
                self._gone = self._gone or watch.silent
                if not self._gone:
                    with undisturbed():
                        remove(container)
        end.demand_whole(step.name)
        killed = killed or end.kills > 0 or (code == 137 and end.seen and not watch.over)
        if not (end.seen or killed or watch.over):
            raise UnavailableError(
                f"the container of the step {step.name} was ended from outside (code {code})",
                where="docker",
                action="see what its engine's machine did; a later build goes on in the same folder",
            )
        return Outcome(code, killed, time.monotonic() - began, watch.over, end.peak)

    def _bring_sums(self) -> str:
        """Put the digests of what was not checked yet into the room; the file's path, "" where there is none."""
        if not self._unchecked:
            return ""
        content = archives.render_digests(self._unchecked)
        self._unchecked = {}
        with archives.packed({_SUMS: content}) as archive:
            self._door.put_archive(_ROOM, archive.read())
        return f"{_ROOM}/{_SUMS}"

    def close(self) -> None:
        """Remove what belongs to this room alone; the environment, the cache and a kept work volume stay."""
        if self._gone:
            return  # every question would wait in vain; the next build on that engine removes it
        with contextlib.suppress(*GONE):
            for container in self._client.containers.list(all=True, filters={"label": _as_filter(self._labels)}):
                remove(container)
        if self._relay is not None:
            self._relay.close()
        if not self._keeps:
            with contextlib.suppress(*GONE):
                self._client.volumes.get(self._work).remove(force=True)

    def _create(self, step: Step, sums: str = "", name: str | None = None) -> Any:
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
            name=name,
            command=["/bin/sh", "-c", WRAPPER, step.name, self._mark, sums, *step.command],
            entrypoint=[],
            platform=PLATFORMS[self.machine],
            user=f"{_USER}:{_USER}",
            working_dir=step.folder or _ROOM,
            environment=environment,
            labels=self._labels,
            network_mode=None if step.prepares else "none" if self._relay is None else self._relay.network,
            dns=list(NO_NAMES) if self._relay is not None and not step.prepares else None,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            volumes={
                self._work: {"bind": _ROOM, "mode": "rw"},
                self._cache: {"bind": "/cache", "mode": "rw"},
                self._environment: {"bind": "/env", "mode": "rw" if step.prepares else "ro"},
            },
            # The engine's own default may keep no log, or the end of it alone.
            log_config={"type": "json-file", "config": {"max-size": "1024g"}},
            init=True,
            **limits,
        )


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
