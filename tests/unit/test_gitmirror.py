"""Mirrors of git repositories: real servers on loopback, with filters and without, and gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.store.gitexport import _followed
from builders.store.gitmirror import Mirrors
from builders.store.gitrefs import Moved, is_name
from builders.store.gitrun import is_url, local, remote, shown
from qualify.errors import AssayError, PreflightError, UnavailableError
from tests.support.gitserver import GitServer, git_server
from tests.unit.builders_support import git, make_repository, write_tree


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    (tmp_path / "served").mkdir()
    with git_server(tmp_path / "served") as running:
        yield running


def served(server: GitServer, name: str = "thing.git", *, filters: bool = True) -> tuple[str, str]:
    """A repository on the server: its address and its head."""
    head = make_repository(server.root / name)
    server.configure(name, uploadpack_allowFilter="true" if filters else "false")
    return server.address(name), head


def commit(folder: Path, files: dict[str, str], message: str = "change") -> str:
    write_tree(folder, files)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


@pytest.mark.parametrize("filters", [True, False])
def test_what_was_fetched_once_is_exported_with_the_server_gone(
    tmp_path: Path, server: GitServer, filters: bool
) -> None:
    url, head = served(server, filters=filters)
    first = git(server.root / "thing.git", "rev-parse", "HEAD~1")
    commit(server.root / "thing.git", {"more.txt": "later\n"})
    mirror = Mirrors(tmp_path / "store").ensure(url, commit=head)
    assert mirror.has(head)
    # Of the history the files are not there, unless the server knows no filters; the commits always are.
    assert mirror.has_commit(first)
    server.down = True
    offline = Mirrors(tmp_path / "store", offline=True)
    again = offline.ensure(url, commit=head)
    again.export(head, tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of_commit(server.root / "thing.git", head)
    assert (tmp_path / "out" / "more.txt").read_text(encoding="utf-8") == "more\n"
    assert not (tmp_path / "out" / ".git").exists()


def files_of_commit(repository: Path, at: str) -> dict[str, str]:
    names = git(repository, "ls-tree", "-r", "--name-only", at).splitlines()
    return {name: git(repository, "show", f"{at}:{name}") + "\n" for name in sorted(names)}


def test_a_partial_mirror_lacks_the_files_of_the_history(tmp_path: Path, server: GitServer) -> None:
    url, _ = served(server)
    head = commit(server.root / "thing.git", {"more.txt": "later\n"})
    mirror = Mirrors(tmp_path / "store").ensure(url, commit=head)
    old = git(server.root / "thing.git", "rev-parse", "HEAD~1")
    assert mirror.has_commit(old)
    assert len(mirror.missing(old)) == 1
    assert not mirror.has(old)
    with pytest.raises(UnavailableError, match="not whole in the mirror"):
        mirror.export(old, tmp_path / "out")
    assert Mirrors(tmp_path / "store").ensure(url, commit=old).has(old)


def test_a_commit_that_is_there_asks_nobody(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    Mirrors(tmp_path / "store").ensure(url, commit=head)
    server.requests.clear()
    Mirrors(tmp_path / "store").ensure(url, commit=head)
    assert server.requests == []


@pytest.mark.parametrize("old_protocol", [False, True])
def test_a_commit_that_no_branch_reaches(tmp_path: Path, server: GitServer, old_protocol: bool) -> None:
    url, head = served(server)
    repository = server.root / "thing.git"
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    server.old_protocol = old_protocol
    if old_protocol:
        with pytest.raises(PreflightError, match=f"has no commit {head}"):
            Mirrors(tmp_path / "store").ensure(url, commit=head)
    else:
        assert Mirrors(tmp_path / "store").ensure(url, commit=head).has(head)


def test_the_old_protocol_gives_what_branches_reach(tmp_path: Path, server: GitServer) -> None:
    url, _ = served(server, filters=False)
    server.old_protocol = True
    old = git(server.root / "thing.git", "rev-parse", "HEAD~1")
    assert Mirrors(tmp_path / "store").ensure(url, commit=old).has(old)


def test_a_commit_that_nobody_has(tmp_path: Path, server: GitServer) -> None:
    url, _ = served(server)
    with pytest.raises(PreflightError, match=f"has no commit {'1' * 40}") as caught:
        Mirrors(tmp_path / "store").ensure(url, commit="1" * 40)
    assert caught.value.where == url
    assert "mend the pin" in caught.value.action


def test_a_server_that_does_not_answer(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    server.down = True
    with pytest.raises(UnavailableError, match="503") as caught:
        Mirrors(tmp_path / "store").ensure(url, commit=head)
    assert caught.value.where == url
    assert "network" in caught.value.action
    with pytest.raises(UnavailableError, match="failed"):
        Mirrors(tmp_path / "store").ensure("http://127.0.0.1:9/thing", tag="v1.0")


def test_offline_names_what_the_store_lacks(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    offline = Mirrors(tmp_path / "store", offline=True)
    with pytest.raises(UnavailableError, match=f"the store lacks commit {head}"):
        offline.ensure(url, commit=head)
    assert offline.find(url) is None
    Mirrors(tmp_path / "store").ensure(url, commit=head)
    with pytest.raises(UnavailableError, match="the store lacks tag v1"):
        offline.ensure(url, tag="v1.0")
    with pytest.raises(UnavailableError, match=r"lacks commit .* and tags"):
        offline.ensure(url, commit=head, tags=True)
    assert server.requests


def test_a_tag_annotated_or_not(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    git(server.root / "thing.git", "tag", "-am", "said", "v2.0")
    mirrors = Mirrors(tmp_path / "store")
    mirror = mirrors.ensure(url, tag="v2.0")
    assert mirror.resolve("v2.0") == head
    assert mirror.has(head)
    assert mirror.resolve("v1.0") == ""
    assert mirrors.ensure(url, tag="v1.0").resolve("v1.0") == git(server.root / "thing.git", "rev-parse", "HEAD~1")
    with pytest.raises(PreflightError, match=r"has no tag v3\.0"):
        mirrors.ensure(url, tag="v3.0")


@pytest.mark.parametrize("annotated", [True, False])
def test_a_tag_that_moved(tmp_path: Path, server: GitServer, annotated: bool) -> None:
    url, head = served(server)
    repository = server.root / "thing.git"
    kind = ["-am", "said"] if annotated else []
    git(repository, "tag", *kind, "v2.0")
    mirrors = Mirrors(tmp_path / "store")
    mirrors.ensure(url, tag="v2.0")
    # The same commit under a new tag object is no move.
    git(repository, "tag", "-f", "-am", "said again", "v2.0")
    assert mirrors.ensure(url, tag="v2.0").resolve("v2.0") == head
    later = commit(repository, {"more.txt": "later\n"})
    git(repository, "tag", "-f", *kind, "v2.0")
    with pytest.raises(PreflightError, match=rf"v2\.0 moved: it named {head} .* now names {later}"):
        mirrors.ensure(url, tag="v2.0")
    mirror = mirrors.ensure(url, commit=later, tags=True)
    assert mirror.moved == (Moved("v2.0", head, later),)
    assert mirror.resolve("v2.0") == head
    git(repository, "tag", "-d", "v2.0")
    with pytest.raises(PreflightError, match="is gone from the server"):
        mirrors.ensure(url, tag="v2.0")
    # Offline the meaning that it had when it was first seen stays.
    assert Mirrors(tmp_path / "store", offline=True).ensure(url, tag="v2.0").resolve("v2.0") == head
    git(repository, "tag", "v2.0")
    mirror.forget_tag("v2.0")
    assert mirrors.ensure(url, tag="v2.0").resolve("v2.0") == later


def test_a_tag_and_a_commit_that_disagree(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    with pytest.raises(PreflightError, match=r"the tag v1\.0 names commit") as caught:
        Mirrors(tmp_path / "store").ensure(url, commit=head, tag="v1.0")
    assert caught.value.expected == head


def test_a_branch_that_goes_on(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    mirrors = Mirrors(tmp_path / "store")
    assert mirrors.ensure(url, branch="", files=False).branch() == head
    assert mirrors.ensure(url, branch="main", files=False).branch("main") == head
    git(server.root / "thing.git", "commit", "-q", "--amend", "-m", "rewritten")
    now = git(server.root / "thing.git", "rev-parse", "HEAD")
    assert mirrors.ensure(url, branch="", files=False).branch() == now
    assert mirrors.ensure(url, branch="main", files=False).branch("main") == now
    with pytest.raises(PreflightError, match="has no branch gone"):
        mirrors.ensure(url, branch="gone")


def test_a_server_that_is_gone_when_all_is_here(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    assert Mirrors(tmp_path / "store").ensure(url, commit=head, tags=True).stale == ""
    server.down = True
    told: list[str] = []
    mirror = Mirrors(tmp_path / "store", progress=told.append).ensure(url, commit=head, tags=True)
    assert "503" in mirror.stale
    assert told == [f"{url} does not answer; what the mirror has of it counts"]


def test_an_export_with_git_stands_by_itself(tmp_path: Path, server: GitServer) -> None:
    url, _ = served(server)
    repository = server.root / "thing.git"
    git(repository, "tag", "-am", "said", "v1.1")
    git(repository, "checkout", "-q", "-b", "side", "HEAD~1")
    commit(repository, {"side.txt": "side\n"})
    git(repository, "tag", "v9.0")
    git(repository, "checkout", "-q", "main")
    head = commit(repository, {"more.txt": "later\n"})
    mirror = Mirrors(tmp_path / "store").ensure(url, commit=head, tags=True)
    mirror.export(head, tmp_path / "out", keep_git=True)
    server.down = True
    (tmp_path / "store").rename(tmp_path / "moved away")
    out = tmp_path / "out"
    assert git(out, "rev-parse", "HEAD") == head
    assert git(out, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert git(out, "describe", "--tags", "--long", "--dirty", "--match", "*[0-9]*") == f"v1.1-1-g{head[:9]}"
    assert git(out, "status", "--porcelain", "--ignored") == ""
    # A tag beside the history changes no version and isn't there.
    assert git(out, "tag").split() == ["v1.0", "v1.1"]
    assert git(out, "rev-list", "--count", "HEAD") == "3"
    assert git(out, "rev-parse", "--is-shallow-repository") == "false"
    git(out, "fsck", "--strict")
    assert not (out / ".git/objects/info/alternates").exists()
    named = [
        path for path in (out / ".git").rglob("*") if path.is_file() and str(tmp_path).encode() in path.read_bytes()
    ]
    assert named == []


def with_submodules(server: GitServer) -> tuple[str, str]:
    """``thing`` has ``dep``, by a relative address, which has ``deep``, by a whole one."""
    make_repository(server.root / "deep.git")
    make_repository(server.root / "dep.git")
    url, _ = served(server)
    allow = ("-c", "protocol.file.allow=always", "-c", "protocol.http.allow=always")
    dep, thing = server.root / "dep.git", server.root / "thing.git"
    git(dep, *allow, "submodule", "add", "-q", server.address("deep.git"), "nested/deep")
    git(dep, "commit", "-qm", "deep")
    git(thing, *allow, "submodule", "add", "-q", str(dep), "third party/dep")
    git(thing, "config", "-f", ".gitmodules", "submodule.third party/dep.url", "../dep.git")
    git(thing, "add", ".gitmodules")
    git(thing, "commit", "-qm", "dep")
    return url, git(thing, "rev-parse", "HEAD")


@pytest.mark.parametrize("keep_git", [False, True])
def test_submodules_at_their_own_commits(tmp_path: Path, server: GitServer, keep_git: bool) -> None:
    url, head = with_submodules(server)
    commit(server.root / "deep.git", {"more.txt": "later\n"})  # what the tree does not name
    Mirrors(tmp_path / "store").ensure(url, commit=head, submodules=None)
    server.down = True
    mirror = Mirrors(tmp_path / "store", offline=True).ensure(url, commit=head, submodules=None)
    assert [(each.path, each.url) for each in mirror.submodules(head)] == [
        ("third party/dep", server.address("dep.git"))
    ]
    mirror.export(head, tmp_path / "out", submodules=None, keep_git=keep_git)
    deep = tmp_path / "out" / "third party" / "dep" / "nested" / "deep"
    assert (deep / "more.txt").read_text(encoding="utf-8") == "more\n"
    if keep_git:
        assert git(tmp_path / "out", "status", "--porcelain") == ""
        # What build scripts run when they see .git: it finds all at its commit and needs no server.
        git(tmp_path / "out", "submodule", "update", "--init", "--recursive")
        lines = git(tmp_path / "out", "submodule", "status", "--recursive").splitlines()
        assert [line.strip()[:1] in "-+U" for line in lines] == [False, False]


def test_some_submodules_or_none(tmp_path: Path, server: GitServer) -> None:
    url, head = with_submodules(server)
    mirrors = Mirrors(tmp_path / "store")
    mirror = mirrors.ensure(url, commit=head)
    mirror.export(head, tmp_path / "none")
    assert not (tmp_path / "none" / "third party" / "dep" / "more.txt").exists()
    with pytest.raises(UnavailableError, match=r"the submodule third party/dep at .* is not in the store"):
        mirror.export(head, tmp_path / "lacking", submodules=None)
    mirrors.ensure(url, commit=head, submodules=["third party/"])
    mirror.export(head, tmp_path / "some", submodules=["third party/dep"])
    assert (tmp_path / "some" / "third party" / "dep" / "more.txt").is_file()
    with pytest.raises(PreflightError, match="no submodule elsewhere"):
        mirrors.ensure(url, commit=head, submodules=["elsewhere"])


def test_a_submodule_that_cannot_be_had(tmp_path: Path, server: GitServer) -> None:
    url, head = with_submodules(server)
    (server.root / "deep.git").rename(server.root / "gone.git")
    with pytest.raises(UnavailableError, match="the submodule nested/deep cannot be had") as caught:
        Mirrors(tmp_path / "store").ensure(url, commit=head, submodules=None)
    assert caught.value.where == server.address("deep.git")


@pytest.mark.parametrize(
    "address", ["", "/etc", "file:///etc", "-x", "ext::sh -c date", "../../../../x", "http://h/a b", "plain"]
)
def test_a_submodule_with_an_address_that_nobody_should_follow(tmp_path: Path, server: GitServer, address: str) -> None:
    url, _ = with_submodules(server)
    thing = server.root / "thing.git"
    git(thing, "config", "-f", ".gitmodules", "submodule.third party/dep.url", address)
    git(thing, "commit", "-qam", "address")
    head = git(thing, "rev-parse", "HEAD")
    with pytest.raises(PreflightError, match="the submodule third party/dep has") as caught:
        Mirrors(tmp_path / "store").ensure(url, commit=head, submodules=None)
    assert ".gitmodules" in caught.value.where


def test_a_submodule_without_an_entry(tmp_path: Path, server: GitServer) -> None:
    url, _ = with_submodules(server)
    git(server.root / "thing.git", "rm", "-q", "--cached", ".gitmodules")
    git(server.root / "thing.git", "commit", "-qm", "gone")
    head = git(server.root / "thing.git", "rev-parse", "HEAD")
    with pytest.raises(PreflightError, match=r"its \.gitmodules cannot be read"):
        Mirrors(tmp_path / "store").ensure(url, commit=head, submodules=None)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "d/../../../outside", ".git/config"])
def test_a_link_that_leads_out(tmp_path: Path, server: GitServer, target: str) -> None:
    url, _ = served(server)
    repository = server.root / "thing.git"
    (repository / "d").mkdir()
    (repository / "d" / "link").symlink_to(target.replace(".git/", "../.git/"))
    head = commit(repository, {"d/x": "x"})
    mirror = Mirrors(tmp_path / "store").ensure(url, commit=head)
    with pytest.raises(PreflightError, match="a link that leads out of it: d/link"):
        mirror.export(head, tmp_path / "out", keep_git=True)


def test_links_that_stay_inside(tmp_path: Path, server: GitServer) -> None:
    url, _ = served(server)
    repository = server.root / "thing.git"
    (repository / "link").symlink_to("more.txt")
    (repository / "dangling").symlink_to("nowhere")
    head = commit(repository, {"x": "x"})
    Mirrors(tmp_path / "store").ensure(url, commit=head).export(head, tmp_path / "out")
    assert (tmp_path / "out" / "link").read_text(encoding="utf-8") == "more\n"


def test_a_folder_that_is_in_use(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    write_tree(tmp_path / "out", {"mine.txt": "mine"})
    mirror = Mirrors(tmp_path / "store").ensure(url, commit=head)
    with pytest.raises(PreflightError, match="not empty"):
        mirror.export(head, tmp_path / "out")
    assert files_of(tmp_path / "out") == {"mine.txt": "mine"}


def test_a_shallow_server(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    git(tmp_path, "clone", "-q", "--bare", "--depth=1", f"file://{server.root}/thing.git", str(server.root / "cut.git"))
    for asked in ({"commit": head}, {"commit": head, "tags": True}, {"branch": ""}):
        with pytest.raises(PreflightError, match="shallow clone"):
            Mirrors(tmp_path / "store").ensure(server.address("cut.git"), **asked)  # type: ignore[arg-type]
    assert Mirrors(tmp_path / "store").ensure(url, commit=head).has(head)


def test_what_stands_for_an_address(tmp_path: Path, server: GitServer) -> None:
    _, head = served(server, "org/thing.git")
    named = "https://git.example.invalid/org/thing.git"
    replaced = {"https://": "/nowhere/", "https://git.example.invalid/": f"{server.url}/"}
    mirrors = Mirrors(tmp_path / "store", replaced=replaced)
    mirror = mirrors.ensure(named, commit=head, tags=True)
    assert mirror.url == named
    assert mirror.has(head)
    folder = Mirrors(tmp_path / "other", replaced={"https://git.example.invalid/": f"{server.root}/"})
    assert folder.ensure(named, commit=head).has(head)
    # The address counts, not what stands for it: with and without .git it is one, and it answers offline.
    offline = Mirrors(tmp_path / "store", offline=True)
    assert offline.ensure(named.removesuffix(".git"), commit=head).path == mirror.path
    mirror.export(head, tmp_path / "out", keep_git=True)
    assert git(tmp_path / "out", "remote", "get-url", "origin") == named


def test_two_who_fetch_at_once(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    faults: list[Exception] = []

    def fetch() -> None:
        try:
            assert Mirrors(tmp_path / "store").ensure(url, commit=head, tags=True).has(head)
        except (AssayError, AssertionError, OSError) as error:
            faults.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [path.name for path in (tmp_path / "store").iterdir() if path.name.startswith(".")] == []


def test_the_callers_settings_reach_no_tree(tmp_path: Path, server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url, head = served(server)
    (tmp_path / "attributes").write_text("*.txt text eol=crlf\n", encoding="utf-8")
    (tmp_path / "config").write_text(
        f"[core]\n\tautocrlf = true\n\tattributesFile = {tmp_path}/attributes\n\thooksPath = {tmp_path}/hooks\n",
        encoding="utf-8",
    )
    write_tree(tmp_path / "hooks", {"post-checkout": f"#!/bin/sh\ntouch {tmp_path}/ran\n"})
    (tmp_path / "hooks" / "post-checkout").chmod(0o755)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    mirror = Mirrors(tmp_path / "store").ensure(url, commit=head)
    for keep_git in (True, False):
        mirror.export(head, tmp_path / str(keep_git), keep_git=keep_git)
        assert (tmp_path / str(keep_git) / "more.txt").read_bytes() == b"more\n"
    assert not (tmp_path / "ran").exists()


def test_a_damaged_mirror_is_told(tmp_path: Path, server: GitServer) -> None:
    url, head = served(server)
    mirror = Mirrors(tmp_path / "store").ensure(url, commit=head)
    for pack in (mirror.path / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o644)
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 0xFF
        pack.write_bytes(data)
    with pytest.raises(UnavailableError):
        mirror.export(head, tmp_path / "out", keep_git=True)


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="git was not found"):
        Mirrors(tmp_path / "store").ensure("https://example.invalid/x", commit="1" * 40)


def test_a_command_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "git"
    write_tree(tmp_path / "bin", {"git": '#!/bin/sh\n/bin/sleep 60 &\necho $! > "$TOLD"\nwait\n'})
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("TOLD", str(tmp_path / "pid"))
    with pytest.raises(UnavailableError, match="did not end within 1 s"):
        remote("fetch", seconds=1)
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text(encoding="utf-8").split()[2] == "Z"


def test_a_command_that_starts_others_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10; do /bin/sleep 60 & done\nwait\n"
    write_tree(tmp_path / "bin", {"git": script})
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("builders.store.gitrun.MAX_PROCESSES", 8)
    with pytest.raises(UnavailableError, match="fetch started 11 processes") as caught:
        remote("fetch")
    assert "git 2.45" in caught.value.action


def test_a_command_that_says_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    monkeypatch.setattr("builders.store.gitrun.MAX_OUTPUT", 1000)
    with pytest.raises(UnavailableError, match="said more than"):
        local("help", "--all", folder=tmp_path)


@pytest.mark.parametrize(
    ("parent", "address", "whole"),
    [
        ("https://host/a/b.git", "../x.git", "https://host/a/x.git"),
        ("https://host/a/b/", "../../x", "https://host/x"),
        ("https://host/a/b", "../../../x", ""),
        ("https://host/a", "./x", "https://host/a/x"),
        ("me@host:a/b.git", "../x", "me@host:a/x"),
        ("me@host:a/b.git", "../../x", "me@host:x"),
        ("me@host:a/b.git", "../../../x", ""),
        ("/srv/git/a", "../x", "/srv/git/x"),
    ],
)
def test_relative_addresses(parent: str, address: str, whole: str) -> None:
    assert _followed(parent, address) == whole


def test_names_and_addresses() -> None:
    assert [is_url(text) for text in ("https://h/x", "me@h:x", "/x/y@z:1", "x/y", "ssh://h/x")] == [
        *(True, True, False, False, True)
    ]
    assert shown("fatal: https://me:secret@host/x 'http://t@h/'") == "fatal: https://host/x 'http://h/'"
    names = ("v1.0", "release/1.0", "-x", "a..b", "a b", "a.lock", "x^{}", "")
    assert [is_name(name) for name in names] == [True, True, False, False, False, False, False, False]
    assert os.environ.get("GIT_DIR") is None


def test_a_bundle_names_annotated_tags_themselves_and_they_have_not_moved(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "thing", tag="")
    git(tmp_path / "thing", "tag", "-a", "v1.0", "-m", "first", "HEAD~1")
    git(tmp_path / "thing", "bundle", "create", "-q", str(tmp_path / "thing.bundle"), "HEAD", "main", "v1.0")
    mirrors = Mirrors(tmp_path / "store")
    for _ in range(2):
        mirror = mirrors.ensure(str(tmp_path / "thing.bundle"), commit=head, tag="", tags=True)
        assert mirror.moved == ()
        assert mirror.resolve("v1.0") == git(tmp_path / "thing", "rev-parse", "HEAD~1")
    assert mirrors.ensure(str(tmp_path / "thing.bundle"), tag="v1.0").resolve("v1.0") != head
    git(tmp_path / "thing", "tag", "-f", "-a", "v1.0", "-m", "second", head)
    git(tmp_path / "thing", "bundle", "create", "-q", str(tmp_path / "thing.bundle"), "HEAD", "main", "v1.0")
    (moved,) = mirrors.ensure(str(tmp_path / "thing.bundle"), commit=head, tags=True).moved
    assert moved.was == git(tmp_path / "thing", "rev-parse", "HEAD~1")
