"""The example's bundle holds its source tree, and its matrix names the bundle's commit."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from builders.cli import COMMANDS as BUILDERS
from qualify.cli import COMMANDS as QUALIFY
from qualify.matrix import load
from qualify.matrix.model import Code

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "axpy"


def git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_bundle", EXAMPLE / "make_bundle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "clone"
    git("-c", "core.autocrlf=false", "clone", "-q", str(EXAMPLE / "axpy.bundle"), str(folder), cwd=folder.parent)
    return folder


def test_the_bundle_holds_exactly_the_source_tree(maker: ModuleType, clone: Path) -> None:
    held = {
        path.relative_to(clone).as_posix(): path.read_bytes()
        for path in clone.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(clone).parts
    }
    assert held == {name: path.read_bytes() for name, path in maker.source_files().items()}


def test_the_matrix_names_the_commit_of_the_bundle(clone: Path) -> None:
    commit = git("rev-parse", "HEAD", cwd=clone)
    lines = (EXAMPLE / "matrix.yaml").read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in lines if line.startswith("  commit:")] == [f'commit: "{commit}"']


def test_the_history_has_a_release_and_two_commits_after_it(clone: Path) -> None:
    commit = git("rev-parse", "HEAD", cwd=clone)
    assert git("describe", "--tags", "--long", "--abbrev=40", cwd=clone) == f"v0.1.0-2-g{commit}"


def test_the_same_source_gives_the_same_commits(maker: ModuleType, clone: Path, tmp_path: Path) -> None:
    commits = maker.make_history(tmp_path)
    assert commits == git("rev-list", "--reverse", "HEAD", cwd=clone).splitlines()


@pytest.mark.parametrize("name", ["axpy", "torchsort"])
def test_the_examples_have_a_matrix_that_loads(name: str) -> None:
    loaded = load(EXAMPLE.parent / name / "matrix.yaml")
    assert loaded.matrix.project.name == name
    assert {"x86_64-sm90", "aarch64-sm121"} <= set(loaded.matrix.targets)
    codes = {expectation.code for expectation in loaded.matrix.extensions.values()}
    assert codes == {Code.NATIVE, Code.HOST}  # one extension with kernels, one without
    assert loaded.matrix.measured == {}


def test_the_empty_shell_needs_no_compiler() -> None:
    build = load(EXAMPLE / "matrix.yaml").matrix.build
    (shape,) = build.shapes
    assert shape.when == {"AXPY_TARGET_DEVICE": "empty"}
    assert not shape.toolkit
    assert set(shape.tools) < {tool.name for tool in build.tools}


def test_the_walkthrough_shows_the_commit_that_is_pinned() -> None:
    text = (EXAMPLE.parents[1] / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\+g([0-9a-f]{9})", text))
    assert shown == {load(EXAMPLE / "matrix.yaml").matrix.pin.commit[:9]}


def test_the_walkthrough_shows_commands_that_there_are() -> None:
    text = (EXAMPLE.parents[1] / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\$ python -m (builders|qualify) ([a-z]+)", text, flags=re.MULTILINE))
    assert {command for module, command in shown if module == "builders"} <= set(BUILDERS)
    assert {command for module, command in shown if module == "qualify"} <= set(QUALIFY)
    assert {"plan", "build", "measure", "record", "check", "publish"} <= {command for _, command in shown}
