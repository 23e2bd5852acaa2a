"""Work in order, with the help of whoever is idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from qualify.spreading import Helpers

MB = 1 << 20


def _weight(weight: int) -> Callable[[int], int]:
    return lambda item: weight


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("weight", [1, MB, 200 * MB])
def test_answers_come_in_order(workers: int, weight: int) -> None:
    def work(item: int) -> int:
        time.sleep(0.0001 * (item % 7))
        return item * item

    with ThreadPoolExecutor(workers) as pool:
        # From one of the pool's own threads, as the readers ask it.
        asked = pool.submit(lambda: list(Helpers(pool, workers - 1).spread(work, range(300), _weight(weight))))
        assert asked.result(timeout=30) == [item * item for item in range(300)]


def test_idle_threads_do_help() -> None:
    """Two items that wait for each other end only if two threads have them."""
    meeting = threading.Barrier(2, timeout=30)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(
            lambda: list(Helpers(pool, 1).spread(lambda item: meeting.wait() >= 0, [1, 2], _weight(4 * MB)))
        )
        assert asked.result(timeout=60) == [True, True]


def test_a_busy_pool_delays_nothing() -> None:
    release = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(release.wait, 30)
        asked = pool.submit(lambda: list(Helpers(pool, 1).spread(str, range(50), _weight(MB))))
        assert asked.result(timeout=20) == [str(item) for item in range(50)]
        release.set()


def test_an_error_is_raised_where_its_answer_would_come() -> None:
    def work(item: int) -> int:
        if item == 20:
            raise ValueError(item)
        return item

    with ThreadPoolExecutor(3) as pool:
        answers = Helpers(pool, 2).spread(work, range(40), _weight(MB))
        assert [next(answers) for _ in range(20)] == list(range(20))
        with pytest.raises(ValueError, match="20"):
            next(answers)


def test_nothing_is_under_way_once_it_was_left() -> None:
    running = threading.Semaphore(0)
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.01)
        running.release()
        return item

    with ThreadPoolExecutor(4) as pool:
        answers = Helpers(pool, 3).spread(work, range(60), _weight(MB))
        next(answers)
        answers.close()  # type: ignore[attr-defined]
        count = len(begun)
        for _ in range(count):
            assert running.acquire(blocking=False)
        time.sleep(0.05)
        assert len(begun) == count < 60


def test_what_is_under_way_is_bounded() -> None:
    lock, weights, most = threading.Lock(), [0], [0]

    def work(item: int) -> int:
        with lock:
            weights[0] += 40
            most[0] = max(most[0], weights[0])
        time.sleep(0.001)
        with lock:
            weights[0] -= 40
        return item

    with ThreadPoolExecutor(6) as pool:
        assert list(Helpers(pool, 5).spread(work, range(60), _weight(40 * MB))) == list(range(60))
    assert most[0] <= 96


def test_answers_that_nobody_takes_do_not_pile_up() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        return item

    with ThreadPoolExecutor(3) as pool:
        answers = Helpers(pool, 2).spread(work, range(1000), _weight(MB // 4))
        next(answers)
        time.sleep(0.2)
        assert len(begun) <= 66
        assert list(answers) == list(range(1, 1000))
