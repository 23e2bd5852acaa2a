"""The example built by the real engines: natively, for another machine, on this host; and builds that are cut short."""

from __future__ import annotations

import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from builders.engines import Engine, Room
from builders.engines.docker import DockerEngine
from builders.engines.docker_kept import KEY
from builders.host import process_mark
from qualify import cli as qualify_cli
from qualify.opening import read_wheel
from tests.support.engines import EngineContract, Heard, request, shell

pytestmark = [pytest.mark.docker, pytest.mark.network]

ROOT = Path(__file__).resolve().parents[2]
MATRIX = ROOT / "examples" / "axpy" / "matrix.yaml"
NATIVE = platform.machine() == "x86_64"


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env(timeout=60)
    yield client
    client.close()


def leftovers(client: docker.DockerClient) -> set[str]:
    """Containers and volumes of builds; those of other processes may come and go."""
    filters = {"label": "wheel-assay.owner"}
    containers = {container.name for container in client.containers.list(all=True, filters=filters)}
    return containers | {volume.name for volume in client.volumes.list(filters=filters)}


class TestDockerEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return DockerEngine()

    def test_a_step_that_compiles_has_no_network_no_root_and_no_way_to_its_environment(self, room: Room) -> None:
        lines: list[str] = []
        room.run(
            shell(
                "id -u; cut -d: -f1 /proc/net/dev | tail -n +3; grep -E 'CapEff|NoNewPrivs' /proc/self/status;"
                f"touch {room.paths.environment}/x 2>/dev/null || echo read-only;"
                f"touch {room.paths.cache}/x && echo cached"
            ),
            lines.append,
        )
        words = [" ".join(line.split()) for line in lines]
        assert words[:4] == ["1000", "lo", "CapEff: 0000000000000000", "NoNewPrivs: 1"]
        assert words[-2:] == ["read-only", "cached"]

    def test_a_step_that_prepares_reaches_the_package_index(self, room: Room) -> None:
        lines: list[str] = []
        outcome = room.run(
            shell(f"pip3 download -q --no-deps -d {room.paths.out} wheel==0.45.1", prepares=True), lines.append
        )
        assert outcome.code == 0, lines

    def test_killed_for_memory_is_told_whatever_the_exit_code(self, engine: Engine) -> None:
        with engine.open(replace(request(), memory=64 << 20), Heard()) as room:
            greedy = "python3 -c 'x = bytearray(512 << 20); x[::4096] = bytes(len(x[::4096]))'; exit 7"
            outcome = room.run(shell(f"set +e; {greedy}"), print)
            assert (outcome.code, outcome.killed_for_memory) == (7, True)
            assert not room.run(shell("exit 7"), print).killed_for_memory

    def test_nothing_of_a_room_stays(self, engine: Engine, client: docker.DockerClient) -> None:
        wanted = request()
        with engine.open(wanted, Heard()) as room:
            room.run(shell("true"), print)
            assert f"wheel-assay-work-{wanted.build_id}" in leftovers(client)
        assert f"wheel-assay-work-{wanted.build_id}" not in leftovers(client)
        owned = client.containers.list(all=True, filters={"label": f"wheel-assay.build={wanted.build_id}"})
        assert owned == []


