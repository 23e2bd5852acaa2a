"""``matrix.local.yaml``: what is true of one machine or one site alone.

It lies beside the matrix, isn't tracked, and may be absent.  Nothing in it enters a hash: where a file lies, or
through which mirror it came, says nothing about what was asked for or what was made.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from qualify.matrix.model import NonEmpty, Strict, TargetId


class Folders(Strict):
    """Folders of this machine; a relative one is taken from the folder of the matrix."""

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
    hosts: dict[str, NonEmpty] = Field(default_factory=dict)  # a name for each engine's address
    nas_roots: dict[str, NonEmpty] = Field(default_factory=dict)  # a name for each share's folder on this machine
    ca_bundle: str = ""  # certificates to trust besides the system's, also inside containers
    external_sources: dict[str, NonEmpty] = Field(default_factory=dict)  # FetchContent name -> a local copy
    look_in: tuple[NonEmpty, ...] = ()  # further folders in which the preflight looks for tools
    bases: dict[TargetId, LocalBase] = Field(default_factory=dict)
