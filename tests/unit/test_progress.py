"""What a person sees of a build, and what its log keeps."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from builders.progress import BuildLog, Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_log_holds_every_line_and_marks_our_own(tmp_path: Path) -> None:
    stderr = io.StringIO()
    with BuildLog(tmp_path / "deep" / "build.log", stderr) as log:
        log.say("compile: 2 jobs")
        log.line("gcc -c a.c")
        log.detail("Unpacking gcc")
        log.note("nvcc: found")
    assert log.path.read_text() == "== compile: 2 jobs\ngcc -c a.c\nUnpacking gcc\n== nvcc: found\n"
    assert stderr.getvalue() == "compile: 2 jobs\n"


def test_without_a_terminal_progress_is_a_line_now_and_then(tmp_path: Path, clock: Clock) -> None:
    stderr = io.StringIO()
    with BuildLog(tmp_path / "log", stderr, clock=clock) as log:
        for number in range(1, 11):
            clock.now += 0.5
            log.line(f"[{number}/10] Building {number}.o")
    assert stderr.getvalue().splitlines() == [
        "  [4/10] Building 4.o",
        "  [8/10] Building 8.o",
        "  [10/10] Building 10.o",
    ]


def test_on_a_terminal_progress_is_a_bar_with_the_time_left(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    stderr = Terminal()
    with BuildLog(tmp_path / "log", stderr, clock=clock) as log:
        for number in range(5):
            log.line(f"[{number}/365] Building CUDA object {'x' * 200}")
            clock.now += 60
        log.line("[300/365] nearly")
        log.say("done")
    lines = stderr.getvalue().split("\r\x1b[K")
    assert lines[1].startswith("------------------------ [0/365] Building")
    assert "[3/365] about 6:02:00 left, Building" in lines[4]
    assert all(len(line) <= 99 for line in lines[1:6])
    assert lines[-1] == "###################----- [300/365] 1:05 left, nearly\ndone\n"


def test_a_second_run_of_ninja_begins_anew(tmp_path: Path, clock: Clock) -> None:
    stderr = Terminal()
    with BuildLog(tmp_path / "log", stderr, clock=clock) as log:
        log.line("[9/10] a")
        clock.now += 1000
        log.line("[1/6] b")
        clock.now += 24
        log.line("[4/6] c")
    assert stderr.getvalue().endswith("[4/6] 0:16 left, c\n")
    assert (log.steps_done, log.steps_all) == (4, 6)


def test_what_was_there_before_gives_no_pace(tmp_path: Path, clock: Clock) -> None:
    stderr = Terminal()
    with BuildLog(tmp_path / "log", stderr, clock=clock) as log:
        log.line("[100/400] a")  # continued in an earlier build folder
        clock.now += 100
        log.line("[110/400] b")
    assert "[110/400] about 48:20 left, b" in stderr.getvalue()


def test_percent_of_make_is_progress_too(tmp_path: Path, clock: Clock) -> None:
    stderr = Terminal()
    with BuildLog(tmp_path / "log", stderr, clock=clock) as log:
        log.line("[  3%] Building CXX object a.o")
        log.line("[100%] Built target a")
    assert (log.steps_done, log.steps_all) == (100, 100)
    assert stderr.getvalue().endswith("######################## [100/100] Built target a\n")


def test_a_long_command_shows_what_it_compiles(tmp_path: Path) -> None:
    stderr = io.StringIO()
    with BuildLog(tmp_path / "log", stderr) as log:
        log.line(f"  [1/1] ccache /usr/bin/g++ -MMD {'-Iinclude ' * 50}-c -o build/a.o csrc/a.cpp")
    assert stderr.getvalue() == "  [1/1] /usr/bin/g++ … -c csrc/a.cpp\n"


def test_verbose_shows_every_line(tmp_path: Path) -> None:
    stderr = io.StringIO()
    with BuildLog(tmp_path / "log", stderr, verbose=True) as log:
        log.line("gcc -c a.c")
        log.line("[1/2] a")
    assert stderr.getvalue() == "gcc -c a.c\n[1/2] a\n"


def test_a_tools_output_is_shown_now_and_then(clock: Clock) -> None:
    stderr = io.StringIO()
    console = Console(stderr, clock=clock)
    for number in range(25):
        clock.now += 1
        console.detail(f"Unpacking {number}\n")
    console.say("ready")
    assert stderr.getvalue() == "  Unpacking 9\n  Unpacking 19\nready\n"
