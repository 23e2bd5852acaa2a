"""Docker rooms: their limits, their closed network, what travels, and engines and containers that go away."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest

from builders.compilercache import cache_use, cache_variables
from builders.engines import Room, Step, docker_watch
from builders.engines.docker import DockerEngine
from builders.engines.docker_kept import KEY
from builders.jobs import measure
from qualify.errors import ConfigurationError, UnavailableError
from qualify.matrix.local import CompilerCache, EngineHost, LocalSettings
from tests.support import cacheserver
from tests.support.engines import Heard, request, shell
from tests.support.silence import way_to

pytestmark = [pytest.mark.docker, pytest.mark.network]

SOCKET = "/var/run/docker.sock"
PORT = 6379


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    with contextlib.closing(docker.from_env(timeout=60)) as client:
        yield client


@pytest.fixture
def engine() -> DockerEngine:
    return DockerEngine()


def heard(room: Room, step: Step) -> list[str]:
    lines: list[str] = []
    room.run(step, lines.append)
    return lines


def test_a_step_has_no_more_processes_than_it_may(engine: DockerEngine) -> None:
    bomb = "for i in $(seq 200); do sleep 5 & done 2>&1; echo started"
    with engine.open(replace(request(), processes=40), Heard()) as room:
        began = time.monotonic()
        lines = heard(room, shell(f"set +e; {bomb}"))
        assert any("fork" in line.lower() for line in lines)
        assert room.run(shell("true"), print).code == 0  # the next step has its own
    assert time.monotonic() - began < 60


def test_a_step_has_no_more_cores_and_memory_than_it_may_and_the_room_says_so(engine: DockerEngine) -> None:
    with engine.open(replace(request(), cores=1, memory=1 << 30), Heard()) as room:
        place = measure(room)
    assert (place.cores, place.limit) == (1, 1 << 30)
    assert place.total > place.available > 0
    assert place.memory == min(1 << 30, place.available)


def test_a_container_that_is_ended_from_outside_is_no_failure_of_the_build(
    engine: DockerEngine, client: docker.DockerClient
) -> None:
    wanted = request()

    def kill(line: str) -> None:
        filters = {"label": f"wheel-assay.build={wanted.build_id}", "status": "running"}
        # On a busy machine its first line is here before the engine lists it as running.
        ends = time.monotonic() + 30
        while not (found := client.containers.list(filters=filters)) and time.monotonic() < ends:
            time.sleep(0.1)
        found[0].kill()

    with engine.open(wanted, Heard()) as room, pytest.raises(UnavailableError, match="ended from outside") as caught:
        room.run(shell("echo begun; sleep 300"), kill)
    assert caught.value.exit_code == 4
    assert "goes on in the same folder" in caught.value.action


def test_a_command_that_a_kill_inside_ended_counts_as_killed_for_memory(engine: DockerEngine) -> None:
    # Without a limit of its own a container's processes are ended by the machine's: then nothing but 137 is left.
    with engine.open(request(), Heard()) as room:
        outcome = room.run(shell("kill -9 $$"), print)
    assert (outcome.code, outcome.killed_for_memory, outcome.timed_out) == (137, True, False)


def test_an_engine_that_falls_silent_is_named_and_the_build_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: docker.DockerClient
) -> None:
    monkeypatch.setattr(docker_watch, "PERIOD_SECONDS", 0.5)
    monkeypatch.setattr(docker_watch, "SILENCE_SECONDS", 3.0)
    wanted = request()
    try:
        with way_to(SOCKET, tmp_path) as way:
            engine = DockerEngine(EngineHost(url=way.url))
            began = time.monotonic()
            with pytest.raises(UnavailableError, match="went silent") as caught, engine.open(wanted, Heard()) as room:
                room.run(shell("echo begun; sleep 300"), lambda line: way.fall_silent())
            assert time.monotonic() - began < 60
            assert way.url in caught.value.where
    finally:
        # This process still runs, so no later build sweeps for it.
        for container in client.containers.list(all=True, filters={"label": f"wheel-assay.build={wanted.build_id}"}):
            container.remove(force=True)
        client.volumes.get(f"wheel-assay-work-{wanted.build_id}").remove()


def test_a_step_that_is_only_long_is_left_in_peace(engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_watch, "PERIOD_SECONDS", 0.2)
    monkeypatch.setattr(docker_watch, "SILENCE_SECONDS", 2.0)
    with engine.open(request(), Heard()) as room:
        assert heard(room, shell("echo a; sleep 5; echo b")) == ["a", "b"]


def test_a_connection_that_breaks_is_made_anew_and_no_line_is_lost(tmp_path: Path) -> None:
    with way_to(SOCKET, tmp_path) as way:
        engine = DockerEngine(EngineHost(url=way.url))
        with engine.open(request(), Heard()) as room:
            lines: list[str] = []

            def breaking(line: str) -> None:
                lines.append(line)
                if line == "line 3":
                    way.break_off()

            outcome = room.run(shell("for i in $(seq 8); do echo line $i; sleep 0.5; done"), breaking)
    assert outcome.code == 0
    assert lines == [f"line {number}" for number in range(1, 9)]


def test_what_arrives_changed_is_named_before_anything_is_made_of_it(engine: DockerEngine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.c").write_text("int f();\n")
    (tmp_path / "in" / "bad.c").write_text("int g();\n")
    with engine.open(request(), Heard()) as room:
        room.put(tmp_path / "in", room.paths.source)
        # As a broken connection or disk would: the archive says another thing than was hashed.
        with docker_archive({"room/source/bad.c": b"int h();\n"}) as archive:
            room._door.put_archive("/", archive)
        with pytest.raises(UnavailableError, match=r"not what was sent: .*bad\.c"):
            room.run(shell("echo compiled"), lambda line: pytest.fail(line))


def test_what_comes_back_changed_is_named(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from builders.engines import archives

    def damaging(stream: object, folder: Path) -> None:
        unpack(stream, folder)  # type: ignore[arg-type]
        (folder / "a.whl").write_text("other")

    unpack = archives.unpack_folder
    monkeypatch.setattr(archives, "unpack_folder", damaging)
    with engine.open(request(), Heard()) as room:
        room.run(shell(f"echo wheel > {room.paths.out}/a.whl; echo log > {room.paths.out}/b.log"), print)
        with pytest.raises(UnavailableError, match=r"is not what lies there: a\.whl"):
            room.fetch(room.paths.out, tmp_path / "out")


def test_a_kept_build_folder_bears_its_key_and_belongs_to_no_process(
    engine: DockerEngine, client: docker.DockerClient
) -> None:
    key = secrets.token_hex(32)
    with engine.open(replace(request(), key=key), Heard()) as room:
        room.keep()
    [volume] = client.volumes.list(filters={"label": f"{KEY}={key}"})
    assert "wheel-assay.owner" not in volume.attrs["Labels"]
    with engine.open(replace(request(), key=key), Heard()) as room:
        room.discard()
    assert client.volumes.list(filters={"label": f"{KEY}={key}"}) == []


def test_two_ways_to_one_engine_are_one_engine(engine: DockerEngine, tmp_path: Path) -> None:
    with way_to(SOCKET, tmp_path) as way:
        other = DockerEngine(EngineHost(url=way.url)).info()
    info = engine.info()
    assert other.host_id == info.host_id != ""
    assert info.cores > 0
    assert info.memory > 1 << 28
    assert info.api.startswith("1.")


@pytest.fixture
def shared(engine: DockerEngine, client: docker.DockerClient) -> Iterator[str]:
    """The address of a shared cache, which runs in a container of the engine's ordinary network."""
    with engine.open(request(), Heard()) as room:
        image = room.image
    program = Path(cacheserver.__file__).read_text(encoding="utf-8")
    container = client.containers.run(image, ["python3", "-c", program, str(PORT)], detach=True, init=True)
    try:
        container.reload()
        yield container.attrs["NetworkSettings"]["IPAddress"]
    finally:
        container.remove(force=True)


