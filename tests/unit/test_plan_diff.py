"""Two plans side by side, from files, receipts and targets; what the command prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli import main
from builders.commands.plan import difference_lines
from builders.plan_diff import Change, changes, read_plan
from qualify.errors import UsageError
from qualify.matrix import LoadedMatrix
from tests.unit.builders_support import sdist_matrix

TARGET = "x86_64-sm90"


@pytest.fixture
def matrix(tmp_path: Path) -> LoadedMatrix:
    return sdist_matrix(tmp_path)


def plan(matrix: LoadedMatrix, *arguments: str) -> int:
    return main(["plan", TARGET, "--matrix", str(matrix.path), *arguments])


@pytest.fixture
def kept(matrix: LoadedMatrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A plan in a file."""
    assert plan(matrix, "--json") == 0
    path = tmp_path / "kept.json"
    path.write_text(capsys.readouterr().out)
    return path


def test_nothing_differs_from_what_was_kept(
    matrix: LoadedMatrix, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(matrix, "--diff", str(kept), "--exit-code") == 0
    assert capsys.readouterr().out == f"the same build: key {json.loads(kept.read_text())['key'][:16]}\n"


def test_what_decides_bytes_is_another_build(
    matrix: LoadedMatrix, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(matrix, "--diff", str(kept), "--set", "CXXFLAGS=-O1", "--arch-list", "9.0a") == 0
    said = capsys.readouterr().out
    assert "arch_list: 9.0 -> 9.0a\n" in said
    assert "environment.CXXFLAGS: (nothing) -> -O1\n" in said
    assert said.splitlines()[-1].startswith(f"another build: key {json.loads(kept.read_text())['key'][:16]} -> ")
    assert plan(matrix, "--diff", str(kept), "--set", "CXXFLAGS=-O1", "--exit-code") == 1


def test_what_decides_none_stands_in_parentheses(
    matrix: LoadedMatrix, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = json.loads(kept.read_text())["jobs"]
    assert plan(matrix, "--diff", str(kept), "--set", f"MAX_JOBS={jobs + 1}", "--exit-code") == 0
    assert f"(jobs: {jobs} -> {jobs + 1})\nthe same build" in capsys.readouterr().out


def test_a_receipt_is_a_plan_on_the_engine_that_built_it(
    matrix: LoadedMatrix, kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(matrix, "--engine", "docker", "--json") == 0
    receipt = tmp_path / "tiny.whl.receipt.json"
    receipt.write_text(json.dumps({"version": 1, "plan": json.loads(capsys.readouterr().out)}))
    assert plan(matrix, "--diff", str(receipt), "--exit-code") == 0
    assert plan(matrix, "--diff", str(receipt), "--engine", "local", "--exit-code") == 1
    assert "engine: docker -> local" in capsys.readouterr().out


def test_two_targets(matrix: LoadedMatrix, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(matrix, "--diff", "aarch64-sm121", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["same"] is False
    assert {"field": "machine", "was": "aarch64", "now": "x86_64", "in_key": True} in said["changes"]
    assert not [change for change in said["changes"] if change["field"].startswith("externals")]


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"key": 1, "target": "t", "engine": "e"}', '{"plan": 3}', "{"])
def test_what_is_no_plan_is_named(
    matrix: LoadedMatrix, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a plan"):
        read_plan(path)
    assert plan(matrix, "--diff", str(path), "--exit-code") == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert "plan --json" in said
    assert plan(matrix, "--diff", str(tmp_path / "gone.json")) == 2


def test_empty_and_absent_and_order_are_told_apart() -> None:
    was = {"a": "", "list": ["x"], "things": [{"name": "one", "v": 1}, {"name": "two", "v": 1}]}
    now = {"b": "", "list": [], "things": [{"name": "two", "v": 1}, {"name": "one", "v": 2}]}
    found = changes(was, now, frozenset({"list"}))
    assert found == (
        Change("b", None, "", True),
        Change("things.one.v", "1", "2", True),
        Change("things (order)", "one, two", "two, one", True),
        Change("a", "", None, True),
        Change("list", "x", None, False),
    )
    assert difference_lines(found, "k" * 64, "l" * 64) == [
        "b: (nothing) -> (empty)",
        "things.one.v: 1 -> 2",
        "things (order): one, two -> two, one",
        "a: (empty) -> (nothing)",
        "(list: x -> (nothing))",
        f"another build: key {'k' * 16} -> {'l' * 16}",
    ]


def test_of_a_thing_that_came_the_order_is_not_told() -> None:
    was = {"things": [{"name": "one"}]}
    now = {"things": [{"name": "one"}, {"name": "one", "v": 2}]}
    assert [change.field for change in changes(was, now, frozenset())] == ["things.one (1)", "things.one (1).v"]
