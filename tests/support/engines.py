"""Engines for tests: one whose steps are functions, and the contract that every engine keeps."""

from __future__ import annotations

import contextlib
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from builders.bases import BaseWish
from builders.engines import Engine, EngineInfo, Kept, Listener, Outcome, Room, RoomRequest, Say, Step
from builders.engines.local import LocalEngine, LocalRoom, kept_work_folder
from builders.engines.local_kept import using
from qualify.errors import UnavailableError

Act = Callable[[Room, Step, Say], int]
TIMED_OUT = 124  # what a scripted step ends with whose time is over


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.details: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def detail(self, text: str) -> None:
        self.details.append(text)


class ScriptedRoom(LocalRoom):
    """Steps that the script names are functions; the others run on this host."""

    engine = "scripted"
    image = "sha256:" + "5" * 64

    def __init__(
        self, request: RoomRequest, work: Path, root: Path, script: Mapping[str, Act], ran: list[Step]
    ) -> None:
        super().__init__(request, work, root)
        self._script = script
        self._ran = ran

    def run(self, step: Step, say: Say) -> Outcome:
        self._ran.append(step)
        if step.name in self._script:
            began = time.monotonic()
            code = self._script[step.name](self, step, say)
            over = bool(step.timeout) and code == TIMED_OUT
            return Outcome(code, False, time.monotonic() - began, timed_out=over)
        return super().run(step, say)


class ScriptedEngine(LocalEngine):
    """An engine for programs of ``machine``, whatever this host is."""

    name = "scripted"

    def __init__(self, root: Path, script: Mapping[str, Act] | None = None, machine: str = "x86_64") -> None:
        super().__init__(root)
        self.ran: list[Step] = []
        self.asked: list[RoomRequest] = []
        self._script = script or {}
        self._machine = machine

    def info(self) -> EngineInfo:
        return EngineInfo(self.name, "1", (self._machine,), "for tests")

    @contextlib.contextmanager
    def open(self, request: RoomRequest, listener: Listener) -> Iterator[LocalRoom]:
        if request.machine != self._machine:
            raise UnavailableError(f"no programs of {request.machine} run here", where="engine")
        self.asked.append(request)
        assert self._root is not None
        with kept_work_folder(self._root, request) as work:
            room = ScriptedRoom(request, work, self._root, self._script, self.ran)
            with using(self._root, (work, Path(room.paths.environment), Path(room.paths.cache))):
                yield room
            if room.discarded:
                shutil.rmtree(work)


def request(machine: str = "", key: str = "") -> RoomRequest:
    """A room of the build role on Debian 12, for this host's machine unless another is named."""
    return RoomRequest(
        build_id=f"test-{secrets.token_hex(4)}",
        machine=machine or platform.machine(),
        role="build",
        base=BaseWish(bootstrap="debian-12"),
        environment_key=key or "test",  # one for all, since an engine keeps each
    )


def shell(text: str, **options: object) -> Step:
    return Step("test", ("sh", "-ec", text), **options)  # type: ignore[arg-type]


