"""Whose an environment's folder is, and whether it is whole: what guards it travels with it.

The folder is a volume of an engine, and builds of several hosts and users may share it, so nothing outside it can say
who prepares it.  The lock is the kernel's (flock(2)) on a file of the folder itself, and every process that writes
there holds it: it is free when the last of them has ended, however that was.  What was installed is written last, with
a digest, and held against the folder before it is used.

This file travels as text in front of :mod:`builders.environment_script`: the standard library alone, Python 3.8 or
newer, and nothing of ours.
"""

# ruff: noqa: PTH103, PTH105, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120, PTH123
from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any

COMPLETE = "complete.json"
LOCK = ".preparing"  # in the folder; it stays there, and says who holds it or held it last
BUSY = 75  # exit status: another build prepares the environment (EX_TEMPFAIL of sysexits.h)
POLL_SECONDS = 0.5
HOLDER_BYTES = 400  # the most that is read of what a holder says of itself


class FailedError(Exception):
    """What went wrong, in one line."""


class BusyError(Exception):
    """Somebody else prepares the folder; in one line who, and since when."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def held(folder: str, holder: str, seconds: float) -> Iterator[None]:
    """Hold the folder's lock; programs that are started with ``close_fds=False`` hold it with us.

    :param holder: who we are, for those who wait.
    :param seconds: how long to wait for another one.
    :raises BusyError: another one holds it still.
    :raises FailedError: the folder's file system has no locks.
    """
    deadline = time.monotonic() + seconds
    told = ""
    while True:
        try:
            os.makedirs(folder, exist_ok=True)
            handle = locked(folder)
        except OSError as error:
            raise FailedError("the environment's folder can't be locked: %s" % error) from error  # noqa: UP031
        if handle >= 0:
            break
        other = holder_of(folder)
        if other and other != told:
            say("environment: waiting for %s, which prepares it" % other)  # noqa: UP031  -- read by old interpreters too
            told = other
        if time.monotonic() >= deadline:
            raise BusyError(other or "a build that has not said its name")
        time.sleep(POLL_SECONDS)
    os.set_inheritable(handle, True)
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        os.ftruncate(handle, 0)
        os.pwrite(handle, ("%s, since %s" % (holder, since)).encode("utf-8", "replace"), 0)  # noqa: UP031
        yield
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
        os.close(handle)


def locked(folder: str, shared: bool = False) -> int:
    """The open file whose lock we hold, -1 where another one holds it; ``shared`` for who only reads the folder.

    :raises OSError: the file system has no locks, or the folder takes no file.
    """
    path = os.path.join(folder, LOCK)
    how = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    handle = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        mine, now = os.fstat(handle), os.stat(path)
        if (mine.st_dev, mine.st_ino) == (now.st_dev, now.st_ino):
            return handle
    except OSError as error:
        # The folder may have been removed and made again meanwhile: then the lock is on a file that is gone.
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT):
            os.close(handle)
            raise
    os.close(handle)
    return -1


def holder_of(folder: str) -> str:
    """What the holder of the lock says of itself, on one line; "" where it says nothing."""
    try:
        with open(os.path.join(folder, LOCK), "rb") as file:
            text = file.read(HOLDER_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def write_marker(folder: str, key: str, answer: dict[str, Any], also: list[str]) -> None:
    """Say that the environment is whole: last of all, and with the digest of what is there."""
    digest, files = digest_of(folder)
    path = os.path.join(folder, COMPLETE)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"key": key, "answer": answer, "also": also, "digest": digest, "files": files}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def read_marker(folder: str, key: str) -> dict[str, Any] | None:
    """What was written of a whole environment of that key, if the folder still holds what was installed; else None."""
    try:
        with open(os.path.join(folder, COMPLETE), encoding="utf-8") as file:
            known = json.load(file)
        if known["key"] != key:
            return None
        wanted, count = known["digest"], known["files"]
        known["also"], known["answer"]["python"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    digest, files = digest_of(folder)
    if digest == wanted:
        return dict(known)
    say("environment: not what was installed: %s files where %s were; it is made anew" % (files, count))  # noqa: UP031
    return None


def digest_of(folder: str) -> tuple[str, int]:
    """A digest of what is installed in the folder's subfolders, and of how many files.

    Of each file its path and size, of a link where it leads, and of every RECORD of an installed distribution its
    bytes, which hold the sha256 of each file.  Compiled Python is left out: interpreters write it as they run.
    """
    whole, files = hashlib.sha256(), 0
    for path, about in walked(folder):
        if stat.S_ISLNK(about.st_mode):
            row = "%s -> %s" % (path, os.readlink(os.path.join(folder, path)))  # noqa: UP031
        else:
            row = "%s %d" % (path, about.st_size)  # noqa: UP031
        if path.endswith(".dist-info/RECORD"):
            with open(os.path.join(folder, path), "rb") as file:
                row += " " + hashlib.sha256(file.read()).hexdigest()
        whole.update(row.encode("utf-8", "surrogateescape") + b"\0")
        files += 1
    return whole.hexdigest(), files


def walked(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Files and links below the folder's subfolders, in an order that is always the same."""
    for place, folders, names in os.walk(folder):
        if place == folder:
            names = []  # the marker, the lock, and what pip was told
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = sorted(name for name in folders if name != "__pycache__" and name not in links)
        for name in sorted(names + links):
            path = os.path.join(place, name)
            if not name.endswith(".pyc"):
                yield os.path.relpath(path, folder), os.lstat(path)


def demand_whole(folder: str) -> None:
    """:raises FailedError: a file is missing that an installed distribution's RECORD names."""
    there = {path for path, _ in walked(folder)}
    for path in sorted(there):
        place, name = os.path.split(path)
        # Of what was installed itself: what setuptools has in its _vendor keeps a RECORD of other places, and what is
        # laid out for another machine lies elsewhere than its RECORDs say.
        site = os.path.dirname(place)
        if name != "RECORD" or not place.endswith(".dist-info") or os.path.basename(site) != "site-packages":
            continue
        with open(os.path.join(folder, path), encoding="utf-8", newline="") as file:
            named = [row[0] for row in csv.reader(file) if row]
        lost = [
            text
            for text in named
            if not text.startswith(("/", "..")) and not text.endswith(".pyc") and os.path.join(site, text) not in there
        ]
        if lost:
            whose = os.path.basename(place)[: -len(".dist-info")]
            raise FailedError("%s lacks %s, which it installed" % (whose, lost[0]))  # noqa: UP031
