"""``qualify diff``: what a candidate lost, gained and changed since a control."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import ExitCode, MalformedError, UsageError
from qualify.subjects import is_requirement

if TYPE_CHECKING:
    from qualify.arch import ComputeCapability
    from qualify.matrix import LoadedMatrix

HELP = "compare two wheels: kernels, extensions, files, metadata, floors, sizes; lost and gained apart"

_TEXT_WIDTH = 120


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Ends with 0 where nothing is lost and with 1 where something is: a kernel or an architecture of an extension, "
        "an extension, a file, an entry point. With a target, of the code only what it runs counts, and a kernel that "
        "was native and waits for the driver's JIT now counts too. With 3 where something could not be compared."
    )
    parser.add_argument("candidate", metavar="CANDIDATE", help="a wheel file, or a requirement such as vllm==0.33.0")
    parser.add_argument("control", metavar="CONTROL", help="the wheel that it is held against, likewise")
    parser.add_argument("--target", metavar="ID", help="compare what this target of the matrix runs as well")
    parser.add_argument(
        "--matrix", type=Path, metavar="FILE", help="default: WHEEL_ASSAY_MATRIX, or matrix.yaml here or above"
    )
    parser.add_argument("--machine", choices=("x86_64", "aarch64"), help="of wheels that are fetched by requirement")
    parser.add_argument("--cc", metavar="X.Y", help="compute capability: a target without a matrix")
    parser.add_argument(
        "--architecture", action="append", default=[], metavar="NAME", help="sm_90a: its kernels alone; repeatable"
    )
    parser.add_argument("--all", action="store_true", help="list every kernel and file that differs")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


@dataclass(frozen=True)
class _For:
    """What the wheels are compared for."""

    target: str = ""
    device: ComputeCapability | None = None
    oldest_cuda: str = ""
    machine: str = ""  # of wheels that are fetched; "" where nothing says
    python: str = ""
    glibc: str = ""


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.diffing import compare
    from qualify.opening import read_wheel

    loaded, wanted = _wanted(arguments)
    fetch = _fetcher(loaded, wanted)
    control, candidate = (
        read_wheel(fetch(subject), progress=_progress()) for subject in (arguments.control, arguments.candidate)
    )
    difference = compare(
        candidate,
        control,
        architectures=arguments.architecture,
        device=wanted.device,
        target=wanted.target,
        oldest_cuda=wanted.oldest_cuda,
    )
    if arguments.json:
        from qualify.diffing.json import to_json

        print(json.dumps(to_json(difference), indent=2, ensure_ascii=True))
    else:
        from qualify.renderers import difference as text

        tty = sys.stdout.isatty()
        width = shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns if tty else _TEXT_WIDTH
        shown = text.render(difference, width=width, color=tty and not os.environ.get("NO_COLOR"), every=arguments.all)
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(shown.encode(encoding, "backslashreplace").decode(encoding))
    if difference.loses:
        return ExitCode.REJECTED
    return ExitCode.UNVERIFIED if difference.leaves_open else ExitCode.OK


def _wanted(arguments: argparse.Namespace) -> tuple[LoadedMatrix | None, _For]:
    """The target, of the matrix or bare.

    :raises UsageError: the arguments contradict each other, or name no such target.
    """
    from qualify.arch import ComputeCapability

    if arguments.target and (arguments.cc or arguments.machine):
        raise UsageError("--machine and --cc stand for a target of no matrix", action="leave one of the two ways out")
    if not arguments.target:
        if arguments.cc is None:
            return None, _For(machine=arguments.machine or "")
        try:
            device = ComputeCapability.parse(arguments.cc)
        except MalformedError as error:
            raise UsageError(error.what, where="--cc", expected=error.expected, action=error.action) from error
        return None, _For(f"sm{device.number}", device, machine=arguments.machine or "")
    from qualify.judging import offer
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    target = loaded.matrix.targets.get(arguments.target)
    if target is None:
        raise UsageError(
            f"unknown target {arguments.target!r}",
            where=str(loaded.path),
            expected=offer(arguments.target, tuple(loaded.matrix.targets)),
        )
    device = ComputeCapability.parse(target.compute_capability)
    oldest = target.driver.oldest_cuda
    wanted = _For(arguments.target, device, oldest, target.machine, target.python[0], target.ceilings.glibc)
    return loaded, wanted


def _fetcher(loaded: LoadedMatrix | None, wanted: _For) -> Callable[[str], Path]:
    """What turns an operand into a file."""

    def fetch(subject: str) -> Path:
        if not is_requirement(subject):
            return Path(subject)
        if not wanted.machine:
            raise UsageError(
                "nothing says for which machine it is to be fetched", where=subject, action="give --target or --machine"
            )
        from qualify.fetching import Fetcher

        fetcher = Fetcher(local=loaded.local) if loaded is not None else Fetcher()
        python = wanted.python or f"{sys.version_info.major}.{sys.version_info.minor}"
        if wanted.glibc:
            return fetcher.fetch_wheel(subject, wanted.machine, python, glibc=wanted.glibc)
        return fetcher.fetch_wheel(subject, wanted.machine, python)

    return fetch


def _progress() -> Callable[[str, int, int], None] | None:
    from qualify.transfer import show_on_stderr

    return show_on_stderr if sys.stderr.isatty() else None
