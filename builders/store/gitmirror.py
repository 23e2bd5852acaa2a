"""Git mirrors: one bare repository for each address, partial (commits and trees), with the files of what was asked.

A mirror takes everything from its server once and then answers offline.  Files are fetched for the commits that are
asked for; a server that knows no filters gives all.  A tag keeps the meaning that it had when it was first seen here:
one that the server moved is told by name, and never followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from builders.store import store_of
from builders.store.gitasked import TAGS, Asked, refuse_tag
from builders.store.gitexport import export_tree, refuse_links
from builders.store.gitrefs import Moved, ServerRefs, moved_tags, server_refs
from builders.store.gitrepository import Repository
from builders.store.gitrun import checked, is_url, local, remote, shown
from qualify.errors import PreflightError, UnavailableError
from qualify.files import locked, write_atomic

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

Progress = Callable[[str], None]

LOCK_SECONDS = 3600.0
MAX_DEPTH = 16  # of submodules in submodules
_LEFT_SECONDS = 86400.0  # a half pack of a fetch that was killed is older than this before it is swept
# What a server says where it has no such object, whichever version of the protocol it speaks.
_NO_SUCH = re.compile(
    r"not our ref|couldn't find remote ref|unadvertised object|no such ref|bad object|not a valid object"
)
_SHALLOW = re.compile(r"shallow (?:update not allowed|roots are not allowed)|source repository is shallow")


@dataclass(frozen=True, slots=True)
class Mirror(Repository):
    """One mirror; ``url`` is the address that was asked for, whatever stands for it here."""

    mirrors: Mirrors
    moved: tuple[Moved, ...] = ()  # tags that the server moved or lost, as far as it was asked
    stale: str = ""  # why the server wasn't asked though it should have been; what is here then counts

    def export(
        self, commit: str, folder: Path, *, submodules: Sequence[str] | None = (), keep_git: bool = False
    ) -> None:
        """Write the tree of a commit into an empty folder, from what is here alone.

        :param submodules: the paths of those to be written too, with all that is in them; None: all; none: ().
        :param keep_git: with a ``.git`` of its own: the commit, all tags in its history, detached and clean; commits
            of the history are there, their files are not.
        :raises UnavailableError: the mirror, or one of a submodule, lacks something.
        :raises PreflightError: the folder is in use, or the tree holds a link that leads out of it.
        """
        self._export(commit, folder, submodules, keep_git, 0)
        refuse_links(folder, shown(self.url))

    def _export(self, commit: str, folder: Path, wanted: Sequence[str] | None, keep_git: bool, depth: int) -> None:
        if not self.has(commit):
            raise UnavailableError(
                f"commit {commit} is not whole in the mirror", where=shown(self.url), action="fetch it with the network"
            )
        export_tree(self.path, commit, folder, shown(self.url), keep_git=keep_git)
        if wanted is not None and not wanted:
            return
        for submodule in self.submodules(commit, wanted):
            _refuse_depth(depth, self.url)
            mirror = self.mirrors.find(submodule.url)
            if mirror is None or not mirror.has(submodule.commit):
                raise UnavailableError(
                    f"the submodule {submodule.path} at {submodule.commit} is not in the store",
                    where=shown(submodule.url),
                    action="fetch it with the network",
                )
            mirror._export(submodule.commit, folder / submodule.path, None, keep_git, depth + 1)

    def forget_tag(self, tag: str) -> None:
        """Forget what a tag meant, so that the next fetch takes its new meaning; for those who renew it on purpose."""
        with locked(self.path, timeout=LOCK_SECONDS, purpose="forgetting a tag"):
            self.git("update-ref", "-d", f"refs/tags/{tag}")


class Mirrors:
    """The mirrors of a store.

    :param root: their folder; it need not be there.
    :param offline: speak to no server.
    :param replaced: beginning of an address -> what stands for it at this site, another address or a folder; the
        longest that fits counts.
    """

    def __init__(
        self,
        root: Path,
        *,
        offline: bool = False,
        replaced: Mapping[str, str] | None = None,
        progress: Progress = lambda message: None,
    ) -> None:
        self.root = root
        self.offline = offline
        self.replaced = dict(replaced or {})
        self.progress = progress

    def find(self, url: str) -> Mirror | None:
        """The mirror of an address, without asking anybody; None where there is none."""
        path = self._path(url)
        return Mirror(path, url, self) if (path / "HEAD").is_file() else None

    def ensure(
        self,
        url: str,
        *,
        commit: str = "",
        tag: str = "",
        tags: bool = False,
        branch: str | None = None,
        branches: bool = False,
        submodules: Sequence[str] | None = (),
        files: bool = True,
    ) -> Mirror:
        """The mirror of an address with all that is asked of it.

        :param commit: with its history, folders and files; all 40 digits.
        :param tag: with its history; its files too, where no commit is asked for.
        :param tags: all tags of the server.  Those that moved are in ``Mirror.moved``.
        :param branch: as it is now; "" is the default branch, None none.
        :param branches: all of them, as they are now.
        :param submodules: of the commit, by path; with their own ones.  None: all.
        :param files: whether the files are needed, or the history alone.
        :raises UnavailableError: the network, or offline and not here; the address and what lacks are named.
        :raises PreflightError: the server has no such commit or tag, the tag moved, or the server is shallow.
        """
        asked = Asked(commit, tag, tags, branch, files, branches)
        mirror = self.find(url)
        if mirror is None or not asked.met_by(mirror) or asked.may_change:
            mirror = self._ask(url, asked, mirror)
        if tag and commit and mirror.resolve(tag) != commit:
            raise PreflightError(
                f"the tag {tag} names commit {mirror.resolve(tag)}",
                where=shown(url),
                expected=commit,
                action="the tag was moved or the pin is wrong: see which of the two is meant, and mend the pin",
            )
        at = commit or (mirror.resolve(tag) if tag else "")
        if at and (submodules is None or submodules):
            self._submodules(mirror, at, submodules, 0)
        return mirror

    def _submodules(self, mirror: Mirror, commit: str, wanted: Sequence[str] | None, depth: int) -> None:
        for submodule in mirror.submodules(commit, wanted):
            _refuse_depth(depth, mirror.url)
            try:
                inner = self.ensure(submodule.url, commit=submodule.commit)
            except (PreflightError, UnavailableError) as error:
                raise type(error)(
                    f"the submodule {submodule.path} cannot be had: {error.what}",
                    where=error.where,
                    expected=error.expected,
                    action=error.action,
                ) from error
            self._submodules(inner, submodule.commit, None, depth + 1)

    def _ask(self, url: str, asked: Asked, mirror: Mirror | None) -> Mirror:
        """What is asked, from the server where it must be, else from what is here."""
        if self.offline:
            if mirror is not None and asked.met_by(mirror):
                return mirror
            raise UnavailableError(
                f"offline, and the store lacks {asked.words()}",
                where=shown(url),
                action="fill the store once with the network (python -m builders fetch), or run without --offline",
            )
        path = self._path(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, timeout=LOCK_SECONDS, purpose=f"a fetch from {shown(url)}"):
            mirror = self.find(url) or self._create(url, path)
            _sweep(mirror.path)
            refs = ServerRefs()
            if asked.may_change:
                try:
                    refs = server_refs(self._effective(url), asked.patterns())
                except UnavailableError as error:
                    if not asked.met_by(mirror):
                        raise
                    self.progress(f"{shown(url)} does not answer; what the mirror has of it counts")
                    return replace(mirror, stale=error.what)
            self._fetch(mirror, asked, refs)
            moved: tuple[Moved, ...] = ()
            if asked.tags:
                moved = moved_tags(mirror.path, refs)
                write_atomic(mirror.path / TAGS, f"{datetime.now(UTC).isoformat(timespec='seconds')}\n")
            return replace(mirror, moved=moved)

    def _fetch(self, mirror: Mirror, asked: Asked, refs: ServerRefs) -> None:
        """Fetch what lacks: refs and commits first, then the files of the commit."""
        if asked.tag:
            refuse_tag(mirror, asked.tag, refs)
        if wanted := asked.refspecs(mirror, refs):
            self.progress(f"fetching {asked.words()} from {shown(mirror.url)}")
            self._get(mirror, wanted, asked)
        if asked.commit and not mirror.has_commit(asked.commit):
            self._get_commit(mirror, asked)
        at = asked.commit or (mirror.resolve(asked.tag) if asked.tag else "")
        if at and asked.files and (lacking := mirror.missing(at)):
            self.progress(f"fetching {len(lacking)} files of {at[:12]} from {shown(mirror.url)}")
            self._get(mirror, lacking, asked)
        if not (replace(asked, tags=False, branches=False)).met_by(mirror):
            raise UnavailableError(
                f"the server answered, and gave not all of {asked.words()} with its history",
                where=shown(mirror.url),
                action="have the repository there mended (a shallow clone lacks history: fetch it with --unshallow)",
            )

    def _get_commit(self, mirror: Mirror, asked: Asked) -> None:
        """The commit by its name, which most servers allow; else all branches and tags, one of which may reach it."""
        self.progress(f"fetching {asked.commit[:12]} from {shown(mirror.url)}")
        try:
            self._get(mirror, [f"{asked.commit}:refs/pinned/{asked.commit}"], asked)
        except PreflightError as error:
            if "has no" not in error.what:
                raise
            refs = server_refs(self._effective(mirror.url), ())
            everything = Asked(tags=True, branch=None, branches=True)
            if wanted := everything.refspecs(mirror, refs):
                self._get(mirror, wanted, asked)
            if not mirror.has_commit(asked.commit):
                raise

    def _get(self, mirror: Mirror, refspecs: Sequence[str], asked: Asked) -> None:
        answer = remote(
            *("fetch", "--no-progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"),
            *("--filter=blob:none", "--stdin", "origin"),
            folder=mirror.path,
            stdin=("\n".join(refspecs) + "\n").encode(),
            settings=self._settings(mirror.url),
        )
        where = shown(mirror.url)
        # git warns of a shallow server and ends well, without what was asked.
        if _SHALLOW.search(answer.complaint):
            _drop_if_empty(mirror)
            raise PreflightError(
                "the repository is a shallow clone: its history and tags are cut off, and so is every version made "
                "from it",
                where=where,
                action="fetch it with --unshallow, or name the full repository",
            )
        if answer.code == 0:
            return
        if _NO_SUCH.search(answer.complaint):
            raise PreflightError(
                f"the repository has no {asked.words()}",
                where=where,
                action="fetch or push it there, or mend the pin",
            )
        raise UnavailableError(
            f"fetching {asked.words()} failed: {answer.reason()}",
            where=where,
            action="check the repository's address and the network",
        )

    def _create(self, url: str, path: Path) -> Mirror:
        """An empty mirror, which gets its name when it is whole."""
        made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            checked(local("init", "--quiet", "--bare", "--template=", str(made)), "making a mirror", str(path))
            settings = {
                "remote.origin.url": url,
                "remote.origin.promisor": "true",
                "remote.origin.partialclonefilter": "blob:none",
                "core.repositoryformatversion": "1",
                "extensions.partialClone": "origin",
                "gc.auto": "0",
            }
            for name, value in settings.items():
                checked(local("config", name, value, folder=made), "making a mirror", str(path))
            write_atomic(made / "description", f"mirror of {shown(url)}\n")
            with contextlib.suppress(FileExistsError, OSError):
                made.rename(path)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        mirror = self.find(url)
        if mirror is None:
            raise UnavailableError("the mirror could not be made", where=str(path), action="look at the folder")
        return mirror

    def _settings(self, url: str) -> dict[str, str]:
        effective = self._effective(url)
        return {} if effective == url else {f"url.{effective}.insteadOf": url}

    def _effective(self, url: str) -> str:
        """The address that is really asked: the site's own for it, where there is one."""
        fitting = [prefix for prefix in self.replaced if prefix and url.startswith(prefix)]
        if not fitting:
            return url
        prefix = max(fitting, key=len)
        return self.replaced[prefix] + url[len(prefix) :]

    def _path(self, url: str) -> Path:
        """The folder of a mirror.  Hosts serve one repository with and without ``.git``; folders are two."""
        name = url.rstrip("/")
        if is_url(name):
            name = name.removesuffix(".git")
        return self.root / f"{hashlib.sha256(name.encode()).hexdigest()}.git"


def mirrors_of(loaded: LoadedMatrix, *, offline: bool = False, progress: Progress = lambda message: None) -> Mirrors:
    """The mirrors of this site's store, with the addresses that stand for others here."""
    return Mirrors(store_of(loaded).mirrors, offline=offline, replaced=loaded.local.git_mirrors, progress=progress)


def _refuse_depth(depth: int, url: str) -> None:
    if depth >= MAX_DEPTH:
        raise PreflightError(
            f"submodules in submodules, more than {MAX_DEPTH} deep", where=shown(url), expected="an end"
        )


def _drop_if_empty(mirror: Mirror) -> None:
    """A mirror that got objects and no name for them: what it has counts for nothing, and would hide the next try."""
    if not mirror.git("for-each-ref", "--count=1").output.strip():
        shutil.rmtree(mirror.path, ignore_errors=True)


def _sweep(mirror: Path) -> None:
    """Remove what fetches that were killed left; a fetch that may still run, from another host, is not touched."""
    for left in (mirror / "objects" / "pack").glob("tmp_*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                left.unlink()
