"""One build for one key: a claim says who builds it, since when, and where the log is.

A claim is a file in the store, which several hosts may share, so no file lock is trusted: it is made by a hard link,
which either is there or isn't, and renewed by rename.  Its holder's heart beats; a claim whose holder has ended, or has
been silent for a minute of *our* clock, is taken over, and it is said from whom.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from builders.host import process_is_alive, process_mark
from qualify.errors import UnavailableError
from qualify.files import locked, write_atomic

BEAT_SECONDS = 5.0
SILENT_SECONDS = 60.0  # as long as nothing of a holder on another host was heard
POLL_SECONDS = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Claim:
    """Who builds a key; times are ISO 8601 in UTC and for people: no decision compares clocks of two hosts."""

    token: str  # of this one claim
    host: str
    process: str  # host/pid/start time
    since: str
    heartbeat: str
    beats: int
    log: str
    target: str

    @property
    def holder(self) -> str:
        return f"process {self.process.rsplit('/', 2)[1]} on {self.host}"


@contextlib.contextmanager
def claimed(
    folder: Path,
    key: str,
    *,
    target: str,
    log: Path,
    wait: bool,
    say: Say,
    beat: float = BEAT_SECONDS,
    silent: float = SILENT_SECONDS,
    poll: float = POLL_SECONDS,
) -> Iterator[bool]:
    """Hold the claim on a build key; yields whether another held it before, so that its wheel may be there now.

    :param folder: of claims; see :class:`builders.store.Store`.
    :param wait: until another holder has ended; without it this one leaves.
    :raises UnavailableError: another builds it, and nobody wants to wait; the error has its log's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{key}.json"
    now = _now()
    own = Claim(secrets.token_hex(8), socket.gethostname(), process_mark(), now, now, 0, str(log.absolute()), target)
    waited = False
    watched = _Watched()
    while not _take(path, own):
        held = read_claim(path)
        if held is None:
            continue  # it ended between the two looks
        if why := watched.given_up(held, silent):
            if _take_away(path, held):
                say(f"taking over the claim of {held.holder}, which {why} (it built {held.target}; log {held.log})")
            continue
        if not wait:
            raise UnavailableError(
                f"{held.holder} builds this since {held.since}",
                where=f"{target}: {path}",
                action=f"wait for it, or read its log: {held.log}",
            )
        if not waited:
            say(f"waiting: {held.holder} builds this since {held.since}; its log is {held.log}")
        waited = True
        time.sleep(poll)
    with _beating(path, own, beat):
        yield waited


def read_claim(path: Path) -> Claim | None:
    """The claim in a file; None where there is none, or what is there is no claim (a half-written one cannot be)."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Claim(**document)
    except (OSError, ValueError, TypeError):
        return None


def stale_claims(folder: Path) -> list[Claim]:
    """The claims of processes of this host that have ended; for the doctor."""
    held = [read_claim(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    return [claim for claim in held if claim is not None and _has_ended(claim)]


def _take(path: Path, own: Claim) -> bool:
    """Make the claim if there is none; ``link`` does both in one step, also on NFS."""
    part = path.with_name(f".{path.name}.{own.token}")
    write_atomic(part, _text(own))
    try:
        os.link(part, path)
    except FileExistsError:
        if read_claim(path) is None and path.exists():
            # No claim of ours, and none that could ever end: whoever wrote it wrote it by hand.
            with contextlib.suppress(FileNotFoundError):
                path.replace(path.with_suffix(".unreadable"))
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


def _take_away(path: Path, stale: Claim) -> bool:
    """Move a stale claim out of the way; of many that try, one succeeds, and none moves a living claim.

    Those of one host come one after another, so that what is moved is what was read; between hosts, whose locks are
    not trusted, what was moved is looked at, and put back where it was another's.
    """
    with locked(path.with_name(".takeover"), timeout=60, purpose="taking over a claim"):
        held = read_claim(path)
        if held is None or held.token != stale.token:
            return False
        aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.stale")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return False
        moved = read_claim(aside)
        if moved is not None and moved.token != stale.token:
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        aside.unlink(missing_ok=True)
        return moved is not None and moved.token == stale.token


class _Watched:
    """What was heard of a claim so far, by this process's own clock."""

    def __init__(self) -> None:
        self._heard: tuple[str, int] = ("", -1)
        self._at = time.monotonic()

    def given_up(self, claim: Claim, silent: float) -> str:
        """Why the claim's holder builds no more, for people; "" while it may."""
        if _has_ended(claim):
            return "has ended"
        if (claim.token, claim.beats) != self._heard:
            self._heard, self._at = (claim.token, claim.beats), time.monotonic()
        if time.monotonic() - self._at > silent:
            return f"has been silent since {claim.heartbeat}"
        return ""


def _has_ended(claim: Claim) -> bool:
    return claim.host == socket.gethostname() and not process_is_alive(claim.process)


@contextlib.contextmanager
def _beating(path: Path, own: Claim, seconds: float) -> Iterator[None]:
    over = threading.Event()

    def beat() -> None:
        claim = own
        while not over.wait(seconds):
            held = read_claim(path)
            if held is not None and held.token != own.token:
                return  # taken over: this process was silent for too long
            claim = replace(claim, heartbeat=_now(), beats=claim.beats + 1)
            with contextlib.suppress(OSError):  # a share that is away for a moment
                write_atomic(path, _text(claim))

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        held = read_claim(path)
        if held is not None and held.token == own.token:
            path.unlink(missing_ok=True)


def _text(claim: Claim) -> str:
    return json.dumps(asdict(claim), indent=2) + "\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
