"""Run one action again and again, killed by SIGKILL at another moment each time.

A program, since it forks: ``python -m tests.support.killing KIND FOLDER SEED``, with ``record`` or a publisher's
name for KIND.  Two ways to choose the moment: at the nth call that touches the disk (a write is cut in half first),
for every n until the action gets through, and after a random time.  After each kill the caller's view is checked,
the action is run again to its end, and the result is compared with that of a run that nobody killed.  Prints what
was done as JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qualify import evidence, matrix, recording
from qualify.publishers import publisher
from tests.support.line import NOW, TARGETS, qualified, write_matrix
from tests.support.store import torn, tree

STEPS = ("open", "write", "fsync", "replace", "unlink", "mkdir", "pwrite", "ftruncate")
RANDOM_MOMENTS = 20


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(number: int) -> None:
    """In this process, die at the ``number``-th call of :data:`STEPS`; half way through, where it writes."""
    left = [number]

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                die()
            return real(*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, wrap(name, getattr(os, name)))


def killed(action: Callable[[], object], prepare: Callable[[], None], seconds: float | None = None) -> bool:
    """Run ``action`` in a child; True where it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            prepare()
            action()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "the action failed by itself"
    return False


def at_every_moment(
    action: Callable[[], object],
    reset: Callable[[], None],
    check: Callable[[], None],
    end: Callable[[], object],
    seed: int,
) -> dict[str, int]:
    """Kill at every step and at random moments; ``check`` after each kill, ``end`` after the action ran through."""
    reset()
    start = time.monotonic()
    action()
    duration, expected = time.monotonic() - start, end()
    step = 1
    while True:
        reset()
        if not killed(action, lambda number=step: kill_at(number)):
            break
        check()
        action()
        assert end() == expected, f"killed at step {step}"
        step += 1
    moments = random.Random(seed)
    kills = 0
    while kills < RANDOM_MOMENTS:
        reset()
        if killed(action, lambda: None, moments.random() * duration):
            kills += 1
        else:
            duration *= 0.8  # it got through: this machine is faster now than when it was timed
        check()
        action()
        assert end() == expected
    # Killed again and again without a whole run in between, from wherever the last one left it.
    reset()
    for number in range(1, step, 3):
        killed(action, lambda number=number: kill_at(number))
        check()
    action()
    assert end() == expected
    return {"steps": step - 1, "random": kills}


def publishing(kind: str, folder: Path, seed: int) -> dict[str, int]:
    path = write_matrix(folder)
    proofs = []
    for target in TARGETS:
        made = qualified(folder, path, target)
        proofs.append(evidence.prove(evidence.load(made.path), made.wheel, matrix.load(path)))
    store, publish = folder / "to", publisher(kind).publish

    def reset() -> None:
        shutil.rmtree(store, ignore_errors=True)
        publish(proofs[:2], str(store), now=NOW)

    # One wheel is there already, the other bears its name: the combined index has to drop it.
    def check() -> None:
        assert torn(store) == []

    return at_every_moment(lambda: publish(proofs[1:], str(store), now=NOW), reset, check, lambda: tree(store), seed)


def recording_(folder: Path, seed: int) -> dict[str, int]:
    path = write_matrix(folder)
    made = qualified(folder, path)
    before = path.read_bytes()
    whole = {before}

    def act() -> None:
        recording.record(made.wheel, made.target, matrix_path=path, now=NOW)

    def reset() -> None:
        path.write_bytes(before)

    def check() -> None:
        assert path.read_bytes() in whole
        matrix.load(path)

    act()
    whole.add(path.read_bytes())
    names = {entry.name for entry in folder.iterdir()}

    def end() -> object:
        # No leftover of a killed run beside the matrix, and the file whole.
        assert {entry.name for entry in folder.iterdir()} == names
        return path.read_bytes()

    return at_every_moment(act, reset, check, end, seed)


if __name__ == "__main__":
    kind, place, number = sys.argv[1:]
    folder, seed = Path(place), int(number)
    print(json.dumps(recording_(folder, seed) if kind == "record" else publishing(kind, folder, seed)))
