"""External sources into the store: exact commits, tags that are locked once, every hole at once; a real git server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builders.cli import main
from builders.externals import External
from builders.externals_lock import read_externals_lock, write_externals_lock
from builders.prefetch import prefetch, refuse_holes
from builders.store.gitmirror import Mirrors
from builders.vendor import Vendoring
from qualify.errors import PreflightError, UnavailableError
from tests.support.fetchcontent import ADDRESS, Trio, make_trio
from tests.support.gitserver import git_server

TARGET = "x86_64-sm90"


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    (tmp_path / "served").mkdir()
    with git_server(tmp_path / "served") as server:
        yield make_trio(tmp_path / "project", server)


def fetch(trio: Trio, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main(["fetch", TARGET, "--matrix", str(trio.matrix), "--json", *arguments])
    out = capsys.readouterr().out
    found: dict[str, object] = json.loads(out)["targets"][TARGET] if out else {}
    return code, found


def holes(found: dict[str, object]) -> dict[str, str]:
    listed = found["holes"]
    assert isinstance(listed, list)
    return {hole["name"]: hole["why"] for hole in listed}


def commits(found: dict[str, object]) -> dict[str, str]:
    listed = found["externals"]
    assert isinstance(listed, list)
    return {each["name"]: each["commit"] for each in listed}


def test_everything_is_fetched_once_and_then_had_without_a_server(
    trio: Trio, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = fetch(trio, capsys)
    assert (code, holes(found)) == (0, {})
    expected = {name: trio.commits[name] for name in ("alpha", "beta", "gamma")}
    assert commits(found) == expected
    lock = trio.matrix.with_name("externals.lock.yaml").read_text()
    assert f"{ADDRESS}beta.git@v2.0: {trio.commits['beta']}" in lock.replace('"', "").replace("'", "")
    trio.server.down = True
    code, found = fetch(trio, capsys, "--offline")
    assert (code, holes(found), commits(found)) == (0, {}, expected)


def test_a_store_with_holes_lists_all_of_them_at_once(trio: Trio, capsys: pytest.CaptureFixture[str]) -> None:
    # The project itself is there; what it fetches while it compiles is not.
    from builders.source import open_source

    open_source(trio.loaded(), trio.matrix.parent / "tree")
    code, found = fetch(trio, capsys, "--offline")
    assert code == 4
    assert set(holes(found)) == {f"external source {name}" for name in ("alpha", "beta", "gamma")}
    listed = found["holes"]
    assert isinstance(listed, list)
    assert all("matrix.local.yaml" in hole["action"] for hole in listed)
    assert not any(hole["refused"] for hole in listed)


def test_a_tag_that_moved_is_refused_by_name_until_it_is_renewed(
    trio: Trio, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(trio, capsys)[0] == 0
    moved = trio.move_tag()
    code, found = fetch(trio, capsys)
    assert code == 8
    why = holes(found)["external source beta"]
    assert "v2.0 moved" in why
    assert trio.commits["beta"] in why
    assert moved in why
    code, found = fetch(trio, capsys, "--renew-lock")
    assert (code, commits(found)["beta"]) == (0, moved)
    assert moved in trio.matrix.with_name("externals.lock.yaml").read_text()


def test_a_commit_that_its_repository_lacks_is_refused(trio: Trio, capsys: pytest.CaptureFixture[str]) -> None:
    lost = trio.server.root / "gamma.git"
    (lost / ".git").rename(lost / "gone")
    from tests.unit.builders_support import git

    git(lost, "init", "-q", "-b", "main")
    (lost / "gamma.h").write_text("other\n")
    git(lost, "add", "gamma.h")
    git(lost, "commit", "-qm", "another history")
    code, found = fetch(trio, capsys)
    assert code == 8
    assert set(holes(found)) == {"external source gamma"}


def test_a_folder_or_another_address_stands_for_a_source(
    trio: Trio, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    local = trio.matrix.with_name("matrix.local.yaml")
    copy = tmp_path / "gamma"
    copy.mkdir()
    (copy / "gamma.h").write_text("#define GAMMA 5\n")
    other = trio.server.address("alpha.git")
    local.write_text(f"{local.read_text()}external_sources: {{gamma: {copy}, alpha: {other}}}\n")
    code, found = fetch(trio, capsys)
    assert (code, holes(found)) == (0, {})
    listed = found["externals"]
    assert isinstance(listed, list)
    assert {each["name"]: each["copy"] for each in listed}["gamma"] == str(copy)
    assert commits(found)["alpha"] == trio.commits["alpha"]


def test_the_plan_s_key_knows_the_locked_commit(trio: Trio, capsys: pytest.CaptureFixture[str]) -> None:
    from builders.planning import make_plan

    before = make_plan(trio.loaded(), TARGET).key()
    fetch(trio, capsys)
    after = make_plan(trio.loaded(), TARGET)
    assert after.key() != before
    assert {each.name: each.commit for each in after.externals}["beta"] == trio.commits["beta"]


def test_what_is_no_lock_is_refused(trio: Trio, capsys: pytest.CaptureFixture[str]) -> None:
    trio.matrix.with_name("externals.lock.yaml").write_text("version: 1\ntags: {x: y}\n")
    assert main(["fetch", TARGET, "--matrix", str(trio.matrix)]) == 2
    assert "no lock of external sources: x is not right" in capsys.readouterr().err


def test_a_source_of_a_single_file_is_exported_from_a_partial_mirror(
    trio: Trio, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from builders.store.gitmirror import mirrors_of

    assert fetch(trio, capsys)[0] == 0
    trio.server.down = True
    mirror = mirrors_of(trio.loaded(), offline=True).find(f"{ADDRESS}alpha.git")
    assert mirror is not None
    mirror.export(trio.commits["alpha"], tmp_path / "out", submodules=("deep",))
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.h")}
    assert files == {"alpha.h", "deep/deep.h"}


def external(name: str, repository: str, tag: str, **changes: str) -> External:
    made = External(name, repository, tag, (), f"{name.upper()}_DIR", "CMakeLists.txt:1", "", True)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_all_that_is_wrong_is_told_at_once(trio: Trio, tmp_path: Path) -> None:
    """What pins nothing, what nothing can stand for, what isn't git, a copy with a fault; and the network."""
    (tmp_path / "copy").mkdir()
    alpha = f"{ADDRESS}alpha.git"
    wanted = [
        external("short", alpha, trio.commits["alpha"][:9]),
        external("branch", alpha, "main"),
        external("gone", f"{ADDRESS}gone.git", "a" * 40),
        external("archive", "https://host.example.org/a.tar.gz", ""),
        external("other", alpha, trio.commits["alpha"], kind="ExternalProject", variable=""),
        external("copied", alpha, trio.commits["alpha"], copy=str(tmp_path / "copy"), fault="an empty folder"),
        external("away", "http://127.0.0.1:9/away.git", "b" * 40),
        external("good", alpha, trio.commits["alpha"]),
        replace(external("unneeded", "http://127.0.0.1:9/x.git", "c" * 40), needed=False),
    ]
    mirrors = Mirrors(tmp_path / "git", replaced={ADDRESS: f"{trio.server.url}/"})
    found = prefetch(
        wanted, (), mirrors=mirrors, vendoring=Vendoring(tmp_path / "c"), tree=tmp_path, progress=lambda said: None
    )
    told = {hole.name.removeprefix("external source "): hole for hole in found.holes}
    assert list(told) == ["short", "branch", "gone", "archive", "other", "copied", "away"]
    for name in ("short", "branch"):
        assert "neither a tag nor a whole commit" in told[name].why
        assert "all 40 digits" in told[name].action
    assert "an archive" in told["archive"].why
    assert "ExternalProject_Add at CMakeLists.txt:1 reads no variable" in told["other"].why
    assert told["copied"].why == "an empty folder"
    assert {name for name, hole in told.items() if hole.refused} == {"short", "branch", "archive", "other", "copied"}
    assert {each.name: each.commit for each in found.externals}["good"] == trio.commits["alpha"]
    with pytest.raises(PreflightError, match="7 sources are not in the store") as caught:
        refuse_holes(found.holes, "x86_64-sm90")
    assert all(f"external source {name}: " in caught.value.what for name in told)
    with pytest.raises(UnavailableError, match="1 source is not in the store"):
        refuse_holes([told["away"]], "x86_64-sm90")
    refuse_holes((), "x86_64-sm90")


