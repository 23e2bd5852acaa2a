"""Everything that a build would fetch while it compiles, fetched before: external sources and crates, into the store.

All of it is tried, and all that cannot be had is told at once: a build with a hole never begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builders.crates import CrateLock
from builders.externals import External
from builders.externals_lock import FULL, name_of
from builders.source_model import Progress
from builders.store.gitmirror import Mirrors
from builders.vendor import Lack, Vendored, Vendoring
from qualify.errors import AssayError, PreflightError, UnavailableError


@dataclass(frozen=True, slots=True)
class Hole:
    """One thing that the build needs and that could not be had.

    ``refused``: it is wrong, and no network mends it (a moved tag, a commit that its repository doesn't have).
    """

    name: str
    wanted: str
    why: str
    action: str
    refused: bool
    members: tuple[str, ...] = ()  # of one that stands for many: crates

    def render(self) -> str:
        """One line."""
        return "; ".join(part for part in (f"{self.name}: {self.wanted}: {self.why}", self.action) if part)


@dataclass(frozen=True, slots=True)
class Prefetched:
    """What is in the store now.  ``externals`` bear their exact commits; ``resolved`` is new for the lock."""

    externals: tuple[External, ...]
    vendored: tuple[Vendored, ...]
    holes: tuple[Hole, ...]
    resolved: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Tried:
    """What was asked for in this run already, with what came of it: targets of one pin need mostly the same."""

    commits: dict[External, str | PreflightError | UnavailableError] = field(default_factory=dict)
    crates: dict[str, Vendored | tuple[Lack, ...]] = field(default_factory=dict)


def prefetch(
    externals: Sequence[External],
    locks: Sequence[CrateLock],
    *,
    mirrors: Mirrors,
    vendoring: Vendoring,
    tree: Path,
    renew: bool = False,
    check_tags: bool = False,
    progress: Progress,
    tried: Tried | None = None,
) -> Prefetched:
    """Fetch what the store lacks of the needed externals and of the crates.

    :param externals: with the commits of the lock (see :func:`builders.externals_lock.resolved`).
    :param locks: the ``Cargo.lock`` files of the tree.
    :param tree: where those lie, with the manifests beside them.
    :param renew: take what a tag means now, whatever the lock says.
    :param check_tags: ask the servers what their tags mean, also where the store has everything.
    :param tried: what this run has tried, so that no server is asked twice.
    """
    tried = tried or Tried()
    found: list[External] = []
    holes: list[Hole] = []
    fresh: dict[str, str] = {}
    for external in externals:
        if not external.needed:
            found.append(external)
            continue
        if external.copy:
            found.append(external)
            if external.fault:
                holes.append(_hole(external, PreflightError(external.fault, action="mend the copy, or name another")))
            continue
        # The lock may know by now what a tag means; what is asked for is the same.
        asked = replace(external, commit="")
        if asked not in tried.commits:
            try:
                tried.commits[asked] = _fetch(external, mirrors, renew=renew, check=check_tags, progress=progress)
            except (PreflightError, UnavailableError) as error:
                tried.commits[asked] = error
        commit = tried.commits[asked]
        if not isinstance(commit, str):
            holes.append(_hole(external, commit))
            found.append(external)
            continue
        if not FULL.fullmatch(external.tag) and commit != external.commit:
            fresh[name_of(external)] = commit
        found.append(replace(external, commit=commit))
    vendored: list[Vendored] = []
    for lock in locks:
        result = tried.crates.get(lock.sha256) or vendoring.attempt(lock, tree)
        tried.crates[lock.sha256] = result
        if isinstance(result, Vendored):
            vendored.append(result)
        else:
            holes += [_crates_hole(lock, lack) for lack in result]
    return Prefetched(tuple(found), tuple(vendored), tuple(holes), fresh)


def refuse_holes(holes: Sequence[Hole], where: str) -> None:
    """Do nothing if there are none.

    :raises PreflightError: something is wrong with a source; the error lists every hole.
    :raises UnavailableError: the network, or a store that lacks something, is all that is wrong.
    """
    if not holes:
        return
    listed = "\n".join(f"    {hole.render()}" for hole in holes)
    things = "1 source is" if len(holes) == 1 else f"{len(holes)} sources are"
    kind = PreflightError if any(hole.refused for hole in holes) else UnavailableError
    raise kind(f"{things} not in the store; nothing was compiled\n{listed}", where=where)


def _fetch(external: External, mirrors: Mirrors, *, renew: bool, check: bool, progress: Progress) -> str:
    """The external's commit, with all its files in the store."""
    if external.kind != "FetchContent" and not external.variable:
        raise PreflightError(
            f"{external.kind}_Add at {external.where} reads no variable, so that nothing can stand for it",
            action="name the variable that the tree reads in build.external_overrides, or patch the tree to read one",
        )
    if not external.tag:
        raise PreflightError(
            "it is an archive, which this tool does not fetch", action=f"give a folder of it: {_setting(external)}"
        )
    submodules = external.submodules or None
    is_tag = not FULL.fullmatch(external.tag)
    url = external.fetched_from or external.repository
    if not is_tag:
        _say(mirrors, url, external.tag, external, progress)
        mirrors.ensure(url, commit=external.tag, submodules=submodules)
        return external.tag
    if external.commit and not renew:
        _say(mirrors, url, external.commit, external, progress)
        mirror = mirrors.ensure(url, commit=external.commit, submodules=submodules, tags=check)
        now = mirror.resolve(external.tag)
        moved = next((each.now for each in mirror.moved if each.tag == external.tag), "")
        if moved or (now and now != external.commit):
            raise PreflightError(
                f"the tag {external.tag} moved: {external.commit} is locked, and now it names {moved or now}",
                action="see what changed, then `python -m builders fetch TARGET --renew-lock` takes the new commit",
            )
        return external.commit
    known = mirrors.find(url)
    if renew and known is not None:
        known.forget_tag(external.tag)
    progress(f"resolving {external.name}: {external.tag}")
    try:
        return mirrors.ensure(url, tag=external.tag, submodules=submodules).resolve(external.tag)
    except PreflightError as error:
        if f"no tag {external.tag}" not in error.what:
            raise
        raise PreflightError(
            f"{error.what}; what {external.where} names is neither a tag nor a whole commit, and would pin nothing",
            action=f"patch the tree to name all 40 digits of a commit, or give a copy: {_setting(external)}",
        ) from error


def _say(mirrors: Mirrors, url: str, commit: str, external: External, progress: Progress) -> None:
    mirror = mirrors.find(url)
    if mirror is None or not mirror.has(commit):
        progress(f"fetching {external.name} at {commit[:12]}")


def _hole(external: External, error: AssayError) -> Hole:
    wanted = f"{external.repository} at {external.tag}".removesuffix(" at ")
    refused = isinstance(error, PreflightError)
    action = error.action if refused and error.action else f"a local copy: {_setting(external)}"
    return Hole(f"external source {external.name}", wanted, error.what, action, refused)


def _setting(external: External) -> str:
    return f"external_sources: {{{external.name}: FOLDER or URL}} in matrix.local.yaml"


def _crates_hole(lock: CrateLock, lack: Lack) -> Hole:
    names = tuple(f"{crate.name} {crate.version}" for crate in lack.crates)
    error, first = lack.error, lack.crates[0] if lack.crates else None
    refused = isinstance(error, PreflightError)
    if first is not None and first.repository:
        name = f"git crate {first.name}" if len(names) == 1 else f"git crates {first.name} and {len(names) - 1} more"
        wanted = f"{first.repository} at {first.commit}"
        return Hole(name, wanted, error.what, error.action, refused, members=names)
    wanted = f"{len(names)} crates of a registry" + (f", such as {names[0]}" if names else "")
    return Hole(f"crates of {lock.path}", wanted, error.what, error.action, refused, members=names)
