"""``targets``, ``plan`` and ``doctor`` as scripts call them: JSON on stdout alone, and the exit codes."""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from builders.cli import main
from builders.commands import assignments
from qualify.errors import UsageError
from tests.unit.builders_support import NVCC, make_tool, sdist_matrix
from tests.unit.test_toolsearch import interpreter_without_headers


@pytest.fixture
def matrix(tmp_path: Path) -> str:
    (tmp_path / "pin").mkdir()
    return str(sdist_matrix(tmp_path / "pin").path)


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_targets(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "--matrix", matrix, "--json"]) == 0
    found = answer(capsys)
    assert found["version"] == 1
    first = found["targets"][0]
    assert {name: first[name] for name in ("id", "machine", "compute_capability", "python", "engine")} == {
        "id": "x86_64-sm90",
        "machine": "x86_64",
        "compute_capability": "9.0",
        "python": ["3.11", "3.12", "3.13", "3.14"],
        "engine": "auto",
    }
    assert main(["targets", "--matrix", matrix]) == 0
    assert "aarch64-sm121" in capsys.readouterr().out


def test_plan(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "x86_64-sm90", "--matrix", matrix, "--json"]) == 0
    found = answer(capsys)
    assert found["source"]["commit"] == "4ba787ec9"
    assert len(found["holes"]) == 1
    assert main(["plan", "x86_64-sm90", "--matrix", matrix]) == 0
    out = capsys.readouterr().out
    assert "hole       external source thing: https://example.org/thing.git at v1.2: offline" in out
    assert f"plan {found['key'][:16]} for x86_64-sm90" in out


def test_plan_of_the_empty_shape(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "x86_64-sm90", "--matrix", matrix, "--set", "TINY_DEVICE=empty"]) == 0
    out = capsys.readouterr().out
    assert "no holes" in out
    assert "the empty shell for tests" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "sm90"],
        ["plan", "x86_64-sm90", "--set", "x"],
        ["doctor", "sm90"],
        ["doctor", "--how", "fast"],
    ],
)
def test_bad_usage(matrix: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--matrix", matrix]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("error:") == 1
    assert "fetching" not in captured.err


def test_an_sdist_of_another_commit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(sdist_matrix(tmp_path, pinned="5ba787ec9").path)
    assert main(["plan", "x86_64-sm90", "--matrix", path]) == 8
    assert "made from commit 4ba787ec9" in capsys.readouterr().err


def test_assignments() -> None:
    assert assignments(["A=1", "B=x=y", "C=", "A=2"]) == {"A": "2", "B": "x=y", "C": ""}
    for text in ("A", "=1", "1A=x", "A B=c"):
        with pytest.raises(UsageError):
            assignments([text])


def test_four_absences_at_once_are_told_apart_within_seconds(
    matrix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ninja and nvcc off PATH, Python.h nowhere, a build requirement missing."""
    make_tool(tmp_path / "hidden" / "bin", "ninja", "echo 1.12.1")
    make_tool(tmp_path / "cuda" / "bin", "nvcc", NVCC)
    path = tmp_path / "bin"
    make_tool(path, "cmake", "echo cmake version 3.31.0")
    make_tool(path, "c++", "echo 'c++ (GCC) 14.2.0'")
    make_tool(path, "git", "echo git version 2.47.0")
    python = interpreter_without_headers(tmp_path / "python")
    arguments = [
        "doctor",
        "x86_64-sm90",
        "--matrix",
        matrix,
        "--json",
        "--python",
        str(python),
        "--env",
        f"PATH={path}",
    ]
    arguments += ["--look-in", str(tmp_path / "hidden"), "--look-in", str(tmp_path / "cuda"), "--no-network"]
    began = time.monotonic()
    assert main(arguments) == 8
    assert time.monotonic() - began < 10
    captured = capsys.readouterr()
    assert "--requirement-mode isolated lists what it would still lack" in captured.err
    found = json.loads(captured.out)
    assert found["version"] == 1
    items = {item["name"]: item for item in found["items"]}
    assert all({"name", "status", "path", "version", "action"} <= set(item) for item in found["items"])
    assert (items["ninja"]["status"], items["ninja"]["path"]) == ("not on PATH", str(tmp_path / "hidden/bin/ninja"))
    assert (items["nvcc"]["status"], items["nvcc"]["version"]) == ("not on PATH", "13.0.88")
    assert items["setuptools"]["status"] == "unmet"
    assert items["external source thing"]["status"] == "absent"
    assert items["cmake"]["status"] == "found"
    short = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    elsewhere = any((Path(folder) / short / "Python.h").is_file() for folder in ("/usr/include", "/usr/local/include"))
    assert items["Python.h"]["status"] == ("not on PATH" if elsewhere else "absent")


def test_where_all_is_there(matrix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["doctor", "x86_64-sm90", "--matrix", matrix, "--set", "TINY_DEVICE=empty", "--scratch", str(tmp_path)]
    assert main([*arguments, "--requirement-mode", "isolated", "--json"]) == 0
    found = answer(capsys)
    assert {item["status"] for item in found["items"] if item["refuses"]} == set()
    assert main([*arguments, "--requirement-mode", "isolated"]) == 0
    assert capsys.readouterr().out.endswith("all is there\n")


def test_variables_that_replace_compiled_code(
    matrix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_USE_PRECOMPILED", "1")
    arguments = ["doctor", "x86_64-sm90", "--matrix", matrix, "--set", "TINY_DEVICE=empty"]
    assert main([*arguments, "--requirement-mode", "isolated"]) == 8
    assert "TINY_USE_PRECOMPILED: unmet" in capsys.readouterr().out


def test_such_a_variable_is_no_better_by_set(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "doctor",
        "x86_64-sm90",
        "--matrix",
        matrix,
        "--set",
        "TINY_DEVICE=empty",
        "--requirement-mode",
        "isolated",
    ]
    assert main([*arguments, "--set", "TINY_USE_PRECOMPILED=1"]) == 8
    assert "TINY_USE_PRECOMPILED: unmet" in capsys.readouterr().out


def test_a_native_build_for_another_machine_is_told_plainly(matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = "aarch64-sm121" if platform.machine() == "x86_64" else "x86_64-sm90"
    arguments = ["doctor", other, "--matrix", matrix, "--how", "native", "--set", "TINY_DEVICE=empty"]
    assert main([*arguments, "--requirement-mode", "isolated", "--json"]) == 8
    machine = next(item for item in answer(capsys)["items"] if item["name"] == "machine")
    assert machine["status"] == "unmet"
    assert "cannot happen on this" in machine["action"]


def test_without_a_target_the_host_is_looked_at(
    matrix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tool(tmp_path / "hidden", "ninja", "echo 1.12.1")
    assert (
        main(["doctor", "--matrix", matrix, "--json", "--env", f"PATH={tmp_path}", "--look-in", f"{tmp_path}/hidden"])
        == 8
    )
    items = {item["name"]: item["status"] for item in answer(capsys)["items"]}
    assert items["ninja"] == "not on PATH"
    assert {"nvcc", "cmake", "c++", "git", "Python.h", "memory", "disk"} <= set(items)
