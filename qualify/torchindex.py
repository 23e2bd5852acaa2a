"""torch's exports by a wheel's path or a requirement: read once, kept beside the fetched files.

Below the cache folder (``qualify.fetching``), in ``exports/``:

* ``<sha256>.idx``: the exports of the wheel with that sha256 (``qualify.linking.index``), packed, with a first line
  that says their size and their own sha256;
* ``file-<key>``: the sha256 of a file as it stood, by path, size, inode and times: half a gigabyte is not hashed for
  each run;
* ``ask-<key>``: the sha256 of the wheel that an exact requirement meant, so that its index needs no wheel.

Each is written whole or not at all.  What does not read back as it was written counts as absent, and is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qualify.decompress import Libraries
from qualify.errors import AssayError, MalformedError, UnavailableError, UsageError
from qualify.facts import Depth
from qualify.fetching import Fetcher
from qualify.files import make_folder, sha256_of, write_atomic
from qualify.linking.index import INDEX_VERSION, ExportIndex, decode, encode, index_of
from qualify.opening import Progress, read_wheel

_LARGEST, _LARGEST_PACKED = 512 << 20, 64 << 20  # bytes; torch's are 13 MB, packed 0.7 MB
_LEVEL = 3  # of zstd: level 9 takes six times as long for a fifth less
_HEAD = re.compile(rb"wheel-assay exports (\d{1,4}) (\d{1,12}) ([0-9a-f]{64})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_EXACT = re.compile(r"torch\s*==\s*[0-9][0-9A-Za-z.+!_-]*")


@dataclass(frozen=True, slots=True)
class Host:
    """What a requirement is fetched for."""

    machine: str  # "x86_64"
    python: str  # "3.12"
    glibc: str = "2.39"


@dataclass(frozen=True, slots=True)
class TorchIndexes:
    """Reads and keeps the exports of torch wheels."""

    fetcher: Fetcher
    progress: Progress | None = None

    def load(self, torch: str, host: Host) -> ExportIndex:
        """The exports of a torch wheel.

        :param torch: a file's path, or a requirement such as ``torch==2.14.0``.
        :raises UsageError: no such file or release, not torch's, or for another machine than ``host``'s.
        :raises MalformedError: the wheel's libraries are damaged.
        :raises UnverifiedError: a library of it could not be read.
        :raises UnavailableError: it could not be fetched.
        """
        path = Path(torch)
        index = self._of_file(path) if path.is_file() else self._of_requirement(torch, host)
        if index.project != "torch":
            raise UsageError(f"is a wheel of {index.project!r}", where=torch, expected="a wheel of torch")
        if index.machine != host.machine:
            raise UsageError(
                f"holds libraries for {index.machine}", where=torch, expected=f"a torch wheel for {host.machine}"
            )
        return index

    def _of_requirement(self, torch: str, host: Host) -> ExportIndex:
        if not re.match(r"torch(?![A-Za-z0-9._-])", torch):
            raise UsageError("no such file", where=torch, expected="a torch wheel's path, or torch== a version")
        exact = _EXACT.fullmatch(torch) is not None
        note = self._note(
            "ask", {"requirement": torch, "machine": host.machine, "python": host.python, "glibc": host.glibc}
        )
        if exact and (known := self._kept(self._read_note(note))) is not None:
            return known
        path = self.fetcher.fetch_wheel(torch, host.machine, host.python, glibc=host.glibc)
        index = self._of_file(path)
        if exact:
            self._write(note, index.sha256.encode())
        return index

    def _of_file(self, path: Path) -> ExportIndex:
        """By what the file's sha256 was when it looked just so; else the file is read."""
        stat = path.stat()
        note = self._note(
            "file",
            {
                "path": str(path.resolve()),
                "size": stat.st_size,
                "inode": [stat.st_dev, stat.st_ino],
                "times": [stat.st_mtime_ns, stat.st_ctime_ns],
            },
        )
        known = self._kept(self._read_note(note)) or self._kept(sha256_of(path).sha256)
        if known is None:
            known = index_of(read_wheel(path, depth=Depth.HEADERS, progress=self.progress))
            self._write(self._file(known.sha256), _pack(known))
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) == (stat.st_size, stat.st_mtime_ns):
            self._write(note, known.sha256.encode())
        return known

    def _kept(self, sha256: str) -> ExportIndex | None:
        """The index that is kept for a wheel; None where there is none, or it isn't what was written."""
        if not sha256:
            return None
        try:
            file = self._file(sha256)
            if file.stat().st_size > _LARGEST_PACKED:
                return None
            index = _unpack(file.read_bytes())
        except (OSError, AssayError):
            return None
        return index if index.sha256 == sha256 else None

    @property
    def _folder(self) -> Path:
        return self.fetcher.root / "exports"

    def _file(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.idx"

    def _note(self, kind: str, about: Mapping[str, object]) -> Path:
        key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:40]
        return self._folder / f"{kind}-{key}"

    def _read_note(self, path: Path) -> str:
        try:
            text = path.read_bytes()[:65].decode("ascii", "replace")
        except OSError:
            return ""
        return text if _SHA256.fullmatch(text) else ""

    def _write(self, path: Path, data: bytes) -> None:
        # What can't be kept is read again the next time; the answer is as good.
        with contextlib.suppress(UnavailableError):
            make_folder(path.parent)
            write_atomic(path, data)


def _pack(index: ExportIndex) -> bytes:
    import zstandard

    raw = encode(index)
    head = f"wheel-assay exports {INDEX_VERSION} {len(raw)} {hashlib.sha256(raw).hexdigest()}\n"
    return head.encode() + zstandard.ZstdCompressor(level=_LEVEL).compress(raw)


def _unpack(data: bytes) -> ExportIndex:
    """The index that :func:`_pack` wrote.

    :raises MalformedError: it is anything else.
    """
    line, _, packed = data.partition(b"\n")
    match = _HEAD.fullmatch(line)
    if match is None or int(match[1]) != INDEX_VERSION or int(match[2]) > _LARGEST:
        raise MalformedError("no index of exports", expected=f"one of version {INDEX_VERSION}")
    raw = Libraries().zstd(packed, int(match[2]))
    if hashlib.sha256(raw).hexdigest() != match[3].decode():
        raise MalformedError("an index of exports that changed since it was written")
    return decode(raw)
