"""The package index, asked through unearth with the settings that pip has on this machine.

pip knows the index, the mirrors, the certificates and the proxy of a site.  Whoever can ``pip install`` can fetch here,
with nothing to set up twice.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from qualify.errors import UnavailableError, UsageError
from qualify.matrix.local import Mirrors

if TYPE_CHECKING:
    from unearth import Link, Package, PackageFinder

# pip reads the general section, then those of the commands that fetch, then the environment; later ones win.
_SECTIONS = ("global", "install", "download", ":env:")
_TIMEOUT = 60.0
_GLIBC_OLDEST = {"x86_64": 5, "aarch64": 17}
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where packages come from.  Empty fields mean the default of the library."""

    index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    no_index: bool = False
    certificates: str = ""  # a file
    proxy: str = ""
    timeout: float = _TIMEOUT  # seconds without a byte

    def with_mirrors(self, mirrors: Mirrors, ca_bundle: str) -> IndexSettings:
        """The same, with what matrix.local.yaml says in front."""
        settings = self
        if mirrors.index_url:
            settings = replace(settings, index_urls=(mirrors.index_url, *mirrors.extra_index_urls), no_index=False)
        elif mirrors.extra_index_urls:
            settings = replace(settings, index_urls=(*settings.index_urls, *mirrors.extra_index_urls))
        if mirrors.find_links:
            settings = replace(settings, find_links=(*mirrors.find_links, *settings.find_links))
        return replace(settings, certificates=ca_bundle) if ca_bundle else settings


