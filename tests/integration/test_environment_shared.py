"""Two builders with a cache folder each, on one engine: they share the volume of an environment, and make it once."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from builders import stations
from builders.engines.docker import DockerEngine
from qualify.errors import UnavailableError
from tests.support.engines import Heard, request, shell
from tests.support.preparing import prepared
from tests.support.silence import way_to

pytestmark = [pytest.mark.docker, pytest.mark.network]

ROOT = Path(__file__).resolve().parents[2]
SOCKET = "/var/run/docker.sock"


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    with contextlib.closing(docker.from_env(timeout=60)) as client:
        yield client


@pytest.fixture
def key(client: docker.DockerClient) -> Iterator[str]:
    """Of an environment that nobody else has; its volume goes afterwards."""
    key = f"shared-{secrets.token_hex(8)}"
    with DockerEngine().open(request(key=key), Heard()) as room:
        volume = room._environment
    yield key
    with contextlib.suppress(docker.errors.NotFound):
        client.volumes.get(volume).remove(force=True)


class Builder:
    """A builder of its own process, with a cache folder of its own."""

    def __init__(self, folder: Path, name: str, key: str, url: str = "") -> None:
        self.log = folder / f"{name}.log"
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / name)}
        command = [sys.executable, "-m", "tests.support.preparing", key, str(self.log), *([url] if url else [])]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def says(self, words: str) -> str:
        """Its log, once the words stand there."""
        ends = time.monotonic() + 120
        while time.monotonic() < ends:
            text = self.log.read_text(encoding="utf-8") if self.log.is_file() else ""
            if words in text:
                return text
            time.sleep(0.1)
        raise AssertionError(f"{self.log.name} never said {words!r}: {text}")

    def answer(self) -> dict[str, Any]:
        printed, complaint = self._process.communicate(timeout=600)
        assert printed, complaint
        answer: dict[str, Any] = json.loads(printed)
        return answer


def test_the_volume_is_made_once_and_the_second_says_for_whom_it_waits(tmp_path: Path, key: str) -> None:
    first = Builder(tmp_path, "first", key)
    first.says("$ ")
    with way_to(SOCKET, tmp_path) as way:  # as an engine that is reached by address
        second = Builder(tmp_path, "second", key, way.url)
        said = second.says("== environment: waiting for the build of process ")
        assert f"with the log {first.log}, since 2" in said
        answers = [first.answer(), second.answer()]
    assert [answer.get("reused") for answer in answers] == [False, True], answers
    assert answers[0]["distributions"]["ninja"] == "1.13.0"
    assert {**answers[1], "reused": False} == answers[0]
    assert " -m pip " in first.log.read_text()
    assert " -m pip " not in second.log.read_text()


def test_a_builder_whose_container_dies_leaves_the_volume_to_the_next(
    tmp_path: Path, key: str, client: docker.DockerClient
) -> None:
    first = Builder(tmp_path, "first", key)
    first.says("$ ")
    second = Builder(tmp_path, "second", key)
    second.says("== environment: waiting for the build of process ")
    preparing = [
        container
        for container in client.containers.list(filters={"status": "running"})
        if any(str(first.log) in text for text in container.attrs["Config"]["Cmd"] or [])
    ]
    assert len(preparing) == 1
    preparing[0].kill()
    assert "ended from outside" in first.answer()["error"]
    answer = second.answer()
    assert answer.get("reused") is False, answer
    assert answer["distributions"]["ninja"] == "1.13.0"


def test_what_lost_a_file_is_made_anew_and_it_is_said(tmp_path: Path, key: str) -> None:
    with DockerEngine().open(request(key=key), Heard()) as room:
        made = prepared(room, key, tmp_path / "log")
        assert prepared(room, key, tmp_path / "log").reused
        lose = shell(f"rm {made.purelib}/ninja/__init__.py", prepares=True)
        assert room.run(lose, print).code == 0
        again = prepared(room, key, tmp_path / "log")
        assert not again.reused
        assert "== environment: not what was installed: " in (tmp_path / "log").read_text()
        assert room.run(shell(f"test -f {made.purelib}/ninja/__init__.py"), print).code == 0


def test_who_waits_too_long_leaves_with_a_name(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stations, "_WAIT_SECONDS", 0.2)
    first = Builder(tmp_path, "first", key)
    first.says("$ ")
    with DockerEngine().open(request(key=key), Heard()) as room, pytest.raises(UnavailableError) as caught:
        prepared(room, key, tmp_path / "log")
    assert caught.value.what.startswith("another build prepares the environment: the build of process ")
    assert str(first.log) in caught.value.what
    assert first.answer()["reused"] is False
