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
from builders.store.gitexport import Submodule, export_tree, refuse_links, submodules_of
from builders.store.gitrefs import Moved, ServerRefs, moved_tags, seen_tags, server_refs
from builders.store.gitrun import Answer, checked, is_url, local, remote, shown
from qualify.errors import PreflightError, UnavailableError
from qualify.files import locked, write_atomic

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

Progress = Callable[[str], None]

LOCK_SECONDS = 3600.0
MAX_DEPTH = 16  # of submodules in submodules
_TAGS = "tags-seen"  # in a mirror: when the server was last asked for all its tags
_FULL = re.compile(r"[0-9a-f]{40}")
_LEFT_SECONDS = 86400.0  # a half pack of a fetch that was killed is older than this before it is swept
# What a server says where it has no such object, whichever version of the protocol it speaks.
_NO_SUCH = re.compile(
    r"not our ref|couldn't find remote ref|unadvertised object|no such ref|bad object|not a valid object"
)
_SHALLOW = re.compile(r"shallow (?:update not allowed|roots|file)|source repository is shallow")


@dataclass(frozen=True, slots=True)
class Mirror:
    """One mirror; ``url`` is the address that was asked for, whatever stands for it here."""

    path: Path
    url: str
    mirrors: Mirrors
    moved: tuple[Moved, ...] = ()  # tags that the server moved or lost, as far as it was asked
    stale: str = ""  # why the server wasn't asked though it should have been; what is here then counts

    def has(self, commit: str) -> bool:
        """Whether the commit, all its folders and all its files are here (its submodules not counted)."""
        return self.has_commit(commit) and not self.missing(commit)

    def has_commit(self, commit: str) -> bool:
        """Whether the commit and its history are here, its files perhaps not."""
        return bool(_FULL.fullmatch(commit)) and self.git("cat-file", "-e", f"{commit}^{{commit}}").code == 0

    def missing(self, commit: str) -> list[str]:
        """The objects (files, as a rule) of a commit's tree that are not here."""
        listed = self.git("rev-list", "--objects", "--missing=print", "--no-object-names", f"{commit}^{{tree}}")
        checked(listed, "listing the tree", f"{shown(self.url)} at {commit}")
        return [line[1:] for line in listed.lines() if line.startswith("?")]

    def resolve(self, tag: str) -> str:
        """The commit that a tag names; "" where no such tag was ever seen here."""
        found = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/tags/{tag}^{{commit}}")
        return found.text.strip() if found.code == 0 else ""

    def branch(self, name: str = "") -> str:
        """The commit of a branch as it was last fetched, of the default branch where none is named; "" if none is."""
        ref = f"refs/heads/{name}" if name else "refs/server/HEAD"
        found = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return found.text.strip() if found.code == 0 else ""

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``older`` is ``newer`` or lies in its history; both are here."""
        return self.git("merge-base", "--is-ancestor", older, newer).code == 0

    def submodules(self, commit: str, wanted: Sequence[str] | None = None) -> tuple[Submodule, ...]:
        """The submodules of a commit: those at the paths ``wanted``, all where it is None.

        :raises PreflightError: one that is wanted is not there, or has no address that can be followed.
        """
        return submodules_of(self.path, self.url, commit, wanted)

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

    def git(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Answer:
        """A git command on the mirror that reads what is here and speaks to nobody."""
        return local(*arguments, folder=self.path, environment=environment)


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
        submodules: Sequence[str] | None = (),
        files: bool = True,
    ) -> Mirror:
        """The mirror of an address with all that is asked of it.

        :param commit: with its history, folders and files; all 40 digits.
        :param tag: with its history; its files too, where no commit is asked for.
        :param tags: all tags of the server.  Those that moved are in ``Mirror.moved``.
        :param branch: as it is now; "" is the default branch, None none.
        :param submodules: of the commit, by path; with their own ones.  None: all.
        :param files: whether the files are needed, or the history alone.
        :raises UnavailableError: the network, or offline and not here; the address and what lacks are named.
        :raises PreflightError: the server has no such commit or tag, the tag moved, or the server is shallow.
        """
        asked = _Asked(commit, tag, tags, branch, files)
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

    def _ask(self, url: str, asked: _Asked, mirror: Mirror | None) -> Mirror:
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
                write_atomic(mirror.path / _TAGS, f"{datetime.now(UTC).isoformat(timespec='seconds')}\n")
            return replace(mirror, moved=moved)

    def _fetch(self, mirror: Mirror, asked: _Asked, refs: ServerRefs) -> None:
        """Fetch what lacks: refs and commits first, then the files of the commit."""
        if asked.tag:
            _refuse_tag(mirror, asked.tag, refs)
        if wanted := asked.refspecs(mirror, refs):
            self.progress(f"fetching {asked.words()} from {shown(mirror.url)}")
            self._get(mirror, wanted, asked)
        if asked.commit and not mirror.has_commit(asked.commit):
            self._get_commit(mirror, asked)
        at = asked.commit or (mirror.resolve(asked.tag) if asked.tag else "")
        if at and asked.files and (lacking := mirror.missing(at)):
            self.progress(f"fetching {len(lacking)} files of {at[:12]} from {shown(mirror.url)}")
            self._get(mirror, lacking, asked)
            if left := mirror.missing(at):
                raise UnavailableError(
                    f"the server gave not all files of {at}: {len(left)} lack ({left[0]}, …)", where=shown(mirror.url)
                )

    def _get_commit(self, mirror: Mirror, asked: _Asked) -> None:
        """The commit by its name, which most servers allow; else all branches and tags, one of which may reach it."""
        self.progress(f"fetching {asked.commit[:12]} from {shown(mirror.url)}")
        try:
            self._get(mirror, [f"{asked.commit}:refs/pinned/{asked.commit}"], asked)
        except PreflightError as error:
            if "has no" not in error.what:
                raise
            refs = server_refs(self._effective(mirror.url), ())
            everything = _Asked(tags=True, branch=None, every_branch=True)
            if wanted := everything.refspecs(mirror, refs):
                self._get(mirror, wanted, asked)
            if not mirror.has_commit(asked.commit):
                raise

    def _get(self, mirror: Mirror, refspecs: Sequence[str], asked: _Asked) -> None:
        answer = remote(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"),
            *("--filter=blob:none", "--stdin", "origin"),
            folder=mirror.path,
            stdin=("\n".join(refspecs) + "\n").encode(),
            settings=self._settings(mirror.url),
        )
        if answer.code == 0 and not (mirror.path / "shallow").exists():
            return
        where = shown(mirror.url)
        if _SHALLOW.search(answer.complaint) or (mirror.path / "shallow").exists():
            raise PreflightError(
                "the repository is a shallow clone: its history and tags are cut off, and so is every version made "
                "from it",
                where=where,
                action="fetch it with --unshallow, or name the full repository",
            )
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a mirror shall have; see :meth:`Mirrors.ensure`."""

    commit: str = ""
    tag: str = ""
    tags: bool = False
    branch: str | None = None
    files: bool = True
    every_branch: bool = False

    @property
    def may_change(self) -> bool:
        """Whether the server may say something else tomorrow; a commit alone never changes."""
        return bool(self.tag) or self.tags or self.branch is not None

    def met_by(self, mirror: Mirror) -> bool:
        """Whether the mirror has it all, as far as anyone can say without asking the server."""
        tagged = mirror.resolve(self.tag) if self.tag else ""
        if (self.tag and not tagged) or (self.branch is not None and not mirror.branch(self.branch)):
            return False
        if self.tags and not (mirror.path / _TAGS).is_file():
            return False
        at = self.commit or tagged
        return not at or (mirror.has(at) if self.files else mirror.has_commit(at))

    def patterns(self) -> list[str]:
        """What ``git ls-remote`` is asked for."""
        found = [f"refs/tags/{self.tag}", f"refs/tags/{self.tag}^{{}}"] if self.tag and not self.tags else []
        if self.tags:
            found.append("refs/tags/*")
        if self.branch is not None:
            found.append(f"refs/heads/{self.branch}" if self.branch else "HEAD")
        return found

    def refspecs(self, mirror: Mirror, refs: ServerRefs) -> list[str]:
        """What has to be fetched: tags that were never seen here, and branches that went on."""
        seen = seen_tags(mirror.path)
        tags = list(refs.tags) if self.tags else [self.tag] if self.tag in refs.tags else []
        found = [f"refs/tags/{tag}:refs/tags/{tag}" for tag in tags if tag not in seen]
        if self.every_branch:
            found += [f"+refs/heads/{name}:refs/heads/{name}" for name in refs.heads]
        elif self.branch:
            if self.branch not in refs.heads:
                raise PreflightError(f"the repository has no branch {self.branch}", where=shown(mirror.url))
            if refs.heads[self.branch] != mirror.branch(self.branch):
                found.append(f"+refs/heads/{self.branch}:refs/heads/{self.branch}")
        elif self.branch == "" and refs.head and refs.head != mirror.branch():
            found.append("+HEAD:refs/server/HEAD")
        return found

    def words(self) -> str:
        """For people."""
        parts = [f"commit {self.commit}"] if self.commit else []
        parts += [f"tag {self.tag}"] if self.tag else []
        parts += ["tags"] if self.tags else []
        parts += [f"branch {self.branch}" if self.branch else "default branch"] if self.branch is not None else []
        return " and ".join(parts) or "repository"


