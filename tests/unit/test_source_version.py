"""The version of the clean tree: asked of real releases of setuptools-scm, and held against a wheel's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.source import open_source
from builders.source_version import static_version, version_agrees, version_command
from qualify.errors import PreflightError
from tests.unit.builders_support import FILES, PYPROJECT, git, make_repository, write_matrix, write_tree

DYNAMIC = (
    PYPROJECT.replace('version = "1.0"', 'dynamic = ["version"]') + "[tool.setuptools_scm]\nversion_file = 'v.py'\n"
)
TAGGED = {**FILES, "pyproject.toml": DYNAMIC}


@pytest.fixture(scope="module", params=["==8.0.4", "==9.2.2", ">=10"])
def scm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one release of setuptools-scm and what it needs."""
    folder = tmp_path_factory.mktemp("scm")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), f"setuptools-scm{request.param}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no setuptools-scm{request.param} to be had: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def ask(tree: Path, scm: Path, **environment: str) -> dict[str, Any]:
    command = version_command(tree, sys.executable)
    assert command is not None
    given = {**os.environ, "PYTHONPATH": str(scm), **environment}
    done = subprocess.run(command, cwd=tree, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_clean_export_is_asked_and_stays_clean(tmp_path: Path, scm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    head = make_repository(tmp_path / "repository", TAGGED)
    source = open_source(write_matrix(tmp_path, "{git: repository}", head), tmp_path / "work")
    (tmp_path / "cache").rename(tmp_path / "gone")
    (tmp_path / "repository").rename(tmp_path / "gone too")
    answer = ask(source.tree, scm)
    assert (answer["distance"], answer["dirty"]) == (1, False)
    assert answer["version"].startswith("1.1.dev1+g")
    assert head.startswith(answer["node"].removeprefix("g"))
    assert not (source.tree / "v.py").exists()
    assert git(source.tree, "status", "--porcelain") == ""


def test_a_patched_tree_says_the_same(tmp_path: Path, scm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    head = make_repository(tmp_path / "repository", TAGGED)
    source = open_source(write_matrix(tmp_path, "{git: repository}", head), tmp_path / "work")
    clean = ask(source.tree, scm)["version"]
    (source.tree / "more.txt").write_text("patched\n", encoding="utf-8")
    dirty = ask(source.tree, scm)["version"]
    assert "dirty tree" in version_agrees(clean, dirty)
    pretended = f'{{node="g{head}", dirty=false}}'
    patched = ask(source.tree, scm, SETUPTOOLS_SCM_PRETEND_METADATA=pretended)["version"]
    # Releases before 9 know nothing of it, and what they say is then found out.
    assert version_agrees(clean, patched) == "" or (dirty == patched and scm_release(scm) == "8")


def scm_release(scm: Path) -> str:
    return next(scm.glob("setuptools_scm-*.dist-info")).name.split("-")[1].split(".")[0]


def test_an_sdist_says_what_its_metadata_says(tmp_path: Path, scm: Path) -> None:
    tree = write_tree(tmp_path / "tiny-1.0", TAGGED)
    pretended = '{node="g4ba787ec9", dirty=false}'
    answer = ask(tree, scm, SETUPTOOLS_SCM_PRETEND_METADATA=pretended)
    assert (answer["version"], answer["dirty"]) == ("1.0", False)
    assert answer["node"] == (None if scm_release(scm) == "8" else "g4ba787ec9")


def test_a_tree_that_asks_no_setuptools_scm(tmp_path: Path) -> None:
    write_tree(tmp_path)
    assert version_command(tmp_path) is None
    assert static_version(tmp_path) == "1.0"
    write_tree(tmp_path, {"pyproject.toml": "[build-system]\nrequires = ['setuptools-scm[simple]>=9.2']\n"})
    assert version_command(tmp_path) is not None
    assert static_version(tmp_path) == ""
    write_tree(tmp_path, {"pyproject.toml": "["})
    with pytest.raises(PreflightError):
        version_command(tmp_path)


@pytest.mark.parametrize(
    ("computed", "wheel", "fault"),
    [
        ("0.33.0", "0.33.0", ""),
        ("0.33.0", "0.33.0+cu130", ""),
        ("0.33.0", "0.33.0+cu130.sm121", ""),
        ("0.33.0", "0.33.0+g4ba787ec9", ""),
        ("0.33.1.dev5+g4ba787ec9", "0.33.1.dev5+g4ba787ec9.cu130", ""),
        ("0.33.1.dev5+g4ba787ec9", "0.33.1.dev5+g4ba787ec9aaaaaaa", ""),
        ("0.33.1.dev5+g4ba787ec9", "0.33.1.dev5+cu130.g4ba787e", ""),
        ("1.0+g4ba787ec9.d20260101", "1.0+g4ba787ec9.d20260101", ""),
        ("0.33.0", "0.33.1", "the wheel says 0.33.1, the clean tree 0.33.0"),
        ("0.33.1.dev5+g4ba787ec9", "0.33.1.dev6+g4ba787ec9", "the wheel says 0.33.1.dev6"),
        ("0.33.1.dev5+g4ba787ec9", "0.33.1.dev5+g5ba787ec9", "names commit 5ba787ec9, the clean tree 4ba787ec9"),
        ("0.33.1.dev5+g4ba787ec9", "0.33.1.dev5+cu130", "has lost the commit 4ba787ec9"),
        ("0.33.1.dev5+g4ba787ec9", "0.33.1.dev5+g4ba787ec9.d20260101", "whose d20260101 marks a dirty tree"),
        ("0.33.0", "0.33.0+d20260101", "marks a dirty tree"),
        ("0.33.0", "dev", "no version"),
        ("", "1.0", "no version"),
    ],
)
def test_whether_a_wheel_says_what_the_clean_tree_says(computed: str, wheel: str, fault: str) -> None:
    found = version_agrees(computed, wheel)
    assert fault in found
    assert bool(found) is bool(fault)
