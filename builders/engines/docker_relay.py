"""The one destination that a closed network allows: a container that relays to a shared compiler cache.

The compile's containers stand in an internal network, which leads nowhere.  One more container stands in it and in
the engine's ordinary network, and passes bytes to one host and port; nothing else can be reached through it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from builders.engines.docker_client import GONE, Client, answering
from qualify.errors import ConfigurationError

ALIAS = "compiler-cache"  # the relay's name in the internal network
_PORTS = {"redis": 6379, "http": 80}

# An internal network leads nowhere but to the engine's own machine, by the address that its bridge has there: none.
_CLOSED = {"com.docker.network.bridge.inhibit_ipv4": "true"}
# The engine's name server asks on from its own machine; whoever names another is asked for from inside the network.
NO_NAMES = ("127.0.0.1",)

_PROGRAM = """
import socket, sys, threading
port, host = int(sys.argv[2]), sys.argv[1]
def pass_on(source, sink):
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
def serve(client):
    try:
        server = socket.create_connection((host, port), timeout=10)
    except OSError:
        client.close()
        return
    server.settimeout(None)
    threading.Thread(target=pass_on, args=(client, server), daemon=True).start()
    pass_on(server, client)
with socket.create_server(("", port)) as door:
    while True:
        client, _ = door.accept()
        threading.Thread(target=serve, args=(client,), daemon=True).start()
"""


def address_of(server: str) -> tuple[str, str, int]:
    """``redis://host:6379`` -> ("redis", "host", 6379).

    :raises ConfigurationError: no address of a cache server.
    """
    try:
        parts = urlsplit(server)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        parts, port = urlsplit(""), 0
    if not parts.hostname or not port:
        raise ConfigurationError(
            f"{server!r} is no cache server",
            where="matrix.local.yaml: compiler_cache.server",
            expected="redis://HOST:PORT or http://HOST:PORT/PATH",
        )
    if parts.hostname == "localhost" or parts.hostname.startswith("127.") or parts.hostname == "::1":
        raise ConfigurationError(
            f"{parts.hostname} is whichever machine asks: seen from a container it is that container",
            where="matrix.local.yaml: compiler_cache.server",
            expected="a name or an address that the engine's machine reaches the server by",
        )
    return parts.scheme, parts.hostname, port


def inside(server: str) -> str:
    """The server's address as a step behind the relay writes it."""
    _, host, port = address_of(server)
    parts = urlsplit(server)
    credentials, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{credentials}{at}{ALIAS}:{port}").geturl() if host else server


class Relay:
    """The internal network and the relay in it, for one room.

    :param labels: of the room; what a killed process leaves is swept by them.
    """

    def __init__(self, client: Client, image: str, server: str, labels: Mapping[str, str]) -> None:
        _, host, port = address_of(server)
        self._client = client
        self.network = f"wheel-assay-{labels['wheel-assay.build']}"
        self._container: Any = None
        with answering():
            self._network = client.networks.create(
                self.network, driver="bridge", internal=True, options=_CLOSED, labels=dict(labels)
            )
            try:
                self._container = client.containers.create(
                    image,
                    ["python3", "-I", "-c", _PROGRAM, host, str(port)],
                    entrypoint=[],
                    labels=dict(labels),
                    user="65534:65534",
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges"],
                    read_only=True,
                    mem_limit=256 << 20,
                    pids_limit=512,
                    init=True,
                    sysctls={"net.ipv4.ip_forward": "0"},
                )
                self._network.connect(self._container, aliases=[ALIAS])
                self._container.start()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Remove both; never raises what an engine that went away says."""
        if self._container is not None:
            with contextlib.suppress(*GONE):
                self._container.remove(force=True, v=True)
        with contextlib.suppress(*GONE):
            self._network.remove()
