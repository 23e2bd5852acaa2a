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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builders.signals import undisturbed
from qualify.matrix.local import LocalSettings
from qualify.packageindex import IndexSettings, pip_settings

_CA_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_KEPT_HERE = (*_CA_VARIABLES, *_PROXY_VARIABLES, "SSL_CERT_DIR", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME")
_CA_INSIDE = "/etc/wheel-assay/ca.pem"
_PIP_INSIDE = "/etc/pip.conf"


@dataclass(frozen=True, slots=True)
class Network:
    """How the package index is reached from a room.

    ``authorities`` is PEM text; ``index`` is what pip's configuration says with the site's mirrors in front; ``site``
    tells whether matrix.local.yaml says anything.
    """

    authorities: bytes = b""
    index: IndexSettings = field(default_factory=IndexSettings)
    proxies: Mapping[str, str] = field(default_factory=dict)
    site: bool = False

    def files_inside(self) -> dict[str, bytes]:
        """Absolute path in a container -> content.  A folder of this host means nothing there and is left out."""
        files: dict[str, bytes] = {}
        if self.authorities:
            files[_CA_INSIDE] = self.authorities
        settings = _pip_settings(self.index, folders=False)
        if settings:
            lines = ["[global]", *(f"{key} = {value}" for key, value in settings.items())]
            files[_PIP_INSIDE] = ("\n".join(lines) + "\n").encode()
        return files

    def environment_inside(self) -> dict[str, str]:
        """The variables of a step with network in a container."""
        environment = dict(self.proxies)
        if self.authorities:
            environment.update(dict.fromkeys(_CA_VARIABLES, _CA_INSIDE))
        return environment

    def environment_here(self, environ: Mapping[str, str], folder: Path) -> dict[str, str]:
        """The variables of a step with network on this host, which has pip's configuration files anyway.

        :param folder: where the certificates of this site can be written.
        """
        kept = {name: environ[name] for name in _KEPT_HERE if environ.get(name)}
        kept.update({name: value for name, value in environ.items() if name.startswith("PIP_")})
        if self.site:
            bundle = folder / "ca.pem"
            bundle.write_bytes(self.authorities)
            kept.update(dict.fromkeys(_CA_VARIABLES, str(bundle)))
            for key, value in _pip_settings(self.index, folders=True).items():
                kept[f"PIP_{key.upper().replace('-', '_')}"] = value
        return kept


def network_of(local: LocalSettings | None = None, environ: Mapping[str, str] | None = None) -> Network:
    """The network of this host: as pip's configuration, the environment and the site's settings say."""
    environ = os.environ if environ is None else environ
    index, site = pip_settings(), False
    authorities = _authorities(environ, index.certificates)
    if local is not None:
        mirrors = local.mirrors
        site = bool(local.ca_bundle or mirrors.index_url or mirrors.extra_index_urls or mirrors.find_links)
        index = index.with_mirrors(mirrors, "")
        if local.ca_bundle:
            authorities += b"\n" + Path(local.ca_bundle).expanduser().read_bytes()
    proxies = {name: environ[name] for name in _PROXY_VARIABLES if environ.get(name)}
    return Network(authorities, index, proxies, site)


def _pip_settings(index: IndexSettings, *, folders: bool) -> dict[str, str]:
    """pip's keys for an index; without ``folders`` those of this host are left out."""
    urls = [url for url in index.index_urls if folders or not _is_folder(url)]
    links = [link for link in index.find_links if folders or not _is_folder(link)]
    found: dict[str, str] = {}
    if urls:
        # Where the first index was a folder, pip's own default stays the first.
        first_is_kept = urls[0] == index.index_urls[0]
        extra = urls[1:] if first_is_kept else urls
        found.update({"index-url": urls[0]} if first_is_kept else {})
        found.update({"extra-index-url": " ".join(extra)} if extra else {})
    if links:
        found["find-links"] = " ".join(links)
    if index.trusted_hosts:
        found["trusted-host"] = " ".join(index.trusted_hosts)
    if index.timeout != IndexSettings().timeout:
        found["timeout"] = f"{index.timeout:.0f}"
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


def _is_folder(place: str) -> bool:
    return not place.startswith(("http://", "https://"))


def _authorities(environ: Mapping[str, str], configured: str) -> bytes:
    """The first bundle that the environment or pip's configuration names; the system's own where none is named."""
    candidates = [environ[name] for name in _CA_VARIABLES if environ.get(name)]
    default = ssl.get_default_verify_paths().cafile
    for candidate in (*candidates, configured, *([default] if default else [])):
        path = Path(candidate)
        if candidate and path.is_file():
            return path.read_bytes()
    return b""


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
