"""``python -m builders build`` as far as its arguments go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders import pipeline
from builders.cli import main
from builders.pipeline import BuildRequest, Built
from tests.unit.builders_support import sdist_matrix


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    return sdist_matrix(tmp_path).path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[BuildRequest]:
    """The pipeline that only notes what it is asked for, and says that it made a wheel."""
    requests: list[BuildRequest] = []

    def build(loaded: object, request: BuildRequest, stderr: object) -> Built:
        requests.append(request)
        wheel = tmp_path / "tiny.whl"
        receipt = tmp_path / "tiny.whl.receipt.json"
        receipt.write_text('{"version": 1}')
        return Built(wheel, receipt, tmp_path / "tiny.whl.log", False)

    monkeypatch.setattr(pipeline, "build", build)
    return requests


def test_what_is_asked_for_reaches_the_pipeline(
    matrix: Path, asked: list[BuildRequest], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--engine", "docker", "--how", "cross", "--arch-list", "12.1a", "--set", "A=b=c", "--set", "EMPTY="]
    more = ["--requirement-mode", "host", "--python", "/py", "--look-in", "/x", "--memory", "1.5", "--rebuild"]
    assert main(["build", "aarch64-sm121", "--matrix", str(matrix), *options, *more]) == 0
    (request,) = asked
    assert request == BuildRequest(
        target="aarch64-sm121",
        out=Path("wheels/aarch64-sm121"),
        engine="docker",
        how="cross",
        arch_list="12.1a",
        overrides={"A": "b=c", "EMPTY": ""},
        mode="host",
        python="/py",
        memory=1_500_000_000,
        look_in=("/x",),
        rebuild=True,
    )
    assert capsys.readouterr().out == f"{tmp_path / 'tiny.whl'}\n"


def test_json_is_the_receipt_with_the_wheels_place(
    matrix: Path, asked: list[BuildRequest], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["build", "x86_64-sm90", "--matrix", str(matrix), "--json", "--out", str(tmp_path / "o")]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document == {"version": 1, "path": str(tmp_path / "tiny.whl"), "built": True}
    assert asked[0].out == tmp_path / "o"


def test_the_sites_folder_of_wheels_is_the_default(matrix: Path, asked: list[BuildRequest]) -> None:
    matrix.with_name("matrix.local.yaml").write_text("version: 1\nfolders: {wheels: made}\nlook_in: [/site]\n")
    assert main(["build", "x86_64-sm90", "--matrix", str(matrix)]) == 0
    assert asked[0].out == matrix.parent / "made" / "x86_64-sm90"
    assert asked[0].look_in == ("/site",)


@pytest.mark.parametrize("setting", ["A", "=b", "1A=b", "A-B=c"])
def test_a_setting_that_sets_nothing_is_a_usage_error(
    matrix: Path, asked: list[BuildRequest], capsys: pytest.CaptureFixture[str], setting: str
) -> None:
    assert main(["build", "x86_64-sm90", "--matrix", str(matrix), "--set", setting]) == 2
    assert setting in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "nope"], "no target nope"),
        (["build", "x86_64-sm90", "--engine", "podman"], "no engine is named 'podman'"),
        (["base"], "no target named"),
        (["base", "nope"], "no target nope"),
    ],
)
def test_what_is_not_there_is_named(
    matrix: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    out = ["--out", str(tmp_path / "out")] if arguments[0] == "build" else []
    assert main([*arguments, "--matrix", str(matrix), *out]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_no_engine_is_exit_4(
    matrix: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    out = ["--matrix", str(matrix), "--out", str(tmp_path / "out"), "--engine", "docker"]
    assert main(["build", "x86_64-sm90", *out]) == 4
    assert main(["base", "--all", "--matrix", str(matrix)]) == 4
    assert capsys.readouterr().err.count("start the Docker engine") == 2


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "1e30", "lots"])
def test_a_limit_that_is_none(
    matrix: Path, asked: list[BuildRequest], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert main(["build", "x86_64-sm90", "--matrix", str(matrix), "--memory", text]) == 2
    assert "--memory" in capsys.readouterr().err
    assert not asked
