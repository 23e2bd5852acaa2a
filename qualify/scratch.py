"""A temporary folder that is gone afterwards, and after a ``kill -9`` once the next one of its kind is made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from qualify.lines import lines_of

_MOUNTS = Path("/proc/self/mounts")


@contextlib.contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """A fresh folder ``wheel-assay-<kind>-…`` among this host's temporary ones.

    Its maker holds a lock on it for as long as it lives, so one that can be locked belongs to nobody any more.
    """
    prefix = f"wheel-assay-{kind}-"
    _sweep(Path(tempfile.gettempdir()), prefix)
    folder, handle = _made(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _made(prefix: str) -> tuple[Path, int]:
    """A new folder and the handle that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        # Until it is locked, another process may take it for an abandoned one and remove it: then another is made.
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _lock(handle)
            except BlockingIOError:
                os.close(handle)
                raise
            except OSError:
                return folder, handle  # a file system without locks, where nothing is swept either
            if folder.exists():
                return folder, handle
            os.close(handle)


def _lock(handle: int) -> None:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sweep(place: Path, prefix: str) -> None:
    for left in place.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _lock(handle)
                if os.fstat(handle).st_uid == os.geteuid() and not _holds_a_mount(left):
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)


def _holds_a_mount(folder: Path) -> bool:
    """What a killed bootstrap mounted is the host's own: never walked into."""
    inside = f" {folder}/"
    return any(inside in line for line in lines_of(_MOUNTS.read_text(encoding="utf-8")))
