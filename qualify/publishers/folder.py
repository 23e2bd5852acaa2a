"""A folder that any HTTP server can serve, or pip can read as ``file://``: a simple index for each target.

::

    FOLDER/files/<aa>/<sha256>/<name>.whl              the bytes, apart by hash: targets share file names
                               <name>.whl.metadata     its METADATA (PEP 658)
                               <name>.whl.<target>.evidence.json
                               <name>.whl.receipt.json    of its build, where it was judged with one
    FOLDER/<target>/simple/<project>/index.json        what this target's index lists, and the state of the store
                                     index.html
    FOLDER/simple/<project>/…                          every file name that only one set of bytes has
    FOLDER/index.html                                  the way to each index

The order makes it whole or absent: all evidence is proven before the first byte is written; files come first,
each under its name only once it reads back right; then the pages, each by a rename, state before what is made
from it.  A kill leaves at most files that no page names and pages that are one publish behind, and the same
command again completes both.
"""

from __future__ import annotations

import contextlib
import os
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from qualify import evidence as statements
from qualify import provenance
from qualify.errors import MalformedError, RefusedError, UnavailableError
from qualify.evidence import Evidence
from qualify.files import Digest, copy_atomic, locked, make_folder, sha256_of, sweep, write_atomic
from qualify.publishers import Published, PublishProgress
from qualify.publishers.pages import (
    SAFE_NAME,
    Release,
    combined,
    front_html,
    project_html,
    project_json,
    read_project,
    root_html,
    root_json,
)

_LARGEST_METADATA = 16 << 20  # bytes
_LOCK_SECONDS = 300.0
_TARGET = re.compile(r"[a-z0-9_]+-sm[0-9]+[af]?")


def publish(
    evidences: Sequence[Evidence],
    destination: str,
    *,
    now: datetime,
    progress: PublishProgress | None = None,
) -> tuple[Published, ...]:
    """Put qualified wheels into the folder ``destination``, each into its target's index.

    :raises RefusedError: other bytes lie under a wheel's name in the same target's index, or a name that no index
        can list; nothing was written.
    :raises UnavailableError: disk full, read-only, or another publisher holds the folder for too long.
    """
    store = _Store(Path(destination))
    _no_two_of_one_name(evidences)
    for evidence in evidences:
        store.refuse_other_bytes(evidence)
    store.prepare()
    releases = [(evidence, store.put_files(evidence, now, progress)) for evidence in evidences]
    published = []
    with locked(store.root / "publish", timeout=_LOCK_SECONDS, purpose="qualify publish"):
        for evidence, _ in releases:
            store.refuse_other_bytes(evidence)
        for evidence, release in releases:
            new = store.list_release(evidence.target, evidence.facts.name, release)
            index = store.root / evidence.target / "simple"
            row = Published(release.filename, release.sha256, evidence.target, str(index), new, release.verdict)
            published.append(row)
        for target in sorted({evidence.target for evidence in evidences}):
            store.write_project_list(target)
        for project in sorted({evidence.facts.name for evidence in evidences}):
            store.write_combined(project)
        store.write_front()
    return tuple(published)


