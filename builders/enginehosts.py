"""Which machine's engine builds a target: from what is asked, matrix.local.yaml and the matrix to one address."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from qualify.errors import ConfigurationError, UsageError
from qualify.matrix.local import EngineHost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qualify.matrix import LoadedMatrix

HERE = "here"  # the engine of DOCKER_HOST, else of the local socket; no entry of `engines` may take the name
_LOCAL_FILE = "matrix.local.yaml"
_SCHEMES = ("ssh", "tcp", "unix")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def wanted_host(loaded: LoadedMatrix, target: str, asked: str = "") -> str:
    """The name of the engine host that a target is bound to; "" where any will do.

    :param asked: what the command line names, over the site's ``engine_hosts`` and the matrix's own.
    """
    return asked or loaded.local.engine_hosts.get(target, "") or loaded.matrix.targets[target].engine_host


def host_for(loaded: LoadedMatrix, target: str, asked: str = "") -> tuple[str, EngineHost | None]:
    """The name and the address of a target's engine host; ``("here", None)`` for the engine that answers here.

    :raises UsageError: the command line names a host that matrix.local.yaml doesn't.
    :raises ConfigurationError: a file names such a host, or its entry is no address that is safe to use.
    """
    name = wanted_host(loaded, target, asked)
    if name in ("", HERE):
        return HERE, None
    if name not in loaded.local.engines:
        known = ", ".join((HERE, *loaded.local.engines))
        what = f"no engine host {name}"
        action = f"name it under `engines` of {_LOCAL_FILE} beside the matrix"
        if asked:
            raise UsageError(what, where="--engine-host", expected=f"one of {known}", action=action)
        where = f"{_LOCAL_FILE}: engine_hosts" if target in loaded.local.engine_hosts else f"target {target}"
        raise ConfigurationError(what, where=where, expected=f"one of {known}", action=action)
    return name, checked(name, loaded.local.engines[name])


def checked(name: str, host: EngineHost) -> EngineHost:
    """The host as it is given, once its entry says one thing and gives nobody root unasked.

    :raises ConfigurationError: it doesn't.
    """
    where = f"{_LOCAL_FILE}: engines.{name}"
    if name == HERE:
        raise ConfigurationError(
            f"{HERE!r} is the engine that answers here anyway", where=where, action="give the entry another name"
        )
    if bool(host.url) == bool(host.context):
        raise ConfigurationError(
            "a url and a context" if host.url else "neither a url nor a context", where=where, expected="one of both"
        )
    if host.context:
        return host
    try:
        parts = urlsplit(host.url)
        address, _ = parts.hostname or parts.path, parts.port
    except ValueError:
        parts, address = urlsplit(""), ""
    if parts.scheme not in _SCHEMES or not address:
        raise ConfigurationError(
            f"{host.url!r} is no engine's address",
            where=where,
            expected="ssh://USER@HOST, tcp://HOST:2376 with tls, or unix:///PATH",
        )
    if parts.scheme == "tcp" and not host.tls and address not in _LOOPBACK:
        raise ConfigurationError(
            f"{host.url} without TLS: whoever reaches that port is root there, and can change what is built",
            where=where,
            expected="tls: FOLDER with ca.pem, cert.pem and key.pem",
            action="let that engine ask for certificates (dockerd --tlsverify), or use ssh://",
        )
    return host


def address_of(host: EngineHost | None, environ: Mapping[str, str] | None = None) -> str:
    """Where a host's engine answers, equal for two names of one address; for the queues, which are one an engine."""
    if host is None:
        return ((environ or os.environ).get("DOCKER_HOST") or "unix:///var/run/docker.sock").rstrip("/")
    return f"context {host.context}" if host.context else host.url.rstrip("/")
