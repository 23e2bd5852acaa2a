"""Build targets side by side over the hosts: one queue for each engine, and a host that goes away takes one target.

Every build is a process of its own (:mod:`builders.fleet_child`).  When one fails, its engine is asked whether it is
still there: if not, that host gets no more work, and what waited for it goes to the next best or is named as not built.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from builders.fleet import Host, Job, fitting, next_job, unplaced, way
from builders.fleet_child import Child, Outcome
from builders.plan import How
from qualify.errors import ExitCode

_END_SECONDS = 90.0  # for builds that were told to end; then they are killed
_LOOK_SECONDS = 0.2
_GRAVEST = (70, 130, 4, 5, 8)  # of several codes the first that occurred


class Listener(Protocol):
    """Who hears how the fleet does."""

    def started(self, job: Job, host: Host, how: How) -> None: ...

    def heard(self, job: Job, text: str) -> None:
        """A line of a build; called on a thread of its own."""

    def ended(self, result: Result) -> None: ...

    def gone(self, host: Host) -> None: ...

    def tick(self) -> None:
        """A moment has passed."""


@dataclass(frozen=True, slots=True)
class Result:
    job: Job
    host: str  # "" where none took it
    how: How | None
    outcome: Outcome
    host_gone: str = ""  # why its host isn't there any more; "" where it is


@dataclass(frozen=True, slots=True)
class Running:
    job: Job
    host: Host
    how: How
    child: Child


Start = Callable[[Job, Host, How, Callable[[str], None]], Child]
StillThere = Callable[[Host], str]  # "" or why it does not answer


@dataclass(slots=True)
class Fleet:
    """The state of one run over the hosts; :meth:`run` is called once."""

    hosts: list[Host]
    start: Start
    still_there: StillThere
    listener: Listener
    _running: dict[str, Running] = field(default_factory=dict)  # by the address of the engine
    _ended: queue.SimpleQueue[tuple[Running, Outcome, str]] = field(default_factory=queue.SimpleQueue)
    _results: list[Result] = field(default_factory=list)

    def run(self, jobs: Sequence[Job]) -> tuple[Result, ...]:
        """Build them all; results in the order of the jobs.

        On Ctrl-C and its kin every build is told to end and waited for before the error goes on.
        """
        waiting = list(jobs)
        try:
            while waiting or self._running:
                self._hand_out(waiting)
                self._take_in()
                self.listener.tick()
        except BaseException:
            self._end_all()
            raise
        order = {job.target: number for number, job in enumerate(jobs)}
        return tuple(sorted(self._results, key=lambda result: order[result.job.target]))

    def _hand_out(self, waiting: list[Job]) -> None:
        """A job to each engine that has none, and an end to jobs that no host is left for."""
        for host in self.hosts:
            job = None if host.address in self._running else next_job(host, waiting, self.hosts)
            how = way(job, host) if job is not None else None
            if job is None or how is None:
                continue
            waiting.remove(job)
            self._begin(job, host, how)
        for job in [job for job in waiting if not fitting(job, self.hosts)]:
            waiting.remove(job)
            error = unplaced(job, self.hosts)
            self._note(Result(job, "", None, Outcome(int(error.exit_code), fault=str(error))))

    def _begin(self, job: Job, host: Host, how: How) -> None:
        self.listener.started(job, host, how)
        child = self.start(job, host, how, lambda text: self.listener.heard(job, text))
        running = Running(job, host, how, child)
        self._running[host.address] = running
        threading.Thread(target=self._mind, args=(running,), name=f"build of {job.target}", daemon=True).start()

    def _mind(self, running: Running) -> None:
        # Whatever is wrong here (of ours; a traceback says it), the run must not wait for this target for ever.
        outcome, why = Outcome(70, fault="its result could not be read"), ""
        try:
            outcome = running.child.wait()
            if outcome.code not in (0, int(ExitCode.INTERRUPTED)):
                why = self.still_there(running.host)
        finally:
            self._ended.put((running, outcome, why))

    def _take_in(self) -> None:
        try:
            running, outcome, why = self._ended.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            return
        del self._running[running.host.address]
        host = running.host
        if why:
            said = outcome.fault
            outcome = replace(
                outcome,
                code=int(ExitCode.UNAVAILABLE),
                fault=f"its engine host {host.name} went away while it was built: {why}",
                details=outcome.details or ((said,) if said else ()),
            )
            lost = replace(host, fault=f"went away: {why}")
            self.hosts = [
                replace(other, fault=lost.fault) if other.address == host.address else other for other in self.hosts
            ]
            self.listener.gone(lost)
        self._note(Result(running.job, host.name, running.how, outcome, why))

    def _note(self, result: Result) -> None:
        self._results.append(result)
        self.listener.ended(result)

    def _end_all(self) -> None:
        """End every build and wait until each has cleaned up; a second Ctrl-C, or too long a wait, kills."""
        left = dict(self._running)
        try:
            for running in left.values():
                running.child.end()
            deadline = time.monotonic() + _END_SECONDS
            while left and time.monotonic() < deadline:
                try:
                    running, _, _ = self._ended.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    continue
                left.pop(running.host.address, None)
        finally:
            for running in left.values():
                running.child.kill()


def worst_code(results: Sequence[Result]) -> int:
    """The exit code of a run: 0 where every wheel is there, else the gravest of its targets'."""
    codes = {result.outcome.code for result in results}
    return next((code for code in _GRAVEST if code in codes), max(codes, default=0))