REACH = """
import socket, sys
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
        print(place, "open")
    except socket.gaierror:
        print(place, "no such name")
    except OSError as error:
        print(place, "refused" if isinstance(error, ConnectionRefusedError) else "closed")
"""


def test_the_closed_network_leads_to_the_shared_cache_and_nowhere_else(
    engine: DockerEngine, client: docker.DockerClient, shared: str
) -> None:
    bridge = ip_network(client.networks.get("bridge").attrs["IPAM"]["Config"][0]["Subnet"])[1]
    with engine.open(replace(request(), cache_server=f"redis://{shared}:{PORT}"), Heard()) as room:
        own = client.networks.get(f"wheel-assay-{room._request.build_id}").attrs["IPAM"]["Config"][0]["Gateway"]
        # The cache by its own address, this machine by each of its own, a machine elsewhere, and a name.
        closed = [f"{shared}:{PORT}", f"{bridge}:22", f"{own}:22", "192.0.2.2:22", "198.51.100.1:80"]
        places = [f"compiler-cache:{PORT}", *closed, "example.org:443"]
        lines = heard(room, Step("reach", ("python3", "-c", REACH, *places)))
        said = dict(line.split(" ", 1) for line in lines)
        assert said.pop(places[0]) == "open"
        assert said.pop(places[-1]) == "no such name"
        # Not "refused" either: that would be a machine that answers.
        assert set(said.values()) == {"closed"}, said
    names = [network.name for network in client.networks.list()]
    assert f"wheel-assay-{room._request.build_id}" not in names


