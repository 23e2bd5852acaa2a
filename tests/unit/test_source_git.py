"""A git source: what is read from it, and every refusal by name, on real repositories and servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.source import open_source
from builders.store.gitmirror import Mirrors
from qualify.errors import ConfigurationError, PreflightError, UnavailableError
from qualify.matrix import LoadedMatrix
from tests.support.gitserver import GitServer, git_server
from tests.unit.builders_support import FILES, PYPROJECT, git, make_repository, write_matrix, write_tree

DYNAMIC = PYPROJECT.replace('version = "1.0"', 'dynamic = ["version"]') + "[tool.setuptools_scm]\n"
TAGGED = {**FILES, "pyproject.toml": DYNAMIC}


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    (tmp_path / "served").mkdir()
    with git_server(tmp_path / "served") as running:
        yield running


def git_matrix(folder: Path, named: str, commit: str) -> LoadedMatrix:
    return write_matrix(folder, f"{{git: {named}}}", commit)


def test_a_repository_at_the_commit_with_its_tags(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "repository")
    source = open_source(git_matrix(tmp_path, "repository", head), tmp_path / "work")
    assert (source.kind, source.commit, source.environment) == ("git", head, {})
    assert source.version == f"v1.0-1-g{head}"
    assert git(source.tree, "rev-parse", "HEAD") == head
    assert git(source.tree, "tag") == "v1.0"
    assert (source.tree / "more.txt").is_file()


def test_a_bundle_and_an_older_commit(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository")
    first = git(tmp_path / "repository", "rev-parse", "HEAD~1")
    git(tmp_path / "repository", "bundle", "create", "-q", str(tmp_path / "tiny.bundle"), "--all")
    source = open_source(git_matrix(tmp_path, "tiny.bundle", first), tmp_path / "work")
    assert source.commit == first
    assert source.version == f"v1.0-0-g{first}"
    assert not (source.tree / "more.txt").exists()


def test_a_subdirectory(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "repository")
    loaded = write_matrix(tmp_path, "{git: repository, subdirectory: tiny}", head)
    assert open_source(loaded, tmp_path / "work").tree.name == "tiny"
    gone = write_matrix(tmp_path, "{git: repository, subdirectory: gone}", head)
    with pytest.raises(ConfigurationError, match="no folder gone"):
        open_source(gone, tmp_path / "work2")


def test_an_abbreviated_commit(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository")
    with pytest.raises(ConfigurationError, match="40"):
        open_source(git_matrix(tmp_path, "repository", "4ba787ec9"), tmp_path / "work")


def test_a_commit_that_is_not_there(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository")
    with pytest.raises(PreflightError, match="has no commit"):
        open_source(git_matrix(tmp_path, "repository", "0" * 40), tmp_path / "work")


def test_a_shallow_repository(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "full")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path}/full", "repository")
    with pytest.raises(PreflightError, match="shallow clone"):
        open_source(git_matrix(tmp_path, "repository", head), tmp_path / "work")


@pytest.mark.parametrize("tag", ["", "release"])
def test_a_tree_without_tags_that_name_a_version(tmp_path: Path, tag: str) -> None:
    head = make_repository(tmp_path / "repository", TAGGED, tag=tag)
    with pytest.raises(PreflightError, match="no tag that matches"):
        open_source(git_matrix(tmp_path, "repository", head), tmp_path / "work")


def test_a_working_tree_with_changes(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "repository")
    (tmp_path / "repository" / "more.txt").write_text("changed", encoding="utf-8")
    with pytest.raises(PreflightError, match=r"working tree is dirty: 1 files .*more\.txt"):
        open_source(git_matrix(tmp_path, "repository", head), tmp_path / "work")


def test_a_checkout_that_a_filter_changes(tmp_path: Path) -> None:
    files = {**FILES, ".gitattributes": "", "crlf.txt": "a\r\n"}
    repository = tmp_path / "repository"
    make_repository(repository, files)
    (repository / ".gitattributes").write_text("crlf.txt text eol=lf\n", encoding="utf-8")
    git(repository, "update-index", "--add", ".gitattributes")
    git(repository, "commit", "-qm", "attributes")
    head = git(repository, "rev-parse", "HEAD")
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", "repository", str(bare))
    with pytest.raises(PreflightError, match="fresh checkout is dirty"):
        open_source(git_matrix(tmp_path, "bare.git", head), tmp_path / "work")


def test_a_repository_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no repository or bundle"):
        open_source(git_matrix(tmp_path, "gone", "0" * 40), tmp_path / "work")
    loaded = git_matrix(tmp_path, "git://127.0.0.1:1/gone", "0" * 40)
    with pytest.raises(UnavailableError, match="asking for the branches and tags failed"):
        open_source(loaded, tmp_path / "work2")


@pytest.mark.parametrize("named", ["--upload-pack=touch x", "ext::sh -c touch% x"])
def test_a_name_that_would_run_something(tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = write_matrix(tmp_path, f'{{git: "{named}"}}', "0" * 40)
    with pytest.raises((ConfigurationError, UnavailableError)):
        open_source(loaded, tmp_path / "work")
    assert not (tmp_path / "x").exists()


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = make_repository(tmp_path / "repository")
    loaded = git_matrix(tmp_path, "repository", head)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="git was not found"):
        open_source(loaded, tmp_path / "work")


def test_a_tree_with_a_version_of_its_own_needs_no_tag(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "repository", tag="")
    source = open_source(git_matrix(tmp_path, "repository", head), tmp_path / "work")
    assert (source.version, source.version_from) == ("", "")
    asked = write_matrix(tmp_path, "{git: repository}", head, {"build:": "build:\n  tag_match: v*"})
    with pytest.raises(PreflightError, match=r"no tag that matches v\*"):
        open_source(asked, tmp_path / "work2")


def test_the_same_pin_again_without_its_server(tmp_path: Path, server: GitServer) -> None:
    head = make_repository(server.root / "tiny.git", TAGGED)
    loaded = git_matrix(tmp_path, server.address("tiny.git"), head)
    first = open_source(loaded, tmp_path / "work")
    server.down = True
    second = open_source(loaded, tmp_path / "work2")
    assert (second.commit, second.version) == (first.commit, first.version)
    assert "503" in second.notes[0]
    third = open_source(loaded, tmp_path / "work3", offline=True)
    assert (third.version, third.notes) == (first.version, ())
    assert git(third.tree, "describe", "--tags", "--long", "--dirty") == git(first.tree, "describe", "--tags", "--long")
    other = Mirrors(tmp_path / "empty", offline=True)
    with pytest.raises(UnavailableError, match="offline, and the store lacks commit"):
        open_source(loaded, tmp_path / "work4", mirrors=other)


def test_a_tag_of_the_pin_that_names_another_commit(tmp_path: Path, server: GitServer) -> None:
    head = make_repository(server.root / "tiny.git", TAGGED)
    url = server.address("tiny.git")
    loaded = write_matrix(tmp_path, f"{{git: {url}, tag: v1.0}}", head)
    with pytest.raises(PreflightError, match=r"the tag v1\.0 names commit") as caught:
        open_source(loaded, tmp_path / "work")
    assert caught.value.expected == head
    assert "moved" in caught.value.action
    first = git(server.root / "tiny.git", "rev-parse", "HEAD~1")
    pinned = write_matrix(tmp_path, f"{{git: {url}, tag: v1.0}}", first)
    assert open_source(pinned, tmp_path / "work2").commit == first
    git(server.root / "tiny.git", "tag", "-f", "v1.0")
    with pytest.raises(PreflightError, match=rf"v1\.0 moved: it named {first} .* now names {head}"):
        open_source(pinned, tmp_path / "work3")


@pytest.mark.parametrize(("tag", "refused"), [("v1.1", True), ("nightly", False)])
def test_a_tag_that_counts_and_moved(tmp_path: Path, server: GitServer, tag: str, refused: bool) -> None:
    repository = server.root / "tiny.git"
    head = make_repository(repository, TAGGED)
    git(repository, "tag", tag)
    loaded = git_matrix(tmp_path, server.address("tiny.git"), head)
    open_source(loaded, tmp_path / "work")
    git(repository, "tag", "-f", tag, "HEAD~1")
    if not refused:
        assert open_source(loaded, tmp_path / "work2").commit == head
        return
    with pytest.raises(PreflightError, match=rf"the tag v1\.1 moved: it named {head}") as caught:
        open_source(loaded, tmp_path / "work2")
    assert "removes the mirror" in caught.value.action


def test_a_moved_tag_beside_the_history_changes_nothing(tmp_path: Path, server: GitServer) -> None:
    repository = server.root / "tiny.git"
    head = make_repository(repository, TAGGED)
    git(repository, "checkout", "-q", "-b", "side")
    git(repository, "commit", "-q", "--allow-empty", "-m", "side")
    git(repository, "tag", "v2.0")
    loaded = git_matrix(tmp_path, server.address("tiny.git"), head)
    open_source(loaded, tmp_path / "work")
    git(repository, "commit", "-q", "--allow-empty", "-m", "more")
    git(repository, "tag", "-f", "v2.0")
    assert open_source(loaded, tmp_path / "work2").commit == head


def test_a_nearer_tag_that_belongs_to_something_else(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    head = make_repository(repository, TAGGED)
    git(repository, "tag", "nightly-20260101")
    with pytest.raises(
        PreflightError, match="the nearest tag is nightly-20260101, which is no version of tiny"
    ) as caught:
        open_source(git_matrix(tmp_path, "repository", head), tmp_path / "work")
    assert "v1.0 (1.0) is farther away by 1 commits" in caught.value.what
    assert "build.tag_match" in caught.value.action
    chosen = write_matrix(tmp_path, "{git: repository}", head, {"build:": 'build:\n  tag_match: "v[0-9]*"'})
    assert open_source(chosen, tmp_path / "work2").version == f"v1.0-1-g{head}"


def test_a_dirty_tree_is_refused_before_its_commit_is_looked_for(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository", TAGGED)
    (tmp_path / "repository" / "new.txt").write_text("untracked", encoding="utf-8")
    with pytest.raises(PreflightError, match=r"working tree is dirty: 1 files .*new\.txt"):
        open_source(git_matrix(tmp_path, "repository", "0" * 40), tmp_path / "work")


def test_submodules_come_along(tmp_path: Path, server: GitServer) -> None:
    make_repository(server.root / "dep.git")
    repository = server.root / "tiny.git"
    make_repository(repository, TAGGED)
    git(repository, "-c", "protocol.http.allow=always", "submodule", "add", "-q", server.address("dep.git"), "dep")
    git(repository, "config", "-f", ".gitmodules", "submodule.dep.url", "../dep.git")
    git(repository, "add", ".gitmodules")
    git(repository, "commit", "-qm", "dep")
    head = git(repository, "rev-parse", "HEAD")
    loaded = git_matrix(tmp_path, server.address("tiny.git"), head)
    source = open_source(loaded, tmp_path / "work")
    assert [(each.path, each.repository) for each in source.submodules] == [("dep", server.address("dep.git"))]
    assert source.submodules[0].commit == git(server.root / "dep.git", "rev-parse", "HEAD")
    assert (source.tree / "dep" / "more.txt").is_file()
    (server.root / "dep.git").rename(server.root / "away.git")
    other = Mirrors(tmp_path / "other")
    with pytest.raises(UnavailableError, match="the submodule dep cannot be had"):
        open_source(loaded, tmp_path / "work2", mirrors=other)


def test_a_compiled_file_in_the_tree(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    make_repository(repository, TAGGED)
    write_tree(repository, {"tiny/vendored.so": "\x7fELF", "tiny/tool": "\x7fELF"})
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-qm", "binaries")
    head = git(repository, "rev-parse", "HEAD")
    with pytest.raises(PreflightError, match=r"2 compiled files, .*: tiny/tool, tiny/vendored\.so"):
        open_source(git_matrix(tmp_path, "repository", head), tmp_path / "work")
    allowed = 'build:\n  prebuilt: {"tiny/*": "made by the vendor"}'
    loaded = write_matrix(tmp_path, "{git: repository}", head, {"build:": allowed})
    assert open_source(loaded, tmp_path / "work2").commit == head


def test_the_site_has_another_address(tmp_path: Path, server: GitServer) -> None:
    head = make_repository(server.root / "tiny.git", TAGGED)
    (tmp_path / "matrix.local.yaml").write_text(
        f"version: 1\nfolders: {{store: here}}\ngit_mirrors: {{'https://git.example.invalid/': '{server.url}/'}}\n",
        encoding="utf-8",
    )
    loaded = git_matrix(tmp_path, "https://git.example.invalid/tiny.git", head)
    source = open_source(loaded, tmp_path / "work")
    assert source.origin == "https://git.example.invalid/tiny.git"
    assert (tmp_path / "here" / "git").is_dir()
    assert not (tmp_path / "cache").exists()
    assert any((tmp_path / "here" / "git").iterdir())
