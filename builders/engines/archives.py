"""How files and output pass between this host and a container: tar archives, and the lines of a log."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

LONGEST_LINE = 1 << 20  # bytes; a longer line is passed on in parts


def pack_folder(stream: IO[bytes], folder: Path, inside: PurePosixPath, owner: int) -> None:
    """Write the contents of ``folder`` as ``inside`` (relative), with its parents, all of ``owner``; rewind."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = owner
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(fileobj=stream, mode="w") as archive:
        for parent in reversed([inside, *inside.parents][:-1]):  # not "."
            entry = tarfile.TarInfo(str(parent))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(owned(entry))
        archive.add(folder, str(inside), filter=owned)
    stream.seek(0)


@contextlib.contextmanager
def packed(files: Mapping[str, bytes]) -> Iterator[IO[bytes]]:
    """An archive of files that are made in memory."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    stream.seek(0)
    yield stream


def unpack_folder(stream: IO[bytes], folder: Path) -> None:
    """Unpack an archive of the engine: plain files and folders alone, below its one top folder."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for entry in archive:
            parts = PurePosixPath(entry.name).parts[1:]
            if not parts or ".." in parts or PurePosixPath(entry.name).is_absolute():
                continue
            target = folder.joinpath(*parts)
            if entry.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif entry.isfile():
                source = archive.extractfile(entry)
                if source is None:
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as sink:
                    while block := source.read(1 << 20):
                        sink.write(block)


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of each plain file below ``folder``, by its path seen from there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def render_digests(digests: Mapping[str, str]) -> bytes:
    """Lines as ``sha256sum --check`` reads them; a name with a line end or a backslash is written as it wants it."""
    rows = []
    for name, digest in digests.items():
        raw = os.fsencode(name)
        escaped = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
        rows.append(b"%s%s  %s\n" % (b"\\" if escaped != raw else b"", digest.encode(), escaped))
    return b"".join(rows)


def parse_digests(lines: Iterable[str]) -> dict[str, str]:
    """What ``sha256sum --binary ./…`` printed, by path; a line of anything else is left out."""
    found = {}
    for line in lines:
        digest, star, name = line.removeprefix("\\").partition(" *./")
        if star and len(digest) == 64:
            if line.startswith("\\"):
                name = re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), name)
            found[name] = digest
    return found


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Whole lines of a stream of chunks; a carriage return ends a line too (progress bars), and so does its length."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        if len(rest) > LONGEST_LINE:
            rest += b"\n"
        *whole, rest = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
