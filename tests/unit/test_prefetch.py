"""External sources into the store: exact commits, tags that are locked once, every hole at once; a real git server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.cli import main
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