class _Store:
    """The folder: where things lie in it, and the writes that keep it whole."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.staging = self.root / ".incoming"
        self._looked_at: set[Path] = set()

    def prepare(self) -> None:
        make_folder(self._inside(self.staging))
        # Everything is staged in one place, so what a killed publish left behind is found without a walk.
        sweep(self.staging)

    def refuse_other_bytes(self, evidence: Evidence) -> None:
        """One name in one index means one set of bytes, for ever: installers keep it in their caches and locks."""
        filename = evidence.facts.filename
        if not SAFE_NAME.fullmatch(filename):
            raise RefusedError(
                f"the file name {filename!r} can't be listed in an index",
                where=str(evidence.wheel),
                expected="letters, digits and _ . + ! - alone",
                action="build the wheel under a valid name",
            )
        for release in self._listed(evidence.target, evidence.facts.name):
            if release.filename == filename and release.sha256 != evidence.sha256:
                raise RefusedError(
                    f"other bytes are published under this name for {evidence.target}: sha256 {release.sha256}",
                    where=str(evidence.wheel),
                    expected=f"a new version, build tag or label for sha256 {evidence.sha256}",
                    action="publish under another version; what was published once is not replaced",
                )

    def put_files(self, evidence: Evidence, now: datetime, progress: PublishProgress | None) -> Release:
        """Copy the wheel, its METADATA and its evidence; return what the index will list."""
        facts = evidence.facts
        folder = self.root / "files" / evidence.sha256[:2] / evidence.sha256
        make_folder(self._inside(folder))
        wheel = self._inside(folder / facts.filename)
        wanted = Digest(evidence.sha256, facts.size)
        # A copy that is there already is believed only after it was read; one look for all targets of a wheel.
        if wheel not in self._looked_at and (not wheel.exists() or sha256_of(wheel) != wanted):
            report = partial(progress, facts.filename) if progress else None
            copy_atomic(evidence.wheel, wheel, sha256=evidence.sha256, staging=self.staging, progress=report)
        self._looked_at.add(wheel)
        if facts.dist_info is None:
            # Only waivers let such a wheel come this far, and an index could not serve it.
            raise RefusedError("the wheel has no METADATA", where=str(evidence.wheel), action="build it again")
        metadata = _metadata(wheel, f"{facts.dist_info.folder}/METADATA")
        metadata_path = folder / f"{facts.filename}.metadata"
        self._write(metadata_path, metadata)
        self._put_receipt(evidence, wheel)
        statement = statements.path_for(wheel, evidence.target)
        self._write(statement, statements.to_json(evidence.document).encode())
        return Release(
            filename=facts.filename,
            sha256=evidence.sha256,
            size=facts.size,
            requires_python=facts.dist_info.requires_python,
            metadata_sha256=sha256_of(metadata_path).sha256,
            uploaded=now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            profile=evidence.profile.value,
            targets=(evidence.target,),
            verdict=evidence.report.verdict.value,
        )

    def _put_receipt(self, evidence: Evidence, wheel: Path) -> None:
        """The receipt that the wheel was judged with travels with it: without it nobody could judge so again."""
        if evidence.receipt is None or evidence.receipt.fault:
            return
        path = provenance.path_for(evidence.wheel)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UnavailableError(error.strerror or str(error), where=str(path), action="run again") from error
        if provenance.parse(data, path.name).sha256 != evidence.receipt.sha256:
            raise RefusedError("the receipt changed while it was published", where=str(path), action="run again")
        self._write(provenance.path_for(wheel), data)

    def list_release(self, target: str, project: str, release: Release) -> bool:
        """Put ``release`` on the target's page of its project; False where the same bytes were there already."""
        page = self._page(target, project)
        before = self._listed(target, project)
        known = [listed for listed in before if listed.filename == release.filename]
        # The evidence beside the file is the newest, so the page says what that says; the upload stays the first one.
        kept = [replace(release, uploaded=each.uploaded) if each in known else each for each in before]
        releases = kept if known else [*before, release]
        make_folder(self._inside(page))
        self._write(page / "index.json", project_json(project, releases, up="../../../").encode())
        self._write(page / "index.html", project_html(project, releases, up="../../../").encode())
        return not known

    def write_project_list(self, target: str) -> None:
        """The target's list of projects: after their pages, so that it never names one that isn't there."""
        self._write_lists(self.root / target / "simple")

    def write_combined(self, project: str) -> None:
        releases = combined(self._listed(target, project) for target in self._targets())
        page = self.root / "simple" / project
        make_folder(self._inside(page))
        self._write(page / "index.json", project_json(project, releases, up="../../").encode())
        self._write(page / "index.html", project_html(project, releases, up="../../").encode())
        self._write_lists(self.root / "simple")

    def write_front(self) -> None:
        self._write(self.root / "index.html", front_html(self._targets()).encode())

    def _write_lists(self, simple: Path) -> None:
        names = [folder.name for folder in simple.iterdir() if (folder / "index.json").is_file()]
        self._write(simple / "index.json", root_json(names).encode())
        self._write(simple / "index.html", root_html(names).encode())

    def _targets(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if _TARGET.fullmatch(path.name) and path.is_dir())

    def _page(self, target: str, project: str) -> Path:
        return self.root / target / "simple" / project

    def _listed(self, target: str, project: str) -> list[Release]:
        state = self._inside(self._page(target, project) / "index.json")
        try:
            data = state.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return []
        return read_project(data, str(state))

    def _write(self, path: Path, data: bytes) -> None:
        """Write only what differs, so that the same publish again touches nothing."""
        self._inside(path)
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == data:
                return
        write_atomic(path, data, staging=self.staging)

    def _inside(self, path: Path) -> Path:
        """A link planted in the folder must not lead a write out of it."""
        if os.path.realpath(path) != str(path):
            raise RefusedError(
                "a symbolic link lies on the way",
                where=str(path),
                expected="plain folders and files",
                action="remove the link; a published folder holds none",
            )
        return path


def _no_two_of_one_name(evidences: Sequence[Evidence]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for evidence in evidences:
        key = (evidence.target, evidence.facts.filename)
        if seen.setdefault(key, evidence.sha256) != evidence.sha256:
            raise RefusedError(
                f"two wheels of one name and different bytes for {evidence.target}",
                where=str(evidence.wheel),
                action="publish one of them",
            )


def _metadata(wheel: Path, member: str) -> bytes:
    """METADATA of the published copy, with its size bounded before and while it is inflated."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
            data = stream.read(_LARGEST_METADATA + 1)
    except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise MalformedError(f"METADATA can't be read: {error}", where=wheel.name) from error
    except OSError as error:
        raise UnavailableError(error.strerror or str(error), where=str(wheel), action="run again") from error
    if len(data) > _LARGEST_METADATA:
        raise MalformedError(f"METADATA is larger than {_LARGEST_METADATA} bytes", where=wheel.name)
    return data
