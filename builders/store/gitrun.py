"""Running git: without prompts, hooks and pagers, within bounds of time and output, and without the caller's settings.

Two ways.  A command that reads or writes a repository of ours sees no configuration of this user or host, so that no
filter, line ending or attribute of theirs gets into a tree, and may speak to nobody.  A command that fetches sees
them, since they say how the network, proxies and credentials are reached.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qualify.errors import UnavailableError
from qualify.lines import lines_of

LOCAL_SECONDS = 600.0
NETWORK_SECONDS = 3600.0
MAX_OUTPUT = 256 << 20  # bytes of one command's output; the refs of the largest repositories are a tenth of it
MAX_COMPLAINT = 1 << 20  # bytes of its error output that are kept
MAX_PROCESSES = 64  # of one command and its helpers; half a dozen is usual
STALLED_SECONDS = 120  # without a kilobyte a second over HTTP, and a transfer is given up

_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[^/@:]+@[^/:]+:")
_SECRET = re.compile(r"(?<=://)[^/@\s']+@")

# No hook, no pager, no helper that watches files, no background work, no transport that runs a command of the URL.
_ALWAYS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "protocol.ext.allow": "never",
    "advice.detachedHead": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": str(STALLED_SECONDS),
}
_OURS = {"core.autocrlf": "false", "core.attributesFile": "/dev/null", "core.excludesFile": "/dev/null"}

# Set where this runs under a git hook or alias, and then meant for another repository or another command.
_CALLERS = re.compile(
    r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|NAMESPACE|PREFIX|CONFIG"
    r"|CONFIG_PARAMETERS|CEILING_DIRECTORIES|DEFAULT_HASH|ATTR_SOURCE|TRACE.*|(?:LITERAL|GLOB|NOGLOB|ICASE)_PATHSPECS"
    r"|EXTERNAL_DIFF|DIFF_OPTS|QUARANTINE_PATH|GRAFT_FILE|SHALLOW_FILE|REPLACE_REF_BASE|NO_REPLACE_OBJECTS)"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one git command said; ``complaint`` is its error output without credentials."""

    code: int
    output: bytes
    complaint: str

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")

    def lines(self) -> list[str]:
        return lines_of(self.text)

    def reason(self) -> str:
        """The last line that says something; where git has a line that begins with ``fatal:``, that one."""
        lines = [line.strip() for line in lines_of(self.complaint) if line.strip()]
        fatal = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "remote: "))]
        return (fatal or lines or [f"exit status {self.code}"])[-1]


def is_url(text: str) -> bool:
    """Whether git takes it for an address, and not for a path of this host (``user@host:path`` is an address)."""
    return bool(_URL.match(text))


def shown(text: str) -> str:
    """A URL, or a message with URLs in it, without user names and passwords."""
    return _SECRET.sub("", text)


def local(
    *arguments: str,
    folder: Path | None = None,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float = LOCAL_SECONDS,
) -> Answer:
    """A command on a repository of ours: no network, none of the caller's git settings.

    :raises UnavailableError: there is no git, or it did not end in time.
    """
    settings = {**_ALWAYS, **_OURS, "safe.directory": str(folder) if folder else "*"}
    given = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        **(environment or {}),
    }
    return _execute(arguments, folder, settings, given, stdin, seconds)


def remote(
    *arguments: str,
    folder: Path | None = None,
    stdin: bytes = b"",
    settings: Mapping[str, str] | None = None,
    seconds: float = NETWORK_SECONDS,
) -> Answer:
    """A command that may speak to a server, with this user's own settings for that.

    :raises UnavailableError: there is no git, or it did not end in time.
    """
    ours = {**_ALWAYS, "safe.directory": str(folder) if folder else "*", **(settings or {})}
    # A server that leaves out what it promised makes a fetch that fetches by itself, and that one another, without end.
    given = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}
    return _execute(arguments, folder, ours, given, stdin, seconds)


def checked(answer: Answer, doing: str, where: str, action: str = "") -> Answer:
    """The answer of a command that has to end well.

    :raises UnavailableError: it did not.
    """
    if answer.code != 0:
        raise UnavailableError(f"{doing} failed: {answer.reason()}", where=where, action=action)
    return answer


def _execute(
    arguments: Sequence[str],
    folder: Path | None,
    settings: Mapping[str, str],
    given: Mapping[str, str],
    stdin: bytes,
    seconds: float,
) -> Answer:
    if shutil.which("git") is None:
        raise UnavailableError("git was not found", where="PATH", action="install git")
    environment = {name: value for name, value in os.environ.items() if not _CALLERS.fullmatch(name)}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **given}
    command = ["git"]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    command += [*(("-C", str(folder)) if folder else ()), *arguments]
    # A session of its own: nothing can ask at the terminal, and the helpers that git starts end with it.
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    output, complaint = bytearray(), bytearray()
    too_much = threading.Event()

    def overflow() -> None:
        too_much.set()
        _kill(process)

    threads = [
        _thread(lambda: _feed(process.stdin, stdin)),
        _thread(lambda: _drain(process.stdout, output, MAX_OUTPUT, overflow)),
        _thread(lambda: _drain(process.stderr, complaint, MAX_COMPLAINT, None)),
    ]
    try:
        _wait(process, arguments[0], str(folder or ""), seconds)
    finally:
        _kill(process)
        for thread in threads:
            thread.join(timeout=10)
    if too_much.is_set():
        raise UnavailableError(
            f"git {arguments[0]} said more than {MAX_OUTPUT >> 20} MiB", where=str(folder or ""), expected="an answer"
        )
    return Answer(process.returncode, bytes(output), shown(complaint.decode("utf-8", "replace")))


def _wait(process: subprocess.Popen[bytes], command: str, where: str, seconds: float) -> None:
    """Wait for the end, but not for ever, nor for a crowd: older gits don't know how to leave lazy fetching be."""
    deadline = time.monotonic() + seconds
    pause = 0.5
    while True:
        try:
            process.wait(timeout=max(0.0, min(pause, deadline - time.monotonic())))
            return
        except subprocess.TimeoutExpired as error:
            if time.monotonic() >= deadline:
                raise UnavailableError(
                    f"git {command} did not end within {seconds:.0f} s", where=where, action="run it again"
                ) from error
        if (count := _session_size(process.pid)) > MAX_PROCESSES:
            raise UnavailableError(
                f"git {command} started {count} processes: it fetches what the server promised and does not give",
                where=where,
                action="ask for the repository to be mended, and use git 2.45 or later",
            )
        pause = min(pause * 1.5, 5.0)


def _session_size(session: int) -> int:
    """How many processes of a session there are (proc(5): the fourth field after the name)."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            count += path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[3] == str(session)
    return count


def _thread(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def _feed(pipe: IO[bytes] | None, data: bytes) -> None:
    if pipe is None:
        return
    with contextlib.suppress(OSError):
        pipe.write(data)
    with contextlib.suppress(OSError):
        pipe.close()


def _drain(pipe: IO[bytes] | None, into: bytearray, most: int, overflow: Callable[[], None] | None) -> None:
    """Read to the end; of what is more than ``most``, keep the end where nobody is to be told."""
    if pipe is None:
        return
    with pipe:
        while chunk := os.read(pipe.fileno(), 1 << 16):
            into += chunk
            if len(into) > most:
                if overflow is not None:
                    overflow()
                    return
                del into[: len(into) - most // 2]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the session where its command has not ended by itself: git's helpers would outlive it."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
