"""Which Docker engine is asked: by address, by context, with certificates; and what is said where it can't be."""

from __future__ import annotations

import importlib.util
import json
import socket
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from builders.engines.docker import DockerEngine
from qualify.errors import ConfigurationError, UnavailableError
from qualify.matrix.local import EngineHost


class Answering(BaseHTTPRequestHandler):
    """As much of an engine as says its version."""

    def do_GET(self) -> None:
        facts = {"Version": "99.0", "ApiVersion": "1.41", "Arch": "arm64"}
        if self.path.endswith("/info"):
            facts = {"NCPU": 20, "MemTotal": 128 << 30, "ID": "A", "Name": "spark", "DockerRootDir": "/d"}  # type: ignore[dict-item]
        body = json.dumps(facts).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"tcp://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_address_is_asked_and_is_another_machine(address: str) -> None:
    info = DockerEngine(EngineHost(url=address)).info()
    assert (info.version, info.machines, info.cores, info.memory) == ("99.0", ("aarch64",), 20, 128 << 30)
    assert info.remote
    assert info.host_id


def write_context(folder: Path, name: str, text: str) -> str:
    """A context as ``docker context create`` leaves it; returns its digest."""
    digest = sha256(name.encode()).hexdigest()
    place = folder / "contexts" / "meta" / digest
    place.mkdir(parents=True)
    (place / "meta.json").write_text(text)
    return digest


def described(address: str, *, skip: bool = False) -> str:
    endpoints = {"docker": {"Host": address, "SkipTLSVerify": skip}}
    return json.dumps({"Name": "spark", "Metadata": {}, "Endpoints": endpoints})


def test_a_docker_context_is_asked(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    write_context(tmp_path, "spark", described(address))
    info = DockerEngine(EngineHost(context="spark")).info()
    assert (info.version, info.remote) == ("99.0", True)


def test_contexts_of_the_folder_that_it_runs_in_are_nobodys(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    write_context(tmp_path, "spark", described(address))
    with pytest.raises(UnavailableError, match="no docker context spark") as caught:
        DockerEngine(EngineHost(context="spark")).info()
    assert "docker context ls" in caught.value.action


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"Endpoints": {"docker": {}}}', '{"Endpoints": {"docker": 1}}'])
def test_a_context_that_can_t_be_read_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    write_context(tmp_path, "spark", text)
    with pytest.raises(ConfigurationError, match="can't be read") as caught:
        DockerEngine(EngineHost(context="spark")).info()
    assert caught.value.where == "docker context spark"


def test_a_context_that_takes_whoever_answers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    digest = write_context(tmp_path, "spark", described("tcp://127.0.0.1:1", skip=True))
    folder = tmp_path / "contexts" / "tls" / digest / "docker"
    folder.mkdir(parents=True)
    (folder / "ca.pem").write_text("")
    with pytest.raises(ConfigurationError, match="SkipTLSVerify"):
        DockerEngine(EngineHost(context="spark")).info()
    (tmp_path / "contexts" / "meta" / digest / "meta.json").write_text(described("tcp://127.0.0.1:1"))
    with pytest.raises(UnavailableError, match=r"no cert\.pem, key\.pem"):
        DockerEngine(EngineHost(context="spark")).info()


def test_a_context_that_hands_out_root_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    write_context(tmp_path, "spark", described("tcp://spark.example:2375"))
    with pytest.raises(ConfigurationError, match="without TLS"):
        DockerEngine(EngineHost(context="spark")).info()


def test_one_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UnavailableError) as caught:
        DockerEngine(EngineHost(url=url)).info()
    assert caught.value.exit_code == 4
    assert caught.value.where == f"{url}: docker"
    with pytest.raises(UnavailableError, match="No such file"):
        DockerEngine(EngineHost(url=f"unix://{tmp_path}/none.sock")).info()


def test_certificates_that_are_missing_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    with pytest.raises(UnavailableError, match=r"no cert\.pem, key\.pem") as caught:
        DockerEngine(EngineHost(url="tcp://127.0.0.1:1", tls=str(tmp_path))).info()
    assert caught.value.where == str(tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("paramiko") is not None, reason="paramiko is installed here")
def test_an_engine_over_ssh_says_what_it_takes() -> None:
    with pytest.raises(UnavailableError, match="paramiko") as caught:
        DockerEngine(EngineHost(url="ssh://builder@127.0.0.1")).info()
    assert "wheel-assay[ssh]" in caught.value.action
