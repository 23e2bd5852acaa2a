"""One run of ``qualify check``: every wheel fetched and read once, whatever the number of targets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.commands.check_evidence import EvidenceWriter
from qualify.errors import AssayError, MalformedError, UnavailableError, UsageError
from qualify.readahead import ReadAhead

if TYPE_CHECKING:
    from qualify.commands.check_jobs import Job
    from qualify.controls import Controls
    from qualify.evidencejson import Document
    from qualify.facts import WheelFacts
    from qualify.judging import Context
    from qualify.linking.index import ExportIndex
    from qualify.matrix import LoadedMatrix
    from qualify.report import Report
    from qualify.torchindex import Host


class Session:
    """Fetches and reads each wheel once, whatever the number of targets."""

    def __init__(
        self, loaded: LoadedMatrix | None, arguments: argparse.Namespace, ahead: ReadAhead | None = None
    ) -> None:
        self._loaded = loaded
        self._arguments = arguments
        self._ahead = ahead
        self._read: dict[Path, WheelFacts | AssayError] = {}
        self._earlier = _evidence(arguments.since)
        self._controls: Controls | None = None
        self._torches: dict[Host, ExportIndex] = {}
        self._writer = EvidenceWriter(arguments, loaded) if arguments.evidence and loaded is not None else None

    def report(self, job: Job) -> Report:
        """Judge one job, and write its evidence where that is asked for.

        :raises UsageError: not a wheel's name, or no such release.
        :raises MalformedError: nothing at all could be read in the file.
        :raises UnavailableError: the wheel could not be fetched, or the evidence not written.
        """
        from qualify.judging import judge

        path = self._fetch(job) if job.is_requirement else Path(job.subject)
        facts = self._facts(path)
        from qualify import provenance

        context = replace(self._completed(job), receipt=provenance.beside(path))
        report = self._since(judge(facts, context), path, job)
        if self._writer is not None:
            print(self._writer.write(report, facts, path), file=sys.stderr)
        return report

    def _since(self, report: Report, path: Path, job: Job) -> Report:
        """The report with what is asked otherwise than in the evidence of ``--since``, or in that beside the wheel."""
        from qualify import since

        if self._earlier:
            return replace(report, since=since.chosen(report, self._earlier))
        # A target without a matrix is a question of its own, and no evidence is ever made of it.
        return report if job.context.bare is not None else replace(report, since=since.beside(report, path))

    def _completed(self, job: Job) -> Context:
        """The job's context with the other wheels that this one is held against; each is read once for all jobs."""
        context = replace(job.context, control=self._control(job.context))
        return replace(context, torch=self._torch(context)) if self._arguments.torch else context

    def _control(self, context: Context) -> WheelFacts | None:
        """The facts of `--control`, else of the control that the matrix names for the target."""
        if not self._arguments.control and (self._loaded is None or context.matrix is None):
            return None
        from qualify.controls import Controls, Host

        if self._controls is None:
            self._controls = Controls(self._loaded, progress=progress())
        try:
            if not self._arguments.control:
                return self._controls.of_target(context.target)
            python = f"{sys.version_info.major}.{sys.version_info.minor}"
            host = Host(context.bare.machine if context.bare is not None else "", python)
            if context.bare is None and context.matrix is not None:
                target = context.matrix.targets[context.target]
                host = Host(target.machine, target.python[0], target.ceilings.glibc)
            return self._controls.given(self._arguments.control, host)
        except MalformedError as error:
            # Not the candidate's fault: nothing is said of it.
            raise UsageError(
                f"the control {error.what}", where=error.where, expected=error.expected, action=error.action
            ) from error

    def _torch(self, context: Context) -> ExportIndex:
        """The exports of the torch wheel of `--torch`, as the job's target would have it."""
        from qualify.fetching import Fetcher
        from qualify.torchindex import Host, TorchIndexes

        if context.bare is not None or context.matrix is None or self._loaded is None:
            machine = context.bare.machine if context.bare is not None else ""
            host, fetcher = Host(machine, f"{sys.version_info.major}.{sys.version_info.minor}"), Fetcher()
        else:
            target = context.matrix.targets[context.target]
            host = Host(target.machine, target.python[0], target.ceilings.glibc)
            fetcher = Fetcher(local=self._loaded.local)
        if host not in self._torches:
            try:
                self._torches[host] = TorchIndexes(fetcher, progress()).load(self._arguments.torch, host)
            except MalformedError as error:
                # Not the candidate's fault: nothing is said of it.
                raise UsageError(error.what, where=error.where, expected=error.expected, action=error.action) from error
        return self._torches[host]

    def _fetch(self, job: Job) -> Path:
        from qualify.fetching import Fetcher

        context = job.context
        if context.bare is not None or context.matrix is None or self._loaded is None:
            machine = context.bare.machine if context.bare is not None else ""
            return Fetcher().fetch_wheel(job.subject, machine, f"{sys.version_info.major}.{sys.version_info.minor}")
        target = context.matrix.targets[context.target]
        fetcher = Fetcher(local=self._loaded.local)
        return fetcher.fetch_wheel(job.subject, target.machine, target.python[0], glibc=target.ceilings.glibc)

    def _facts(self, path: Path) -> WheelFacts:
        from qualify.opening import read_wheel

        key = path.resolve()
        if key not in self._read:
            try:
                ahead = self._ahead if self._ahead is not None and self._ahead.path.resolve() == key else None
                self._read[key] = ahead.result() if ahead is not None else read_wheel(path, progress=progress())
            except AssayError as error:
                self._read[key] = error
        known = self._read[key]
        if isinstance(known, AssayError):
            raise known
        return known