def mirrors_of(loaded: LoadedMatrix, *, offline: bool = False, progress: Progress = lambda message: None) -> Mirrors:
    """The mirrors of this site's store, with the addresses that stand for others here."""
    return Mirrors(store_of(loaded).mirrors, offline=offline, replaced=loaded.local.git_mirrors, progress=progress)


def _refuse_tag(mirror: Mirror, tag: str, refs: ServerRefs) -> None:
    """A tag that the server has not, or that it moved since it was first seen here."""
    was, now = mirror.resolve(tag), refs.tags.get(tag, "")
    if not was and not now:
        raise PreflightError(
            f"the repository has no tag {tag}", where=shown(mirror.url), action="push the tag there, or mend the pin"
        )
    if was and was != now:
        raise PreflightError(
            Moved(tag, was, now).words(),
            where=shown(mirror.url),
            expected=f"{tag} at {was}",
            action="ask its owner which commit is meant, and pin that",
        )


def _refuse_depth(depth: int, url: str) -> None:
    if depth >= MAX_DEPTH:
        raise PreflightError(
            f"submodules in submodules, more than {MAX_DEPTH} deep", where=shown(url), expected="an end"
        )


def _sweep(mirror: Path) -> None:
    """Remove what fetches that were killed left; a fetch that may still run, from another host, is not touched."""
    for left in (mirror / "objects" / "pack").glob("tmp_*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                left.unlink()
