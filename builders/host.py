"""What engines take over from this host: its way to the package index, and whose process a thing belongs to.

These are local values.  They enter no plan, no key and no receipt.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from builders.signals import undisturbed

_CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "timeout", "default-timeout", "retries")
_CA_INSIDE = "/etc/wheel-assay/ca.pem"
_PIP_INSIDE = "/etc/pip.conf"


@dataclass(frozen=True, slots=True)
class Network:
    """How the network is reached: extra certificate authorities (PEM), pip's settings, proxies."""

    authorities: bytes = b""
    pip: Mapping[str, str] | None = None
    proxies: Mapping[str, str] | None = None

    def files_inside(self) -> dict[str, bytes]:
        """Absolute path in a container -> content."""
        files: dict[str, bytes] = {}
        if self.authorities:
            files[_CA_INSIDE] = self.authorities
        if self.pip:
            lines = ["[global]", *(f"{key} = {value}" for key, value in sorted(self.pip.items()))]
            files[_PIP_INSIDE] = ("\n".join(lines) + "\n").encode()
        return files

    def environment_inside(self) -> dict[str, str]:
        environment = dict(self.proxies or {})
        if self.authorities:
            environment.update(dict.fromkeys((*_CA_VARIABLES, "GIT_SSL_CAINFO"), _CA_INSIDE))
        return environment


def network_of_host() -> Network:
    """The network settings of this process and of pip's configuration files.

    A folder of this host means nothing in a container, so ``file:`` indexes are left out.
    """
    return Network(
        authorities=_authorities(os.environ),
        pip=pip_settings(_pip_config_list()),
        proxies={name: os.environ[name] for name in _PROXY_VARIABLES if os.environ.get(name)},
    )


def host_network_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of this host that a step with network needs when it runs on this very host."""
    names = (*_CA_VARIABLES, *_PROXY_VARIABLES, "GIT_SSL_CAINFO", "SSL_CERT_DIR", "XDG_CONFIG_DIRS")
    kept = {name: environ[name] for name in names if environ.get(name)}
    kept.update({name: value for name, value in environ.items() if name.startswith("PIP_")})
    return kept


def pip_settings(listing: str) -> dict[str, str]:
    """pip's index settings out of what ``pip config list`` prints, without folders of this host.

    The environment's (``:env:``) win over the files', as in pip itself.
    """
    found: dict[str, str] = {}
    rows = [line.partition("=") for line in listing.splitlines() if "=" in line]
    for name, _, value in sorted(rows, key=lambda row: row[0].startswith(":env:")):
        key = name.removeprefix(":env:.").rpartition(".")[2]
        words = [word for word in value.strip().strip("'\"").replace("\\n", " ").split() if not _is_folder(word)]
        if key in _PIP_KEYS and words:
            found["timeout" if key == "default-timeout" else key] = " ".join(words)
    return found


def process_mark(pid: int | None = None) -> str:
    """A process (this one where none is named), told apart from a later one of its number: ``host/pid/start time``."""
    pid = pid or os.getpid()
    return f"{socket.gethostname()}/{pid}/{_start_time(pid)}"


def process_is_alive(mark: str) -> bool:
    """Whether the process of a mark of this host still runs."""
    _, pid, start = mark.rsplit("/", 2)
    return _start_time(int(pid)) == start != ""


def _start_time(pid: int) -> str:
    """Field 22 of /proc/PID/stat (proc(5)), counted after the name, which may hold spaces; "" where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _is_folder(word: str) -> bool:
    return word.startswith(("file:", "/"))


def _authorities(environ: Mapping[str, str]) -> bytes:
    """The first bundle that the host names; the system's own where none is named."""
    candidates = [environ[name] for name in _CA_VARIABLES if environ.get(name)]
    default = ssl.get_default_verify_paths().cafile
    for candidate in (*candidates, *([default] if default else [])):
        path = Path(candidate)
        if path.is_file():
            return path.read_bytes()
    return b""


@cache
def _pip_config_list() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def cache_folder() -> Path:
    """Where this tool keeps what it can make again: ``$XDG_CACHE_HOME/wheel-assay``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "wheel-assay"


@contextlib.contextmanager
def work_folder(root: Path | None = None) -> Iterator[Path]:
    """A folder for one piece of work, gone afterwards; those that killed processes left are removed first.

    :param root: where it lies; the cache folder where none is given.
    """
    place = (root or cache_folder()) / "work"
    place.mkdir(parents=True, exist_ok=True)
    for left in place.iterdir():
        mark = left.name.replace("~", "/").rpartition("/")[0]
        if mark.startswith(f"{socket.gethostname()}/") and not process_is_alive(mark):
            shutil.rmtree(left, ignore_errors=True)
    folder = place / f"{process_mark().replace('/', '~')}~{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        with undisturbed():
            shutil.rmtree(folder, ignore_errors=True)