class EngineContract:
    """What every engine keeps; a test class for each engine inherits it and has a fixture ``engine``."""

    @pytest.fixture
    def engine(self) -> Engine:
        raise NotImplementedError

    @pytest.fixture
    def room(self, engine: Engine) -> Iterator[Room]:
        with engine.open(request(), Heard()) as room:
            yield room

    def test_it_says_which_machines_it_runs(self, engine: Engine) -> None:
        info = engine.info()
        assert info.name == engine.name
        assert info.version
        assert platform.machine() in info.machines

    def test_what_is_put_is_seen_and_what_is_made_is_fetched(self, room: Room, tmp_path: Path) -> None:
        (tmp_path / "in" / "deep").mkdir(parents=True)
        (tmp_path / "in" / "deep" / "tool").write_text("#!/bin/sh\necho made of $1\n")
        (tmp_path / "in" / "deep" / "tool").chmod(0o755)
        (tmp_path / "in" / "link").symlink_to("deep/tool")
        room.put(tmp_path / "in", room.paths.source)
        step = shell(f"{room.paths.source}/link this > {room.paths.out}/result; mkdir {room.paths.out}/empty")
        assert room.run(step, print).code == 0
        room.fetch(room.paths.out, tmp_path / "out")
        assert (tmp_path / "out" / "result").read_text() == "made of this\n"
        assert (tmp_path / "out" / "empty").is_dir()

    def test_a_second_folder_joins_the_first(self, room: Room, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / name).write_text(name)
            room.put(tmp_path / name, room.paths.tools)
        lines: list[str] = []
        room.run(shell(f"cat {room.paths.tools}/a {room.paths.tools}/b"), lines.append)
        assert lines == ["ab"]

    def test_every_line_is_heard_once_and_in_order(self, room: Room) -> None:
        lines: list[str] = []
        room.run(shell("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; printf 'no end'"), lines.append)
        assert lines == [*(f"line {number}" for number in range(500)), "no end"]

    def test_errors_are_heard_too_and_bytes_that_are_no_text_hurt_nobody(self, room: Room) -> None:
        lines: list[str] = []
        room.run(shell("echo wrong >&2; printf 'one\\rtwo\\n\\377\\n'"), lines.append)
        assert sorted(lines) == sorted(["wrong", "one", "two", "\ufffd"])

    def test_the_exit_code_is_the_commands(self, room: Room) -> None:
        outcome = room.run(shell("exit 7"), print)
        assert (outcome.code, outcome.killed_for_memory) == (7, False)
        assert 0 < outcome.seconds < 60

    def test_a_step_sees_its_own_variables_and_not_the_callers(
        self, room: Room, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_OF_THE_CALLER", "1")
        lines: list[str] = []
        room.run(shell("env; pwd", environment={"GIVEN": "a b=c"}, folder=room.paths.out), lines.append)
        assert "GIVEN=a b=c" in lines
        assert not [line for line in lines if line.startswith("SECRET_OF_THE_CALLER")]
        assert lines[-1] == room.paths.out

    def test_the_environment_outlives_the_room_and_the_work_does_not(self, engine: Engine) -> None:
        again = request(key=f"test-{secrets.token_hex(8)}")
        with engine.open(again, Heard()) as room:
            step = shell(f"echo kept > {room.paths.environment}/mark; echo gone > {room.paths.out}/mark", prepares=True)
            assert room.run(step, print).code == 0
        lines: list[str] = []
        with engine.open(request(key=again.environment_key), Heard()) as room:
            room.run(shell(f"cat {room.paths.environment}/mark; ls {room.paths.out}"), lines.append)
        assert lines == ["kept"]

    def test_a_build_folder_is_kept_until_it_is_given_up(self, engine: Engine, tmp_path: Path) -> None:
        key = secrets.token_hex(32)
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a").write_text("put")
        with engine.open(replace(request(), key=key), Heard()) as room:
            assert not room.resumed
            room.put(tmp_path / "in", room.paths.source)
            room.keep()
            assert room.run(shell(f"echo compiled > {room.paths.out}/o"), print).code == 0
        lines: list[str] = []
        with engine.open(replace(request(), key=key), Heard()) as room:
            assert room.resumed
            room.run(shell(f"cat {room.paths.source}/a; cat {room.paths.out}/o"), lines.append)
            room.discard()
        assert lines == ["putcompiled"]
        with engine.open(replace(request(), key=key), Heard()) as room:
            assert not room.resumed
            lines = []
            room.run(shell(f"ls {room.paths.out}"), lines.append)
            room.discard()
        assert lines == []

    def test_a_build_folder_that_never_was_whole_is_of_no_use(self, engine: Engine, tmp_path: Path) -> None:
        key = secrets.token_hex(32)
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "half").write_text("half")
        with engine.open(replace(request(), key=key), Heard()) as room:
            room.put(tmp_path / "in", room.paths.source)
        with engine.open(replace(request(), key=key), Heard()) as room:
            assert not room.resumed
            lines: list[str] = []
            room.run(shell(f"ls {room.paths.source} || true"), lines.append)
            room.discard()
        assert "half" not in lines

    def test_a_build_that_begins_anew_takes_nothing_of_an_earlier_one(self, engine: Engine, tmp_path: Path) -> None:
        key = secrets.token_hex(32)
        with engine.open(replace(request(), key=key), Heard()) as room:
            room.keep()
        with engine.open(replace(request(), key=key, resume=False), Heard()) as room:
            assert not room.resumed
            room.discard()

    def test_a_step_whose_time_is_over_is_ended_and_says_so(self, room: Room) -> None:
        lines: list[str] = []
        began = time.monotonic()
        outcome = room.run(shell("echo begun; sleep 300", timeout=2), lines.append)
        assert (outcome.timed_out, outcome.killed_for_memory) == (True, False)
        assert outcome.code != 0
        assert lines == ["begun"]
        assert time.monotonic() - began < 60
        assert not room.run(shell("true", timeout=60), print).timed_out

    def test_the_most_memory_that_a_step_took_is_counted(self, room: Room) -> None:
        outcome = room.run(shell("python3 -c 'import time; x = b\"1\" * (300 << 20); time.sleep(2)'"), print)
        assert outcome.code == 0
        assert 300 << 20 < outcome.peak_memory < 2000 << 20

    def test_what_is_kept_is_listed_and_can_be_dropped_when_nobody_uses_it(self, engine: Engine) -> None:
        wanted = replace(request(), key=secrets.token_hex(32))

        def mine() -> list[Kept]:
            return [kept for kept in engine.kept() if kept.kind == "work" and wanted.key[:16] in kept.name]

        with engine.open(wanted, Heard()) as room:
            room.keep()
            [kept] = mine()
            assert kept.used
            assert not engine.drop(kept)
        [kept] = mine()
        assert not kept.used
        assert abs(time.time() - kept.since) < 600
        assert engine.drop(kept)
        assert mine() == []

    def test_a_machine_that_it_knows_nothing_of_is_refused(self, engine: Engine) -> None:
        with pytest.raises(UnavailableError) as caught, engine.open(request(machine="s390x"), Heard()):
            raise AssertionError("a room of a foreign machine was opened")
        assert caught.value.exit_code == 4
        assert "s390x" in str(caught.value) or platform.machine() in str(caught.value)

    def test_what_runs_when_the_room_is_left_by_an_error_is_ended(self, engine: Engine) -> None:
        class StopError(Exception):
            pass

        def stop(line: str) -> None:
            raise StopError(line)

        began = time.monotonic()
        with pytest.raises(StopError), engine.open(request(), Heard()) as room:
            room.run(shell("echo first; sleep 300"), stop)
        assert time.monotonic() - began < 60
