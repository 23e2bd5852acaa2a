"""Beside a step that runs on a Docker engine: the end of its time, and an engine that went silent.

An engine that dies closes its connections, and whoever reads them hears it.  One whose machine lost its power or its
network closes nothing: without a question now and then a reader would wait for ever.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from builders.engines.docker_client import GONE
from qualify.errors import UnavailableError

PERIOD_SECONDS = 15.0  # between two questions
SILENCE_SECONDS = 120.0  # after which an engine counts as gone; one that is only busy answers sooner


class Watch:
    """Watches one container until its context ends.

    :param ask: returns when the engine answers, and raises when it doesn't.
    :param seconds: the container's time; 0 for any.
    """

    def __init__(self, container: Any, seconds: float, ask: Callable[[], object]) -> None:
        self.over = False  # its time was over, and it was ended
        self.silent = False  # the engine no longer answers
        self._container = container
        self._seconds = seconds
        self._ask = ask
        self._stream: Any = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        # Not waited for: it may be asking an engine that never answers.
        self._done.set()

    def reading(self, stream: Any) -> None:
        """The stream that is to be woken when the engine goes silent; ``None`` where none is read."""
        with self._lock:
            self._stream = stream
        if self.silent:
            wake(stream)

    def demand_answers(self) -> None:
        """:raises UnavailableError: the engine went silent."""
        if self.silent:
            raise UnavailableError(
                f"the Docker engine went silent, and did not answer for {SILENCE_SECONDS:.0f} s",
                where="docker",
                action="see whether its machine runs; a later build removes what is left there, and goes on",
            )

    def _run(self) -> None:
        heard = began = time.monotonic()
        while not self._done.wait(self._pause(began)):
            now = time.monotonic()
            if self._seconds and not self.over and now >= began + self._seconds:
                self.over = True
                with contextlib.suppress(*GONE):
                    self._container.kill()
                continue
            try:
                self._ask()
                heard = time.monotonic()
            except (*GONE, UnavailableError):
                if time.monotonic() - heard >= SILENCE_SECONDS:
                    with self._lock:
                        self.silent = True
                        stream = self._stream
                    wake(stream)
                    return

    def _pause(self, began: float) -> float:
        if not self._seconds or self.over:
            return PERIOD_SECONDS
        return max(0.0, min(PERIOD_SECONDS, began + self._seconds - time.monotonic()))


def wake(stream: Any) -> None:
    """Let a thread that reads one of the SDK's streams see its end."""
    if stream is None:
        return
    with contextlib.suppress(*GONE, OSError, AttributeError):
        channel = getattr(stream._response.raw._fp.fp, "channel", None)
        if channel is not None:
            channel.close()  # over ssh the SDK can't do it
        else:
            stream.close()
