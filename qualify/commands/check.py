"""``qualify check``: judge wheels for targets, and say so in text, in JSON and by the exit code."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import AssayError, ConfigurationError, ExitCode, MalformedError, UsageError
from qualify.shell import explain_error

if TYPE_CHECKING:
    from qualify.facts import WheelFacts
    from qualify.judging import Context
    from qualify.matrix import LoadedMatrix
    from qualify.report import Finding, Report, Verdict

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
    from qualify import renderers

    loaded = _matrix(arguments)
    session = _Session(loaded, evidence=arguments.evidence)
    reports: list[Report] = []
    failures: list[AssayError] = []
    for job in _jobs(arguments, loaded):
        try:
            reports.append(session.report(job))
        except UsageError:
            raise
        except AssayError as error:
            # One wheel that can't be had doesn't keep the others from being judged.
            failures.append(error)
            if arguments.json:
                reports.append(_not_looked_at(job, error))
    if arguments.json or reports:
        tty = sys.stdout.isatty()
        width = shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns if tty else _TEXT_WIDTH
        color = tty and not os.environ.get("NO_COLOR")
        name = "json" if arguments.json else "text"
        _write(renderers.renderer(name).render(reports, width=width, color=color))
    for line in dict.fromkeys(map(explain_error, failures)):
        print(line, file=sys.stderr)
    return ExitCode.worst([*(report.exit_code for report in reports), *(error.exit_code for error in failures)])


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

    def __init__(self, loaded: LoadedMatrix | None, *, evidence: bool) -> None:
        self._loaded = loaded
        self._evidence = evidence
        self._read: dict[Path, WheelFacts | MalformedError] = {}

    def report(self, job: _Job) -> Report:
        """Judge one job, and write its evidence where that is asked for.

        :raises UsageError: not a wheel's name, or no such release.
        :raises UnavailableError: the wheel could not be fetched, or the evidence not written.
        """
        from qualify.judging import judge

        path = self._fetch(job) if job.is_requirement else Path(job.subject)
        facts = self._facts(path)
        if isinstance(facts, MalformedError):
            return _malformed(job, path, facts)
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

    def _facts(self, path: Path) -> WheelFacts | MalformedError:
        from qualify.opening import read_wheel
        from qualify.transfer import show_on_stderr

        key = path.resolve()
        if key not in self._read:
            try:
                self._read[key] = read_wheel(path, progress=show_on_stderr if sys.stderr.isatty() else None)
            except MalformedError as error:
                self._read[key] = error
        return self._read[key]


def _malformed(job: _Job, path: Path, error: MalformedError) -> Report:
    """The report of a file in which nothing at all could be read: rejected."""
    from qualify.files import sha256_of
    from qualify.report import Finding, Severity, Verdict

    found = f"{error.where}: {error.what}" if error.where and error.where != str(path) else error.what
    action = error.action or "build or fetch the wheel again"
    finding = Finding("ARC001", "malformed", Severity.ERROR, "", found, error.expected or "a wheel", action)
    return _empty(job, path.name, sha256_of(path).sha256, Verdict.REJECTED, finding)


def _not_looked_at(job: _Job, error: AssayError) -> Report:
    """What JSON says of a wheel that could not be had: unverified, with the reason."""
    from qualify.report import ENVIRONMENT_CODE, Finding, Severity, Verdict

    expected, action = error.expected or "a wheel to look at", error.action or "run again"
    found = f"{error.where}: {error.what}" if error.where else error.what
    finding = Finding(ENVIRONMENT_CODE, "reader-missing", Severity.UNVERIFIED, "", found, expected, action)
    return _empty(job, job.subject, "", Verdict.UNVERIFIED, finding)


def _empty(job: _Job, wheel: str, sha256: str, verdict: Verdict, finding: Finding) -> Report:
    from qualify.report import REPORT_VERSION, Report

    context = job.context
    name, _, rest = wheel.partition("-")
    return Report(
        version=REPORT_VERSION,
        wheel=wheel,
        sha256=sha256,
        project=name.lower().replace("_", "-") if rest else "",
        wheel_version=rest.partition("-")[0],
        target=context.bare.id if context.bare is not None else context.target,
        profile=context.profile.value,
        verdict=verdict,
        findings=(finding,),
        coverage=(),
        not_judged=("everything: the file could not be read",),
    )


def _write(text: str) -> None:
    """To stdout in the encoding that it has; what that cannot say is escaped, never a traceback."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
