from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from qualify import scratch
from qualify.scratch import scratch_folder

HOLDS = """
import sys, time
from qualify.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_gone_afterwards(place: Path) -> None:
    with scratch_folder("test") as folder:
        (folder / "file").write_text("x")
        assert folder.parent == place
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_a_living_ones_stays(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            held = Path(other.stdout.readline().strip())
            (place / "wheel-assay-other-x").mkdir()
            with scratch_folder("test"):
                assert (held / "file").is_file()
        finally:
            other.send_signal(signal.SIGKILL)
    assert held.is_dir()
    with scratch_folder("test") as folder:
        assert not held.exists()
        assert folder.is_dir()
    assert [path.name for path in place.iterdir()] == ["wheel-assay-other-x"]


def test_what_holds_a_mount_and_what_is_a_link_stay(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = place / "wheel-assay-test-mounted"
    mounted.mkdir()
    (place / "wheel-assay-test-link").symlink_to(mounted)
    mounts = place / "mounts"
    mounts.write_text(f"proc {mounted}/root/proc proc rw 0 0\n")
    monkeypatch.setattr(scratch, "_MOUNTS", mounts)
    with scratch_folder("test"):
        assert mounted.is_dir()
    assert (place / "wheel-assay-test-link").is_symlink()


def test_a_file_system_without_locks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    left = place / "wheel-assay-test-left"
    left.mkdir()
    with scratch_folder("test") as folder:
        assert folder.is_dir()
    assert list(place.iterdir()) == [left]
