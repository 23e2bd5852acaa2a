"""The Docker engine: the one file that imports the docker SDK.

Sources and results travel by the engine's own archive API, so nothing here needs the engine to see this host's
folders.  Measured facts that shaped it: ``attach(logs=True)`` loses what was written before, ``logs(follow)``
doesn't; a step killed for memory may exit with any code, ``State.OOMKilled`` tells; ``docker import`` stores a
foreign machine's image as amd64, ``load`` of a saved image keeps its machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

import docker
import requests
from docker.constants import IS_WINDOWS_PLATFORM, MINIMUM_DOCKER_API_VERSION
from docker.errors import APIError, BuildError, DockerException, ImageNotFound, NotFound

from builders.bases import build_image
from builders.engines import EngineInfo, Listener, Outcome, Paths, RoomRequest, Say, Step, archives
from builders.host import Network, network_of, process_is_alive, process_mark
from builders.signals import undisturbed
from qualify.errors import BuildError as FailedBuild
from qualify.errors import UnavailableError

PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_USER = 1000  # "builder" of dockerfiles/build.Dockerfile
_ROOM = "/room"  # the work volume inside a container; dockerfiles/build.Dockerfile makes it
_PREFIX = "wheel-assay"
_OWNER = "wheel-assay.owner"  # label: host and process that a container or volume belongs to
_ACTION = "start the Docker engine (dockerd), point DOCKER_HOST at one, or use --engine local"


class DockerEngine:
    """Containers and images of the engine that DOCKER_HOST names, or of the local socket."""

    name = "docker"

    def info(self) -> EngineInfo:
        # A version that is given keeps the SDK from asking for one as it is made, when nothing could close it; the
        # time limit is short, so that an engine that hangs is told from one that works.
        with _answering(), contextlib.closing(_client(timeout=10, version=MINIMUM_DOCKER_API_VERSION)) as client:
            version = client.api.version(api_version=False)
        machine = _MACHINES.get(version["Arch"], version["Arch"])
        return EngineInfo(self.name, version["Version"], (machine,), f"API {version['ApiVersion']}")

    @contextlib.contextmanager
    def open(self, request: RoomRequest, listener: Listener) -> Iterator[DockerRoom]:
        if request.machine not in PLATFORMS:
            raise UnavailableError(
                f"no images are made for {request.machine}", where="docker", expected=" or ".join(PLATFORMS)
            )
        native = self.info().machines[0]
        with self._connected() as client:
            with _answering():
                _sweep(client, listener.say)
            image, origin = build_image(DockerImages(client), request.base, request.machine, request.role, listener)
            room = DockerRoom(client, request.network or network_of(), request, image, origin)
            try:
                room.enter()
                if request.machine != native:
                    _demand_emulation(room)
                yield room
            finally:
                with undisturbed():
                    room.close()

    @contextlib.contextmanager
    def images(self) -> Iterator[DockerImages]:
        """The engine's images, for :mod:`builders.bases`."""
        with self._connected() as client:
            yield DockerImages(client)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[docker.DockerClient]:
        with _answering():
            client = _client(timeout=600)
        with contextlib.closing(client):
            yield client


