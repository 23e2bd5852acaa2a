"""A git repository as the source: a full clone with its tags, checked out at the exact commit of the pin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from builders.source_model import Progress, Source
from qualify.errors import ConfigurationError, PreflightError, UnavailableError
from qualify.matrix.model import GitSource

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

CLONE_SECONDS = 3600
LOCAL_SECONDS = 300

_FULL = re.compile(r"[0-9a-f]{40}")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[^/]+@[^/]+:")

# No prompt, no hook, no pager, and no transport that runs a command named in the URL.
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "advice.detachedHead=false")

# Set where this runs under a git hook or alias, and then meant for another repository.
_CALLERS = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"}


def open_git(matrix: LoadedMatrix, source: GitSource, work: Path, *, progress: Progress) -> Source:
    """Clone and check out; see :func:`builders.source.open_source` for what is raised."""
    commit = matrix.matrix.pin.commit
    if not _FULL.fullmatch(commit):
        raise ConfigurationError(
            f"a git source with the abbreviated commit {commit}",
            where=f"{matrix.path}: pin.commit",
            expected="all 40 hexadecimal digits",
        )
    if shutil.which("git") is None:
        raise UnavailableError("git was not found", where="PATH", action="install git, or pin an sdist")
    named = source.git or matrix.matrix.pin.repository
    repository = _locate(named, matrix.path.parent)
    _refuse_dirty_original(repository)
    tree = work / "tree"
    progress(f"cloning {named}")
    _run("clone", "--quiet", "--no-checkout", "--template=", "--", repository, str(tree), seconds=CLONE_SECONDS)
    if _run("rev-parse", "--is-shallow-repository", tree=tree).strip() == "true":
        raise PreflightError(
            "the repository is a shallow clone: its history and tags are cut off, and so is every version made from it",
            where=named,
            action="fetch it with --unshallow, or name the full repository",
        )
    _run("fetch", "--quiet", "--tags", "--force", "origin", tree=tree, seconds=CLONE_SECONDS)
    if not _succeeds("cat-file", "-e", f"{commit}^{{commit}}", tree=tree):
        _fetch_commit(named, commit, tree)
    progress(f"checking out {commit[:12]}")
    _run("checkout", "--quiet", "--detach", commit, tree=tree)
    if (tree / ".gitmodules").is_file():
        progress("fetching submodules")
        _run("submodule", "update", "--quiet", "--init", "--recursive", tree=tree, seconds=CLONE_SECONDS)
    head = _run("rev-parse", "HEAD", tree=tree).strip()
    if head != commit:
        raise PreflightError(f"the checkout is at {head}", where=named, expected=commit)
    described = _describe(named, matrix.matrix.build.tag_match, tree)
    if changed := _run("status", "--porcelain", tree=tree).splitlines():
        raise PreflightError(
            f"the fresh checkout is dirty: {len(changed)} files differ from the commit ({changed[0].strip()}, …)",
            where=named,
            action="look for filters or line-ending settings in .gitattributes and in git's own configuration",
        )
    root = (tree / source.subdirectory).resolve()
    if not root.is_relative_to(tree.resolve()) or not root.is_dir():
        raise ConfigurationError(
            f"no folder {source.subdirectory} in the tree", where=f"{matrix.path}: pin.source.subdirectory"
        )
    return Source(
        kind="git",
        tree=root,
        commit=head,
        commit_from="git rev-parse HEAD",
        version=described,
        version_from="git describe --tags --long",
        origin=named,
        sha256="",
    )


def _locate(named: str, folder: Path) -> str:
    """A URL as it is, a path (a repository or a bundle) as an absolute one, relative to the matrix file."""
    if named.startswith("-"):
        raise ConfigurationError(f"{named} is no repository", where="pin.source.git")
    if _URL.match(named):
        return named
    path = (folder / named).resolve()
    if not path.exists():
        raise ConfigurationError(f"no repository or bundle at {named}", where="pin.source.git")
    return str(path)


def _refuse_dirty_original(repository: str) -> None:
    """A working tree with changes is not what its commit says; whoever names it may well mean the changes."""
    path = Path(repository)
    if not path.is_dir() or not (path / ".git").exists():
        return
    if changed := _run("status", "--porcelain", tree=path).splitlines():
        raise PreflightError(
            f"the working tree is dirty: {len(changed)} files are not what the commit says ({changed[0].strip()}, …)",
            where=repository,
            action="commit or remove the changes, then pin that commit",
        )


def _fetch_commit(named: str, commit: str, tree: Path) -> None:
    """A commit that no branch or tag reaches; servers that allow it give it by its name."""
    if _succeeds("fetch", "--quiet", "origin", commit, tree=tree) and _succeeds(
        "cat-file", "-e", f"{commit}^{{commit}}", tree=tree
    ):
        return
    raise PreflightError(
        f"the repository has no commit {commit}", where=named, action="fetch or push the commit there, or mend the pin"
    )


def _describe(named: str, match: str, tree: Path) -> str:
    done = _execute("describe", "--tags", "--long", "--abbrev=40", "--match", match, tree=tree, seconds=LOCAL_SECONDS)
    if done.returncode != 0:
        raise PreflightError(
            f"no tag that matches {match} is reachable from the commit, so the version would count from nothing",
            where=named,
            expected="the repository with its tags",
            action="push the tags there (git push --tags), or make the bundle with --tags",
        )
    return done.stdout.strip()


def _succeeds(*arguments: str, tree: Path) -> bool:
    return _execute(*arguments, tree=tree, seconds=LOCAL_SECONDS).returncode == 0


def _run(*arguments: str, tree: Path | None = None, seconds: int = LOCAL_SECONDS) -> str:
    done = _execute(*arguments, tree=tree, seconds=seconds)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise UnavailableError(
            f"git {arguments[0]} failed: {lines[-1] if lines else f'exit status {done.returncode}'}",
            where=str(tree or arguments[-2]),
            action="check the repository's address and the network",
        )
    return done.stdout


def _execute(*arguments: str, tree: Path | None, seconds: int) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _CALLERS}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    where = ("-C", str(tree)) if tree else ()
    try:
        return subprocess.run(
            [*_GIT, *where, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"git {arguments[0]} did not end within {seconds} s", where=str(tree or "")) from error
