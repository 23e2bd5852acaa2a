"""The doctor inside a real container of the example's image, before and after a build made its environment."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import docker
import pytest

from builders.cli import main

pytestmark = [pytest.mark.docker, pytest.mark.network]

MATRIX = Path(__file__).resolve().parents[2] / "examples" / "axpy" / "matrix.yaml"
TARGET = "x86_64-sm90" if platform.machine() == "x86_64" else "aarch64-sm121"


def doctor(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", TARGET, "--matrix", str(MATRIX), "--how", "native", "--in-container", "--json", *options])
    return code, {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}


def left_behind() -> set[str]:
    """Build ids of the containers that a look has left."""
    label = "wheel-assay.build"
    client = docker.from_env(timeout=60)
    try:
        there = client.containers.list(all=True, filters={"label": label})
        return {container.labels[label] for container in there if container.labels[label].startswith("doctor-")}
    finally:
        client.close()


def test_what_the_container_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, items = doctor(capsys, "--make-image")
    assert items["container"]["status"] == "found"
    assert items["engine"]["version"].startswith("docker ")
    assert "API " in items["engine"]["version"]
    assert items["python"]["path"].startswith(("/usr/", "/opt/", "/env/")), "the container's, not this host's"
    assert items["c++"]["status"] == "found"
    assert items["c++"]["path"].startswith("/")
    assert items["Python.h"]["status"] == "found"
    if items["isolated environment"]["status"] == "not looked at":
        assert items["nvcc"]["status"] == "not looked at"
        assert main(["build", TARGET, "--matrix", str(MATRIX), "--how", "native", "--out", str(tmp_path)]) == 0
        capsys.readouterr()
        code, items = doctor(capsys)
    assert code == 0
    assert items["isolated environment"]["status"] == "found"
    assert items["nvcc"]["path"].startswith("/env/cuda/")
    assert items["CUDA_HOME"]["path"] == "/env/cuda"
    assert items["requirements of the build backend"]["status"] == "found"
    assert (items["auditwheel"]["status"], items["patchelf"]["status"]) == ("found", "found")
    assert left_behind() == set()


def test_variables_and_folders_are_those_of_the_container(capsys: pytest.CaptureFixture[str]) -> None:
    code, items = doctor(capsys, "--make-image", "--static", "--env", "CXX=/nobody/g++")
    assert code == 8
    assert items["c++"]["status"] == "absent"
    assert "CXX names /nobody/g++, which is not there" in items["c++"]["action"]


def test_an_engine_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    code, items = doctor(capsys, "--static")
    assert code == 8
    assert items["engine"]["refuses"] is True
    assert items["container"]["status"] == "not looked at"
    assert "source" in items
