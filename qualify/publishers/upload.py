"""Any server with the legacy upload API, through twine's library: whole sets, no double upload, read back.

The server keeps no transaction, so the order is what makes it safe: the index is read first, and what it has already
is not sent; the whole set is held against what the server takes before the first byte; after every failure the index
is read again before anything is sent once more, since a connection can drop after the file was stored; and at the end
the index has to list each file's sha256, and pip and uv have to take those bytes from it.  Killed or refused half way,
the same command goes on with what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from qualify.errors import RefusedError, UnavailableError, UnverifiedError
from qualify.evidence import Evidence
from qualify.packageindex import Index, IndexSettings
from qualify.publishers import Published, PublishProgress, destination, readback, uploadrules
from qualify.publishers.destination import Account, Destination
from qualify.publishers.uploadrules import Candidate

if TYPE_CHECKING:
    from twine.repository import Repository

_BUSY = (408, 425, 429)
_LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server is waited for; seconds."""

    tries: int = 4
    first_wait: float = 2.0  # before the second try; doubled for each further one
    settle: float = 10.0  # for a file to appear in the index after a failure that may have stored it
    listed: float = 120.0  # for a file to appear after it was taken
    step: float = 1.0
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Row:
    """One file of a set, and whether the index has its bytes already."""

    candidate: Candidate
    there: bool


def publish(
    evidences: Sequence[Evidence], to: str, *, now: datetime, progress: PublishProgress | None = None
) -> tuple[Published, ...]:
    """Upload qualified wheels to ``to``: a name that twine resolves, or an address.

    :param now: not used: the server says when a file was uploaded.
    :raises RefusedError: the server has other bytes under a name, or doesn't take a wheel.
    :raises UnavailableError: the server, the account or the network is not there.
    :raises UnverifiedError: all was uploaded, and an installer gets something else.
    """
    with Uploader(destination.resolve(to)) as uploader:
        rows = uploader.plan(evidences)
        return uploader.upload(rows, progress=progress)


