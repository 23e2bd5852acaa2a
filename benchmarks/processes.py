"""One command, timed from its start to its end, with the processor time and the memory that it took."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    seconds: float
    processor: float  # seconds of user and system, of the process and those that it waited for
    peak: int  # bytes: the largest resident set of any one of these processes
    output: str


def measure(command: Sequence[str], *, good: Collection[int] = (0,), cwd: Path | None = None) -> Measured:
    """Run ``command``; its output is kept, not shown.

    :raises SystemExit: it ends with a code that is not in ``good``, or there is no such program.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdout=output, stderr=errors, cwd=cwd)
        except FileNotFoundError as error:
            raise SystemExit(f"{command[0]} is not there: {error}") from error
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        shown = errors.read()[-2000:].decode("utf-8", "replace")
        if process.returncode not in good or "Traceback (most recent call last)" in shown:
            raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{shown}")
        text = output.read().decode("utf-8", "replace")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text)
