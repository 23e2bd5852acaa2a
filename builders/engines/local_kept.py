"""The folders that the local engine keeps between builds, and which of them an open room uses.

A room that is open has a file in ``rooms`` that bears the mark of its process and names the folders that it uses.  One
of a process of this host that has ended counts for nothing; one of another host, on a shared file system, is believed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from builders.engines import Kept
from builders.host import process_is_alive, process_mark
from qualify.files import write_atomic
from qualify.lines import lines_of

BUILDS = "builds"
ENVIRONMENTS = "environments"
CACHE = "build-cache"
_ROOMS = "rooms"
_KINDS = {BUILDS: "work", ENVIRONMENTS: "environment"}


@contextlib.contextmanager
def using(root: Path, folders: Sequence[Path]) -> Iterator[None]:
    """Say that a room uses these folders, while it does."""
    place = root / _ROOMS
    place.mkdir(parents=True, exist_ok=True)
    said = place / f"{process_mark().replace('/', '~')}~{secrets.token_hex(4)}"
    write_atomic(said, "".join(f"{folder}\n" for folder in folders))
    try:
        yield
    finally:
        said.unlink(missing_ok=True)


def kept_folders(root: Path) -> tuple[Kept, ...]:
    """All of them, by path."""
    used = _used(root)
    found = [
        Kept(kind, str(folder), folder.stat().st_ctime, _size(folder), str(folder) in used)  # type: ignore[arg-type]
        for name, kind in _KINDS.items()
        for folder in (sorted((root / name).iterdir()) if (root / name).is_dir() else [])
        if folder.is_dir() and not folder.is_symlink()
    ]
    cache = root / CACHE
    if cache.is_dir():
        found.append(Kept("cache", str(cache), cache.stat().st_ctime, _size(cache), str(cache) in used))
    return tuple(found)


def drop_folder(root: Path, kept: Kept) -> bool:
    if kept.name in _used(root):
        return False
    shutil.rmtree(kept.name, ignore_errors=True)
    return not Path(kept.name).exists()


def _used(root: Path) -> frozenset[str]:
    place = root / _ROOMS
    used: set[str] = set()
    for said in place.iterdir() if place.is_dir() else ():
        mark = said.name.replace("~", "/").rpartition("/")[0]
        if mark.startswith(f"{socket.gethostname()}/") and not process_is_alive(mark):
            said.unlink(missing_ok=True)
            continue
        with contextlib.suppress(OSError):
            used.update(lines_of(said.read_text(encoding="utf-8")))
    return frozenset(used)


def _size(folder: Path) -> int:
    """Bytes of the files below, as their names say; links count nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(place, name).lstat().st_size
    return total
