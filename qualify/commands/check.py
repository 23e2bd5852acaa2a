"""``qualify check``: judge wheels for targets, and say so in text, in JSON and by the exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import AssayError, ConfigurationError, ExitCode, MalformedError, UnavailableError, UsageError
from qualify.readahead import ReadAhead
from qualify.shell import explain_error

if TYPE_CHECKING:
    from qualify.facts import WheelFacts
    from qualify.judging import Context
    from qualify.matrix import LoadedMatrix
    from qualify.report import Report

HELP = "judge wheels for targets: qualified, rejected, inconclusive or unverified"

#: A requirement, as opposed to a file's path: a project name and a version to compare with.
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*(===|==|~=|!=|<=|>=|<|>).+")
_TEXT_WIDTH = 120


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "wheels", nargs="*", metavar="WHEEL", help="a wheel file, or a requirement such as vllm==0.33.0"
    )
    parser.add_argument(
        "--target", action="append", default=[], metavar="ID", help="a target of the matrix; repeatable"
    )
    parser.add_argument("--all-targets", action="store_true", help="every target of the matrix")
    parser.add_argument(
        "--pin", action="store_true", help="the pin's released wheel, for every target or those of --target"
    )
    parser.add_argument("--profile", choices=("upstream", "release"), default="release", help="default: release")
    parser.add_argument(
        "--require",
        choices=("native", "jit", "host"),
        help="replaces what the matrix asks of each member's device code, for this run",
    )
    parser.add_argument(
        "--matrix", type=Path, metavar="FILE", help="default: WHEEL_ASSAY_MATRIX, or matrix.yaml here or above"
    )
    parser.add_argument("--machine", choices=("x86_64", "aarch64"), help="with --cc: a target without a matrix")
    parser.add_argument("--cc", metavar="X.Y", help="compute capability, with --machine")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--evidence", action="store_true", help="write WHEEL.<target>.evidence.json beside each wheel")


@dataclass(frozen=True)
class _Job:
    """One wheel (a file, or a requirement to fetch) for one target."""

    subject: str
    context: Context

    @property
    def is_requirement(self) -> bool:
        return _is_requirement(self.subject)


def run(arguments: argparse.Namespace) -> ExitCode:
    # The first wheel is read while the matrix and its libraries load: half of that time is free then.
    with contextlib.ExitStack() as stack:
        first = next((Path(name) for name in arguments.wheels if name.endswith(".whl") and Path(name).is_file()), None)
        ahead = stack.enter_context(ReadAhead(first, _progress())) if first is not None else None
        return _run(arguments, ahead)


def _run(arguments: argparse.Namespace, ahead: ReadAhead | None) -> ExitCode:
    from qualify import renderers

    loaded = _matrix(arguments)
    session = _Session(loaded, evidence=arguments.evidence, ahead=ahead)
    reports: list[Report] = []
    shown: list[Report] = []
    failures: list[AssayError] = []
    for job in _jobs(arguments, loaded):
        # One wheel that can't be had or read doesn't keep the others from being judged.
        try:
            report = session.report(job)
        except MalformedError as error:
            report = _stand_in(job, error)
        except AssayError as error:
            failures.append(error)
            if not isinstance(error, UsageError):
                reports.append(_stand_in(job, error))
            continue
        reports.append(report)
        shown.append(report)
    if failures and not reports:
        raise failures[0]
    if arguments.json:
        _write(renderers.renderer("json").render(reports, width=0, color=False))
    elif shown:
        tty = sys.stdout.isatty()
        width = shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns if tty else _TEXT_WIDTH
        color = tty and not os.environ.get("NO_COLOR")
        _write(renderers.renderer("text").render(shown, width=width, color=color))
    for line in dict.fromkeys(map(explain_error, failures)):
        print(line, file=sys.stderr)
    worst = ExitCode.worst([report.exit_code for report in reports])
    misused = any(isinstance(error, UsageError) for error in failures)
    return ExitCode.USAGE if misused and worst is ExitCode.OK else worst


def _matrix(arguments: argparse.Namespace) -> LoadedMatrix | None:
    """The matrix, or None where the target is given by machine and compute capability.

    :raises UsageError: the arguments contradict each other.
    """
    if bool(arguments.machine) != bool(arguments.cc):
        raise UsageError("--machine and --cc belong together", action="give both, or --target")
    if arguments.evidence and (arguments.require or arguments.machine):
        # Evidence is proven against the matrix as it stands; a run with other demands could never be proven again.
        raise UsageError("--evidence takes the matrix's own demands", action="leave --require, --machine and --cc out")
    if arguments.machine:
        if arguments.target or arguments.all_targets or arguments.pin or arguments.matrix:
            raise UsageError(
                "--machine and --cc stand for a target of no matrix", action="leave one of the two ways out"
            )
        return None
    from qualify.matrix import load

    return load(arguments.matrix)


def _jobs(arguments: argparse.Namespace, loaded: LoadedMatrix | None) -> list[_Job]:
    """Every wheel with every target that is asked for, before anything is fetched or read.

    :raises UsageError: nothing to judge, no such file, no such target.
    """
    from qualify.arch import ComputeCapability
    from qualify.judging import BareTarget, Context, offer
    from qualify.matrix.model import Code, Profile

    profile = Profile(arguments.profile)
    require = Code(arguments.require) if arguments.require else None
    subjects = list(arguments.wheels)
    if arguments.pin and loaded is not None:
        if not loaded.matrix.pin.requirement:
            raise ConfigurationError(
                "the pin has no requirement", where=str(loaded.path), action="name a wheel instead"
            )
        subjects.append(loaded.matrix.pin.requirement)
    if not subjects:
        raise UsageError("nothing to judge", action="name a wheel file or a requirement, or give --pin")
    for subject in subjects:
        if not _is_requirement(subject) and not Path(subject).exists():
            raise UsageError(
                "no such file", where=subject, expected="a wheel file, or a requirement with a version (vllm==0.33.0)"
            )
    if loaded is None:
        try:
            device = ComputeCapability.parse(arguments.cc)
        except MalformedError as error:
            raise UsageError(error.what, where="--cc", expected=error.expected, action=error.action) from error
        bare = BareTarget(arguments.machine, device)
        return [_Job(subject, Context(profile=profile, require=require, bare=bare)) for subject in subjects]
    matrix = loaded.matrix
    for target in arguments.target:
        if target not in matrix.targets:
            expected = offer(target, tuple(matrix.targets))
            raise UsageError(f"unknown target {target!r}", where=str(loaded.path), expected=expected)
    jobs = []
    for subject in subjects:
        chosen = tuple(dict.fromkeys(arguments.target))
        if arguments.all_targets or (arguments.pin and not chosen):
            chosen = tuple(matrix.targets)
        wanted = chosen or _targets_of(subject, loaded)
        jobs += [_Job(subject, Context(matrix, target, profile, require)) for target in wanted]
    return jobs


def _targets_of(subject: str, loaded: LoadedMatrix) -> tuple[str, ...]:
    """Where no target is named: those of the machine that the file's name states, else all."""
    name = Path(subject).name
    targets = loaded.matrix.targets
    fitting = tuple(id_ for id_, target in targets.items() if name.endswith(f"_{target.machine}.whl"))
    return fitting or tuple(targets)