class Uploader:
    """One session with a server.  Use as a context manager: :meth:`plan`, then :meth:`upload`."""

    def __init__(self, to: Destination, patience: Patience | None = None) -> None:
        self.destination = to
        self.patience = patience or Patience()
        self._repository: Repository
        self._account: Account
        self._index: Index

    def __enter__(self) -> Uploader:
        self._repository, self._account = destination.open_session(self.destination)
        parts = urlsplit(self.destination.index)
        settings = IndexSettings(
            index_urls=(self._account.of_index(self.destination),),
            trusted_hosts=(parts.netloc,) if parts.scheme == "http" else (),
            certificates=self.destination.settings.cacert or "",
        )
        self._index = Index(settings).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._index.__exit__(kind, error, trace)
        self._repository.close()

    def plan(self, evidences: Sequence[Evidence]) -> tuple[Row, ...]:
        """What an upload would send; every reason against it that can be known without sending anything is raised.

        :raises RefusedError: the server can't take the set, or has other bytes under one of its names.
        :raises UnavailableError: the index or the installers that read it back are not there.
        """
        found = uploadrules.candidates(evidences, self.destination, self._account)
        readback.require_installers()
        self._quietly(lambda: self._index.require_answer(self.destination.shown))
        rows = tuple(Row(candidate, self._has(candidate)) for candidate in found)
        missing = [row.candidate for row in rows if not row.there]
        if missing:
            largest = max(missing, key=lambda candidate: candidate.size)
            uploadrules.ask_first(self._repository, largest, self.destination, self._account)
        return rows

    def upload(self, rows: Sequence[Row], *, progress: PublishProgress | None = None) -> tuple[Published, ...]:
        """Send what is missing, wait until the index lists all of it, and install each file with pip and with uv.

        :raises RefusedError: the server refuses a file; what was stored before stays, and the message says so.
        :raises UnavailableError: the server fails again and again.
        :raises UnverifiedError: all was uploaded, and the index or an installer gives something else.
        """
        done: list[str] = []
        for row in rows:
            if not row.there:
                self._put(row.candidate, done, progress)
            done.append(row.candidate.filename)
        for row in rows:
            if not self._appears(row.candidate, self.patience.listed):
                raise UnverifiedError(
                    f"the server took it, and its index doesn't list it after {self.patience.listed:.0f} s",
                    where=row.candidate.filename,
                    expected=f"sha256 {row.candidate.sha256} at {destination.redacted(self.destination.index)}",
                    action="run the same command again later: what is there is not sent again",
                )
        for row in rows:
            readback.require_same_bytes(row.candidate, self.destination, self._account)
        return tuple(
            Published(
                row.candidate.filename,
                row.candidate.sha256,
                evidence.target,
                destination.redacted(self.destination.index),
                not row.there,
                evidence.report.verdict.value,
            )
            for row in rows
            for evidence in row.candidate.evidences
        )

    def _put(self, candidate: Candidate, done: Sequence[str], progress: PublishProgress | None) -> None:
        """Send one file until the index has it; sent again only where the index doesn't."""
        wait = self.patience.first_wait
        for attempt in range(1, self.patience.tries + 1):
            if progress:
                progress(candidate.filename, 0, candidate.size)
            status, said, after = self._post(candidate)
            if 200 <= status < 300:
                break
            # A failure doesn't say that nothing was stored.  An answer that is final is looked after as well: it may
            # be the second one to a file whose first answer was lost.
            if self._appears(candidate, self.patience.settle):
                break
            again = status == 0 or status >= 500 or status in _BUSY
            if not again:
                raise self._refused(candidate, status, said, done)
            if attempt == self.patience.tries:
                raise UnavailableError(
                    f"the server fails {attempt} times: {said}",
                    where=f"{self.destination.shown}, {candidate.filename}",
                    action="run the same command again: what is there is not sent again. " + _stored(done),
                )
            self.patience.pause(min(max(wait, after), _LONGEST_WAIT))
            wait *= 2
        if progress:
            progress(candidate.filename, candidate.size, candidate.size)

    def _post(self, candidate: Candidate) -> tuple[int, str, float]:
        """One request: status (0: none came), what the server says, and how long it asks to be left alone."""
        import requests
        from twine.exceptions import TwineException

        try:
            with uploadrules.talk_to_stderr():
                # One attempt: twine's own next ones would send the file again without looking whether it is there.
                response = self._repository.upload(candidate.package, max_redirects=1)
        except (requests.RequestException, TwineException, OSError, ValueError) as error:
            return 0, self._account.hide(f"no answer: {error or type(error).__name__}"), 0.0
        said = self._account.hide(f"{response.status_code} {response.reason or ''} {_words(response)}")
        return response.status_code, said, _seconds(response.headers)

    def _refused(self, candidate: Candidate, status: int, said: str, done: Sequence[str]) -> RefusedError:
        actions = {
            401: "check TWINE_USERNAME and TWINE_PASSWORD",
            403: "check the account and what it may upload; a name that was used once may be taken for ever",
            413: "ask the server's keeper for a larger limit",
        }
        action = actions.get(status, "mend what the server says, or publish under a new version")
        if 300 <= status < 400:
            action = "name the address that the server sends uploads to"
        return RefusedError(
            f"the server refuses it: {said}",
            where=f"{self.destination.shown}, {candidate.filename}",
            action=f"{action}. {_stored(done)}",
        )

    def _appears(self, candidate: Candidate, seconds: float) -> bool:
        """Whether the index lists these bytes, now or within ``seconds``."""
        waited = 0.0
        while True:
            try:
                if self._has(candidate):
                    return True
            except UnavailableError:
                if waited >= seconds:
                    raise
            if waited >= seconds:
                return False
            self.patience.pause(self.patience.step)
            waited += self.patience.step

    def _has(self, candidate: Candidate) -> bool:
        """Whether the index lists exactly these bytes under this name.

        :raises RefusedError: it lists other bytes there.
        :raises UnavailableError: it can't be read.
        """
        found = self._quietly(
            lambda: self._index.sha256_of(candidate.project, candidate.filename, at_most=candidate.size)
        )
        if found not in ("", candidate.sha256):
            raise RefusedError(
                f"other bytes are published under this name: sha256 {found}",
                where=f"{self.destination.shown}, {candidate.filename}",
                expected=f"a new version, build tag or label for sha256 {candidate.sha256}",
                action="publish under another version; what was published once is not replaced",
            )
        return found == candidate.sha256

    def _quietly(self, read: Callable[[], str | None]) -> str:
        """A read of the index whose errors say nothing of the account."""
        try:
            return read() or ""
        except UnavailableError as error:
            what, where, action = error.what, error.where, error.action
        raise UnavailableError(self._account.hide(what), where=self._account.hide(where), action=action)


def _stored(done: Sequence[str]) -> str:
    return f"Stored: {', '.join(done)}" if done else "Nothing of the set is stored"


def _words(response: object) -> str:
    """The beginning of what a server says in text, which is where it gives its reason."""
    kind = str(getattr(response, "headers", {}).get("Content-Type", ""))
    return str(getattr(response, "text", ""))[:400] if kind.startswith("text/plain") else ""


def _seconds(headers: Mapping[str, str]) -> float:
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT) if text.isdigit() and len(text) < 6 else 0.0