def builders(command: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m builders COMMAND`` on the example."""
    whole = [sys.executable, "-m", "builders", command, *map(str, arguments), "--matrix", str(MATRIX)]
    return subprocess.run(
        whole, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def build(target: str, out: Path, *options: str) -> dict[str, Any]:
    done = builders("build", target, "--out", out, "--json", *options)
    assert done.returncode == 0, done.stderr
    receipt: dict[str, Any] = json.loads(done.stdout)
    return receipt


def emitted(receipt: dict[str, Any]) -> dict[str, list[str]]:
    """Member with device code -> what it holds, as the receipt says."""
    return {each["member"]: sorted(each["emitted"]) for each in receipt["architectures"]}


def verdict(wheel: str, target: str) -> int:
    return qualify_cli.main(["check", wheel, "--target", target, "--matrix", str(MATRIX), "--json"])


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return build("x86_64-sm90", tmp_path_factory.mktemp("native"), "--engine", "docker")


def test_a_native_wheel_qualifies_for_its_target_and_for_no_other(native: dict[str, Any]) -> None:
    assert native["engine"]["name"] == "docker"
    assert native["network"] == "closed during the compile"
    assert emitted(native) == {"axpy/_C.abi3.so": ["sm_90 (cubin)"]}
    assert [each["code"] for each in native["tries"]] == [0]
    assert native["tries"][0]["peak_memory"] > 10 << 20
    assert native["cache"]["tool"].startswith("ccache ")
    assert native["cache"]["hits"] + native["cache"]["misses"] > 0
    assert native["tools"]["nvcc"]["version"].endswith("release 13.0, V13.0.88")
    assert native["environment"]["distributions"]["nvidia-cuda-runtime"]["version"] == "13.0.96"
    assert native["versions"]["commit"] == "same"
    assert native["tag"]["platform"].startswith("manylinux_2_")
    facts = read_wheel(Path(native["path"]))
    assert facts.sha256 == native["wheel"]["sha256"]
    assert facts.problems == ()
    assert verdict(native["path"], "x86_64-sm90") == 0
    assert verdict(native["path"], "aarch64-sm121") == 1


def test_a_second_build_has_nothing_to_do(native: dict[str, Any]) -> None:
    began = time.monotonic()
    again = build("x86_64-sm90", Path(native["path"]).parent, "--engine", "docker")
    assert (again["built"], again["path"]) == (False, native["path"])
    assert time.monotonic() - began < 10  # an unhindered one takes less than a second


@pytest.mark.parametrize(("target", "architecture"), [("aarch64-sm121", "sm_121"), ("aarch64-sm110", "sm_110")])
def test_a_wheel_for_another_machine_is_cross_compiled(tmp_path: Path, target: str, architecture: str) -> None:
    receipt = build(target, tmp_path, "--how", "cross", "--engine", "docker")
    assert emitted(receipt) == {"axpy/_C.abi3.so": [f"{architecture} (cubin)"]}
    facts = read_wheel(Path(receipt["path"]))
    assert {member.elf.machine for member in facts.members if member.elf} == {"aarch64"}
    assert all(tag.endswith("_aarch64") for tag in facts.tags)
    assert (target == "aarch64-sm110") == facts.wheel_version.endswith(".sm110")
    assert verdict(receipt["path"], target) == 0
    other = "aarch64-sm110" if target == "aarch64-sm121" else "aarch64-sm121"
    assert verdict(receipt["path"], other) == 1


@pytest.mark.skipif(not NATIVE, reason="the local engine makes wheels for this host's machine alone")
def test_the_local_engine_makes_the_same_device_code(tmp_path: Path, native: dict[str, Any]) -> None:
    receipt = build("x86_64-sm90", tmp_path, "--engine", "local")
    assert receipt["engine"]["name"] == "local"
    assert receipt["network"] == "open"
    assert emitted(receipt) == emitted(native)
    assert verdict(receipt["path"], "x86_64-sm90") == 0


def test_auto_without_docker_builds_nothing_for_another_machine(tmp_path: Path) -> None:
    done = builders("build", "aarch64-sm121", "--out", tmp_path, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 4
    assert "aarch64" in done.stderr
    assert "Traceback" not in done.stderr


def work_of(client: docker.DockerClient, key: str) -> list[str]:
    return [volume.name for volume in client.volumes.list(filters={"label": f"{KEY}={key}"})]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_cut_short_leaves_its_folder_alone_and_is_gone_on_with(
    tmp_path: Path, client: docker.DockerClient, native: dict[str, Any], how: signal.Signals
) -> None:
    # A key of its own, and compiles of its own.
    asked = ("--arch-list", "9.0;12.1;11.0", "--set", f"CCACHE_NAMESPACE={secrets.token_hex(8)}")
    planned = builders("plan", "x86_64-sm90", "--engine", "docker", "--json", *asked)
    key = json.loads(planned.stdout)["key"]
    command = [sys.executable, "-m", "builders", "build", "x86_64-sm90", "--matrix", str(MATRIX), "--engine", "docker"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path), *asked],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A background job of a shell ignores Ctrl-C; a person's build doesn't.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    mark = process_mark(process.pid)
    assert process.stdout is not None
    for line in process.stdout:
        if "[1/" in line:
            break
    assert containers_of(client, mark)
    process.send_signal(how)
    process.stdout.read()
    code = process.wait(timeout=60)
    process.stdout.close()
    assert not list(tmp_path.glob("*.whl*"))
    if how is signal.SIGKILL:
        # Nothing can clean up after itself then; the next one does it.
        assert containers_of(client, mark)
        with DockerEngine().open(request(), Heard()) as room:
            room.run(shell("true"), print)
    else:
        assert code == 130
    assert not containers_of(client, mark)
    assert work_of(client, key)
    if how is signal.SIGTERM:
        client.volumes.get(work_of(client, key)[0]).remove()
        return
    again = builders("build", "x86_64-sm90", "--out", tmp_path, "--engine", "docker", "--json", *asked)
    assert again.returncode == 0, again.stderr
    assert "going on in the build folder of an earlier try" in again.stderr
    assert json.loads(again.stdout)["resumed"]
    assert work_of(client, key) == []


def containers_of(client: docker.DockerClient, mark: str) -> list[str]:
    found = client.containers.list(all=True, filters={"label": f"wheel-assay.owner={mark}"})
    return [container.name for container in found]


def test_a_wheel_is_measured_in_a_container_without_a_network(native: dict[str, Any]) -> None:
    done = builders("measure", native["path"], "--target", "x86_64-sm90", "--json", "--engine", "docker")
    assert done.returncode == 0, done.stderr
    observation = json.loads(done.stdout)
    assert observation["how"] == "import"
    assert observation["where"].startswith("container of image sha256:")
    assert observation["distribution_version"] == native["versions"]["wheel"]


def test_a_compile_that_fails_is_exit_5_with_its_cause(tmp_path: Path, native: dict[str, Any]) -> None:
    done = builders("build", "x86_64-sm90", "--out", tmp_path, "--engine", "docker", "--arch-list", "99.9")
    assert done.returncode == 5, done.stderr
    assert "compute_999" in done.stderr
    assert f"the log is {tmp_path}" in done.stderr
    assert not list(tmp_path.glob("*.whl"))
