"""The compile: one step, and, where memory ran out, the same folder again with fewer jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builders.causes import Cause, first_cause
from builders.engines import Outcome, Room, Step
from builders.environment import Prepared
from builders.progress import BuildLog
from builders.stations import listening
from qualify.errors import BuildError

MOST_TRIES = 3  # the first, and two with fewer jobs
JOBS_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL", "CARGO_BUILD_JOBS")


@dataclass(frozen=True, slots=True)
class Try:
    """One run of the build backend; seconds of wall time, bytes of memory (0 where nobody counted)."""

    jobs: int
    code: int
    seconds: float
    killed_for_memory: bool
    timed_out: bool
    peak_memory: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compile that ended well: its tries, the last one of them good, and what it printed, all tries together."""

    tries: tuple[Try, ...]
    output: tuple[str, ...]


def compile_wheel(
    room: Room,
    prepared: Prepared,
    variables: Mapping[str, str],
    tree: str,
    log: BuildLog,
    target: str,
    *,
    jobs: int,
    timeout: float = 0,
) -> Compiled:
    """Run the build backend, without a network; the wheel lies in the room's output folder afterwards.

    A try that was killed for memory is followed by one with half the jobs, in the same build folder, so that what was
    compiled stays compiled; at most twice.

    :param tree: the project's folder inside the room.
    :param timeout: seconds that a try may take; 0 for any.
    :raises BuildError: with the first true cause, the step, the command and the log.
    """
    tries: list[Try] = []
    output: list[str] = []
    while True:
        lines: list[str] = []
        log.say(f"compile: {jobs} job{'' if jobs == 1 else 's'}, log {log.path}")
        outcome = room.run(_step(room, prepared, variables, tree, jobs, timeout), listening(lines, log.line))
        output += lines
        cause = first_cause(lines) if outcome.code != 0 else None
        killed = outcome.killed_for_memory or (cause is not None and cause.kind == "killed")
        tries.append(
            Try(
                jobs,
                outcome.code,
                round(outcome.seconds, 2),
                outcome.code != 0 and killed,
                outcome.timed_out,
                outcome.peak_memory,
            )
        )
        if outcome.code == 0:
            return Compiled(tuple(tries), tuple(output))
        if outcome.timed_out or not killed or jobs == 1 or len(tries) == MOST_TRIES:
            raise _failed(outcome, cause, tries, timeout, log, target)
        fewer = max(1, jobs // 2)
        log.say(
            f"killed for memory with {jobs} jobs{_peak(outcome)}; again in the same build folder with {fewer} "
            f"(try {len(tries) + 1} of {MOST_TRIES})"
        )
        jobs = fewer


def _step(room: Room, prepared: Prepared, variables: Mapping[str, str], tree: str, jobs: int, timeout: float) -> Step:
    command = (
        *(prepared.python, "-m", "pip", "wheel", "--verbose", "--no-build-isolation", "--no-deps", "--no-index"),
        *("--no-cache-dir", "--progress-bar", "off", "--wheel-dir", room.paths.out, "."),
    )
    environment = {**variables, **dict.fromkeys(JOBS_VARIABLES, str(jobs))}
    return Step("compile", command, environment, folder=tree, timeout=timeout)


def _failed(
    outcome: Outcome, cause: Cause | None, tries: list[Try], timeout: float, log: BuildLog, target: str
) -> BuildError:
    last = tries[-1]
    kept = f"the build folder is kept, and the next build goes on in it; the log is {log.path}"
    if outcome.timed_out:
        return BuildError(
            f"timed out after {timeout / 60:.0f} min",
            where=f"{target}: compile",
            expected="an end",
            action=f"--timeout MINUTES gives more; {kept}",
        )
    if last.killed_for_memory:
        told = ", then ".join(f"{each.jobs} job{'' if each.jobs == 1 else 's'}" for each in tries)
        return BuildError(
            f"killed for memory with {told}{_peak(outcome)}" + (f": {cause}" if cause else ""),
            where=f"{target}: compile",
            action=f"give it more memory{'' if last.jobs == 1 else ' or --jobs 1'}; {kept}",
        )
    return BuildError(
        f"{cause.kind}: {cause}" if cause else f"pip wheel ended with {outcome.code}",
        where=f"{target}: compile, line {cause.line} of its output" if cause else f"{target}: compile",
        action=f"the command was {cause.brief_command()}; {kept}" if cause and cause.command else kept,
    )


def _peak(outcome: Outcome) -> str:
    return f", at a peak of {outcome.peak_memory / 1e9:.1f} GB" if outcome.peak_memory else ""
