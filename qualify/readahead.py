"""Begin to read a wheel while the command that wants it still imports its libraries and loads its matrix."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qualify.facts import WheelFacts


class _Given(Exception):  # noqa: N818 - no error: it ends a reading that nobody waits for any more
    """Raised inside the reading once its result is not wanted."""


class ReadAhead:
    """One wheel that is read in the background, as a context: leaving it gives up what is not read yet.

    :param progress: as for :func:`qualify.opening.read_wheel`, called from the background thread.
    """

    def __init__(self, path: Path, progress: Callable[[str, int, int], None] | None = None) -> None:
        # Imported before the thread begins: two threads that import wait for each other, one that inflates does not.
        from qualify.opening import read_wheel

        self.path = path
        self._progress = progress
        self._left = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._facts: Future[WheelFacts] = self._pool.submit(read_wheel, path, progress=self._step)

    def result(self) -> WheelFacts:
        """The facts, or the error that reading raised."""
        return self._facts.result()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _step(self, member: str, done: int, total: int) -> None:
        if self._left.is_set():
            raise _Given
        if self._progress:
            self._progress(member, done, total)
