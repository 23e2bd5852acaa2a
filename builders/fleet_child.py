"""One build of a fleet: a process of its own, what it says as it runs, and its result once it is checked.

A build is ended as a person would end it, so it removes its containers; only where it doesn't is it killed.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qualify.errors import AssayError, ExitCode
from qualify.files import sha256_of

_KEPT_LINES = 60  # of what a build says: enough for an error with its list
_LONGEST = 2000  # characters of one line that are kept
_BUG = 70
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # ECMA-48: control sequences


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one target's build ended.

    ``code`` is that of docs/exit-codes.md.  ``fault`` is one sentence for people, "" where the wheel is there;
    ``details`` are the lines that the build printed of its error.
    """

    code: int
    seconds: float = 0.0
    wheel: str = ""
    sha256: str = ""
    key: str = ""
    built: bool = False  # False with a wheel: it was there before
    fault: str = ""
    details: tuple[str, ...] = ()


class Child:
    """A running build.  ``line`` is the last that it said; ``heard`` is told each."""

    def __init__(self, arguments: Sequence[str], heard: Callable[[str], None] = lambda text: None) -> None:
        """:param arguments: of ``python -m builders``; they ask for JSON."""
        self.line = ""
        self._heard = heard
        self._began = time.monotonic()
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by wait()
        # A session of its own: Ctrl-C on the terminal reaches it through us, once.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "builders", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._answer,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="heard of a build", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        with stream:
            while raw := stream.readline(1 << 16):
                text = printable(raw.decode("utf-8", "replace").rstrip("\r\n"))[:_LONGEST]
                if text.strip():
                    self._said.append(text)
                    self.line = text
                    self._heard(text)

    def wait(self) -> Outcome:
        """Its result, once it has ended and its wheel was held against its receipt."""
        code = self._process.wait()
        # What it started may still hold its end of the pipe; all that it said itself is there.
        self._reader.join(timeout=5)
        seconds = round(time.monotonic() - self._began, 1)
        try:
            if code == 0:
                return self._checked(seconds)
        finally:
            self._answer.close()
        if code < 0:
            return Outcome(int(ExitCode.INTERRUPTED), seconds, fault=f"its process was ended by signal {-code}")
        details = error_lines(tuple(self._said))
        fault = details[0].removeprefix("error: ") if details else f"it ended with {code} and said nothing"
        return Outcome(code, seconds, fault=fault, details=details)

    def _checked(self, seconds: float) -> Outcome:
        """The bytes on this host's disk, against what the receipt says of them: they came from another machine."""
        self._answer.seek(0)
        try:
            document = json.loads(self._answer.read())
            wheel, recorded = Path(document["path"]), str(document["wheel"]["sha256"])
            key, built = str(document["key"]), bool(document["built"])
        except (ValueError, KeyError, TypeError) as error:
            return Outcome(_BUG, seconds, fault=f"its answer is no receipt: {error!r}")
        try:
            found = sha256_of(wheel).sha256
        except AssayError as error:
            return Outcome(int(error.exit_code), seconds, fault=str(error))
        if found != recorded:
            fault = f"{wheel}: holds sha256 {found}, and its receipt says {recorded}"
            return Outcome(int(ExitCode.BUILD_FAILED), seconds, str(wheel), found, fault=fault)
        return Outcome(0, seconds, str(wheel), found, key, built)

    def end(self) -> None:
        """Tell it to end, as Ctrl-C would; :meth:`wait` returns when it has cleaned up."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """End it at once; the next build on its engine removes what it leaves there."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def error_lines(said: Sequence[str]) -> tuple[str, ...]:
    """The last error among the lines that a command printed, with the lines that belong to it."""
    starts = [number for number, text in enumerate(said) if text.startswith("error: ")]
    if not starts:
        return tuple(said[-1:])
    return tuple(said[starts[-1] :])


def printable(text: str) -> str:
    """A line of another program without what would move a terminal's cursor or change its colours."""
    return "".join(character if character.isprintable() else " " for character in _COLOURS.sub("", text))
