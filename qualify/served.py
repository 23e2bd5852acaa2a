"""What a running server says of its version: self-reported, the lowest grade there is.

A server is asked directly: no proxy of the environment, no redirect, and a bound on time and size.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from qualify.errors import UnavailableError, UsageError
from qualify.identity import Grade, Identity, identity_of_version

SECONDS = 10.0  # for the whole answer
MAX_BODY = 64 << 10  # bytes
_ROUTE = "/version"


def identity_of_server(url: str, labels: Sequence[str] = (), *, seconds: float = SECONDS) -> Identity:
    """The version of ``GET /version`` (vLLM's server answers ``{"version": "0.33.0"}``).

    An answer that states no version gives an identity that says nothing, and why.

    :param url: of the server, or of the route itself.
    :param seconds: for connecting and for the whole answer.
    :raises UsageError: no such address can be.
    :raises UnavailableError: nothing answered in time.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"no address: {error}", where=url, expected="http://HOST:PORT") from error
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        raise UsageError("no address of a server", where=url, expected="http://HOST:PORT, nothing more")
    path = parts.path.rstrip("/")
    route = path if path.endswith(_ROUTE) else path + _ROUTE
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=seconds)
    try:
        status, body = _ask(connection, route, time.monotonic() + seconds)
    except (OSError, http.client.HTTPException, ValueError) as error:
        what = f"no answer: {error or type(error).__name__}"
        raise UnavailableError(
            what, where=url, expected=f"an answer to GET {route}", action="start the server"
        ) from error
    finally:
        connection.close()
    text, why = _version_in(status, body)
    if why:
        return Identity("", url, Grade.SELF_REPORTED, notes=(f"GET {route}: {why}",))
    identity = identity_of_version(text, labels, origin=f"{url}{'' if path.endswith(_ROUTE) else _ROUTE}")
    return replace(identity, grade=Grade.SELF_REPORTED, runtime=text)


def _ask(connection: http.client.HTTPConnection, route: str, until: float) -> tuple[int, bytes]:
    connection.request("GET", route, headers={"Accept": "application/json", "Connection": "close"})
    response = connection.getresponse()
    body = b""
    while len(body) <= MAX_BODY:
        if time.monotonic() > until:
            raise TimeoutError("the answer took too long")
        piece = response.read1(MAX_BODY + 1 - len(body))
        if not piece:
            break
        body += piece
    return response.status, body


def _version_in(status: int, body: bytes) -> tuple[str, str]:
    """The version, or why there is none."""
    if status != http.client.OK:
        return "", f"status {status}"
    if len(body) > MAX_BODY:
        return "", f"more than {MAX_BODY >> 10} KiB"
    try:
        version = json.loads(body)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", 'the body is no {"version": …}'
    if not isinstance(version, str) or not version or len(version) > 200:
        return "", "the version is no text"
    return version, ""
