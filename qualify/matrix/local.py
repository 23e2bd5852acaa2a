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


class LocalSettings(Strict):
    """All of ``matrix.local.yaml``; the empty one is right for most people."""

    version: Literal[1] = 1
    folders: Folders = Folders()
    mirrors: Mirrors = Mirrors()
    nas_roots: dict[str, NonEmpty] = Field(default_factory=dict)  # a name for each share's folder on this machine
    ca_bundle: str = ""  # certificates to trust besides the system's, also inside containers
    external_sources: dict[str, NonEmpty] = Field(default_factory=dict)  # FetchContent name -> a local copy
    look_in: tuple[NonEmpty, ...] = ()  # further folders in which the preflight looks for tools
    bases: dict[TargetId, LocalBase] = Field(default_factory=dict)

    def resolved(self, absolute: Callable[[str], str]) -> LocalSettings:
        """The same with ``absolute`` applied to every path of this machine."""

        def place(text: str) -> str:
            return absolute(text) if text and "://" not in text else text

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
            }
        )