def pip_settings() -> IndexSettings:
    """What ``pip config list`` says on this machine; the environment's PIP_* where there is no pip."""
    # -P: a folder named pip in the current folder is not asked.
    command = [sys.executable, "-P", "-m", "pip", "config", "list"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        lines = answer.stdout.split("\n") if answer.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    return read_pip_settings(lines, os.environ)


def read_pip_settings(lines: Sequence[str], environment: Mapping[str, str]) -> IndexSettings:
    """Settings from the lines of ``pip config list`` (``section.key='value'``) and the environment."""
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        name, separator, literal = line.partition("=")
        section, _, key = name.rpartition(".")
        if separator and section in _SECTIONS:
            try:
                found[section, key] = str(ast.literal_eval(literal))
            except (ValueError, SyntaxError):
                continue
    for name, value in environment.items():
        if name.startswith("PIP_") and value:
            found[":env:", name.removeprefix("PIP_").lower().replace("_", "-")] = value

    def value_of(key: str) -> str:
        return next((found[s, key] for s in reversed(_SECTIONS) if (s, key) in found), "")

    extra = tuple(value_of("extra-index-url").split())
    first = value_of("index-url")
    try:
        timeout = float(value_of("timeout") or value_of("default-timeout") or _TIMEOUT)
    except ValueError:
        timeout = _TIMEOUT
    return IndexSettings(
        index_urls=((first or default_index()), *extra) if first or extra else (),
        find_links=tuple(value_of("find-links").split()),
        trusted_hosts=tuple(value_of("trusted-host").split()),
        no_index=value_of("no-index").lower() in ("1", "true", "yes", "on", "y", "t"),
        certificates=value_of("cert"),
        proxy=value_of("proxy"),
        timeout=timeout,
    )


def default_index() -> str:
    """The index that unearth asks where none is named."""
    from unearth import PackageFinder

    return str(PackageFinder().sources[0]["url"])


def platforms(machine: str, glibc: str) -> list[str]:
    """Platform tags that a host of ``machine`` with ``glibc`` ("2.39") accepts, best first.

    :raises UsageError: the machine or the glibc isn't known.
    """
    oldest = _GLIBC_OLDEST.get(machine)
    major, _, minor = glibc.partition(".")
    if oldest is None or major != "2" or not minor.isdigit():
        raise UsageError(
            f'no wheels are known for machine "{machine}" with glibc {glibc}',
            expected=f"one of {', '.join(_GLIBC_OLDEST)} and glibc 2.N",
        )
    tags: list[str] = []
    for version in range(int(minor), oldest - 1, -1):
        tags.append(f"manylinux_2_{version}_{machine}")
        if version in _LEGACY:
            tags.append(f"{_LEGACY[version]}_{machine}")
    return [*tags, f"linux_{machine}"]


class Index:
    """One session with the index.  Use as a context manager; every method raises UnavailableError without network."""

    def __init__(self, settings: IndexSettings) -> None:
        self._settings = settings
        self.client = _client(settings)

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def wheel(self, requirement: Requirement, machine: str, python: str, glibc: str) -> Link:
        """The best wheel for a host.

        :raises UsageError: there is no such release, or none for that host.
        """
        finder = self._finder(only_binary=[":all:"], target=(python, platforms(machine, glibc)))
        with self._network():
            best = finder.find_best_match(requirement).best
        if best is None:
            raise self._nothing(requirement, f"no wheel of it runs on {machine} with glibc {glibc} and Python {python}")
        return best.link

    def sdist(self, requirement: Requirement) -> Link:
        """The source distribution of a release.

        :raises UsageError: there is none.
        """
        finder = self._finder(no_binary=[":all:"], ignore_compatibility=True)
        with self._network():
            best = finder.find_best_match(requirement).best
        if best is None:
            raise self._nothing(requirement, "no source distribution of it")
        return best.link

    def _finder(self, *, target: tuple[str, list[str]] | None = None, **options: Any) -> PackageFinder:
        from unearth import PackageFinder, TargetPython

        python = None
        if target is not None:
            version = tuple(int(part) for part in target[0].split("."))
            python = TargetPython(py_ver=version, impl="cp", platforms=target[1])
        urls = () if self._settings.no_index else self._settings.index_urls or (default_index(),)
        for url in urls:
            if "://" not in url and not Path(url).exists():
                raise UsageError(
                    "is no address of a package index",
                    where=url,
                    expected="https://…, or a folder",
                    action="mend index-url in pip's configuration (PIP_INDEX_URL) or in matrix.local.yaml",
                )
        links = [link for link in self._settings.find_links if "://" in link or Path(link).exists()]
        if not (urls or links):
            raise UnavailableError(
                "pip is told to use no index, and no folder of wheels is there",
                action="set find-links, or fetch the file by hand and name it",
            )
        return PackageFinder(session=self.client, index_urls=urls, find_links=links, target_python=python, **options)

    def _nothing(self, requirement: Requirement, reason: str) -> UsageError:
        """Why nothing matched: no such project, no such version, or not for this host."""
        finder = self._finder(ignore_compatibility=True)
        with self._network():
            there: Sequence[Package] = list(finder.find_all_packages(requirement.name, allow_yanked=True))
        name = str(requirement)
        if not there:
            return UsageError("the index has no such project", where=name, action="check the name")
        if any(requirement.specifier.contains(package.version or "", prereleases=True) for package in there):
            return UsageError(reason, where=name, action="name a file, or another release")
        versions = list(dict.fromkeys(str(package.version) for package in there))[:5]
        return UsageError("the index has no such release", where=name, expected=f"one like {', '.join(versions)}")

    @contextmanager
    def _network(self) -> Iterator[None]:
        try:
            yield
        except transport_errors() as error:
            raise no_network(error) from error


def no_network(error: Exception) -> UnavailableError:
    """What a person can use of a transport error."""
    return UnavailableError(
        f"the package index can't be reached: {error or type(error).__name__}",
        action="check the network, the proxy and pip's configuration, then run again",
    )


def transport_errors() -> tuple[type[Exception], ...]:
    """The errors of the HTTP library that the installed unearth is made on (its name changed between releases)."""
    from unearth.fetchers import PyPIClient

    base = next(kind for kind in PyPIClient.__mro__ if kind.__name__ == "Client")
    library = sys.modules[base.__module__.partition(".")[0]]
    return (library.HTTPError, library.InvalidURL)


def _client(settings: IndexSettings) -> Any:
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    class Client(PyPIClient):
        """Says what a failing index is: unearth itself only logs it, and then finds nothing."""

        def get(self, url: Any, **options: Any) -> Any:
            response = super().get(url, **options)
            # A project that isn't there is an answer.  Everything else is an index that doesn't answer.
            if response.status_code >= 400 and response.status_code != 404:
                shown = f"{response.url.host or response.url}"
                raise UnavailableError(
                    f"the package index answers {response.status_code} {response.reason_phrase}",
                    where=shown,
                    action="check the index, its credentials and pip's configuration, then run again",
                )
            return response

    options: dict[str, Any] = {"follow_redirects": True, "timeout": settings.timeout}
    if settings.certificates:
        import ssl

        try:
            options["verify"] = ssl.create_default_context(cafile=settings.certificates)
        except OSError as error:
            raise UnavailableError(
                f"the certificates can't be read: {error.strerror or error}",
                where=settings.certificates,
                action="mend pip's cert setting or ca_bundle in matrix.local.yaml",
            ) from None
    if settings.proxy:
        options["proxy"] = settings.proxy
    client = Client(trusted_hosts=settings.trusted_hosts, **options)
    client.auth = MultiDomainBasicAuth(prompting=False, index_urls=list(settings.index_urls))
    return client