def _is_requirement(subject: str) -> bool:
    return _REQUIREMENT.fullmatch(subject) is not None and not Path(subject).exists()


class _Session:
    """Fetches and reads each wheel once, whatever the number of targets."""

    def __init__(self, loaded: LoadedMatrix | None, *, evidence: bool, ahead: ReadAhead | None = None) -> None:
        self._loaded = loaded
        self._evidence = evidence
        self._ahead = ahead
        self._read: dict[Path, WheelFacts | AssayError] = {}

    def report(self, job: _Job) -> Report:
        """Judge one job, and write its evidence where that is asked for.

        :raises UsageError: not a wheel's name, or no such release.
        :raises MalformedError: nothing at all could be read in the file.
        :raises UnavailableError: the wheel could not be fetched, or the evidence not written.
        """
        from qualify.judging import judge

        path = self._fetch(job) if job.is_requirement else Path(job.subject)
        facts = self._facts(path)
        report = judge(facts, job.context)
        if self._evidence and self._loaded is not None:
            from qualify import evidence

            document = evidence.from_report(report, facts, self._loaded, datetime.now(UTC))
            print(f"evidence: {evidence.write(document, path)}", file=sys.stderr)
        return report

    def _fetch(self, job: _Job) -> Path:
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
                self._read[key] = ahead.result() if ahead is not None else read_wheel(path, progress=_progress())
            except AssayError as error:
                self._read[key] = error
        known = self._read[key]
        if isinstance(known, AssayError):
            raise known
        return known


def _progress() -> Callable[[str, int, int], None] | None:
    from qualify.transfer import show_on_stderr

    return show_on_stderr if sys.stderr.isatty() else None


def _stand_in(job: _Job, error: AssayError) -> Report:
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


def _write(text: str) -> None:
    """To stdout in the encoding that it has; what that cannot say is escaped, never a traceback."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
