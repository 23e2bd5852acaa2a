"""A fork beside its upstream: the base proven, the overlay listed, and how far it is behind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from builders.source_model import Fork
from builders.store.gitmirror import Mirror, Mirrors
from builders.store.gitrun import checked, shown
from qualify.errors import PreflightError, UnavailableError

if TYPE_CHECKING:
    from qualify.matrix.model import Upstream

MAX_OVERLAY = 5000  # commits; with more of them the base isn't where the fork left upstream


def open_fork(mirrors: Mirrors, mirror: Mirror, commit: str, upstream: Upstream, address: str) -> Fork:
    """Prove the base of a fork, and list what stands on it.

    :param mirror: of the fork, with the commit and its history.
    :param address: of upstream, a path already seen from the matrix.
    :raises PreflightError: the base isn't in the commit's history, or upstream answers and hasn't got it.
    """
    base = upstream.base
    if not mirror.has_commit(base) or not mirror.is_ancestor(base, commit):
        raise PreflightError(
            f"the base {base} is not in the history of {commit}",
            where="pin.upstream.base",
            expected="a commit of upstream on which the fork's own commits stand",
            action="name the merge base (git merge-base upstream/main COMMIT), or rebase the fork onto the base",
        )
    fork = Fork(upstream.repository, base, _overlay(mirror, base, commit), None, "")
    try:
        theirs = mirrors.ensure(address, branch=upstream.branch, files=False)
        if not _contains(theirs, base):
            # Not in that branch: a release branch or a tag may have it.
            theirs = mirrors.ensure(address, branch=upstream.branch, branches=True, tags=True, files=False)
    except UnavailableError as error:
        return replace(fork, behind_said=f"{error.where}: {error.what}" if error.where else error.what)
    asked_now = not theirs.stale and not mirrors.offline
    if not _contains(theirs, base):
        if not asked_now:
            return replace(fork, behind_said=f"{shown(address)} was not asked, and its mirror here lacks the base")
        raise PreflightError(
            f"the base {base} is not in upstream's history: no branch and no tag there leads to it",
            where=shown(address),
            expected="a commit that upstream has",
            action="name the commit of upstream that the fork stands on in pin.upstream.base",
        )
    behind = theirs.git(
        *("rev-list", "--count", theirs.branch(upstream.branch), f"^{commit}"),
        environment={"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(mirror.path / "objects")},
    )
    checked(behind, "counting the commits of upstream", shown(address))
    said = "" if asked_now else "as of the last fetch"
    return replace(fork, behind=int(behind.text), behind_said=said, base_proven=True)


def _contains(theirs: Mirror, base: str) -> bool:
    """Whether a branch or a tag that upstream itself gave leads to the base."""
    found = theirs.git("for-each-ref", "--count=1", f"--contains={base}", "refs/heads", "refs/tags", "refs/server")
    return found.code == 0 and bool(found.output.strip())


def _overlay(mirror: Mirror, base: str, commit: str) -> tuple[tuple[str, str], ...]:
    listed = mirror.git(
        "log", "-z", "--reverse", "--format=%H %s", f"--max-count={MAX_OVERLAY + 1}", f"{base}..{commit}"
    )
    checked(listed, "listing the fork's own commits", "pin.upstream")
    entries = [entry.partition(" ") for entry in listed.text.split("\0") if entry.strip()]
    if len(entries) > MAX_OVERLAY:
        raise PreflightError(
            f"more than {MAX_OVERLAY} commits stand on the base",
            where="pin.upstream.base",
            expected="the commit at which the fork left upstream",
            action="name the merge base (git merge-base upstream/main COMMIT)",
        )
    return tuple((name.strip(), subject) for name, _, subject in entries)
