"""The contract of engines on this host, and how one is chosen."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from builders import engines
from builders.engines import Engine, choose_engine, engine_named
from builders.engines.local import LocalEngine
from qualify.errors import UnavailableError, UsageError
from tests.support.engines import EngineContract, Heard, ScriptedEngine, request, shell


class TestLocalEngine(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return LocalEngine(tmp_path / "engine")

    def test_a_cross_build_is_refused(self, engine: Engine) -> None:
        from dataclasses import replace

        with (
            pytest.raises(UnavailableError, match="this host's machine"),
            engine.open(replace(request(), role="cross"), Heard()),
        ):
            raise AssertionError("a room for a cross build was opened")

    def test_children_that_stay_behind_are_ended(self, engine: Engine, tmp_path: Path) -> None:
        mark = f"sleep 3{abs(hash(str(tmp_path))) % 10**8}"
        with engine.open(request(), Heard()) as room:
            outcome = room.run(shell(f"{mark} >/dev/null 2>&1 & exit 0"), print)
        assert outcome.code == 0
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert mark not in running

    def test_a_command_that_is_not_there_is_named(self, engine: Engine) -> None:
        from builders.engines import Step

        with engine.open(request(), Heard()) as room, pytest.raises(UnavailableError, match="no-such-command"):
            room.run(Step("x", ("no-such-command",)), print)


class TestScriptedEngine(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return ScriptedEngine(tmp_path / "engine", machine=platform.machine())


def test_an_unknown_engine_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        engine_named("podman")
    assert "auto, docker, local" in caught.value.expected


def test_auto_takes_this_host_where_docker_does_not_answer_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    said: list[str] = []
    assert choose_engine("auto", platform.machine(), said.append).name == "local"
    assert len(said) == 1
    assert "local" in said[0]
    assert "Docker does not answer" in said[0]


def test_auto_never_takes_this_host_for_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(UnavailableError) as caught:
        choose_engine("auto", "riscv64", print)
    assert "riscv64" in caught.value.expected
    assert "dockerd" in caught.value.action


def test_docker_by_name_that_does_not_answer_is_exit_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(UnavailableError) as caught:
        choose_engine("docker", "x86_64", print)
    assert caught.value.exit_code == 4
    assert "--engine local" in caught.value.action


def test_every_engine_of_the_dictionary_can_be_made() -> None:
    assert [engine_named(name).name for name in engines.ENGINES] == list(engines.ENGINES)
