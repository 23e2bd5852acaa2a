"""The one file that imports the docker SDK: which engine answers, and its errors as ours.

An engine is that of DOCKER_HOST and its kin, of the local socket, or one that matrix.local.yaml names: an address
(``ssh://``, ``tcp://`` with TLS, ``unix://``) or a docker context.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker.utils
import requests
from docker import DockerClient as Client
from docker.constants import IS_WINDOWS_PLATFORM, MINIMUM_DOCKER_API_VERSION
from docker.errors import APIError, BuildError, DockerException, ImageNotFound, NotFound
from docker.tls import TLSConfig

from builders.engines.docker_context import host_of_context
from qualify.errors import AssayError, UnavailableError
from qualify.errors import BuildError as FailedBuild
from qualify.lines import first_line
from qualify.matrix.local import EngineHost

__all__ = [
    "GONE",
    "MINIMUM_DOCKER_API_VERSION",
    "APIError",
    "Client",
    "ImageNotFound",
    "NotFound",
    "answering",
    "is_remote",
    "make_client",
    "registry_answering",
]

# What is raised where an engine doesn't answer, or answers that it can't.
GONE = (DockerException, requests.RequestException)
_ACTION = "start the Docker engine (dockerd), point DOCKER_HOST at one, or use --engine local"


def make_client(host: EngineHost | None = None, **options: Any) -> Client:
    """The engine of ``host``; without one that of DOCKER_HOST and its kin, or of the local socket.

    A local socket is tried first: the SDK leaves its own end open where nobody listens.
    """
    if host is not None:
        return _client_of(host, options)
    address = docker.utils.parse_host(os.environ.get("DOCKER_HOST") or "", IS_WINDOWS_PLATFORM)
    _try_socket(address)
    return _trusting(Client.from_env, options)


def is_remote(host: EngineHost | None) -> bool:
    """Whether the engine may be another machine's, whose cores and memory are not this host's."""
    if host is None:
        return not (os.environ.get("DOCKER_HOST") or "unix://").startswith(("unix://", "/"))
    return bool(host.context) or not host.url.startswith("unix://")


def _client_of(host: EngineHost, options: dict[str, Any]) -> Client:
    """:raises UnavailableError: no such context, no certificates, or no way to speak ssh."""
    if host.context:
        host = host_of_context(host.context)
    url, tls = host.url, _tls(host.tls)
    _try_socket(docker.utils.parse_host(url, IS_WINDOWS_PLATFORM))
    try:
        return _trusting(functools.partial(Client, base_url=url, tls=tls or False), options)
    except DockerException as error:
        if "paramiko" in str(error):
            raise UnavailableError(
                "an engine over ssh needs paramiko, which isn't installed here",
                where=url,
                action="python -m pip install 'wheel-assay[ssh]'",
            ) from error
        raise


def _trusting(make: Callable[..., Client], options: dict[str, Any]) -> Client:
    """A client that trusts its engine's own authority, whatever this host's environment names for the web.

    REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE would stand in for it in every request, the first of which the SDK sends as
    it is made where no version is given.  So the version is asked for here.
    """
    if "version" not in options:
        with contextlib.closing(_trusting(make, {**options, "version": MINIMUM_DOCKER_API_VERSION})) as asked:
            options = {**options, "version": asked.api.version(api_version=False)["ApiVersion"]}
    client = make(**options)
    client.api.trust_env = False
    return client


def _tls(folder: str) -> TLSConfig | None:
    if not folder:
        return None
    missing = [name for name in ("ca.pem", "cert.pem", "key.pem") if not Path(folder, name).is_file()]
    if missing:
        raise UnavailableError(
            f"no {', '.join(missing)}", where=folder, expected="ca.pem, cert.pem and key.pem", action="mend `tls`"
        )
    return TLSConfig(client_cert=(f"{folder}/cert.pem", f"{folder}/key.pem"), ca_cert=f"{folder}/ca.pem", verify=True)


def _try_socket(address: str) -> None:
    if not address.startswith("http+unix://"):
        return
    path = address.removeprefix("http+unix://")
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(10)
            tried.connect(path)
    except OSError as error:
        raise DockerException(f"{path}: {error.strerror or error}") from error


@contextlib.contextmanager
def registry_answering(image: str) -> Iterator[None]:
    try:
        with answering():
            yield
    except UnavailableError as error:
        raise UnavailableError(
            f"its registry does not answer: {error.what}",
            where=image,
            action="run where it answers, or name a bootstrap beside the image",
        ) from error


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Turn what the SDK raises into one error of ours: the engine was not there, or would not."""
    try:
        yield
    except AssayError:
        raise
    except BuildError as error:
        raise FailedBuild(str(error), where="docker") from error
    except APIError as error:
        said = error.explanation or str(error)
        raise UnavailableError(str(said).strip(), where="docker", action="see the engine's own log") from error
    except (DockerException, requests.RequestException) as error:
        raise UnavailableError(
            f"the Docker engine does not answer: {first_line(str(error))}", where="docker", action=_ACTION
        ) from error
