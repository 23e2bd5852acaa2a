"""Checks on the archive as such: what the readers found wrong, or could not read."""

from __future__ import annotations

from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.facts import Problem, ProblemKind
from qualify.report import ENVIRONMENT_CODE, Severity

UNVERIFIED = Severity.UNVERIFIED


def _problems(case: Case, kind: ProblemKind) -> Iterator[tuple[Problem, str]]:
    for problem in case.facts.problems:
        if problem.kind is kind:
            yield problem, f"{problem.where}: {problem.detail}" if problem.where else problem.detail


@check("ARC001", "malformed")
def malformed(case: Case) -> Iterator[Observation]:
    """The archive, a member, a metadata file or a piece of device code breaks the rules of its format.

    Why: a damaged file may install and fail later, or may have been made to look like something else to each tool
    that reads it.

    Mend: build or download the wheel again. Where it was repaired or relabelled, look at the tool that did it.
    """
    for problem, found in _problems(case, ProblemKind.MALFORMED):
        yield Observation(problem.member, found, "bytes that keep to their format", "build or fetch the wheel again")


@check("ARC002", "unreadable", upstream=UNVERIFIED, release=UNVERIFIED)
def unreadable(case: Case) -> Iterator[Observation]:
    """Something in the wheel could not be looked at, so that nothing can be said of it.

    Why: an entry of an unknown kind, a compression that is not known or a bound that was met may hide anything. What
    nobody looked at is never a pass.

    Mend: see whether a newer version of this tool knows the format; otherwise build the wheel in a way that it can
    read (nvcc's `--compress-mode`, an ordinary zip compression).
    """
    for problem, found in _problems(case, ProblemKind.UNREADABLE):
        yield Observation(problem.member, found, "something this tool can read", "try a newer version of this tool")


@check(ENVIRONMENT_CODE, "reader-missing", upstream=UNVERIFIED, release=UNVERIFIED)
def reader_missing(case: Case) -> Iterator[Observation]:
    """This host lacks what reading the wheel takes, such as a decompressor.

    Why: the wheel may be perfectly good; the fault is the environment's, and the answer is still not a pass. Where
    this is all that is in the way, `check` ends with 4 rather than 3.

    Mend: install what the finding names and run again.
    """
    for problem, found in _problems(case, ProblemKind.ENVIRONMENT):
        yield Observation(problem.member, found, "a host that can read it", "install what is missing and run again")
