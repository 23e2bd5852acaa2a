"""A wheel that is read in the background."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from qualify.errors import MalformedError
from qualify.opening import read_wheel
from qualify.readahead import ReadAhead
from tests.support.wheel import wheel_filename, write_wheel


def test_the_facts_are_those_of_reading(tmp_path: Path) -> None:
    path = write_wheel(tmp_path)
    seen: list[str] = []
    with ReadAhead(path, lambda member, done, total: seen.append(member)) as ahead:
        assert ahead.result() == read_wheel(path)
    assert seen


def test_errors_come_out_where_the_result_is_asked_for(tmp_path: Path) -> None:
    bad = tmp_path / wheel_filename()
    bad.write_bytes(b"no zip")
    with ReadAhead(bad) as ahead, pytest.raises(MalformedError):
        ahead.result()


def test_leaving_ends_the_reading(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, files={f"axpy/{index}.bin": bytes(5 << 20) for index in range(30)})
    steps: list[int] = []
    first = threading.Event()

    def step(member: str, done: int, total: int) -> None:
        steps.append(done)
        first.set()

    with ReadAhead(path, step):
        assert first.wait(30)
    assert len(steps) < 30
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("read-ahead", "member"))]