# What the cache asks of a plan, which builds with CMake.
PLAN: Any = SimpleNamespace(compiler_cache="ccache", tools=(SimpleNamespace(name="cmake"),), machine="x86_64")


def new_function() -> str:
    """A source that nobody has compiled yet."""
    return f"int f{secrets.token_hex(8)}() {{ return 1; }}"


def test_a_compile_takes_from_the_shared_cache_what_another_machine_put_there(
    engine: DockerEngine, shared: str, tmp_path: Path
) -> None:
    server = f"redis://{shared}:{PORT}"
    local = LocalSettings(compiler_cache=CompilerCache(server=server))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.cpp").write_text(new_function())
    uses = []
    for number in range(2):
        with engine.open(replace(request(), cache_server=server), Heard()) as room:
            room.put(tmp_path / "in", room.paths.source)
            variables = cache_variables(PLAN, room, local, tmp_path / f"work{number}")
            assert not any(shared in value for value in variables.values())
            # Another machine has another folder of its own.
            own = {**variables, "CCACHE_DIR": f"{room.paths.tools}/own"}
            compiling = shell("$CMAKE_CXX_COMPILER_LAUNCHER g++ -c a.cpp", environment=own, folder=room.paths.source)
            assert room.run(compiling, print).code == 0
            uses.append(cache_use(PLAN, room, variables))
    assert [(use.hits, use.misses) for use in uses] == [(0, 1), (1, 0)]
    assert [(use.server, use.why) for use in uses] == [("redis", "")] * 2


def test_a_shared_cache_that_does_not_answer_slows_a_build_and_stops_none(engine: DockerEngine, tmp_path: Path) -> None:
    server = "redis://198.51.100.1:6379"  # RFC 5737: nobody's
    local = LocalSettings(compiler_cache=CompilerCache(server=server))
    with engine.open(replace(request(), cache_server=server), Heard()) as room:
        variables = cache_variables(PLAN, room, local, tmp_path)
        step = shell(f"echo '{new_function()}' > a.cpp; ccache g++ -c a.cpp", environment=variables)
        assert room.run(replace(step, folder=room.paths.out), print).code == 0
        use = cache_use(PLAN, room, variables)
    assert (use.hits, use.misses) == (0, 1)
    assert "did not answer" in use.why


@pytest.mark.parametrize(
    "server", ["redis://localhost:6379", "redis://127.0.0.1", "ftp://cache", "redis://", "cache:6379"]
)
def test_a_cache_server_that_no_container_can_mean_is_refused(engine: DockerEngine, server: str) -> None:
    with (
        pytest.raises(ConfigurationError) as caught,
        engine.open(replace(request(), cache_server=server), Heard()),
    ):
        raise AssertionError("a room was opened")
    assert "compiler_cache.server" in caught.value.where


@contextlib.contextmanager
def docker_archive(files: dict[str, bytes]) -> Iterator[bytes]:
    from builders.engines import archives

    with archives.packed(files) as archive:
        yield archive.read()


def test_no_thread_of_a_watch_stays(engine: DockerEngine) -> None:
    before = threading.active_count()
    with engine.open(request(), Heard()) as room:
        for _ in range(3):
            room.run(shell("true", timeout=60), print)
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert threading.active_count() <= before


def test_a_kept_build_folder_is_open_for_one_build_at_a_time(engine: DockerEngine, client: docker.DockerClient) -> None:
    """Whatever store their claims lie in: two cache folders may share an engine."""
    asked = replace(request(), key=secrets.token_hex(32))
    volume = f"wheel-assay-work-{asked.key[:16]}"
    try:
        with engine.open(asked, Heard()) as room:
            heard(room, shell("echo mine > /room/mark"))
            with (
                pytest.raises(UnavailableError, match="another build has the build folder open: process ") as refused,
                engine.open(replace(asked, build_id="x86_64-sm90-other"), Heard()),
            ):
                raise AssertionError("it was opened twice")
            assert refused.value.where == f"docker: volume {volume}"
            assert volume in refused.value.action
            assert heard(room, shell("cat /room/mark")) == ["mine"]
            room.keep()
        with engine.open(replace(asked, resume=True), Heard()) as room:
            assert room.resumed
            assert heard(room, shell("cat /room/mark")) == ["mine"]
            room.discard()
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            client.volumes.get(volume).remove(force=True)
