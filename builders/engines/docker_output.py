"""The output of a container, whole: what it prints as it comes, to the very end, once.

Measured facts that shaped it: ``attach(logs=True)`` loses what was written before, ``logs(follow)`` doesn't; following
ends when the container stops, which may be before its last line is in the log, and also, without a word, when the
connection breaks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from builders.engines.docker_watch import Watch

_ALIVE = ("created", "running", "paused", "restarting")
_PAUSE_SECONDS = 1.0  # before a broken connection is made anew


def whole_log(container: Any, watch: Watch) -> Generator[bytes, None, None]:
    """The container's output as it comes.

    :raises UnavailableError: the engine went silent.
    """
    seen = 0
    ended = False
    while True:
        before = seen
        passed = 0
        with _log_stream(container, watch, follow=not ended) as stream:
            for chunk in stream:
                passed += len(chunk)
                if passed > seen:
                    yield chunk[len(chunk) - (passed - seen) :]
                    seen = passed
        watch.demand_answers()
        if ended:
            return
        container.reload()
        ended = container.status not in _ALIVE
        if not ended and seen == before:
            time.sleep(_PAUSE_SECONDS)


@contextlib.contextmanager
def _log_stream(container: Any, watch: Watch, *, follow: bool) -> Iterator[Iterable[bytes]]:
    stream = container.logs(stream=True, follow=follow)
    watch.reading(stream)
    try:
        yield stream
    finally:
        watch.reading(None)
        # The stream's own close() leaves the descriptor to the garbage collector; the response's doesn't.
        stream._response.close()
