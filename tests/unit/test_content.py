"""Python files of a wheel against a source tree: each way to differ, and what is no difference."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from qualify.cli import main
from qualify.content import Content, compare_with_tree
from qualify.errors import UnavailableError, UsageError
from qualify.opening import read_wheel
from tests.support.wheel import make_wheel, wheel_filename
from tests.unit.test_matrix_refusals import GOOD

FILES = {"axpy/one.py": b"one = 1\n", "axpy/sub/two.pyi": b"two: int\n", "axpy/data.txt": b"data\n"}
MODULE = "version_module: axpy/_version.py"
PINNED = GOOD.replace(MODULE, f"{MODULE}, generated: {{axpy/_version.py: written by setuptools-scm}}")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel, the tree of its Python files but for the version module, and a matrix that lists that one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / wheel_filename()).write_bytes(make_wheel(files=FILES))
    for path, content in {**FILES, "axpy/__init__.py": init(tmp_path)}.items():
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_bytes(content)
    assert PINNED != GOOD
    (tmp_path / "matrix.yaml").write_text(PINNED)
    return tmp_path


def init(folder: Path) -> bytes:
    with zipfile.ZipFile(folder / wheel_filename()) as archive:
        return archive.read("axpy/__init__.py")


LISTED = {"axpy/_version.py": "written by setuptools-scm"}


def compared(place: Path, tree: str = "tree", listed: Mapping[str, str] = LISTED) -> Content:
    return compare_with_tree(read_wheel(place / wheel_filename()), place / tree, listed)


def test_a_wheel_of_the_tree(place: Path) -> None:
    found = compared(place)
    assert (found.same, found.equal, found.generated) == (True, 3, ("axpy/_version.py",))
    assert found.summary == "3 Python files are the tree's, 1 are listed as generated"


def test_a_tree_with_its_packages_below_src(place: Path) -> None:
    (place / "other").mkdir()
    (place / "tree").rename(place / "other" / "src")
    assert compared(place, "other").same is True


def test_every_way_to_differ_is_named(place: Path) -> None:
    tree = place / "tree" / "axpy"
    (tree / "one.py").write_text("one = 2\n")
    (tree / "sub" / "two.pyi").unlink()
    (tree / "more.py").write_text("")
    found = compared(place, listed={})
    assert found.same is False
    assert found.changed == ("axpy/one.py",)
    assert found.unknown == ("axpy/_version.py", "axpy/sub/two.pyi")
    assert found.left_out == ("axpy/more.py",)
    assert found.summary == "1 Python files are the tree's; 1 changed, 2 not in the tree, 1 left out"


def test_data_and_other_folders_are_no_part_of_it(place: Path) -> None:
    (place / "tree" / "axpy" / "data.txt").write_text("other\n")
    (place / "tree" / "tests").mkdir()
    (place / "tree" / "tests" / "test_one.py").write_text("")
    assert compared(place).same is True


def test_a_listed_file_may_lie_in_the_tree_with_other_bytes(place: Path) -> None:
    (place / "tree" / "axpy" / "_version.py").write_text("version = 'another'\n")
    found = compared(place)
    assert (found.same, found.generated) == (True, ("axpy/_version.py",))


def test_a_pattern_that_fits_nothing_is_said(place: Path) -> None:
    listed = {**LISTED, "axpy/none/*": "there was something once"}
    assert compared(place, listed=listed).unused == ("axpy/none/*",)


def test_a_tree_of_something_else_and_none_at_all(place: Path) -> None:
    (place / "empty").mkdir()
    with pytest.raises(UsageError, match=r"it holds nothing of axpy.*\(axpy\)"):
        compared(place, "empty")
    with pytest.raises(UsageError, match="no such folder"):
        compared(place, "nowhere")


def test_a_file_of_the_tree_that_cannot_be_read(place: Path) -> None:
    (place / "tree" / "axpy" / "three.py").symlink_to("nowhere")
    with pytest.raises(UnavailableError, match="is no file"):
        compared(place)


def identity(*options: str) -> int:
    return main(["identity", wheel_filename(), "--against", "matrix.yaml", "--against-source", "tree", *options])


def test_the_command_grades_by_content(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert identity("--at-least", "content", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["a"]["grade"], answer["content"]["same"], answer["content"]["equal"]) == ("content", True, 3)
    assert main(["identity", wheel_filename(), "--against", "matrix.yaml", "--at-least", "content"]) == 3


def test_the_command_refuses_other_content_and_names_the_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(12):
        (place / "tree" / "axpy" / f"m{number:02}.py").write_text("")
    (place / "tree" / "axpy" / "one.py").write_text("one = 2\n")
    assert identity() == 1
    out = capsys.readouterr().out
    assert "  changed: axpy/one.py\n" in out
    assert "  left out: axpy/m09.py\n  left out: 2 more\n" in out
    assert "refused: its content differs from tree: 2 Python files" in out
    assert identity("--generated", "axpy/m*", "--generated", "axpy/one.py") == 0


def test_what_holds_no_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identity", "0.1.0", "--against", "0.1.0", "--against-source", "tree"]) == 2
    assert "expected: a wheel as A" in capsys.readouterr().err


def test_a_member_that_could_not_be_read_decides_nothing(place: Path) -> None:
    facts = read_wheel(place / wheel_filename())
    members = tuple(replace(m, sha256="") if m.path == "axpy/one.py" else m for m in facts.members)
    found = compare_with_tree(replace(facts, members=members), place / "tree", LISTED)
    assert (found.same, found.unread) == (None, ("axpy/one.py",))
