"""Where lines end: at line feeds alone, but where a file's own reader says otherwise; nothing splits another way."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import pytest

from builders import toolsearch_collector
from builders.cargo import _failed
from builders.engines import archives
from builders.engines.local_kept import _used, using
from builders.environment import Prepared
from builders.store.gitrefs import seen_tags
from builders.store.gitrun import Answer
from qualify.checks.entrypoints import EntryPoint, read_entry_points
from qualify.lines import first_line, last_line, lines_of, lines_of_python
from qualify.readers.binary import Problems
from qualify.readers.distinfo import read_dist_info, read_path_file

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for package in ("builders", "qualify") for path in (ROOT / package).rglob("*.py"))
# What str.splitlines takes for the end of a line beside "\n", "\r" and "\r\n".
ODD = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_of_ours_splits_lines_as_python_does(path: Path) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr == "splitlines")
        or (isinstance(node, ast.Constant) and node.value == "splitlines")
    ]
    assert not found, "split at line feeds: qualify.lines.lines_of, or lines_of_python where the file's reader does so"


def test_the_programs_that_travel_as_text_do_not_either() -> None:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert ".splitlines(" not in node.value, f"{path.relative_to(ROOT)}:{node.lineno}"


@pytest.mark.parametrize("odd", ODD)
def test_a_line_ends_at_a_line_feed_alone(odd: str) -> None:
    assert lines_of(f"a{odd}b\nc\r\n\nd") == [f"a{odd}b", "c\r", "", "d"]
    assert (first_line(f"\n\na{odd}b\nc\n"), last_line(f"\na\nb{odd}c\n\n")) == (f"a{odd}b", f"b{odd}c")


@pytest.mark.parametrize(
    "text", ["", "\n", "a", "a\n", "a\n\n", "\r\n", "a\r", "a\rb\r\nc\n\rd", *(f"a{c}b{c}" for c in ODD)]
)
def test_python_s_own_lines(text: str) -> None:
    assert lines_of_python(text) == text.splitlines()
    if not set(text) & {"\r", *ODD}:
        assert lines_of(text) == text.splitlines()
    assert (first_line(""), last_line(" \n")) == ("", "")


@pytest.mark.parametrize("odd", ODD)
class TestReaders:
    """One reader each, with a character inside a line that ``str.splitlines`` would end the line at."""

    def test_of_metadata(self, odd: str) -> None:
        text = (
            f"Metadata-Version: 2.1\nName: a\nVersion: 1\nSummary: one{odd}Requires-Dist: torch\nRequires-Dist: b\n\n"
        )
        path = "a-1.dist-info/METADATA"
        info = read_dist_info("a-1.dist-info", [path], {path: text.encode()}, Problems("a.whl"))
        assert info.requires_dist == ("b",)
        assert f"one{odd}Requires-Dist: torch" in info.metadata

    def test_of_an_environment_s_answer(self, odd: str) -> None:
        answer = {"python": f"/p{odd}q", "python_version": "3", "purelib": "", "cuda_home": "", "distributions": {}}
        text = json.dumps({**answer, "provided_libraries": [], "reused": False}, ensure_ascii=False)
        if ord(odd) >= 0x20:  # JSON has the others escaped
            assert Prepared.of(f"$ pip\n{text}\n").python == f"/p{odd}q"

    def test_of_the_collector_s_answer(self, odd: str) -> None:
        text = json.dumps({"version": 0, "said": f"a{odd}b"}, ensure_ascii=False)
        answer = {"status": 0, "output": f"noise{odd}noise\n{text}\n"}
        assert toolsearch_collector.last_json(answer)["said"] == f"a{odd}b" or ord(odd) < 0x20

    def test_of_git(self, odd: str) -> None:
        forged = f"{'1' * 40}\trefs/tags/a{odd}{'2' * 40}\trefs/tags/v1.0\n"
        assert len(Answer(0, forged.encode(), "").lines()) == 1
        assert Answer(128, b"", f"fatal: no{odd}such\n").reason() == f"fatal: no{odd}such"

    def test_of_cargo(self, odd: str) -> None:
        said = f"error: failed to get `a{odd}b`\n\nCaused by:\n  no{odd}such thing\n"
        assert f"no{odd}such thing" in _failed(said, "vendoring", "Cargo.lock").what

    def test_of_folders_in_use(self, odd: str, tmp_path: Path) -> None:
        folder = tmp_path / f"a{odd}b"
        with using(tmp_path, [folder]):
            assert str(folder) in _used(tmp_path)

    def test_of_a_step_s_output(self, odd: str) -> None:
        assert list(archives.lines([f"a{odd}".encode(), b"b\nc\n"])) == [f"a{odd}b", "c"]

    def test_of_path_files_which_two_pythons_read_in_two_ways(self, odd: str) -> None:
        assert read_path_file("a.pth", f"# a comment{odd}import os\n".encode()) == ("a.pth: import os",)
        assert f"a.pth: import os{odd}#" in read_path_file("a.pth", f"import os{odd}#\n".encode())

    def test_of_entry_points_which_two_readers_read_in_two_ways(self, odd: str) -> None:
        entries, faults = read_entry_points(f"[console_scripts]\na = m:f{odd}b = n:g\n")
        assert entries == (EntryPoint("console_scripts", "a", "m", "f"), EntryPoint("console_scripts", "b", "n", "g"))
        assert [(fault.line, fault.why) for fault in faults] == [(2, "`importlib.metadata` ends a line within it")]


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2003"])
def test_a_tag_s_name_makes_no_other_tag_of_it(tmp_path: Path, odd: str) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main", ".")
    git("commit", "-q", "--allow-empty", "-m", "first")
    head = git("rev-parse", "HEAD")
    forged = f"v1.0{odd}{'2' * 40}"
    git("tag", forged)
    git("tag", f"a{odd}refs/tags/v2.0")
    assert seen_tags(tmp_path) == {forged: head, f"a{odd}refs/tags/v2.0": head}
