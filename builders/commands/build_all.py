"""``python -m builders build-all [TARGET…]``: the targets side by side, over the engine hosts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from builders.fleet import Host, Job
    from builders.fleet_child import Child
    from builders.fleet_run import Result
    from builders.plan import How
    from qualify.matrix import LoadedMatrix

HELP = "build the wheels of several targets side by side, over the engine hosts"

# Options of `build` that mean the same for every target, and are handed on as they are written.
_SWITCHES = ("offline", "rebuild")
_VALUES = ("memory", "cores", "jobs", "timeout", "requirement-mode", "if-claimed")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="of the matrix (default: all)")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="the matrix (default: matrix.yaml here or above)")
    parser.add_argument(
        "--how",
        choices=("native", "cross", "emulate"),
        help="for targets without a host of their machine, instead of their own way; the others are built natively",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="each target's wheel goes below (default: wheels)")
    parser.add_argument("--offline", action="store_true", help="as of build, for each")
    parser.add_argument("--rebuild", action="store_true", help="as of build, for each")
    for name in _VALUES:
        parser.add_argument(f"--{name}", default="", metavar="X", help="as of build, for each")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the wheels' paths")


def run(arguments: argparse.Namespace) -> int:
    from builders.fleet import find_hosts, jobs_for
    from builders.fleet_run import Fleet, worst_code
    from builders.fleet_view import FleetView
    from builders.planning import chosen_target
    from builders.signals import interruptible
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    names = arguments.targets or list(loaded.matrix.targets)
    for name in names:
        chosen_target(loaded, name)
    jobs = jobs_for(loaded, names, arguments.how)
    out = _wheels(loaded, arguments)
    with interruptible():
        hosts = find_hosts(loaded, jobs)
        with FleetView(jobs, sys.stderr) as view:
            view.hosts(hosts)
            fleet = Fleet(list(hosts), _starter(loaded, out, arguments), _asker(loaded), view)
            results = fleet.run(jobs)
    for result in results:
        _explain(result)
    code = worst_code(results)
    if arguments.json:
        print(json.dumps(_document(results, fleet.hosts, out, code), indent=2, ensure_ascii=False))
    else:
        for result in results:
            if result.outcome.code == 0:
                print(result.outcome.wheel)
    return code


def _wheels(loaded: LoadedMatrix, arguments: argparse.Namespace) -> Path:
    if arguments.out is not None:
        return Path(arguments.out)
    named = loaded.local.folders.wheels
    return loaded.folder(named) if named else Path("wheels")


def _starter(
    loaded: LoadedMatrix, out: Path, arguments: argparse.Namespace
) -> Callable[[Job, Host, How, Callable[[str], None]], Child]:
    from builders.fleet_child import Child

    common = [f"--{name}" for name in _SWITCHES if getattr(arguments, name)]
    for name in _VALUES:
        if value := getattr(arguments, name.replace("-", "_")):
            common += [f"--{name}", value]

    def start(job: Job, host: Host, how: How, heard: Callable[[str], None]) -> Child:
        return Child([*build_arguments(loaded, out, job, host, how), *common], heard)

    return start


def build_arguments(loaded: LoadedMatrix, out: Path, job: Job, host: Host, how: How) -> list[str]:
    """The arguments of ``python -m builders`` that build one job on a host; the target's own way isn't repeated."""
    from builders.enginehosts import HERE

    place = ["--engine", host.engine]
    if host.engine == "docker":
        place += ["--engine-host", host.name]
    own = loaded.matrix.targets[job.target].how
    return [
        *("build", job.target, "--matrix", str(loaded.path), "--out", str(out / job.target), "--json"),
        *(place if host.name != HERE or job.host else place[:2]),
        *(["--how", how] if how != own else []),
    ]


def _asker(loaded: LoadedMatrix) -> Callable[[Host], str]:
    from builders.fleet import ask_engine

    def still_there(host: Host) -> str:
        if host.engine != "docker":
            return ""
        try:
            ask_engine(loaded.local.engines.get(host.name))
        except UnavailableError as error:
            return error.what
        return ""

    return still_there


def _explain(result: Result) -> None:
    """The whole error of a target that has no wheel, after the table."""
    outcome = result.outcome
    if outcome.code == 0:
        return
    print(f"error: {result.job.target}: {outcome.fault}", file=sys.stderr)
    for line in outcome.details:
        if outcome.fault not in line:
            print(f"  {line}", file=sys.stderr)


def _document(results: Sequence[Result], hosts: Sequence[Host], out: Path, code: int) -> dict[str, object]:
    return {
        "version": 1,
        "code": code,
        "hosts": [
            {
                "name": host.name,
                "engine": host.engine,
                "machine": host.machine,
                "version": host.version,
                "cores": host.cores,
                "memory": host.memory,
                "fault": host.fault,
            }
            for host in hosts
        ],
        "targets": [
            {
                "target": result.job.target,
                "host": result.host,
                "how": result.how or "",
                "code": result.outcome.code,
                "seconds": result.outcome.seconds,
                "wheel": result.outcome.wheel,
                "sha256": result.outcome.sha256,
                "key": result.outcome.key,
                "built": result.outcome.built,
                "fault": result.outcome.fault,
                "details": list(result.outcome.details),
                "host_gone": result.host_gone,
                "log": str(out / result.job.target / f"{result.job.target}.log") if result.host else "",
            }
            for result in results
        ],
    }
