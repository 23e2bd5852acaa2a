"""The wheel that a candidate is held against: found, hashed against what the matrix says, and read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qualify.errors import ConfigurationError, UnavailableError, UsageError
from qualify.facts import WheelFacts
from qualify.fetching import Fetcher
from qualify.matrix import LoadedMatrix
from qualify.opening import read_wheel
from qualify.subjects import is_requirement

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Host:
    """For whom a control is fetched."""

    machine: str
    python: str  # "3.12"
    glibc: str = ""  # "": any


class Controls:
    """Controls of the targets of one run; each file is read once."""

    def __init__(
        self,
        loaded: LoadedMatrix | None,
        *,
        at: Path | None = None,
        fetcher: Fetcher | None = None,
        progress: Progress | None = None,
    ) -> None:
        """
        :param at: where the matrix's control lies on this machine; only for one whose sha256 the matrix states.
        """
        self._loaded = loaded
        self._at = at
        self._fetcher = fetcher or (Fetcher(local=loaded.local) if loaded is not None else Fetcher())
        self._progress = progress
        self._read: dict[Path, WheelFacts] = {}

    def of_target(self, target: str) -> WheelFacts | None:
        """The control that the matrix names for one of its targets; None where it names none.

        :raises ConfigurationError: its sha256 is another one than the matrix says, or the matrix says none and the
            file is handed in.
        :raises UnavailableError: there is no such file, or it could not be fetched.
        """
        if self._loaded is None:
            return None
        row = self._loaded.matrix.targets[target]
        if row.control is None:
            return None
        where = f"{self._loaded.path.name}: targets.{target}.control"
        subject = row.control.wheel
        host = Host(row.machine, row.python[0], row.ceilings.glibc)
        if self._at is not None:
            path = self._at
            if row.control.sha256 is None:
                raise ConfigurationError(
                    "a file may stand for the control only where the matrix states its sha256",
                    where=where,
                    expected=f"{subject}, fetched as the matrix names it",
                    action="add the sha256, and judge the wheel again",
                )
        else:
            path = self._fetch(subject, host) if is_requirement(subject) else self._loaded.path.parent / subject
        if not path.is_file():
            raise UnavailableError(
                "the control is not there", where=f"{where}.wheel", expected=str(path), action="put it there"
            )
        facts = self._facts(path)
        if row.control.sha256 is not None and facts.sha256 != row.control.sha256:
            raise ConfigurationError(
                f"{path.name} has the sha256 {facts.sha256[:12]}…",
                where=f"{where}.sha256",
                expected=f"{row.control.sha256[:12]}…",
                action="put the right file back, or name the one that is meant",
            )
        return facts

    def given(self, subject: str, host: Host) -> WheelFacts:
        """The control that a person names: a file, or a requirement that is fetched for ``host``.

        :raises UsageError: there is no such file.
        :raises UnavailableError: it could not be fetched.
        """
        path = self._fetch(subject, host) if is_requirement(subject) else Path(subject)
        if not path.is_file():
            raise UsageError("no such file", where=subject, expected="the control: a wheel file, or vllm==0.33.0")
        return self._facts(path)

    def _fetch(self, subject: str, host: Host) -> Path:
        if host.glibc:
            return self._fetcher.fetch_wheel(subject, host.machine, host.python, glibc=host.glibc)
        return self._fetcher.fetch_wheel(subject, host.machine, host.python)

    def _facts(self, path: Path) -> WheelFacts:
        key = path.resolve()
        if key not in self._read:
            self._read[key] = read_wheel(path, progress=self._progress)
        return self._read[key]
