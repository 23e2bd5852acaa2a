"""The source at the pin: a fresh tree whose commit was read from the source itself and held against the matrix.

Two kinds.  An sdist is fetched by sha256 and unpacked; its commit is what the untouched files state.  A git source is
exported from its mirror at the exact commit, and has a ``.git`` with its tags, so that setuptools-scm sees them.
Patches of the pin are tried here and applied where the build runs.  Whatever does not fit the pin is refused here,
before anything is planned, let alone compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from builders.source_foreign import refuse_foreign
from builders.source_git import open_git
from builders.source_model import Progress, Source, say_nothing
from builders.source_sdist import open_sdist
from builders.store.gitmirror import Mirrors, mirrors_of
from qualify.errors import PreflightError
from qualify.matrix.model import GitSource, SdistSource

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix


def open_source(
    matrix: LoadedMatrix,
    work: Path,
    *,
    progress: Progress = say_nothing,
    whole: bool = True,
    offline: bool = False,
    mirrors: Mirrors | None = None,
) -> Source:
    """Make a fresh export of the pin's source in ``work`` (a folder that is empty or not there yet).

    :param whole: False unpacks of an sdist only what a plan reads, which takes a tenth of the time.
    :param offline: take what is in the store alone; a pinned sdist has to lie at hand.
    :param mirrors: instead of those of this site's store.
    :raises PreflightError: the source is not what the pin says (commit, tags, shallow, dirty, patches, compiled files),
        or cannot be unpacked.
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
            source = open_sdist(matrix, pin.source, work, progress=progress, whole=whole, offline=offline)
        case GitSource():
            if mirrors is None:
                mirrors = mirrors_of(matrix, offline=offline, progress=progress)
            source = open_git(matrix, pin.source, work, mirrors, progress=progress)
    _refuse_results(source)
    if source.whole:
        refuse_foreign(source.tree, matrix.matrix.build.prebuilt, source.origin)
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
