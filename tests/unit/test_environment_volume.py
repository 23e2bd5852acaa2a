"""An environment's folder: one that prepares it at a time, whoever shares it, and whole before it is used."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import environment_volume
from builders.environment import script
from builders.environment_script import look, prepare
from builders.environment_volume import (
    BUSY,
    COMPLETE,
    LOCK,
    BusyError,
    FailedError,
    demand_whole,
    digest_of,
    held,
    holder_of,
    read_marker,
    write_marker,
)

SHORT = f"{sys.version_info.major}.{sys.version_info.minor}"


def request(folder: Path, **changes: Any) -> dict[str, Any]:
    whole = {
        "mode": "isolated",
        "folder": str(folder),
        "key": "k1",
        "python": [SHORT],
        "requirements": [],
        "cuda_home": "",
        "interpreter": sys.executable,
    }
    return {**whole, **changes}


def run(asked: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script(), json.dumps(asked)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Path]:
    """An interpreter that makes an environment only once the file ``go`` is there."""
    python = tmp_path / "python"
    wait = f'case "$*" in "-m venv"*) until [ -e {tmp_path}/go ]; do sleep 0.05; done;; esac'
    python.write_text(f'#!/bin/sh\n{wait}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    yield python
    (tmp_path / "go").touch()


def held_by(folder: Path) -> str:
    """Who holds the folder, once somebody does."""
    ends = time.monotonic() + 30
    while not (said := holder_of(str(folder))) and time.monotonic() < ends:
        time.sleep(0.02)
    return said


def test_two_that_start_at_once_make_one_environment_and_the_second_says_for_whom_it_waits(
    tmp_path: Path, slow: Path
) -> None:
    folder = tmp_path / "env"
    first = run(request(folder, interpreter=str(slow), holder="the first build", wait=60))
    assert held_by(folder).startswith("the first build, since 2")
    second = run(request(folder, interpreter=str(slow), holder="the second build", wait=60))
    assert second.stdout is not None
    said = second.stdout.readline()
    assert said.startswith("environment: waiting for the first build, since 2")
    assert said.endswith(" UTC, which prepares it\n")
    (tmp_path / "go").touch()
    answers = [json.loads(process.communicate()[0].rstrip("\n").split("\n")[-1]) for process in (first, second)]
    assert [answer["reused"] for answer in answers] == [False, True]
    assert answers[1] == {**answers[0], "reused": True}
    assert holder_of(str(folder)) == ""


def test_who_waits_too_long_leaves_and_says_for_whom_it_waited(tmp_path: Path, slow: Path) -> None:
    folder = tmp_path / "env"
    first = run(request(folder, interpreter=str(slow), holder="the first build", wait=60))
    held_by(folder)
    second = run(request(folder, interpreter=str(slow), holder="the second build", wait=0.1))
    said = second.communicate()[0]
    assert second.returncode == BUSY
    assert said.rstrip("\n").split("\n")[-1].startswith("environment: the first build, since 2")
    (tmp_path / "go").touch()
    first.communicate()
    assert first.returncode == 0


def test_a_killed_preparation_frees_the_folder_and_the_next_one_makes_it_anew(tmp_path: Path, slow: Path) -> None:
    folder = tmp_path / "env"
    first = run(request(folder, interpreter=str(slow), holder="the first build", wait=60))
    held_by(folder)
    (folder / "rest").mkdir()
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    made = prepare(request(folder, wait=10))
    assert made["reused"] is False
    assert not (folder / "rest").exists()


def test_while_a_program_that_it_started_still_writes_nobody_else_begins(tmp_path: Path, slow: Path) -> None:
    folder = tmp_path / "env"
    first = run(request(folder, interpreter=str(slow), holder="the first build", wait=60))
    assert first.stdout is not None
    while not first.stdout.readline().startswith("$ "):  # the program is about to run
        pass
    time.sleep(0.3)
    os.kill(first.pid, signal.SIGKILL)
    with pytest.raises(BusyError, match="the first build, since"):
        prepare(request(folder, wait=0.3))
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert prepare(request(folder, wait=10))["reused"] is False


def test_threads_of_one_process_are_kept_apart_too(tmp_path: Path) -> None:
    inside: list[str] = []

    def enter(name: str) -> None:
        with held(str(tmp_path / "env"), name, 30):
            inside.append(f"{name} in")
            time.sleep(0.2)
            inside.append(f"{name} out")

    threads = [threading.Thread(target=enter, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.split()[0] for each in inside[::2]] == [each.split()[0] for each in inside[1::2]]


def test_a_folder_that_was_removed_meanwhile_is_locked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real = tmp_path / "env", fcntl.flock
    calls: list[int] = []

    def flock(handle: int, how: int) -> None:
        real(handle, how)
        if not calls:
            (folder / LOCK).unlink()  # as `prune` does, between open and lock
        calls.append(how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with held(str(folder), "a build", 30):
        assert holder_of(str(folder)).startswith("a build, since")


def test_a_folder_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(FailedError, match=r"can't be locked: .*not implemented"), held(str(tmp_path), "a build", 5):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(FailedError, match="can't be locked"), held(str(tmp_path / "file" / "env"), "a build", 5):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "other").write_text("kept")
    (tmp_path / "env" / LOCK).symlink_to(tmp_path / "other")
    with pytest.raises(FailedError, match="can't be locked"), held(str(tmp_path / "env"), "a build", 5):
        pass
    assert (tmp_path / "other").read_text() == "kept"


def test_what_a_holder_says_is_one_line_and_not_long(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(b"a\nb\x1b[2J\xff" + b"x" * 5000)
    said = holder_of(str(tmp_path))
    assert said.isprintable()
    assert len(said) <= environment_volume.HOLDER_BYTES
    assert holder_of(str(tmp_path / "none")) == ""


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder as an environment lies in it, with its marker."""
    folder = tmp_path / "env"
    site = folder / "venv" / "lib" / "site-packages"
    (site / "thing-1.dist-info").mkdir(parents=True)
    (site / "thing.so").write_bytes(b"x" * 100)
    (site / "link.so").symlink_to("thing.so")
    (site / "thing-1.dist-info" / "RECORD").write_text("thing.so,sha256=abc,100\nthing-1.dist-info/RECORD,,\n")
    (folder / "cuda").symlink_to("venv/lib")
    write_marker(str(folder), "k1", {"python": "p"}, [])
    return folder


