"""What a person sees of builds side by side: a table on a terminal; elsewhere lines, each with its target."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from builders.fleet import Host, Job
from builders.fleet_run import Result
from builders.plan import How

_STEP_SECONDS = 30.0  # between two lines of a build's progress where there is no table
_WIDTH = 160


@dataclass(slots=True)
class _Row:
    """One line of the table."""

    target: str
    host: str = ""
    how: str = ""
    state: str = "waiting"
    line: str = ""
    began: float = 0.0
    seconds: float | None = None


class FleetView:
    """Hears a fleet (:class:`builders.fleet_run.Listener`) and shows it; lines of builds come on threads of theirs."""

    def __init__(
        self, jobs: Sequence[Job], stderr: TextIO, *, clock: Callable[[], float] = time.monotonic, width: int = 0
    ) -> None:
        self._clock = clock
        self._stderr = stderr
        self._lock = threading.Lock()
        self._rows = {job.target: _Row(job.target) for job in jobs}
        self._shown: dict[str, float] = {}
        self._live: Live | None = None
        if stderr.isatty():
            console = Console(file=stderr, width=width or None)
            self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> FleetView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self.tick()
            self._live.stop()

    def hosts(self, hosts: Sequence[Host]) -> None:
        """The places that were asked, before anything is built."""
        for host in hosts:
            there = f"{host.engine} {host.version}".strip() + f" on {host.machine}"
            self._say(f"host {host.name}: {host.fault or there}")

    def started(self, job: Job, host: Host, how: How) -> None:
        row = self._rows[job.target]
        row.host, row.how, row.state, row.began = host.name, how, "building", self._clock()
        self._say(f"{job.target}: building on {host.name}, {how}", table=False)

    def heard(self, job: Job, text: str) -> None:
        """A line of a build; those of ninja and of tools are indented, and one now and then is enough."""
        self._rows[job.target].line = text.strip()
        if self._live is not None:
            return
        passing = text.startswith(" ") and not text.startswith("  to do:") and not text.startswith("  expected:")
        with self._lock:
            now = self._clock()
            if passing and now - self._shown.get(job.target, float("-inf")) < _STEP_SECONDS:
                return
            if passing:
                self._shown[job.target] = now
        self._say(f"{job.target}: {text.rstrip()}", table=False)

    def ended(self, result: Result) -> None:
        row, outcome = self._rows[result.job.target], result.outcome
        row.seconds = outcome.seconds
        row.state = ("built" if outcome.built else "there already") if outcome.code == 0 else f"failed ({outcome.code})"
        row.line = outcome.wheel if outcome.code == 0 else outcome.fault
        end = f"{row.state}, {outcome.wheel}" if outcome.code == 0 else f"{row.state}: {outcome.fault}"
        self._say(f"{result.job.target}: {end}", table=False)

    def gone(self, host: Host) -> None:
        self._say(f"host {host.name}: {host.fault}; it gets no more work")

    def tick(self) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def _say(self, text: str, *, table: bool = True) -> None:
        """A whole line; ``table`` False for what the table shows anyway."""
        with self._lock:
            if self._live is None:
                self._stderr.write(f"{text[:_WIDTH] if text.startswith(' ') else text}\n")
                self._stderr.flush()
            elif table:
                self._live.console.print(Text(text))

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, expand=True)
        for name in ("target", "host", "how", "state", "time"):
            table.add_column(name, no_wrap=True)
        table.add_column("last line", no_wrap=True, overflow="ellipsis", ratio=1)
        for row in self._rows.values():
            spent = row.seconds if row.seconds is not None else self._clock() - row.began if row.began else None
            cells = (row.target, row.host, row.how, row.state, _minutes(spent), row.line)
            table.add_row(*(Text(cell) for cell in cells))
        return table


def _minutes(seconds: float | None) -> str:
    return "" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02}"
