"""Unpacking a ``.tar.gz`` sdist within bounds, and never outside its folder.

The rules are those of the standard library's ``data`` filter, which the first releases of Python 3.11 do not have.
"""

from __future__ import annotations

import gzip
import os
import posixpath
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

from qualify.errors import PreflightError

MAX_MEMBERS = 100_000
MAX_BYTES = 8 << 30  # of all members together, unpacked


def unpack(archive: Path, work: Path, wanted: Callable[[str], bool] | None = None) -> Path:
    """Unpack an sdist into the empty folder ``work`` and return its one top folder.

    Sizes and names are checked from the headers while the archive is read, before a member's bytes are written.

    :param wanted: only files whose name (with the top folder) it accepts.
    :raises PreflightError: it is no such archive, too large, leads out of its folder, or has no one top folder.
    """
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise PreflightError(
            "not a .tar.gz source distribution", where=archive.name, expected="the sdist format of PEP 625"
        )
    count = total = 0
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            for member in tar:
                count += 1
                total += max(member.size, 0)
                if count > MAX_MEMBERS or total > MAX_BYTES:
                    raise PreflightError(
                        f"the sdist unpacks to more than {MAX_MEMBERS} members or {MAX_BYTES >> 30} GiB",
                        where=archive.name,
                    )
                if wanted is None or (member.isfile() and wanted(member.name)):
                    _write(tar, member, work, archive.name)
    except (tarfile.TarError, EOFError, OverflowError, ValueError, zlib.error, gzip.BadGzipFile) as error:
        raise PreflightError(f"the sdist cannot be read: {error}", where=archive.name) from error
    tops = sorted(work.iterdir())
    if len(tops) != 1 or not tops[0].is_dir() or tops[0].is_symlink():
        names = ", ".join(path.name for path in tops[:4]) or "nothing"
        raise PreflightError(f"the sdist holds {names} at its top", where=archive.name, expected="one folder")
    return tops[0]


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, work: Path, archive: str) -> None:
    """Write one member: a file, a folder, or a link whose end lies inside; whatever else there is, is refused."""
    name = _inside(member.name)
    target = work / name
    # A link that an earlier member made may stand on the way; where it leads counts, not how it is spelt.
    if not name or not target.parent.resolve().is_relative_to(work.resolve()):
        raise _unsafe(member, archive, "its name leads out of the folder")
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.is_file():
        target.unlink()
    if member.issym():
        if member.linkname.startswith("/") or not _inside(posixpath.join(posixpath.dirname(name), member.linkname)):
            raise _unsafe(member, archive, f"it is a link to {member.linkname}")
        target.symlink_to(member.linkname)
    elif member.islnk():
        source = work / _inside(member.linkname)
        if not source.is_file() or not source.resolve().is_relative_to(work.resolve()):
            raise _unsafe(member, archive, f"it is a link to {member.linkname}")
        shutil.copy2(source, target)
    elif member.isreg():
        content = tar.extractfile(member)
        if content is None:
            raise _unsafe(member, archive, "it has no content")
        with content, target.open("xb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
        target.chmod(0o755 if member.mode & 0o111 else 0o644)
        os.utime(target, (member.mtime, member.mtime))
    else:
        raise _unsafe(member, archive, "it is neither a file, nor a folder, nor a link")


def _inside(name: str) -> str:
    """The name without detours; "" where it is absolute, or leads to the folder itself or out of it."""
    plain = posixpath.normpath(name)
    return "" if plain.startswith(("/", "..")) or plain == "." or "\0" in plain else plain


def _unsafe(member: tarfile.TarInfo, archive: str, why: str) -> PreflightError:
    return PreflightError(f"the sdist is unsafe to unpack: {member.name!r}: {why}", where=archive)
