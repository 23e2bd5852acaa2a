"""Work that one thread has to do in order, shared with whatever threads of a pool have nothing else to do.

The thread that asks never waits for a free one: it does the work itself, piece by piece, and takes the answers of
those that help in their order.  So it may be one of the pool's own threads, and a pool that is busy delays nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_WINDOW = 64  # answers that lie ready and were not taken yet
_AT_ONCE = 96 << 20  # what the items under way may weigh together
_LEAST = 4 << 20  # below it, nobody is asked to help


class Helpers:
    """A pool whose idle threads help."""

    def __init__(self, pool: Executor, number: int) -> None:
        self._pool = pool
        self._number = number

    def spread(
        self, work: Callable[[Item], Answer], items: Sequence[Item], weigh: Callable[[Item], int]
    ) -> Iterator[Answer]:
        """``map(work, items)``, in order; at most some answers ahead, and some weight (bytes, say) at one time.

        What ``work`` raises is raised where its answer would come.
        """
        weights = [weigh(item) for item in items]
        if self._number < 1 or len(items) < 2 or sum(weights) < _LEAST:
            yield from map(work, items)
            return
        share = _Share(work, items, weights)
        helpers = [self._pool.submit(share.help) for _ in range(min(self._number, len(items) - 1))]
        try:
            yield from share.answers()
        finally:
            share.end()
            for helper in helpers:
                helper.cancel()


class _Share(Generic[Item, Answer]):
    def __init__(self, work: Callable[[Item], Answer], items: Sequence[Item], weights: Sequence[int]) -> None:
        self._work, self._items, self._weights = work, items, weights
        self._changed = threading.Condition()
        self._next = self._taken = self._weight = 0
        self._running = 0
        self._answers: dict[int, tuple[Answer | None, BaseException | None]] = {}

    def help(self) -> None:
        """Do pieces until none is left that may be begun."""
        while (index := self._begin()) is not None:
            self._do(index)

    def end(self) -> None:
        """Let nothing more begin, and wait for what is under way: it looks at bytes that its owner is to give up."""
        with self._changed:
            self._next = len(self._items)
            while self._running:
                self._changed.wait()

    def answers(self) -> Iterator[Answer]:
        """Every answer in order; the caller's thread works whenever the next one isn't there."""
        for index in range(len(self._items)):
            while True:
                with self._changed:
                    found = self._answers.pop(index, None)
                    self._taken = index + (found is not None)
                if found is not None:
                    break
                mine = self._begin()
                if mine is not None:
                    self._do(mine)
                    continue
                with self._changed:
                    if index not in self._answers:
                        self._changed.wait()
            answer, error = found
            if error is not None:
                raise error
            yield answer  # type: ignore[misc]  # there is an answer where there is no error

    def _begin(self) -> int | None:
        with self._changed:
            index = self._next
            if index >= len(self._items) or index >= self._taken + _WINDOW:
                return None
            if self._running and self._weight + self._weights[index] > _AT_ONCE:
                return None
            self._next += 1
            self._running += 1
            self._weight += self._weights[index]
            return index

    def _do(self, index: int) -> None:
        found: tuple[Answer | None, BaseException | None]
        try:
            found = self._work(self._items[index]), None
        except BaseException as error:  # noqa: BLE001 - the thread that takes the answer raises it
            found = None, error
        with self._changed:
            self._answers[index] = found
            self._running -= 1
            self._weight -= self._weights[index]
            self._changed.notify_all()
