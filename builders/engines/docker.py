"""The Docker engine: rooms made of containers and volumes, on this host's engine or on another machine's."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from builders.bases import build_image
from builders.engines import EngineInfo, Kept, Listener, RoomRequest, Say
from builders.engines.docker_client import (
    MINIMUM_DOCKER_API_VERSION,
    APIError,
    Client,
    answering,
    is_remote,
    make_client,
)
from builders.engines.docker_images import PLATFORMS, DockerImages
from builders.engines.docker_kept import drop_volume, kept_volumes
from builders.engines.docker_room import OWNER, DockerRoom, demand_emulation, remove
from builders.host import network_of, process_is_alive
from builders.signals import undisturbed
from qualify.errors import UnavailableError
from qualify.matrix.local import EngineHost

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class DockerEngine:
    """Containers and images of one engine: of ``host``, else the one that DOCKER_HOST names, else the local socket."""

    name = "docker"

    def __init__(self, host: EngineHost | None = None) -> None:
        self._host = host

    def info(self) -> EngineInfo:
        # A version that is given keeps the SDK from asking for one as it is made, when nothing could close it; the
        # time limit is short, so that an engine that hangs is told from one that works.
        with (
            self._named(),
            answering(),
            contextlib.closing(make_client(self._host, timeout=10, version=MINIMUM_DOCKER_API_VERSION)) as client,
        ):
            version = client.api.version(api_version=False)
            host = client.info()
        machine = _MACHINES.get(version["Arch"], version["Arch"])
        return EngineInfo(
            self.name,
            version["Version"],
            (machine,),
            f"API {version['ApiVersion']}",
            api=version["ApiVersion"],
            cores=int(host.get("NCPU") or 0),
            memory=int(host.get("MemTotal") or 0),
            remote=is_remote(self._host),
            host_id=_identity(host),
        )

    @contextlib.contextmanager
    def open(self, request: RoomRequest, listener: Listener) -> Iterator[DockerRoom]:
        if request.machine not in PLATFORMS:
            raise UnavailableError(
                f"no images are made for {request.machine}", where="docker", expected=" or ".join(PLATFORMS)
            )
        native = self.info().machines[0]
        with self._named(), self._connected() as client:
            with answering():
                _sweep(client, listener.say)
            image, origin = build_image(DockerImages(client), request.base, request.machine, request.role, listener)
            room = DockerRoom(client, request.network or network_of(), request, image, origin, self._ping)
            try:
                room.enter()
                if request.machine != native:
                    demand_emulation(room)
                yield room
            finally:
                with undisturbed():
                    room.close()

    def _ping(self) -> None:
        """Ask on a connection of its own, since another thread may be reading the room's."""
        options = {"timeout": 10, "version": MINIMUM_DOCKER_API_VERSION}
        with contextlib.closing(make_client(self._host, **options)) as client:
            client.ping()

    @contextlib.contextmanager
    def images(self) -> Iterator[DockerImages]:
        """The engine's images, for :mod:`builders.bases`."""
        with self._connected() as client:
            yield DockerImages(client)

    def kept(self) -> tuple[Kept, ...]:
        with self._connected() as client, answering():
            return kept_volumes(client)

    def drop(self, kept: Kept) -> bool:
        with self._connected() as client, answering():
            return drop_volume(client, kept)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Errors say which engine it was, where more than one may be in use."""
        try:
            yield
        except UnavailableError as error:
            if self._host is not None and error.where.startswith("docker"):
                error.where = f"{self._host.context or self._host.url}: {error.where}"
            raise

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Client]:
        with answering():
            client = make_client(self._host, timeout=600)
        with contextlib.closing(client):
            yield client


def _identity(host: Mapping[str, Any]) -> str:
    """Which engine it is.  Its ID alone is that of a key file, which two engines of one host may share."""
    parts = [str(host.get(name) or "") for name in ("ID", "Name", "DockerRootDir")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16] if parts[0] else ""


def _sweep(client: Client, say: Say) -> None:
    """Remove what a killed process of this host left; a living one's is left alone, and so are kept work folders."""
    host = socket.gethostname()

    def abandoned(labels: Mapping[str, str] | None) -> bool:
        mark = (labels or {}).get(OWNER, "")
        return mark.startswith(f"{host}/") and not process_is_alive(mark)

    def labels_of(volume: Any) -> Mapping[str, str] | None:
        found: Mapping[str, str] | None = volume.attrs.get("Labels")
        return found

    for container in client.containers.list(all=True, filters={"label": OWNER}):
        if abandoned(container.labels):
            say(f"removing a container of a build that was killed: {container.name}")
            remove(container)
    for volume in client.volumes.list(filters={"label": OWNER}):
        if abandoned(labels_of(volume)):
            with contextlib.suppress(APIError):
                volume.remove(force=True)
    for network in client.networks.list(filters={"label": OWNER}):
        if abandoned(network.attrs.get("Labels")):
            with contextlib.suppress(APIError):
                network.remove()
