"""``python -m builders doctor [TARGET]``: one list of what a build needs, each found or not; nothing is compiled."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from builders.commands import add_plan_arguments, assignments
from qualify.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from builders.preflight import Item
    from qualify.matrix import LoadedMatrix

HELP = "look whether this host has what a build needs"

_HOST_MODE = (
    "this is what a build with --requirement-mode host would find; `build` installs its requirements and the toolkit "
    "by default, and --requirement-mode isolated lists what it would still lack"
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_plan_arguments(parser, target_required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--python", default="", metavar="PATH", help="the interpreter that would build")
    parser.add_argument("--look-in", action="append", default=[], metavar="DIR", help="a further folder to look in")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="as if this variable were set")
    parser.add_argument(
        "--requirement-mode",
        choices=("host", "isolated"),
        default="host",
        help="host: with what is here (default); isolated: requirements and toolkit are installed first",
    )
    parser.add_argument(
        "--runtime", action="store_true", help="what a GPU's host needs to compile kernels while it serves"
    )
    parser.add_argument(
        "--in-container",
        action="store_true",
        help="look inside a container of the target's image, and in the build's environment where it is made; "
        "--engine docker does so too",
    )
    parser.add_argument("--make-image", action="store_true", help="with --in-container: make the image if need be")
    parser.add_argument("--static", action="store_true", help="do not run the build backend's hook")
    parser.add_argument("--no-network", action="store_true", help="as if the build could fetch nothing")
    parser.add_argument("--scratch", type=Path, default=None, metavar="DIR", help="where the build would lie")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    # The collector runs in a folder of its own; symbolic links stay, since a venv's python is one.
    look_in = [
        *(str(Path(text).absolute()) for text in arguments.look_in),
        *(str(loaded.folder(text)) for text in loaded.local.look_in),
    ]
    if "/" in arguments.python:
        arguments.python = str(Path(arguments.python).absolute())
    scratch = arguments.scratch or (
        loaded.folder(loaded.local.folders.scratch) if loaded.local.folders.scratch else Path(tempfile.gettempdir())
    )
    # Who asks for the engine by name asks for what a build there would find, not for this host.
    option = "--in-container" if arguments.in_container else "--engine docker"
    arguments.in_container = arguments.in_container or arguments.engine == "docker"
    if arguments.in_container and (arguments.target is None or arguments.runtime):
        raise UsageError(f"{option} looks at a target's image", where="doctor", expected="a TARGET, without --runtime")
    if arguments.in_container and arguments.engine == "local":
        raise UsageError(f"{option} looks into a Docker engine", where="doctor", expected="no --engine local with it")
    if arguments.runtime:
        items = _look_at_runtime(loaded, arguments, look_in)
    elif arguments.target is None:
        items = _look_at_host(loaded, arguments, look_in, scratch)
    else:
        items = _look_at_target(loaded, arguments, look_in, scratch)
    code = show(items, as_json=arguments.json)
    elsewhere = arguments.runtime or arguments.in_container
    if code and arguments.target is not None and arguments.requirement_mode == "host" and not elsewhere:
        print(_HOST_MODE, file=sys.stderr)
    return code


def _look_at_runtime(loaded: LoadedMatrix, arguments: argparse.Namespace, look_in: list[str]) -> tuple[Item, ...]:
    """On the host that serves: what FlashInfer and Triton compile with."""
    from builders.planning import chosen_target
    from builders.preflight_runtime import judge_runtime

    python = arguments.python or sys.executable
    if arguments.target is None:
        return judge_runtime(python, "", look_in)
    target = chosen_target(loaded, arguments.target)
    return judge_runtime(python, target.compute_capability, look_in, oldest_cuda=target.driver.oldest_cuda)


def _look_at_host(
    loaded: LoadedMatrix, arguments: argparse.Namespace, look_in: list[str], scratch: Path
) -> tuple[Item, ...]:
    """Without a target: the matrix's tools for themselves, the headers and the room; no source is opened."""
    from builders.preflight import judge_tools_alone

    build = loaded.matrix.build
    return judge_tools_alone(
        build,
        python=arguments.python,
        look_in=look_in,
        environment=assignments(arguments.env),
        folders=[str(scratch)],
    )


def _look_at_target(
    loaded: LoadedMatrix, arguments: argparse.Namespace, look_in: list[str], scratch: Path
) -> tuple[Item, ...]:
    from builders.doctor_target import Asked, look_at_target
    from builders.progress import Console

    asked = Asked(
        target=arguments.target,
        scratch=scratch,
        how=arguments.how,
        engine=arguments.engine,
        overrides=assignments(arguments.set),
        arch_list=arguments.arch_list,
        python=arguments.python,
        look_in=tuple(look_in),
        environment=assignments(arguments.env),
        isolated=arguments.requirement_mode == "isolated",
        static=arguments.static,
        network=not arguments.no_network,
        in_container=arguments.in_container,
        make_image=arguments.make_image,
    )
    console = Console(sys.stderr)
    try:
        return look_at_target(loaded, asked, console)
    finally:
        console.close_line()


def show(items: tuple[Item, ...], *, as_json: bool) -> ExitCode:
    """Print the list; 8 if anything in it refuses."""
    refusing = [item for item in items if item.refuses]
    if as_json:
        print(json.dumps({"version": 1, "items": [item.to_json() for item in items]}, indent=2))
    else:
        for item in items:
            mark = "no " if item.refuses else ("ok " if item.status == "found" else "-  ")
            print(f"{mark} {item.render()}")
        print(f"{len(refusing)} of {len(items)} are not as the build needs them" if refusing else "all is there")
    return ExitCode.PREFLIGHT if refusing else ExitCode.OK
