"""``python -m builders prune``: what goes, what stays, and what is in use."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from builders import cli
from builders.engines.local import LocalEngine
from builders.engines.local_kept import kept_folders
from tests.support.engines import Heard, request

ROOT = Path(__file__).resolve().parents[2]
MATRIX = ROOT / "examples" / "axpy" / "matrix.yaml"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "wheel-assay"


@pytest.fixture
def left(cache: Path) -> Path:
    """What a stopped build leaves: its folder, an environment and the cache; returns the build folder."""
    with LocalEngine().open(replace(request(key="e" * 32), key="b" * 64), Heard()) as room:
        room.keep()
    return cache / "builds" / ("b" * 16)


def prune(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> dict[str, str]:
    """What it says of each kind of thing."""
    capsys.readouterr()
    assert cli.main(["prune", "--matrix", str(MATRIX), "--engine", "local", "--json", *options]) == code
    return {row["kind"]: row["outcome"] for row in json.loads(capsys.readouterr().out)["rows"]}


def test_by_itself_it_removes_the_folders_of_builds_alone(left: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert left.is_dir()
    assert prune(capsys) == {"work": "removed"}
    assert not left.exists()
    assert (left.parents[1] / "environments").is_dir()


def test_all_is_all(left: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prune(capsys, "--all", "--dry-run") == dict.fromkeys(("work", "environment", "cache"), "would go")
    assert left.is_dir()
    assert prune(capsys, "--all") == dict.fromkeys(("work", "environment", "cache"), "removed")
    assert kept_folders(cache) == ()


def test_older_takes_what_is_old_enough_and_no_cache(
    left: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prune(capsys, "--older", "1") == {}
    later = time.time() + 3 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    assert prune(capsys, "--older", "4") == {}
    assert prune(capsys, "--older", "2") == {"work": "removed", "environment": "removed"}


def test_what_an_open_room_uses_stays(left: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalEngine().open(replace(request(key="e" * 32), key="b" * 64), Heard()):
        assert prune(capsys, "--all") == dict.fromkeys(("work", "environment", "cache"), "in use")
    assert prune(capsys, "--all") == dict.fromkeys(("work", "environment", "cache"), "removed")


def test_a_room_of_a_killed_process_uses_nothing(left: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    child = os.fork()
    if child == 0:
        with LocalEngine().open(replace(request(key="e" * 32), key="b" * 64), Heard()):
            os._exit(9)  # as a kill: nothing is cleaned up
    os.waitpid(child, 0)
    assert len(list((cache / "rooms").iterdir())) == 1
    assert prune(capsys) == {"work": "removed"}
    assert not list((cache / "rooms").iterdir())


def test_an_engine_that_does_not_answer_is_said_and_the_other_is_asked(
    left: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert cli.main(["prune", "--matrix", str(MATRIX)]) == 0
    said = capsys.readouterr()
    assert "not asked: " in said.err
    assert said.out.splitlines()[0].startswith(f"removed: work {left}, 0.00 GB")
    assert said.out.splitlines()[-1] == "1 removed, 0.00 GB"
    assert cli.main(["prune", "--matrix", str(MATRIX), "--engine", "docker"]) == 4


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--all", "--older", "3"], "--all and --older"),
        (["--engine-host", "nobody"], "no engine host nobody"),
        (["--engine", "podman"], "podman"),
        (["--older", "-1"], "no number of days"),
    ],
)
def test_what_means_nothing_is_a_usage_error(
    options: list[str], word: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(["prune", "--matrix", str(MATRIX), *options])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert word in capsys.readouterr().err
