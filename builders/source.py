"""The source at the pin: a fresh tree whose commit was read from the source itself and held against the matrix.

Two kinds.  An sdist is fetched by sha256 and unpacked; its commit is what the untouched files state.  A git source is
cloned with its tags and checked out at the exact commit, and keeps ``.git`` so that setuptools-scm sees the tags.
Whatever does not fit the pin is refused here, before anything is planned, let alone compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from builders.source_git import open_git
from builders.source_model import Progress, Source, say_nothing
from builders.source_sdist import open_sdist
from qualify.errors import PreflightError
from qualify.matrix.model import GitSource, SdistSource

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix


def open_source(matrix: LoadedMatrix, work: Path, *, progress: Progress = say_nothing, whole: bool = True) -> Source:
    """Make a fresh export of the pin's source in ``work`` (a folder that is empty or not there yet).

    :param whole: False unpacks of an sdist only what a plan reads, which takes a tenth of the time.
    :raises PreflightError: the source is not what the pin says (commit, tags, shallow, dirty), or cannot be unpacked.
    :raises ConfigurationError: the pin cannot name a source (a git source with an abbreviated commit).
    :raises UnavailableError: the network or git was not there.
    """
    pin = matrix.matrix.pin
    if work.exists() and any(work.iterdir()):
        raise PreflightError(
            "the folder for the source is not empty", where=str(work), action="give a fresh folder for each build"
        )
    work.mkdir(parents=True, exist_ok=True)
    match pin.source:
        case SdistSource():
            source = open_sdist(matrix, pin.source, work, progress=progress, whole=whole)
        case GitSource():
            source = open_git(matrix, pin.source, work, progress=progress)
    _refuse_results(source)
    return source


def _refuse_results(source: Source) -> None:
    """Results of an earlier build: setuptools packs all that lies in ``build/lib*``, whoever put it there."""
    names = ("lib", "lib.*", "bdist.*", "temp.*")
    left = sorted(path.name for name in names for path in source.tree.glob(f"build/{name}") if path.is_dir())
    if left:
        raise PreflightError(
            f"the source brings results of an earlier build: build/{left[0]}",
            where=source.origin,
            expected="sources alone",
            action="make the source from a clean tree",
        )
