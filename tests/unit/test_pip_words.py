"""An index that does not answer, told from one that has nothing that fits: by what three pips said on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.environment_script import tell_pages_not_had
from builders.pip_words import PAGE_NOT_HAD, index_is_silent

FILES = sorted((Path(__file__).parents[1] / "data" / "pip").glob("*.txt"))
MARK = "-" * 20  # of tools/record_pip.py: before it what was printed, behind it the log


def test_recordings_are_there() -> None:
    assert len(FILES) >= 40
    assert {path.stem.rpartition("-")[2] for path in FILES} == {"23.0.1", "24.2", "26.3"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_pip_logs_tells_whether_the_index_answered(path: Path) -> None:
    printed, _, log = path.read_text(encoding="utf-8").partition(MARK)
    silent = not path.name.startswith("answers-")
    assert index_is_silent(log) is silent
    if not silent:
        assert not index_is_silent(printed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_the_script_adds_to_what_pip_prints_tells_it_too(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, _, log = path.read_text(encoding="utf-8").partition(MARK)
    (tmp_path / "pip.log").write_text("".join(f"2026-12-01T12:00:00,000 {line}\n" for line in log.split("\n")))
    tell_pages_not_had(str(tmp_path / "pip.log"))
    added = capsys.readouterr().out
    assert all(line.startswith(PAGE_NOT_HAD) for line in added.split("\n") if line)
    assert index_is_silent(printed + added) is not path.name.startswith("answers-")


def test_without_a_log_nothing_is_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell_pages_not_had(str(tmp_path / "none"))
    assert capsys.readouterr().out == ""