def test_the_lock_s_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "externals.lock.yaml"
    path.write_text(f'# ours\nversion: 1\ntags:\n  "u@v1": "{"1" * 40}"  # asked its owner\n')
    write_externals_lock(tmp_path, {"w@v2": "2" * 40})
    assert "# ours" in path.read_text()
    assert "# asked its owner" in path.read_text()
    assert read_externals_lock(tmp_path) == {"u@v1": "1" * 40, "w@v2": "2" * 40}


def test_people_read_what_is_had_and_what_lacks(trio: Trio, capsys: pytest.CaptureFixture[str]) -> None:
    (trio.server.root / "gamma.git").rename(trio.server.root / "elsewhere")
    assert main(["fetch", TARGET, "--matrix", str(trio.matrix)]) == 4
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == [
        TARGET,
        "  have  alpha",
        "  have  beta",
        "  hole  external source gamma",
    ]
    assert main(["fetch", "--matrix", str(trio.matrix)]) == 2
    assert main(["fetch", "--all", "--offline", "--renew-lock", "--matrix", str(trio.matrix)]) == 2


def test_two_targets_ask_their_servers_once(trio: Trio, capsys: pytest.CaptureFixture[str]) -> None:
    text = trio.matrix.read_text()
    twin = text[text.index("  x86_64-sm90:") :].replace("x86_64-sm90", "x86_64-sm100").replace('"9.0"', '"10.0"')
    trio.matrix.write_text(text + twin)
    assert main(["fetch", "x86_64-sm90", "--matrix", str(trio.matrix)]) == 0
    trio.server.requests.clear()
    assert main(["fetch", "x86_64-sm90", "--matrix", str(trio.matrix)]) == 0
    one = len(trio.server.requests)
    trio.server.requests.clear()
    capsys.readouterr()
    assert main(["fetch", "--all", "--json", "--matrix", str(trio.matrix)]) == 0
    assert len(trio.server.requests) == one
    found = json.loads(capsys.readouterr().out)["targets"]
    assert found["x86_64-sm90"]["externals"] == found["x86_64-sm100"]["externals"]
