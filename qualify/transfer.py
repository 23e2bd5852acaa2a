"""How far a long transfer is, on stderr: one line that is rewritten on a terminal, a line each tenth elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

# What is being moved, bytes done, bytes in all (0 where nobody said).
Progress = Callable[[str, int, int], None]

_MEGA = 1e6
_REDRAW_SECONDS = 0.2
_UNKNOWN_STEP = 50_000_000


@dataclass(slots=True)
class TransferLine:
    """Draws progress on a stream; one of these for a whole process is enough."""

    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    _drawn: float = field(default=-1.0, init=False)
    _step: tuple[str, int] = field(default=("", -1), init=False)

    def __call__(self, what: str, done: int, total: int) -> None:
        whole = bool(total) and done >= total
        amount = f"{done / _MEGA:.1f} of {total / _MEGA:.1f} MB" if total else f"{done / _MEGA:.1f} MB"
        if self.stream.isatty():
            now = self.clock()
            if whole or now - self._drawn >= _REDRAW_SECONDS:
                self._drawn = now
                self.stream.write(f"\r{what}: {amount}" + ("\n" if whole else ""))
                self.stream.flush()
            return
        step = (what, done * 10 // total if total else done // _UNKNOWN_STEP)
        if step != self._step:
            self._step = step
            self.stream.write(f"{what}: {amount}\n")
            self.stream.flush()


def show_on_stderr(what: str, done: int, total: int) -> None:
    """The usual listener of a transfer."""
    _on_stderr(what, done, total)


_on_stderr = TransferLine(sys.stderr)
