"""Writing so that a kill at any moment leaves the old file or the new one, never a half.

Three parts: whole-file writes (:func:`write_atomic`, :func:`copy_atomic`), hashes (:func:`sha256_of`) and
locks between processes (:func:`locked`).

A temporary file is named ``.<name>.<random>.wa-tmp`` and lies in the folder of the file that it becomes, or in
one that the caller names on the same file system, since a rename is atomic only within one.  Its writer holds a
lock on it for as long as it lives, so a temporary file that can be locked belongs to nobody any more; the next
write in that folder removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from qualify.errors import AssayError, RefusedError, UnavailableError, UsageError

Progress = Callable[[int, int], None]  # bytes done, bytes in all

_SUFFIX = ".wa-tmp"
_CHUNK = 1 << 20
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file held when it was read: sha256 in lower-case hex, size in bytes."""

    sha256: str
    size: int


def sha256_of(path: Path, progress: Progress | None = None) -> Digest:
    """Hash a file of any size in constant memory.

    :raises UsageError: there is no such file.
    :raises UnavailableError: it can't be read.
    """
    with _explained(path), path.open("rb", buffering=0) as stream:
        return _hash(stream.fileno(), progress)


def write_atomic(path: Path, content: bytes | str, *, staging: Path | None = None) -> None:
    """Write ``content`` (text as UTF-8) to ``path``: whole, or not at all, and on the disk when this returns.

    The mode of a file that is already there is kept.  A symbolic link is followed, not replaced.

    :param staging: a folder of the same file system for the temporary file; None: the folder of ``path``.
    :raises UnavailableError: disk full, read-only, no permission; the old file is as it was.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    with _replacing(path, staging) as handle:
        _write_all(handle, data)


def copy_atomic(
    source: Path,
    destination: Path,
    *,
    sha256: str = "",
    staging: Path | None = None,
    progress: Progress | None = None,
) -> Digest:
    """Copy a file whole or not at all; hashed while it is copied, and again from the copy before it gets its name.

    :param sha256: what the source must hold; "" takes what is there.
    :param staging: a folder of the same file system for the temporary file; None: the destination's folder.
    :raises RefusedError: the source holds other bytes than ``sha256``.
    :raises UnavailableError: the copy reads back different, or the disk is at fault.
    """
    with _explained(source), source.open("rb", buffering=0) as stream, _replacing(destination, staging) as handle:
        total = os.fstat(stream.fileno()).st_size
        hasher, done = hashlib.sha256(), 0
        while chunk := stream.read(_CHUNK):
            hasher.update(chunk)
            _write_all(handle, chunk)
            done += len(chunk)
            if progress:
                progress(done, total)
        copied = Digest(hasher.hexdigest(), done)
        if sha256 and copied.sha256 != sha256:
            raise RefusedError(
                f"holds sha256 {copied.sha256}",
                where=str(source),
                expected=f"sha256 {sha256}",
                action="the file changed since it was judged: judge it again",
            )
        os.fsync(handle)
        # What is in the page cache proves nothing about the disk: ask for it to be dropped, then read back.
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.lseek(handle, 0, os.SEEK_SET)
        if _hash(handle, None) != copied:
            raise UnavailableError(
                "the copy reads back different from what was written",
                where=str(destination),
                action="check the disk or the share, then run again",
            )
    return copied


def sweep(folder: Path) -> None:
    """Remove temporary files in ``folder`` whose writer is gone.  Files of live writers stay."""
    _sweep(folder, "")


def make_folder(path: Path) -> None:
    """Make a folder and its parents, and have their names on the disk.

    :raises UnavailableError: it can't be made.
    """
    with _explained(path):
        missing = []
        folder = path
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            # Another process may make it at the same moment: either one's folder is right.
            folder.mkdir(exist_ok=True)
            _sync_folder(folder.parent)


@contextlib.contextmanager
def locked(path: Path, *, timeout: float = 60.0, purpose: str = "") -> Iterator[None]:
    """Hold the lock of ``path`` (a file or a folder, there or not) against other processes and threads.

    The lock is a POSIX record lock on ``.<name>.lock`` beside ``path``.  The kernel drops it with its process,
    however that ends, and a forked child doesn't inherit it.  The file says who holds it.

    :param timeout: seconds to wait for another holder.
    :raises UnavailableError: someone else holds it (pid, host and since when are named), or no lock can be made.
    """
    lock_path = path.parent / f".{path.name}.lock"
    deadline = time.monotonic() + timeout
    inner = _inner_lock(lock_path)
    if not inner.acquire(timeout=max(timeout, 0)):
        raise _busy(lock_path, timeout)
    try:
        with _explained(lock_path):
            handle = _lock_file(lock_path, deadline, timeout)
        try:
            with _explained(lock_path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, _holder(purpose), 0)
            yield
        finally:
            # Unlinked while still held: whoever waits on this inode sees that the name is gone, and tries again.
            with contextlib.suppress(OSError):
                lock_path.unlink()
            os.close(handle)
    finally:
        inner.release()


# -- locks -----------------------------------------------------------------------------------------------------

_inner_locks: dict[str, threading.Lock] = {}
_inner_guard = threading.Lock()


def _inner_lock(lock_path: Path) -> threading.Lock:
    # Record locks belong to the process and don't keep its threads apart; this does.
    with _inner_guard:
        return _inner_locks.setdefault(os.path.realpath(lock_path), threading.Lock())


def _forget_inner_locks() -> None:
    # A forked child starts without the record locks, so without these as well.
    global _inner_guard
    _inner_guard = threading.Lock()
    _inner_locks.clear()


os.register_at_fork(after_in_child=_forget_inner_locks)


def _lock_file(lock_path: Path, deadline: float, timeout: float) -> int:
    while True:
        handle = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        taken = False
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = _still_named(handle, lock_path)
            if taken:
                return handle
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
        finally:
            if not taken:
                os.close(handle)
        if time.monotonic() >= deadline:
            raise _busy(lock_path, timeout)
        time.sleep(_POLL_SECONDS)


def _still_named(handle: int, path: Path) -> bool:
    try:
        named = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    held = os.fstat(handle)
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def _holder(purpose: str) -> bytes:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "purpose": purpose}
    return json.dumps(holder).encode()


def _busy(lock_path: Path, timeout: float) -> AssayError:
    try:
        holder = json.loads(lock_path.read_bytes())
        who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        who += f" ({holder['purpose']})" if holder.get("purpose") else ""
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return UnavailableError(
        f"locked by {who}",
        where=str(lock_path),
        expected=f"the lock to be free within {timeout:g} s",
        action="wait for it to finish, then run again",
    )


# -- files -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _replacing(path: Path, staging: Path | None = None) -> Iterator[int]:
    """A descriptor of a temporary file that becomes ``path`` when the block ends well."""
    with _explained(path):
        final = Path(os.path.realpath(path))
        _sweep(staging or final.parent, final.name)
        handle, temporary = _temporary(staging or final.parent, final.name)
        try:
            with contextlib.suppress(FileNotFoundError):
                _keep_mode(handle, final)
            yield handle
            os.fsync(handle)
            temporary.replace(final)
            _sync_folder(final.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        finally:
            os.close(handle)


def _temporary(folder: Path, name: str) -> tuple[int, Path]:
    while True:
        temporary = folder / f".{name[:180]}.{secrets.token_hex(6)}{_SUFFIX}"
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return handle, temporary
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            os.close(handle)
            raise
        # Swept away between its making and its locking.
        os.close(handle)


def _keep_mode(handle: int, final: Path) -> None:
    mode = stat.S_IMODE(final.stat().st_mode)
    if mode != stat.S_IMODE(os.fstat(handle).st_mode):
        # Shares without modes refuse this; the file is as readable there as any other.
        with contextlib.suppress(PermissionError):
            os.fchmod(handle, mode)


def _sweep(folder: Path, name: str) -> None:
    prefix = f".{name[:180]}." if name else "."
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(prefix) and entry.name.endswith(_SUFFIX)]
    except FileNotFoundError:
        return
    for leftover in found:
        try:
            handle = os.open(leftover, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(leftover).unlink()
        except OSError:
            pass  # its writer lives, or someone else swept it first
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _hash(handle: int, progress: Progress | None) -> Digest:
    hasher, done, total = hashlib.sha256(), 0, os.fstat(handle).st_size
    while chunk := os.read(handle, _CHUNK):
        hasher.update(chunk)
        done += len(chunk)
        if progress:
            progress(done, total)
    return Digest(hasher.hexdigest(), done)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems can't sync a folder; the rename is then as durable as they make it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into ours, once, with the path that was meant."""
    try:
        yield
    except FileNotFoundError as error:
        missing = str(error.filename or path)
        raise UsageError("no such file or folder", where=missing, action="check the path") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise UnavailableError(
            error.strerror or str(error),
            where=str(path),
            action="make room, then run again"
            if full
            else "mend the disk, the share or its permissions, then run again",
        ) from error
