"""Docker contexts, as the docker command keeps them: a name -> an address and certificates.

The SDK looks for them beside the command's own settings file, and where there is none in the folder that it happens to
run in, whoever wrote what lies there.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

from qualify.errors import ConfigurationError, UnavailableError
from qualify.matrix.local import EngineHost

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def host_of_context(name: str) -> EngineHost:
    """The engine that a context names.

    :raises UnavailableError: there is no such context.
    :raises ConfigurationError: it can't be read, or it trusts whoever answers.
    """
    root = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "contexts"
    digest = hashlib.sha256(name.encode()).hexdigest()
    path = root / "meta" / digest / "meta.json"
    where = f"docker context {name}"
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        endpoint = described["Endpoints"]["docker"]
        url, unverified = str(endpoint["Host"]), bool(endpoint.get("SkipTLSVerify", False))
    except FileNotFoundError:
        raise UnavailableError(
            f"no docker context {name}", where=str(root), action="docker context ls names those that are"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} can't be read: {error!r}", where=where, action=f"docker context inspect {name} shows what is wrong"
        ) from error
    folder = root / "tls" / digest / "docker"
    tls = str(folder) if folder.is_dir() and any(folder.iterdir()) else ""
    if tls and unverified:
        raise ConfigurationError(
            "it takes whoever answers for the engine (SkipTLSVerify)",
            where=where,
            expected="an engine that its certificate proves",
            action=f"docker context update {name} --docker host={url},ca=…,cert=…,key=…",
        )
    if url.startswith("tcp://") and not tls and urlsplit(url).hostname not in _LOOPBACK:
        raise ConfigurationError(
            f"{url} without TLS: whoever reaches that port is root there, and can change what is built",
            where=where,
            expected="a context with certificates",
            action="let that engine ask for certificates (dockerd --tlsverify), or use ssh://",
        )
    return EngineHost(url=url, tls=tls)
