"""Forks: the base proven, the overlay listed, and how far upstream went on, on real repositories and servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.source import open_source
from builders.source_model import Fork
from qualify.errors import PreflightError
from qualify.matrix import LoadedMatrix
from tests.support.gitserver import GitServer, git_server
from tests.unit.builders_support import git, make_repository, write_matrix


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    (tmp_path / "served").mkdir()
    with git_server(tmp_path / "served") as running:
        yield running


def commit(folder: Path, *subjects: str) -> str:
    for subject in subjects:
        git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def forked(server: GitServer) -> tuple[str, str]:
    """``up.git`` and its fork ``fork.git`` with two commits on top; the base and the fork's head."""
    base = make_repository(server.root / "up.git")
    git(server.root, "clone", "-q", str(server.root / "up.git"), str(server.root / "fork.git"))
    return base, commit(server.root / "fork.git", "ours: one", "ours: two")


def fork_matrix(tmp_path: Path, server: GitServer, head: str, base: str, branch: str = "") -> LoadedMatrix:
    upstream = f'  upstream: {{repository: {server.address("up.git")}, base: "{base}", branch: "{branch}"}}\n'
    return write_matrix(
        tmp_path, f"{{git: {server.address('fork.git')}}}", head, {"build:\n  torch": f"{upstream}build:\n  torch"}
    )


def fork_of(loaded: LoadedMatrix, work: Path, *, offline: bool = False) -> Fork:
    fork = open_source(loaded, work, offline=offline).fork
    assert fork is not None
    return fork


def test_the_overlay_and_how_far_behind(tmp_path: Path, server: GitServer) -> None:
    base, head = forked(server)
    loaded = fork_matrix(tmp_path, server, head, base)
    fork = fork_of(loaded, tmp_path / "work")
    first = git(server.root / "fork.git", "rev-parse", "HEAD~1")
    assert fork.overlay == ((first, "ours: one"), (head, "ours: two"))
    assert (fork.behind, fork.behind_said, fork.base_proven) == (0, "", True)
    assert fork.words() == "2 overlay, 0 behind upstream"
    commit(server.root / "up.git", *(f"theirs {number}" for number in range(3)))
    assert fork_of(loaded, tmp_path / "work2").words() == "2 overlay, 3 behind upstream"
    assert (
        fork_of(loaded, tmp_path / "work3", offline=True).words()
        == "2 overlay, 3 behind upstream (as of the last fetch)"
    )


def test_what_the_fork_took_over_is_not_behind(tmp_path: Path, server: GitServer) -> None:
    base, _ = forked(server)
    commit(server.root / "up.git", "theirs 1", "theirs 2")
    git(server.root / "fork.git", "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    commit(server.root / "up.git", "theirs 3")
    head = git(server.root / "fork.git", "rev-parse", "HEAD")
    fork = fork_of(fork_matrix(tmp_path, server, head, base), tmp_path / "work")
    assert fork.behind == 1


def test_a_branch_that_is_named(tmp_path: Path, server: GitServer) -> None:
    base, head = forked(server)
    git(server.root / "up.git", "checkout", "-q", "-b", "release/1")
    commit(server.root / "up.git", "r1", "r2")
    git(server.root / "up.git", "checkout", "-q", "main")
    fork = fork_of(fork_matrix(tmp_path, server, head, base, "release/1"), tmp_path / "work")
    assert fork.behind == 2
    with pytest.raises(PreflightError, match="has no branch gone"):
        fork_of(fork_matrix(tmp_path, server, head, base, "gone"), tmp_path / "work2")


@pytest.mark.parametrize("by", ["tag", "branch"])
def test_a_base_on_a_release_beside_the_branch(tmp_path: Path, server: GitServer, by: str) -> None:
    make_repository(server.root / "up.git")
    up = server.root / "up.git"
    git(up, "checkout", "-q", "-b", "release")
    base = commit(up, "picked for the release")
    git(server.root, "clone", "-q", str(up), str(server.root / "fork.git"))
    git(up, "checkout", "-q", "main")
    if by == "tag":
        git(up, "tag", "v1.5", "release")
        git(up, "branch", "-q", "-D", "release")
    commit(up, "theirs")
    head = commit(server.root / "fork.git", "ours")
    fork = fork_of(fork_matrix(tmp_path, server, head, base), tmp_path / "work")
    assert (len(fork.overlay), fork.behind, fork.base_proven) == (1, 1, True)


def test_a_base_that_the_commit_does_not_stand_on(tmp_path: Path, server: GitServer) -> None:
    base, head = forked(server)
    git(server.root / "fork.git", "checkout", "-q", "-b", "side", base)
    side = commit(server.root / "fork.git", "side")
    git(server.root / "fork.git", "checkout", "-q", "main")
    for wrong in (side, "a" * 40):
        with pytest.raises(PreflightError, match=f"the base {wrong} is not in the history of {head}") as caught:
            fork_of(fork_matrix(tmp_path, server, head, wrong), tmp_path / f"work {wrong}")
        assert "git merge-base" in caught.value.action


def test_a_base_that_upstream_does_not_have(tmp_path: Path, server: GitServer) -> None:
    _, head = forked(server)
    ours = git(server.root / "fork.git", "rev-parse", "HEAD~1")
    with pytest.raises(PreflightError, match=f"the base {ours} is not in upstream's history") as caught:
        fork_of(fork_matrix(tmp_path, server, head, ours), tmp_path / "work")
    assert caught.value.where == server.address("up.git")


def test_an_upstream_that_does_not_answer(tmp_path: Path, server: GitServer) -> None:
    base, head = forked(server)
    (server.root / "up.git").rename(server.root / "away.git")
    fork = fork_of(fork_matrix(tmp_path, server, head, base), tmp_path / "work")
    assert (fork.behind, fork.base_proven) == (None, False)
    assert server.address("up.git") in fork.behind_said
    assert fork.words().startswith("2 overlay, behind upstream by an unknown number (")


def test_offline_without_a_mirror_of_upstream(tmp_path: Path, server: GitServer) -> None:
    base, head = forked(server)
    plain = write_matrix(tmp_path, f"{{git: {server.address('fork.git')}}}", head)
    open_source(plain, tmp_path / "work")
    fork = fork_of(fork_matrix(tmp_path, server, head, base), tmp_path / "work2", offline=True)
    assert fork.behind is None
    assert "offline, and the store lacks default branch" in fork.behind_said
    assert len(fork.overlay) == 2


def test_more_commits_than_an_overlay_has(tmp_path: Path, server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    base, head = forked(server)
    monkeypatch.setattr("builders.source_forks.MAX_OVERLAY", 1)
    with pytest.raises(PreflightError, match="more than 1 commits stand on the base"):
        fork_of(fork_matrix(tmp_path, server, head, base), tmp_path / "work")