def _evidence(paths: Sequence[Path]) -> list[tuple[str, Document]]:
    """Name and content of the evidence files that ``--since`` names.

    :raises UsageError: one of them is none.
    """
    if not paths:
        return []
    from qualify.errors import RefusedError
    from qualify.evidencejson import load

    try:
        return [(path.name, load(path)) for path in paths]
    except RefusedError as error:
        expected = error.expected or "what `check --evidence` wrote"
        raise UsageError(error.what, where=error.where, expected=expected) from error


def progress() -> Callable[[str, int, int], None] | None:
    from qualify.transfer import show_on_stderr

    return show_on_stderr if sys.stderr.isatty() else None


def stand_in(job: Job, error: AssayError) -> Report:
    """The report of a wheel that could not be had or read: rejected where it is malformed, else unverified."""
    from qualify.files import sha256_of
    from qualify.report import ENVIRONMENT_CODE, REPORT_VERSION, Finding, Report, Severity, Verdict

    if isinstance(error, MalformedError):
        code, slug, severity, verdict = "ARC001", "malformed", Severity.ERROR, Verdict.REJECTED
    elif isinstance(error, UnavailableError):
        code, slug, severity, verdict = ENVIRONMENT_CODE, "reader-missing", Severity.UNVERIFIED, Verdict.UNVERIFIED
    else:
        code, slug, severity, verdict = "ARC002", "unreadable", Severity.UNVERIFIED, Verdict.UNVERIFIED
    path = Path(job.subject)
    name = job.subject if job.is_requirement else path.name
    found = f"{error.where}: {error.what}" if error.where and Path(error.where).name != name else error.what
    expected, action = error.expected or "a wheel that can be read", error.action or "fetch it again"
    project, _, rest = name.partition("-") if name.endswith(".whl") else ("", "", "")
    context = job.context
    return Report(
        version=REPORT_VERSION,
        wheel=name,
        sha256=sha256_of(path).sha256 if path.is_file() else "",
        project=project.lower().replace("_", "-"),
        wheel_version=rest.partition("-")[0],
        target=context.bare.id if context.bare is not None else context.target,
        profile=context.profile.value,
        verdict=verdict,
        findings=(Finding(code, slug, severity, "", found, expected, action),),
        coverage=(),
        not_judged=("everything: the file could not be read",),
    )