class DockerImages:
    """Images as :mod:`builders.bases` sees them (its ``ImageStore``)."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def find(self, tag: str) -> str:
        with _answering():
            try:
                return str(self._client.images.get(tag).id)
            except ImageNotFound:
                return ""

    def load(self, archive: IO[bytes], tag: str) -> str:
        with _answering():
            self._client.images.load(archive)
        found = self.find(tag)
        if not found:
            raise UnavailableError(f"image {tag} is not there after it was loaded", where="docker", action="run again")
        return found

    def pull(self, image: str, digest: str, machine: str) -> str:
        repository = image.rsplit(":", 1)[0] if ":" in image.rsplit("/", 1)[-1] else image
        with _registry_answering(image):
            pulled = self._client.images.pull(f"{repository}@{digest}", platform=PLATFORMS[machine])
        return str(pulled.id)

    def digest(self, image: str, machine: str) -> str:
        with _registry_answering(image):
            data = self._client.images.get_registry_data(image)
            if not data.has_platform(PLATFORMS[machine]):
                raise UnavailableError(f"{image} has nothing for {machine}", where="registry")
        return str(data.id)

    def build(
        self, context: Mapping[str, bytes], dockerfile: str, tag: str, base: str, machine: str, detail: Say
    ) -> str:
        with _answering(), archives.packed(context) as archive:
            stream = self._client.api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=dockerfile,
                tag=tag,
                buildargs={"BASE": base},
                platform=PLATFORMS[machine],
                rm=True,
                forcerm=True,
                decode=True,
            )
            for chunk in stream:
                if "error" in chunk:
                    raise UnavailableError(
                        chunk["error"].strip(),
                        where=f"image {tag}",
                        action="see the lines above; the packages' mirror may not answer",
                    )
                for line in str(chunk.get("stream", "")).splitlines():
                    if line.strip():
                        detail(line)
        return self.find(tag)


class DockerRoom:
    """One build's containers and volumes."""

    engine = "docker"
    paths = Paths(
        source=f"{_ROOM}/source", out=f"{_ROOM}/out", environment="/env", cache="/cache", tools=f"{_ROOM}/tools"
    )
    python = ""

    def __init__(
        self, client: docker.DockerClient, network: Network, request: RoomRequest, image: str, origin: str
    ) -> None:
        self.machine = request.machine
        self.image = image
        self.image_origin = origin
        self._client = client
        self._network = network
        self._labels = {_OWNER: process_mark(), "wheel-assay.build": request.build_id}
        self._work = f"{_PREFIX}-work-{request.build_id}"
        self._environment = f"{_PREFIX}-env-{_environment_name(request.environment_key, image)}"
        self._door: Any = None
        # Without the second one swap would hide the first.
        self._limits = {"mem_limit": request.memory, "memswap_limit": request.memory} if request.memory else {}
        self._cache = f"{_PREFIX}-cache-{request.machine}"

    def enter(self) -> None:
        """Make the volumes; from here on :meth:`close` has something to remove."""
        with _answering():
            self._client.volumes.create(self._work, labels=self._labels)
            for lasting in (self._environment, self._cache):
                self._client.volumes.create(lasting, labels={"wheel-assay": "lasting"})
            # Never started: through it the work volume is written and read.
            self._door = self._create(Step("door", ("true",)))

    def put(self, folder: Path, inside: str) -> None:
        with _answering(), tempfile.TemporaryFile() as stream:
            archives.pack_folder(stream, folder, PurePosixPath(inside).relative_to(_ROOM), _USER)
            self._door.put_archive(_ROOM, stream)

    def fetch(self, inside: str, folder: Path) -> None:
        with _answering(), tempfile.TemporaryFile() as stream:
            chunks, _ = self._door.get_archive(inside)
            for chunk in chunks:
                stream.write(chunk)
            stream.seek(0)
            archives.unpack_folder(stream, folder)

    def run(self, step: Step, say: Say) -> Outcome:
        began = time.monotonic()
        with _answering():
            container = self._create(step)
            try:
                if step.prepares:
                    _bring(container, self._network.files_inside())
                container.start()
                # Closed by hand: a caller that raises would leave the engine's stream open.
                with contextlib.closing(_whole_log(container)) as chunks:
                    for line in archives.lines(chunks):
                        say(line)
                code = int(container.wait()["StatusCode"])
                container.reload()
                killed = bool(container.attrs["State"]["OOMKilled"])
            finally:
                with undisturbed():
                    _remove(container)
        return Outcome(code, killed, time.monotonic() - began)

    def close(self) -> None:
        """Remove what belongs to this build alone; the environment and the cache stay."""
        with contextlib.suppress(DockerException, requests.RequestException):
            for container in self._client.containers.list(all=True, filters={"label": _as_filter(self._labels)}):
                _remove(container)
        with contextlib.suppress(DockerException, requests.RequestException):
            self._client.volumes.get(self._work).remove(force=True)

    def _create(self, step: Step) -> Any:
        environment = dict(step.environment)
        if step.prepares:
            environment = {**self._network.environment_inside(), **environment}
        return self._client.containers.create(
            self.image,
            list(step.command),
            platform=PLATFORMS[self.machine],
            user=f"{_USER}:{_USER}",
            working_dir=step.folder or _ROOM,
            environment=environment,
            labels=self._labels,
            network_mode=None if step.prepares else "none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            volumes={
                self._work: {"bind": _ROOM, "mode": "rw"},
                self._cache: {"bind": "/cache", "mode": "rw"},
                self._environment: {"bind": "/env", "mode": "rw" if step.prepares else "ro"},
            },
            init=True,
            **self._limits,
        )


def _client(**options: Any) -> docker.DockerClient:
    """The engine of DOCKER_HOST and its kin, or of the local socket.

    A local socket is tried first: the SDK leaves its own end open where nobody listens.
    """
    address = docker.utils.parse_host(os.environ.get("DOCKER_HOST") or "", IS_WINDOWS_PLATFORM)
    if address.startswith("http+unix://"):
        try:
            with socket.socket(socket.AF_UNIX) as tried:
                tried.settimeout(10)
                tried.connect(address.removeprefix("http+unix://"))
        except OSError as error:
            raise DockerException(f"{address.removeprefix('http+')}: {error.strerror or error}") from error
    return docker.DockerClient.from_env(**options)


@contextlib.contextmanager
def _registry_answering(image: str) -> Iterator[None]:
    try:
        with _answering():
            yield
    except UnavailableError as error:
        raise UnavailableError(
            f"its registry does not answer: {error.what}",
            where=image,
            action="run where it answers, or name a bootstrap beside the image",
        ) from error


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Turn what the SDK raises into one error of ours: the engine was not there, or would not."""
    try:
        yield
    except BuildError as error:
        raise FailedBuild(str(error), where="docker") from error
    except APIError as error:
        said = error.explanation or str(error)
        raise UnavailableError(str(said).strip(), where="docker", action="see the engine's own log") from error
    except (DockerException, requests.RequestException) as error:
        raise UnavailableError(
            f"the Docker engine does not answer: {str(error).splitlines()[0]}", where="docker", action=_ACTION
        ) from error


def _sweep(client: docker.DockerClient, say: Say) -> None:
    """Remove what a killed process of this host left; a living one's is left alone."""
    host = socket.gethostname()

    def abandoned(labels: Mapping[str, str] | None) -> bool:
        mark = (labels or {}).get(_OWNER, "")
        return mark.startswith(f"{host}/") and not process_is_alive(mark)

    for container in client.containers.list(all=True, filters={"label": _OWNER}):
        if abandoned(container.labels):
            say(f"removing a container of a build that was killed: {container.name}")
            _remove(container)
    for volume in client.volumes.list(filters={"label": _OWNER}):
        if abandoned(volume.attrs.get("Labels")):
            with contextlib.suppress(APIError):
                volume.remove(force=True)


def _demand_emulation(room: DockerRoom) -> None:
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


def _remove(container: Any) -> None:
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
