"""A git repository as the source: through a mirror, exported at the exact commit of the pin with the tags it has.

Everything that could make another version or another tree of the same pin is refused here by name: a tag that moved, a
shallow repository, no tag that counts, a nearer one that belongs to something else, a tree that isn't what its commit
says, a submodule that can't be had.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from builders.source_describe import TagRule, describe, tag_rule
from builders.source_forks import open_fork
from builders.source_model import Progress, Source, Submodule
from builders.source_patches import check_patches, read_patches
from builders.store.gitmirror import Mirror, Mirrors
from builders.store.gitrepository import FULL
from builders.store.gitrun import checked, is_url, local, remote, shown
from qualify.errors import ConfigurationError, PreflightError, UnavailableError
from qualify.matrix.model import GitSource

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

MAX_SHOWN = 5


def open_git(matrix: LoadedMatrix, source: GitSource, work: Path, mirrors: Mirrors, *, progress: Progress) -> Source:
    """Mirror, export and look; see :func:`builders.source.open_source` for what is raised."""
    pin = matrix.matrix.pin
    if pin.commit is None or not FULL.fullmatch(pin.commit):
        raise ConfigurationError(
            f"a git source with the abbreviated commit {pin.commit}" if pin.commit else "a git source without a commit",
            where=f"{matrix.path}: pin.commit",
            expected="all 40 hexadecimal digits",
        )
    named = source.git or pin.repository
    address = _locate(named, matrix.path.parent, "pin.source.git")
    patches = read_patches(matrix)
    _refuse_dirty_original(address)
    mirror = mirrors.ensure(address, commit=pin.commit, tag=source.tag or "", tags=True, submodules=None)
    notes = [f"{shown(named)} was not asked for its tags: {mirror.stale}"] if mirror.stale else []
    tree = work / "tree"
    progress(f"checking out {pin.commit[:12]}")
    mirror.export(pin.commit, tree, submodules=None, keep_git=True)
    root = (tree / source.subdirectory).resolve()
    if not root.is_relative_to(tree.resolve()) or not root.is_dir():
        raise ConfigurationError(
            f"no folder {source.subdirectory} in the tree", where=f"{matrix.path}: pin.source.subdirectory"
        )
    rule = tag_rule(root, matrix.matrix.build.tag_match)
    _refuse_moved(mirror, pin.commit, rule, shown(named))
    described = describe(tree, rule, matrix.matrix.project.name, shown(named))
    _refuse_dirty_export(tree, shown(named))
    check_patches(root, patches)
    fork = None
    if pin.upstream is not None:
        upstream = _locate(pin.upstream.repository, matrix.path.parent, "pin.upstream.repository")
        progress(f"comparing with {shown(pin.upstream.repository)}")
        fork = open_fork(mirrors, mirror, pin.commit, pin.upstream, upstream)
    node = f'{{node="g{pin.commit}", dirty=false}}'
    return Source(
        kind="git",
        tree=root,
        commit=pin.commit,
        commit_from="git rev-parse HEAD",
        version=described.text,
        version_from="git describe --long" if described.text else "",
        origin=shown(named),
        sha256="",
        environment={"SETUPTOOLS_SCM_PRETEND_METADATA": node} if patches else {},
        patches=patches,
        fork=fork,
        submodules=tuple(_submodules(mirrors, mirror, pin.commit, "")),
        notes=tuple(notes),
    )


def _locate(named: str, folder: Path, where: str) -> str:
    """A URL as it is, a path (a repository or a bundle) as an absolute one, relative to the matrix file."""
    if named.startswith("-"):
        raise ConfigurationError(f"{named} is no repository", where=where)
    if is_url(named):
        return named
    path = (folder / named).resolve()
    if not path.exists():
        raise ConfigurationError(
            f"no repository or bundle at {named}", where=where, expected="a URL, or a path seen from the matrix file"
        )
    return str(path)


def _refuse_dirty_original(address: str) -> None:
    """A working tree with changes is not what its commit says; whoever names it may well mean the changes."""
    path = Path(address)
    if not path.is_dir() or not (path / ".git").exists():
        return
    # With the settings of its owner, who also made the tree by them.
    done = checked(remote("-C", str(path), "status", "--porcelain"), "looking at the working tree", address)
    if changed := done.lines():
        raise PreflightError(
            f"the working tree is dirty: {len(changed)} files are not what the commit says ({changed[0].strip()}, …)",
            where=address,
            action="commit or remove the changes, then pin that commit",
        )


def _refuse_dirty_export(tree: Path, where: str) -> None:
    """A fresh export that differs from its commit: line endings or filters that the tree itself asks for."""
    head = checked(local("rev-parse", "HEAD", folder=tree), "reading the commit", where).text.strip()
    changed = checked(local("status", "--porcelain", folder=tree), "looking at the checkout", where).lines()
    if changed:
        raise PreflightError(
            f"the fresh checkout is dirty: {len(changed)} files differ from commit {head[:12]} "
            f"({', '.join(line.strip() for line in changed[:MAX_SHOWN])}{', …' if len(changed) > MAX_SHOWN else ''})",
            where=where,
            expected="a tree that git calls clean",
            action="look for filters or line-ending settings in .gitattributes of the commit",
        )


def _refuse_moved(mirror: Mirror, commit: str, rule: TagRule, where: str) -> None:
    """Tags that count for this commit and that the server gave another meaning since they were first seen here."""
    moved = [
        tag
        for tag in mirror.moved
        if rule.sees(tag.tag) and any(_in_history(mirror, each, commit) for each in (tag.was, tag.now))
    ]
    if moved:
        raise PreflightError(
            "; ".join(tag.words() for tag in moved[:MAX_SHOWN]),
            where=where,
            expected="tags that stay, since the version counts from them",
            action="ask their owner which commit is meant; whoever takes the new meaning removes the mirror "
            f"{mirror.path.name} from the store",
        )


def _in_history(mirror: Mirror, tagged: str, commit: str) -> bool:
    return bool(tagged) and mirror.has_commit(tagged) and mirror.is_ancestor(tagged, commit)


def _submodules(mirrors: Mirrors, mirror: Mirror, commit: str, above: str) -> Sequence[Submodule]:
    found: list[Submodule] = []
    for each in mirror.submodules(commit):
        path = f"{above}{each.path}"
        found.append(Submodule(path, shown(each.url), each.commit))
        inner = mirrors.find(each.url)
        if inner is None:
            raise UnavailableError(f"the submodule {path} is not in the store", where=shown(each.url))
        found += _submodules(mirrors, inner, each.commit, f"{path}/")
    return found
