"""What a build says while it runs: every line to a file, and on stderr as much as a person can follow."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, TextIO

# "[12/365] Building CUDA object …", as ninja prints it; CMake's make prints "[ 33%]".
_STEP = re.compile(r"^\s*\[(\d+)/(\d+)\]")
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
            self._write_out(f"\r\x1b[K{text[:118]}")
            self._open_line = True
        else:
            self._write_out(f"  {text[:118]}\n")

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
            self._progress(int(step[1]), int(step[2]), text)

    def _progress(self, done: int, count: int, text: str) -> None:
        now = self._clock()
        if done <= self.steps_done or count != self.steps_all:
            self._began = now  # a new ninja run
        self.steps_done, self.steps_all = done, count
        left = _time_left(now - self._began, done, count)
        what = text[text.index("]") + 1 :].strip()
        self.passing(f"[{done}/{count}] {left}{what}", _QUIET_SECONDS, last=done == count)

    def _write(self, text: str) -> None:
        if self._file is not None:
            self._file.write(f"{text}\n")
            self._file.flush()


def _time_left(spent: float, done: int, count: int) -> str:
    """``"3:20 left, "`` from the pace so far; nothing before a tenth and ten seconds are done."""
    if done == 0 or done == count or spent < 10 or done * 10 < count:
        return ""
    seconds = int(spent / done * (count - done))
    return f"{seconds // 60}:{seconds % 60:02} left, "
