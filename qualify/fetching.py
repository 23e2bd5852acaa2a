"""Wheels and source distributions by name, fetched once and kept by hash.

The cache is ``$XDG_CACHE_HOME/wheel-assay``:

* ``files/<first two digits>/<sha256>/<file name>``: whole files, renamed into place;
* ``parts/<key>``: what an interrupted download left; the next one goes on from there;
* ``lookups/<key>.json``: which file a requirement meant, so that a second call needs no network.

A file is hashed again before it is handed out, and against the index's own sha256 when it arrives.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from qualify.errors import MalformedError, UnavailableError, UsageError
from qualify.files import locked, make_folder, sha256_of, write_atomic
from qualify.matrix.local import LocalSettings
from qualify.packageindex import Index, no_network, pip_settings, transport_errors
from qualify.transfer import Progress, show_on_stderr

if TYPE_CHECKING:
    from unearth import Link

_TRIES = 5
_CHUNK = 1 << 18
_NEWEST_GLIBC = "2.39"
_WAIT_FOR_ANOTHER = 3600.0


@dataclass(frozen=True, slots=True)
class Fetcher:
    """How to fetch: the local settings, where the cache lies, and who hears of the progress."""

    local: LocalSettings = field(default_factory=LocalSettings)
    cache: Path | None = None  # None: the local settings' folder, else the user's cache folder
    progress: Progress = show_on_stderr

    def fetch_wheel(self, requirement: str, machine: str, python: str, *, glibc: str = _NEWEST_GLIBC) -> Path:
        """The best wheel of ``requirement`` for a host of ``machine`` with CPython ``python`` ("3.12") and ``glibc``.

        :raises UsageError: no requirement, no such release, or no wheel of it for that host.
        :raises UnavailableError: no network, or a disk at fault.
        """
        wanted = _requirement(requirement)
        lookup = {"requirement": str(wanted), "machine": machine, "python": python, "glibc": glibc, "kind": "wheel"}
        if (known := self._known(lookup, wanted)) is not None:
            return known
        with self._index() as index:
            return self._keep(index, index.wheel(wanted, machine, python, glibc), lookup, sha256="")

    def fetch_sdist(self, requirement_or_path: str | Path, sha256: str) -> Path:
        """The source distribution with exactly this sha256, from a file or from the index.

        :raises MalformedError: the file, or the index's, has another sha256.
        :raises UsageError: no such file or release.
        :raises UnavailableError: no network, or a disk at fault.
        """
        text = str(requirement_or_path)
        if isinstance(requirement_or_path, Path) or text.endswith((".tar.gz", ".tgz", ".zip")):
            path = Path(requirement_or_path)
            if not path.is_file():
                raise UsageError("no such file", where=text, expected="a source distribution (.tar.gz)")
            if (found := sha256_of(path).sha256) != sha256:
                raise _other_bytes(text, found, sha256)
            return path
        wanted = _requirement(text)
        for path in sorted(self._slot(sha256).glob("*")):
            if not path.name.startswith(".") and sha256_of(path).sha256 == sha256:
                return path
        with self._index() as index:
            link = index.sdist(wanted)
            announced = (link.hash_option or {}).get("sha256", [sha256])[0]
            if announced != sha256:
                raise _other_bytes(f"{wanted} ({link.filename})", announced, sha256)
            return self._keep(index, link, {"requirement": str(wanted), "kind": "sdist"}, sha256=sha256)

    @property
    def root(self) -> Path:
        """The cache folder."""
        if self.cache is not None:
            return self.cache
        if self.local.folders.cache:
            return Path(self.local.folders.cache).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wheel-assay"

    def _index(self) -> Index:
        return Index(pip_settings().with_mirrors(self.local.mirrors, self.local.ca_bundle))

    def _slot(self, sha256: str) -> Path:
        return self.root / "files" / sha256[:2] / sha256

    def _lookup(self, lookup: dict[str, str]) -> Path:
        return self.root / "lookups" / f"{_key(json.dumps(lookup, sort_keys=True))}.json"

    def _known(self, lookup: dict[str, str], wanted: Requirement) -> Path | None:
        """The cached file of an exact requirement; None where there is none, or it isn't what it was."""
        (specifier,) = wanted.specifier if len(wanted.specifier) == 1 else (None,)
        if specifier is None or specifier.operator != "==" or specifier.version.endswith(".*"):
            return None  # the index may have a newer one by now
        try:
            answer = json.loads(self._lookup(lookup).read_bytes())
            path = self._slot(answer["sha256"]) / answer["filename"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return path if path.is_file() and sha256_of(path).sha256 == answer["sha256"] else None

    def _keep(self, index: Index, link: Link, lookup: dict[str, str], *, sha256: str) -> Path:
        """Download a link into the cache, whole or not at all, and remember what it answers."""
        announced = sha256 or (link.hash_option or {}).get("sha256", [""])[0]
        key = announced or _key(link.url_without_fragment)
        parts = self.root / "parts"
        make_folder(parts)
        part = parts / key
        with locked(part, timeout=_WAIT_FOR_ANOTHER, purpose=f"fetching {link.filename}"):
            path = self._slot(announced) / link.filename if announced else None
            if path is None or not (path.is_file() and sha256_of(path).sha256 == announced):
                digest = self._download(index, link, part, announced)
                path = self._slot(digest) / link.filename
                make_folder(path.parent)
                part.replace(path)
            else:
                digest = announced
        make_folder(self._lookup(lookup).parent)
        write_atomic(self._lookup(lookup), json.dumps({"sha256": digest, "filename": link.filename, **lookup}))
        return path

    def _download(self, index: Index, link: Link, part: Path, announced: str) -> str:
        """Fill ``part`` from the link, going on where it ends, and return its sha256."""
        for last in (False, True):
            self._transfer(index, link, part)
            digest = sha256_of(part).sha256
            if not announced or digest == announced:
                return digest
            # Either the part was stale, or the bytes were spoilt on the way: once more from the start.
            part.unlink()
            if last:
                break
        raise UnavailableError(
            f"the download has sha256 {digest}, and the index announced {announced}",
            where=link.filename,
            action="a proxy or a mirror changes the bytes; run again through another one",
        )

    def _transfer(self, index: Index, link: Link, part: Path) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                self._stream(index.client, link, part)
            except transport_errors() as error:
                if attempt == _TRIES:
                    raise no_network(error) from error
                time.sleep(min(2**attempt, 15) / 2)
            else:
                return

    def _stream(self, client: Any, link: Link, part: Path) -> None:
        start = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with client.stream("GET", link.url_without_fragment, headers=headers) as response:
            if response.status_code == 416:
                return  # nothing follows: the part is whole, or the hash will say that it isn't
            if response.status_code not in (200, 206):
                raise UnavailableError(
                    f"the package index answers {response.status_code} {response.reason_phrase}",
                    where=link.filename,
                    action="run again; if it stays so, name a file",
                )
            start = start if response.status_code == 206 else 0
            length = int(response.headers.get("Content-Length", 0))
            total, done = start + length if length else 0, start
            with part.open("r+b" if start else "wb") as sink:
                sink.seek(start)
                for chunk in response.iter_raw(_CHUNK):
                    sink.write(chunk)
                    done += len(chunk)
                    self.progress(f"fetching {link.filename}", done, total)
                sink.truncate()
                sink.flush()
                os.fsync(sink.fileno())
        if total and done < total:
            raise transport_errors()[0](f"the connection ended after {done} of {total} bytes")


def fetch_wheel(requirement: str, machine: str, python: str, *, glibc: str = _NEWEST_GLIBC) -> Path:
    """See :meth:`Fetcher.fetch_wheel`; with the user's cache and pip's settings alone."""
    return Fetcher().fetch_wheel(requirement, machine, python, glibc=glibc)


def fetch_sdist(requirement_or_path: str | Path, sha256: str) -> Path:
    """See :meth:`Fetcher.fetch_sdist`; with the user's cache and pip's settings alone."""
    return Fetcher().fetch_sdist(requirement_or_path, sha256)


def _requirement(text: str) -> Requirement:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        what = str(error).partition("\n")[0]
        raise UsageError(what, where=text, expected='a requirement ("vllm==0.33.0")') from None
    if requirement.url:
        raise UsageError(
            "a requirement with an address isn't fetched", where=text, action="download it and name the file"
        )
    requirement.name = canonicalize_name(requirement.name)
    return requirement


def _other_bytes(where: str, found: str, expected: str) -> MalformedError:
    return MalformedError(
        f"has sha256 {found}",
        where=where,
        expected=f"sha256 {expected}, as the matrix pins it",
        action="find out which of the two changed; never take the new value unseen",
    )


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:40]
