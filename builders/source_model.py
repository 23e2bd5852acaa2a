"""What an opened source is, and when two names of a commit agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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


def commits_agree(stated: str, pinned: str) -> bool:
    """Whether two hexadecimal commit names, each of at least 7 digits, name one commit as far as both are written."""
    length = min(len(stated), len(pinned))
    return length >= 7 and stated[:length].lower() == pinned[:length].lower()
