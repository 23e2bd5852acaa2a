"""What a build says while it runs: every line to a file, and on stderr as much as a person can follow."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, TextIO

from builders.commandlines import brief, is_command

# "[12/365] Building CUDA object …", as ninja prints it; CMake's make prints "[ 33%]".
_STEP = re.compile(r"^\s*\[(?:(\d+)/(\d+)|\s*(\d+)%)\]\s*")
_WIDTH = 118  # characters of a line where there is no terminal that says its own width
_BAR = 24  # characters of the bar on a terminal
# Before so many steps and seconds a pace says nothing.
_STEPS_OF_A_PACE = 3
_SECONDS_OF_A_PACE = 20.0
# Seconds between two lines where stderr is no terminal: of progress, and of a tool's output.
_QUIET_SECONDS = 2.0
_DETAIL_SECONDS = 10.0


class Console:
    """What a person sees on stderr: whole lines, and, on a terminal, one line that is rewritten."""

    def __init__(self, stderr: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stderr = stderr
        self._clock = clock
        self._terminal = stderr.isatty()
        self._shown = clock()
        self._open_line = False

    def say(self, text: str) -> None:
        """A line for people, always shown."""
        self.close_line()
        self._write_out(f"{text}\n")

    def detail(self, text: str) -> None:
        """A line of a tool's output: on a terminal in the line that is rewritten, elsewhere one now and then."""
        self.passing(text.strip(), _DETAIL_SECONDS)

    def passing(self, text: str, quiet: float, *, last: bool = False) -> None:
        """Show a line that the next one replaces; where stderr is no terminal, at most one in ``quiet`` seconds."""
        now = self._clock()
        if not self._terminal and now - self._shown < quiet and not last:
            return
        self._shown = now
        if self._terminal:
            # One character less than fits: some terminals wrap on the last one, and the next line would not cover it.
            width = shutil.get_terminal_size((_WIDTH + 1, 24)).columns - 1
            self._write_out(f"\r\x1b[K{text[:width]}")
            self._open_line = True
        else:
            self._write_out(f"  {text[:_WIDTH]}\n")

    def close_line(self) -> None:
        """End the line that is rewritten."""
        if self._open_line:
            self._write_out("\n")
            self._open_line = False

    def _write_out(self, text: str) -> None:
        self._stderr.write(text)
        self._stderr.flush()


class BuildLog(Console):
    """The log of one build: every line in a file, and a person's share of them on stderr.

    ``verbose`` shows every line of the build.
    """

    def __init__(
        self, path: Path, stderr: TextIO, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stderr, clock=clock)
        self.path = path
        self.steps_done = 0
        self.steps_all = 0
        self._verbose = verbose
        self._began = clock()
        self._began_at = 0
        self._file: IO[str] | None = None

    def __enter__(self) -> BuildLog:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w", encoding="utf-8", errors="replace")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_line()
        if self._file is not None:
            self._file.close()

    def say(self, text: str) -> None:
        """A line of our own: shown, and logged with a mark that tells it from the build's."""
        self.note(text)
        super().say(text)

    def note(self, text: str) -> None:
        """A line of our own that only the log needs."""
        self._write(f"== {text}")

    def detail(self, text: str) -> None:
        self._write(text)
        super().detail(text)

    def line(self, text: str) -> None:
        """A line of a step's output; ninja's ``[n/m]`` is the progress that is shown."""
        self._write(text)
        step = _STEP.match(text)
        if self._verbose:
            super().say(text)
        elif step:
            done, count = (int(step[3]), 100) if step[3] else (int(step[1]), int(step[2]))
            what = text[step.end() :].strip()
            self._progress(done, count, brief(what) if is_command(what) else what)

    def _progress(self, done: int, count: int, what: str) -> None:
        now = self._clock()
        if done < self.steps_done or count != self.steps_all:
            self._began = now  # a new ninja run
            self._began_at = done
        self.steps_done, self.steps_all = done, count
        left = time_left(now - self._began, done - self._began_at, count - done)
        bar = f"{_bar(done, count)} " if self._terminal else ""
        self.passing(f"{bar}[{done}/{count}] {left}{what}", _QUIET_SECONDS, last=done == count)

    def _write(self, text: str) -> None:
        if self._file is not None:
            self._file.write(f"{text}\n")
            self._file.flush()


def _bar(done: int, count: int) -> str:
    """``"####----"``, as full as the work is done."""
    full = _BAR * min(done, count) // max(count, 1)
    return "#" * full + "-" * (_BAR - full)


def time_left(spent: float, done: int, left: int) -> str:
    """``"3:20 left, "`` from the pace so far; "about" while the pace is of less than a tenth.

    :param spent: seconds in which ``done`` steps were done.
    :param left: steps that are to be done.
    :returns: nothing where there is no pace yet, or nothing left.
    """
    if left <= 0 or done < _STEPS_OF_A_PACE or spent < _SECONDS_OF_A_PACE:
        return ""
    seconds = int(spent / done * left)
    hours, minutes = divmod(seconds // 60, 60)
    said = f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
    return f"{'about ' if done * 9 < left else ''}{said} left, "