def test_a_whole_environment_is_known_again(whole: Path) -> None:
    (whole / "requirements.txt").write_text("what pip was told")
    (whole / LOCK).write_text("somebody")
    cache = whole / "venv" / "lib" / "site-packages" / "__pycache__"
    cache.mkdir()
    (cache / "thing.cpython-313.pyc").write_bytes(b"compiled as it ran")
    assert read_marker(str(whole), "k1") is not None
    assert read_marker(str(whole), "k2") is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda site: (site / "thing.so").unlink(),
        lambda site: (site / "thing.so").write_bytes(b"x" * 99),
        lambda site: (site / "more.so").write_bytes(b""),
        lambda site: ((site / "link.so").unlink(), (site / "link.so").symlink_to("other.so")),
        lambda site: (site / "thing-1.dist-info" / "RECORD").write_text(
            "thing.so,sha256=xyz,100\nthing-1.dist-info/RECORD,,\n"
        ),
        lambda site: ((site.parents[2] / "cuda").unlink(), (site.parents[2] / "cuda").mkdir()),
        lambda site: (site.parents[2] / "cuda").unlink(),
    ],
    ids=["lost", "cut off", "added", "another link", "another RECORD", "a folder for a link", "a link lost"],
)
def test_what_is_no_longer_what_was_installed_is_told_and_not_used(
    whole: Path, spoil: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = digest_of(str(whole))
    spoil(whole / "venv" / "lib" / "site-packages")
    assert digest_of(str(whole)) != before
    assert read_marker(str(whole), "k1") is None
    assert "environment: not what was installed: " in capsys.readouterr().out


@pytest.mark.parametrize("change", [{"digest": None}, {"files": None}, {"also": None}, {"answer": None}])
def test_a_marker_that_says_too_little_is_none(whole: Path, change: dict[str, None]) -> None:
    known = json.loads((whole / COMPLETE).read_text())
    (name,) = change
    del known[name]
    (whole / COMPLETE).write_text(json.dumps(known))
    assert read_marker(str(whole), "k1") is None


def test_an_environment_whose_files_are_lost_is_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "env"
    made = prepare(request(folder))
    lost = next(Path(made["purelib"]).glob("pip/_internal/main.py"))
    lost.unlink()
    assert prepare(request(folder))["reused"] is False
    assert "it is made anew" in capsys.readouterr().out
    assert lost.is_file()


def test_an_installation_that_lost_a_file_is_never_called_whole(whole: Path) -> None:
    demand_whole(str(whole))
    for folder in (whole / "venv" / "lib" / "site-packages" / "setuptools" / "_vendor", whole / "target"):
        (folder / "wheel-1.dist-info").mkdir(parents=True)
        (folder / "wheel-1.dist-info" / "RECORD").write_text("bin/wheel,,\n")
    demand_whole(str(whole))  # theirs are of other places
    (whole / "venv" / "lib" / "site-packages" / "thing.so").unlink()
    with pytest.raises(FailedError, match=r"thing-1 lacks thing\.so, which it installed"):
        demand_whole(str(whole))


def test_who_only_looks_changes_nothing_and_sees_who_prepares(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    with pytest.raises(FailedError, match="not made yet"):
        look(request(folder))
    assert not folder.exists()
    made = prepare(request(folder))
    assert look(request(folder)) == {**made, "reused": True}
    with pytest.raises(FailedError, match="not made yet, or not whole"):
        look(request(folder, key="k2"))
    with held(str(folder), "the first build", 0), pytest.raises(BusyError, match="the first build, since"):
        look(request(folder))
