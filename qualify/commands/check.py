"""``qualify check``: judge wheels for targets, and say so in text, in JSON and by the exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.commands.check_jobs import jobs_of, matrix_of
from qualify.commands.check_session import Session, progress, stand_in
from qualify.errors import AssayError, ExitCode, MalformedError, UsageError
from qualify.readahead import ReadAhead
from qualify.shell import explain_error

if TYPE_CHECKING:
    from qualify.report import Report

HELP = "judge wheels for targets: qualified, rejected, inconclusive or unverified"

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
    parser.add_argument(
        "--torch", metavar="WHEEL", help="look every symbol up in this torch: a wheel file, or torch==2.14.0"
    )
    parser.add_argument(
        "--control",
        metavar="WHEEL",
        help="hold it against this wheel: a file, or vllm==0.33.0; default: the control that the matrix names",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the results as JUnit XML, for CI to show")
    parser.add_argument(
        "--since",
        type=Path,
        action="append",
        default=[],
        metavar="EVIDENCE",
        help="say what is asked otherwise than then; default: the evidence beside each wheel; repeatable",
    )
    parser.add_argument("--evidence", action="store_true", help="write WHEEL.<target>.evidence.json beside each wheel")
    parser.add_argument(
        "--sign", type=Path, metavar="KEY", help="with --evidence: sign it (qualify key new makes keys)"
    )
    parser.add_argument("--expires", metavar="AGE", help="with --evidence: it holds for so long: 12h, 30d, 8w")
    parser.add_argument(
        "--observation",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="with --evidence: what `measure --json` said of the wheel joins it; repeatable",
    )
    parser.add_argument(
        "--device-run",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="with --evidence: what came of a run on the target's device joins it; repeatable",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    # The first wheel is read while the matrix and its libraries load: half of that time is free then.
    with contextlib.ExitStack() as stack:
        first = next((Path(name) for name in arguments.wheels if name.endswith(".whl") and Path(name).is_file()), None)
        ahead = stack.enter_context(ReadAhead(first, progress())) if first is not None else None
        return _run(arguments, ahead)


def _run(arguments: argparse.Namespace, ahead: ReadAhead | None) -> ExitCode:
    from qualify import renderers

    loaded = matrix_of(arguments)
    session = Session(loaded, arguments, ahead)
    reports: list[Report] = []
    shown: list[Report] = []
    failures: list[AssayError] = []
    jobs = jobs_of(arguments, loaded)
    if arguments.junit is not None and arguments.junit.is_file():
        # What an earlier run left would speak for this one, if this one ends early.
        arguments.junit.unlink()
    for job in jobs:
        # One wheel that can't be had or read doesn't keep the others from being judged.
        try:
            report = session.report(job)
        except MalformedError as error:
            report = stand_in(job, error)
        except AssayError as error:
            failures.append(error)
            if not isinstance(error, UsageError):
                reports.append(stand_in(job, error))
            continue
        reports.append(report)
        shown.append(report)
    if failures and not reports:
        raise failures[0]
    if arguments.junit is not None:
        from qualify.files import write_atomic

        write_atomic(arguments.junit, renderers.renderer("junit").render(reports, width=0, color=False))
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


def _write(text: str) -> None:
    """To stdout in the encoding that it has; what that cannot say is escaped, never a traceback."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
