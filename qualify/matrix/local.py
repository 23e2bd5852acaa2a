"""``matrix.local.yaml``: what is true of one machine or one site alone.

It lies beside the matrix, isn't tracked, and may be absent.  Nothing in it enters a hash: where a file lies, or
through which mirror it came, says nothing about what was asked for or what was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from qualify.matrix.model import NonEmpty, Strict, TargetId


class Folders(Strict):
    """Folders of this machine; a relative one is seen from the folder of this file."""

    cache: str = ""  # instead of the user's cache folder
    wheels: str = ""  # where builds leave their wheels
    index: str = ""  # where publish writes unless it is told
    scratch: str = ""  # room for source trees and build folders
    store: str = ""  # git mirrors, checkouts, crates and claims; may lie on a share that several hosts see


class Mirrors(Strict):
    """Where packages are fetched from, in place of what pip's configuration says."""

    index_url: str = ""
    extra_index_urls: tuple[NonEmpty, ...] = ()
    find_links: tuple[NonEmpty, ...] = ()
    debian: str = ""  # the Debian mirror that bases are bootstrapped from
    registry: str = ""  # put before the names of base images


class LocalBase(Strict):
    """A base image of this site, in place of the matrix's own."""

    image: NonEmpty
    digest: str = ""  # "sha256:…"; "" takes what the name means on this engine, and the receipt says so


class EngineHost(Strict):
    """A machine with a Docker engine: by address (ssh://, tcp://, unix://), or by the name of a docker context."""

    url: str = ""
    context: str = ""
    tls: str = ""  # folder with ca.pem, cert.pem and key.pem, for a tcp:// address
    jobs: int = Field(default=0, ge=0)  # compile jobs there; 0: from its cores and memory


class CompilerCache(Strict):
    """A compiler cache that hosts share."""

    server: NonEmpty  # redis://HOST:PORT or http://HOST:PORT/PATH, as the cache itself writes it


class LocalSettings(Strict):
    """All of ``matrix.local.yaml``; the empty one is right for most people."""

    version: Literal[1] = 1
    folders: Folders = Folders()
    mirrors: Mirrors = Mirrors()
    nas_roots: dict[str, NonEmpty] = Field(default_factory=dict)  # a name for each share's folder on this machine
    ca_bundle: str = ""  # certificates to trust besides the system's, also inside containers
    external_sources: dict[str, NonEmpty] = Field(default_factory=dict)  # name -> a local copy, or another URL for it
    git_mirrors: dict[str, NonEmpty] = Field(default_factory=dict)  # prefix of a URL -> what stands for it here
    crates: str = ""  # a folder of .crate files, or a sparse registry's URL, in place of the registry's own
    look_in: tuple[NonEmpty, ...] = ()  # further folders in which the preflight looks for tools
    bases: dict[TargetId, LocalBase] = Field(default_factory=dict)
    engines: dict[str, EngineHost] = Field(default_factory=dict)  # a name -> where that engine answers
    engine_hosts: dict[TargetId, NonEmpty] = Field(default_factory=dict)  # target -> a name of `engines`
    compiler_cache: CompilerCache | None = None

    def resolved(self, absolute: Callable[[str], str]) -> LocalSettings:
        """The same with ``absolute`` applied to every path of this machine."""

        def place(text: str) -> str:
            if not text or "://" in text:
                return text
            # What stands for the beginning of an address goes on behind its last slash.
            return absolute(text) + ("/" if text.endswith("/") and text != "/" else "")

        folders = Folders(**{name: place(text) for name, text in self.folders.model_dump().items()})
        links = tuple(place(text) for text in self.mirrors.find_links)
        return self.model_copy(
            update={
                "folders": folders,
                "mirrors": self.mirrors.model_copy(update={"find_links": links}),
                "nas_roots": {name: place(text) for name, text in self.nas_roots.items()},
                "ca_bundle": place(self.ca_bundle),
                "external_sources": {name: place(text) for name, text in self.external_sources.items()},
                "look_in": tuple(place(text) for text in self.look_in),
                "git_mirrors": {prefix: place(text) for prefix, text in self.git_mirrors.items()},
                "crates": place(self.crates),
                "engines": {
                    name: host.model_copy(update={"tls": place(host.tls)}) for name, host in self.engines.items()
                },
            }
        )
