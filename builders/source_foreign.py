"""Compiled files that a fresh export brings along: a prebuilt extension or program would be shipped as it is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from qualify.errors import PreflightError, UnverifiedError

MAX_FILES = 2_000_000
MAX_SHOWN = 20

_ELF = b"\x7fELF"


def foreign_files(tree: Path, allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """The ELF files of a tree (extension modules, libraries, programs, objects) that no pattern allows, sorted.

    :param allowed: fnmatch patterns over the path from ``tree``.
    :raises UnverifiedError: there are more files than can be looked at, or one can't be read.
    """
    patterns = tuple(allowed)
    found: list[str] = []
    count = 0
    for parent, folders, files in os.walk(tree, onerror=_unreadable):
        if ".git" in folders:
            folders.remove(".git")
        for name in files:
            count += 1
            if count > MAX_FILES:
                raise UnverifiedError(
                    f"the tree has more than {MAX_FILES} files, and whether one is compiled was not looked at",
                    where=str(tree.name),
                )
            path = Path(parent) / name
            inside = path.relative_to(tree).as_posix()
            if _is_elf(path) and not any(fnmatchcase(inside, pattern) for pattern in patterns):
                found.append(inside)
    return tuple(sorted(found))


def refuse_foreign(tree: Path, allowed: Iterable[str], origin: str) -> None:
    """Refuse a tree with compiled files that nobody allowed.

    :raises PreflightError: there are some; all are named, up to a bound.
    """
    if not (found := foreign_files(tree, allowed)):
        return
    shown = ", ".join(found[:MAX_SHOWN]) + (f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else "")
    raise PreflightError(
        f"the source brings {len(found)} compiled file{'' if len(found) == 1 else 's'}, which would be shipped as "
        f"{'it is' if len(found) == 1 else 'they are'}: {shown}",
        where=origin,
        expected="sources alone",
        action="use a tree without them, or allow each in build.prebuilt of the matrix with its reason",
    )


def _is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(4) == _ELF
    except OSError as error:
        raise UnverifiedError(f"a file of the source can't be read: {error.strerror}", where=path.name) from error


def _unreadable(error: OSError) -> None:
    raise UnverifiedError(f"a folder of the source can't be read: {error.strerror}", where=str(error.filename))
