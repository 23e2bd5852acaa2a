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
_QUIET_SECONDS = 2.0  # between two lines of progress where stderr is no terminal


class BuildLog:
    """The log of one build.

    On a terminal ninja's progress is one line that is rewritten, with the time left; elsewhere it is a line now and
    then.  ``verbose`` shows every line instead.
    """

    def __init__(
        self, path: Path, stderr: TextIO, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self.steps_done = 0
        self.steps_all = 0
        self._stderr = stderr
        self._verbose = verbose
        self._clock = clock
        self._terminal = stderr.isatty()
        self._began = self._shown = clock()
        self._open_line = False
        self._file: IO[str] | None = None

    def __enter__(self) -> BuildLog:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("w", encoding="utf-8", errors="replace")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_line()
        if self._file is not None:
            self._file.close()

    def say(self, text: str) -> None:
        """A line of our own: always shown, and logged with a mark that tells it from the build's."""
        self._write(f"== {text}")
        self._close_line()
        self._stderr.write(f"{text}\n")
        self._stderr.flush()

    def note(self, text: str) -> None:
        """A line of our own that only the log needs."""
        self._write(f"== {text}")

    def line(self, text: str) -> None:
        """A line of a step's output."""
        self._write(text)
        step = _STEP.match(text)
        if self._verbose:
            self._stderr.write(f"{text}\n")
            self._stderr.flush()
        elif step:
            self._progress(int(step[1]), int(step[2]), text)

    def _progress(self, done: int, count: int, text: str) -> None:
        now = self._clock()
        if done <= self.steps_done or count != self.steps_all:
            self._began = now  # a new ninja run
        self.steps_done, self.steps_all = done, count
        if not self._terminal and now - self._shown < _QUIET_SECONDS and done != count:
            return
        self._shown = now
        left = _time_left(now - self._began, done, count)
        shown = f"[{done}/{count}] {left}{text[text.index(']') + 1 :].strip()}"[:118]
        if self._terminal:
            self._stderr.write(f"\r\x1b[K{shown}")
            self._open_line = True
        else:
            self._stderr.write(f"  {shown}\n")
        self._stderr.flush()

    def _close_line(self) -> None:
        if self._open_line:
            self._stderr.write("\n")
            self._open_line = False

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
