"""The source at the pin: a fresh tree whose commit was read from the source itself and held against the matrix.

Two kinds.  An sdist is fetched by sha256 and unpacked; its commit is what the untouched files state.  A git source is
cloned with its tags and checked out at the exact commit, and keeps ``.git`` so that setuptools-scm sees the tags.
Whatever does not fit the pin is refused here, before anything is planned, let alone compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from qualify.errors import PreflightError
from qualify.matrix.model import GitSource, SdistSource

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

Progress = Callable[[str], None]


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


def say_nothing(message: str) -> None:
    """The progress of a caller that wants none."""


def open_source(matrix: LoadedMatrix, work: Path, *, progress: Progress = say_nothing, whole: bool = True) -> Source:
    """Make a fresh export of the pin's source in ``work`` (a folder that is empty or not there yet).

    :param whole: False unpacks of an sdist only what a plan reads, which takes a tenth of the time.
    :raises PreflightError: the source is not what the pin says (commit, tags, shallow, dirty), or cannot be unpacked.
    :raises ConfigurationError: the pin cannot name a source (a git source with an abbreviated commit).
    :raises UnavailableError: the network or git was not there.
    """
    from builders.source_git import open_git
    from builders.source_sdist import open_sdist

    pin = matrix.matrix.pin
    if work.exists() and any(work.iterdir()):
        raise PreflightError(
            "the folder for the source is not empty", where=str(work), action="give a fresh folder for each build"
        )
    work.mkdir(parents=True, exist_ok=True)
    match pin.source:
        case SdistSource():
            return open_sdist(matrix, pin.source, work, progress=progress, whole=whole)
        case GitSource():
            return open_git(matrix, pin.source, work, progress=progress)


def commits_agree(stated: str, pinned: str) -> bool:
    """Whether two hexadecimal commit names, each of at least 7 digits, name one commit as far as both are written."""
    length = min(len(stated), len(pinned))
    return length >= 7 and stated[:length].lower() == pinned[:length].lower()
