"""``python -m builders build TARGET``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from qualify.errors import ExitCode, UsageError

HELP = "build the wheel of a target at the pin"


def configure(parser: argparse.ArgumentParser) -> None:
    from builders.engines import ENGINES

    parser.add_argument("target", metavar="TARGET", help="a target of the matrix")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="the matrix (default: matrix.yaml here or above)")
    parser.add_argument("--engine", default="", metavar="ENGINE", help=f"{', '.join(ENGINES)} or auto (the target's)")
    parser.add_argument(
        "--engine-host", default="", metavar="NAME", help="a name under `engines` of matrix.local.yaml, for docker"
    )
    parser.add_argument("--how", choices=("native", "cross", "emulate"), help="instead of the target's own way")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the wheel goes (default: wheels/TARGET)")
    parser.add_argument("--arch-list", default="", metavar="LIST", help="architectures, instead of the target's")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="a variable of the build"
    )
    parser.add_argument(
        "--requirement-mode",
        choices=("isolated", "host"),
        default="isolated",
        help="install the build requirements, or take what the interpreter of the place has",
    )
    parser.add_argument("--python", default="", metavar="EXE", help="the interpreter of the place that builds")
    parser.add_argument(
        "--look-in", action="append", default=[], metavar="FOLDER", help="where else the preflight looks for tools"
    )
    parser.add_argument("--memory", type=_gigabytes, default=0, metavar="GB", help="the most that a step may take")
    parser.add_argument("--cores", type=_count, default=0, metavar="N", help="the most cores that a step may use")
    parser.add_argument("--jobs", type=_count, default=0, metavar="N", help="compile jobs, instead of what fits")
    parser.add_argument(
        "--timeout", type=_count, default=0, metavar="MINUTES", help="the most that the compile may take (the matrix's)"
    )
    parser.add_argument("--offline", action="store_true", help="fetch no source: what the store lacks refuses it")
    parser.add_argument(
        "--if-claimed",
        choices=("wait", "leave"),
        default="wait",
        help="where another process builds the same plan: wait for its wheel, or leave with its log's path (exit 4)",
    )
    parser.add_argument("--rebuild", action="store_true", help="build even where a wheel of the same plan is there")
    parser.add_argument("--verbose", action="store_true", help="show every line of the build")
    parser.add_argument("--json", action="store_true", help="print the receipt instead of the wheel's path")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.pipeline import BuildRequest, build
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    wheels = loaded.folder(loaded.local.folders.wheels) if loaded.local.folders.wheels else Path("wheels")
    request = BuildRequest(
        target=arguments.target,
        out=arguments.out or wheels / arguments.target,
        engine=arguments.engine,
        how=arguments.how,
        arch_list=arguments.arch_list,
        overrides=_settings(arguments.settings),
        mode=arguments.requirement_mode,
        python=arguments.python,
        memory=arguments.memory,
        engine_host=arguments.engine_host,
        cores=arguments.cores,
        jobs=arguments.jobs,
        timeout=60.0 * arguments.timeout,
        offline=arguments.offline,
        wait=arguments.if_claimed == "wait",
        look_in=(*arguments.look_in, *loaded.local.look_in),
        rebuild=arguments.rebuild,
        verbose=arguments.verbose,
    )
    built = build(loaded, request, sys.stderr)
    if arguments.json:
        document = json.loads(built.receipt.read_text(encoding="utf-8"))
        document.update(path=str(built.wheel), built=not built.reused)
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{built.wheel}\n")
    return ExitCode.OK


def _gigabytes(text: str) -> int:
    """Bytes; a step needs some, and an engine counts them in 64 bits."""
    value = float(text)
    if not 0.01 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text} GB is no limit for a step")
    return int(value * 10**9)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 to 100000")
    return int(text)


def _settings(given: list[str]) -> dict[str, str]:
    """``["A=1", "B="]`` -> the variables.

    :raises UsageError: one has no ``=`` or no name.
    """
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(f"{text!r} sets no variable", where="--set", expected="NAME=VALUE")
        found[name] = value
    return found
