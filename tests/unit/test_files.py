from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from qualify.errors import RefusedError, UnavailableError, UsageError
from qualify.files import Digest, copy_atomic, locked, make_folder, sha256_of, sweep, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def temporaries(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.endswith(".wa-tmp")]


def test_write_makes_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.txt", "ä\r\nb")
    assert (tmp_path / "a.txt").read_bytes() == "ä\r\nb".encode()
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomic(path, b"new")
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_bytes() == b"new"


def test_a_new_file_takes_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/file")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/file").read_bytes() == b"new"


def test_a_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        write_atomic(tmp_path / "none/a", b"x")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_failing_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def broken(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(UnavailableError) as caught:
        write_atomic(path, b"new")
    assert str(path) in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from qualify import files\n"
        "with files._replacing(Path(sys.argv[1])):\n"
        "    print('in', flush=True); sys.stdin.read()\n"
    )
    path = tmp_path / "a"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"in\n"
        assert len(temporaries(tmp_path)) == 1
        write_atomic(path, b"one")
        sweep(tmp_path)
        assert len(temporaries(tmp_path)) == 1, "a live writer's file must stay"
        child.kill()
    assert len(temporaries(tmp_path)) == 1
    write_atomic(path, b"two")
    assert names(tmp_path) == ["a"]


def test_killed_at_any_moment_the_file_is_old_or_new(tmp_path: Path) -> None:
    path = tmp_path / "a"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    write_atomic(path, contents[0])
    code = (
        "import sys; from pathlib import Path; from qualify.files import write_atomic\n"
        "contents = [bytes([letter]) * 300_000 for letter in b'ab']\n"
        "print('go', flush=True)\n"
        "while True:\n"
        "    for content in contents: write_atomic(Path(sys.argv[1]), content)\n"
    )
    moments = random.Random(7)
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(moments.random() * 0.02)
            child.send_signal(signal.SIGKILL)
        assert path.read_bytes() in contents
    write_atomic(path, b"end")
    assert names(tmp_path) == ["a"]


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    contents = {bytes([65 + n]) * 50_000 for n in range(4)}

    def write(content: bytes) -> None:
        for _ in range(10):
            write_atomic(path, content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert names(tmp_path) == ["a"]


def test_copy_hashes_and_reports_progress(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_000)
    (tmp_path / "from").write_bytes(data)
    seen: list[tuple[int, int]] = []
    digest = copy_atomic(tmp_path / "from", tmp_path / "to", progress=lambda done, total: seen.append((done, total)))
    assert digest == Digest(hashlib.sha256(data).hexdigest(), len(data)) == sha256_of(tmp_path / "to")
    assert (tmp_path / "to").read_bytes() == data
    assert seen[-1] == (len(data), len(data))
    assert len(seen) > 1


def test_copy_of_other_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"x")
    with pytest.raises(RefusedError, match="changed since it was judged"):
        copy_atomic(tmp_path / "from", tmp_path / "to", sha256="0" * 64)
    assert names(tmp_path) == ["from"]


def test_a_copy_that_reads_back_different_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qualify import files

    (tmp_path / "from").write_bytes(b"good")
    monkeypatch.setattr(files, "_write_all", lambda handle, data: os.write(handle, b"evil"))
    with pytest.raises(UnavailableError, match="reads back different"):
        copy_atomic(tmp_path / "from", tmp_path / "to")
    assert names(tmp_path) == ["from"]


def test_hash_of_nothing_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        sha256_of(tmp_path / "none")
    with pytest.raises(UnavailableError):
        sha256_of(tmp_path)


def test_folders_are_made_with_their_parents(tmp_path: Path) -> None:
    make_folder(tmp_path / "a/b/c")
    make_folder(tmp_path / "a/b/c")
    assert (tmp_path / "a/b/c").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError):
        make_folder(tmp_path / "file/below")


HOLD = (
    "import sys; from pathlib import Path; from qualify.files import locked\n"
    "with locked(Path(sys.argv[1]), purpose='holding'):\n"
    "    print('in', flush=True); sys.stdin.read()\n"
)


def hold(path: Path) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"in\n"
    return child


def test_a_lock_that_is_held_names_its_holder(tmp_path: Path) -> None:
    with hold(tmp_path / "x") as child:
        with pytest.raises(UnavailableError) as caught, locked(tmp_path / "x", timeout=0.2):
            pytest.fail("two holders")
        assert f"process {child.pid} on {os.uname().nodename}" in str(caught.value)
        assert "(holding)" in str(caught.value)
        child.kill()


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    with hold(tmp_path / "x") as child:
        child.kill()
    assert (tmp_path / ".x.lock").exists()
    with locked(tmp_path / "x", timeout=0):
        pass
    assert names(tmp_path) == []


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = (
        "import multiprocessing, os, signal, sys, time; from pathlib import Path; from qualify.files import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(30,))\n"
        "    child.start(); print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "x")], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait()
        try:
            with locked(tmp_path / "x", timeout=1):
                os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def count(path: Path, times: int) -> None:
    for _ in range(times):
        with locked(path):
            value = int(path.read_text())
            time.sleep(0.001)
            path.write_text(str(value + 1))


def test_processes_and_threads_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("0")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=count, args=(path, 10)) for _ in range(3)]
    threads = [threading.Thread(target=count, args=(path, 10)) for _ in range(2)]
    for worker in [*processes, *threads]:
        worker.start()
    for worker in [*processes, *threads]:
        worker.join()
    assert path.read_text() == "50"
    assert names(tmp_path) == ["n"]


def test_a_thread_waits_no_longer_than_told(tmp_path: Path) -> None:
    seen: list[str] = []

    def second() -> None:
        try:
            with locked(tmp_path / "x", timeout=0.1):
                seen.append("two holders")
        except UnavailableError as error:
            seen.append(error.what)

    with locked(tmp_path / "x"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert seen == [seen[0]]
    assert f"process {os.getpid()}" in seen[0]
