"""One build for one key, whoever starts it and however it ends: real processes, some of them killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.store import claims
from builders.store.claims import claimed, read_claim, stale_claims
from qualify.errors import UnavailableError

KEY = "ab" * 32
HOLD = """
import sys, time
from pathlib import Path
from builders.store.claims import claimed
with claimed(Path(sys.argv[1]), sys.argv[2], target="t", log=Path("their.log"), wait=True, say=print, beat=0.1):
    print("held", flush=True)
    time.sleep(float(sys.argv[3]))
"""


@contextlib.contextmanager
def holder(folder: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the claim; killed in the end, if it hasn't ended."""
    command = [sys.executable, "-c", HOLD, str(folder), KEY, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def killed_holder(folder: Path) -> int:
    """The number of a process that held the claim when it was killed."""
    with holder(folder, 30) as process:
        pass
    return process.pid


def take(folder: Path, said: list[str], **options: object) -> bool:
    settings = {"wait": True, "silent": 60.0, "poll": 0.05, **options}
    with claimed(folder, KEY, target="t", log=folder / "own.log", say=said.append, **settings) as waited:  # type: ignore[arg-type]
        return waited


def test_a_claim_is_held_and_given_back(tmp_path: Path) -> None:
    said: list[str] = []
    assert take(tmp_path, said) is False
    assert said == []
    assert list(tmp_path.iterdir()) == []


def test_a_second_starter_waits_and_says_for_whom(tmp_path: Path) -> None:
    said: list[str] = []
    with holder(tmp_path, 0.5) as process:
        assert take(tmp_path, said) is True
        assert process.wait() == 0
    assert len(said) == 1
    assert said[0].startswith(f"waiting: process {process.pid} on ")
    assert said[0].endswith("their.log")


def test_a_second_starter_leaves_with_the_log_s_path(tmp_path: Path) -> None:
    with holder(tmp_path, 30) as process, pytest.raises(UnavailableError) as caught:
        take(tmp_path, [], wait=False)
    assert f"process {process.pid} on" in caught.value.what
    assert "their.log" in caught.value.action


def test_a_killed_holder_s_claim_is_taken_over_by_name(tmp_path: Path) -> None:
    pid = killed_holder(tmp_path)
    assert [claim.target for claim in stale_claims(tmp_path)] == ["t"]
    said: list[str] = []
    assert take(tmp_path, said) is False
    assert len(said) == 1
    assert said[0].startswith(f"taking over the claim of process {pid} on ")
    assert "has ended" in said[0]
    assert stale_claims(tmp_path) == []


def test_a_stopped_holder_s_heart_no_longer_beats(tmp_path: Path) -> None:
    """A holder of another host cannot be asked whether it lives: its silence, by our own clock, is what counts."""
    path = tmp_path / f"{KEY}.json"
    said: list[str] = []
    with holder(tmp_path, 30) as process:
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.3)
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "host": "elsewhere", "process": "elsewhere/1/2"}))
        assert take(tmp_path, said, silent=0.5) is True
    assert said[0].startswith("waiting: process 1 on elsewhere")
    assert "silent since" in said[1]


def test_a_living_holder_of_another_host_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / f"{KEY}.json"
    document = {
        "token": "x", "host": "elsewhere", "process": "elsewhere/1/2", "since": "s", "heartbeat": "h", "beats": 0,
        "log": "l", "target": "t",
    }  # fmt: skip
    path.write_text(json.dumps(document))
    over = threading.Event()

    def beat() -> None:
        for beats in range(12):
            path.write_text(json.dumps({**document, "beats": beats}))
            over.wait(0.1)
        path.unlink()

    thread = threading.Thread(target=beat)
    thread.start()
    said: list[str] = []
    assert take(tmp_path, said, silent=0.5) is True
    thread.join()
    assert len(said) == 1, "it was not taken over"


def test_the_heart_beats(tmp_path: Path) -> None:
    path = tmp_path / f"{KEY}.json"
    with holder(tmp_path, 30):
        first = read_claim(path)
        time.sleep(0.5)
        second = read_claim(path)
    assert first is not None
    assert second is not None
    assert second.beats > first.beats
    assert second.token == first.token


def test_of_many_that_take_over_at_once_one_holds_at_a_time(tmp_path: Path) -> None:
    killed_holder(tmp_path)
    inside, most, lock = 0, 0, threading.Lock()

    def enter() -> None:
        nonlocal inside, most
        with claimed(tmp_path, KEY, target="t", log=tmp_path / "l", wait=True, say=lambda text: None, poll=0.01):
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.02)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert most == 1
    assert not list(tmp_path.glob("*.json"))


def test_what_is_no_claim_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / f"{KEY}.json"
    path.write_text("not a claim")
    assert take(tmp_path, []) is False
    assert path.with_suffix(".unreadable").read_text() == "not a claim"


def test_a_holder_that_lost_its_claim_does_not_take_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"{KEY}.json"
    with claimed(tmp_path, KEY, target="t", log=tmp_path / "l", wait=True, say=lambda text: None, beat=0.05):
        own = read_claim(path)
        assert own is not None
        path.write_text(claims._text(own).replace(own.token, "another"))
        time.sleep(0.2)
    left = read_claim(path)
    assert left is not None
    assert left.token == "another"
