"""What an opened source is, and when two names of a commit agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Progress = Callable[[str], None]


@dataclass(frozen=True)
class PatchFile:
    """One patch of the pin, whose bytes were held against its sha256.  ``path`` is a place on this host."""

    name: str  # as the matrix names it
    sha256: str
    order: int  # from 1
    path: Path

    @property
    def inside(self) -> str:
        """The file's name in the place that builds; two patches of one name in two folders stay apart."""
        return f"{self.order:03d}-{self.path.name}"


@dataclass(frozen=True)
class Fork:
    """A fork: the pin's commit is ``base`` and an overlay on top of it.  ``behind`` changes daily and enters no key."""

    repository: str  # upstream's
    base: str
    overlay: tuple[tuple[str, str], ...]  # (commit, subject), the oldest first
    behind: int | None  # commits of upstream's branch that the fork lacks; None: nobody could say
    behind_said: str = ""  # why None, or as of when where the server wasn't asked just now
    base_proven: bool = False  # whether upstream's own branches or tags were seen to contain the base

    def words(self) -> str:
        """``3 overlay, 12 behind upstream``."""
        if self.behind is None:
            return f"{len(self.overlay)} overlay, behind upstream by an unknown number ({self.behind_said})"
        return f"{len(self.overlay)} overlay, {self.behind} behind upstream" + (
            f" ({self.behind_said})" if self.behind_said else ""
        )


@dataclass(frozen=True)
class Submodule:
    """A submodule as it was checked out; ``path`` from the root of the export."""

    path: str
    repository: str
    commit: str


@dataclass(frozen=True)
class Source:
    """One fresh export of the source.

    ``tree`` is a place on this host and enters no plan and no hash; everything else says what the source is.
    """

    kind: Literal["sdist", "git"]
    tree: Path  # the project's root: holds pyproject.toml
    commit: str  # lower-case hex, as long as the source states it; "" where an sdist states none and none is asked for
    commit_from: str  # the file, or the git command, that stated the commit
    version: str  # PKG-INFO's Version, or what git describe says; "" where nothing states it
    version_from: str
    origin: str  # the sdist's file name, or the repository as the matrix names it
    sha256: str  # of the sdist; "" for git
    environment: Mapping[str, str] = field(default_factory=dict)  # what the build needs so that the commit stays
    whole: bool = True  # False: only the files that a plan reads; nothing can be built from it
    patches: tuple[PatchFile, ...] = ()  # proven to apply, in this order; the tree is without them
    fork: Fork | None = None
    submodules: tuple[Submodule, ...] = ()
    notes: tuple[str, ...] = ()  # what a person should know and what refuses nothing


def say_nothing(message: str) -> None:
    """The progress of a caller that wants none."""


def commits_agree(stated: str, pinned: str) -> bool:
    """Whether two hexadecimal commit names, each of at least 7 digits, name one commit as far as both are written."""
    length = min(len(stated), len(pinned))
    return length >= 7 and stated[:length].lower() == pinned[:length].lower()
