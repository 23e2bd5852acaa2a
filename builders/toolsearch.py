"""Which tools a build demands, where they may be, and what the collector is asked: all of it data.

The folders are those in which tools were found although the build could not see them: an environment's ``bin`` that
isn't on PATH, the CUDA toolkit's, Cargo's, the ``nvidia`` packages of the package index.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any

from builders import toolsearch_collector
from qualify.errors import UnavailableError
from qualify.lines import last_line, lines_of
from qualify.matrix.model import Tool

# `$NAME` is a variable of the environment, or one of the three facts of the interpreter that builds.
LOOK_IN = (
    "$PYTHON_BIN",
    "$PYTHON_PREFIX/bin",
    "$VIRTUAL_ENV/bin",
    "~/.local/bin",
    "~/.cargo/bin",
    "/usr/local/bin",
    "/usr/local/cuda*/bin",
    "/opt/*/bin",
    "/opt/rh/*/root/usr/bin",
    "$SITE_PACKAGES/nvidia/*/bin",
    "$CUDA_HOME/bin",
    "$CUDA_PATH/bin",
    "$CONDA_PREFIX/bin",
)
HEADERS_IN = (
    "$PYTHON_PREFIX/include/python{version}",
    "$CONDA_PREFIX/include/python{version}",
    "/usr/include/python{version}",
    "/usr/local/include/python{version}",
    "/opt/*/include/python{version}",
)
# How builds call each tool; another name for the same program (ninja-build) is none that they would find.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "nvcc": ("nvcc",),
    "ninja": ("ninja",),
    "cmake": ("cmake",),
    "c++": ("c++", "g++", "clang++"),
    "cc": ("gcc", "clang", "cc"),
    "git": ("git",),
    "cargo": ("cargo",),
}
# A variable that names the tool instead, as CMake and setuptools read it.
VARIABLES: Mapping[str, str] = {"c++": "CXX", "cc": "CC"}
# What lies beside the `bin` of a whole CUDA toolkit, and not beside a script that only calls its nvcc.
NVCC_MARKS = ("nvvm",)
# What lies beside a tool and belongs to it: a program, and what it is asked.
BESIDE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "nvcc": (("ptxas", "--version"),),
    "cargo": (("rustup", "toolchain", "list"),),
}
# What a compiler is tried with: it takes an assembler, a linker, and the headers of its own library.
COMPILES: Mapping[str, tuple[str, str]] = {
    "c++": ("probe.cpp", "#include <vector>\nint probe(std::vector<int> const& v) { return v.empty(); }\n"),
    "cc": ("probe.c", "#include <stdlib.h>\nint probe(void) { return abs(-1); }\n"),
}
NVCC_LISTS = ("--list-gpu-arch", "--list-gpu-code")
HOST_SECONDS = 900


@dataclass(frozen=True)
class Host:
    """The machine that an engine runs on; ``memory`` in bytes is what new work may take."""

    machine: str
    cores: int
    memory: int


@dataclass(frozen=True)
class ToolDemand:
    """One tool that the build needs: where it is called, at least which version, and why."""

    name: str
    commands: tuple[str, ...]  # the first that is on PATH is what the build would call
    minimum: str
    why: str
    toolchain: str = ""  # cargo's alone: what the tree's toolchain file names, and rustup has to have installed


@dataclass(frozen=True)
class Request:
    """What the collector is asked.  ``environment`` is laid over the one that the collector finds."""

    python: str = ""  # the interpreter that builds; "": the one that runs the collector
    environment: Mapping[str, str] = field(default_factory=dict)
    look_in: tuple[str, ...] = LOOK_IN
    headers_in: tuple[str, ...] = HEADERS_IN
    tools: tuple[Mapping[str, Any], ...] = ()
    watch: tuple[str, ...] = ()  # fnmatch patterns: variables whose values are reported
    folders: tuple[str, ...] = ()  # whose free disk space is reported
    remotes: tuple[str, ...] = ()  # git repositories that are asked whether they answer
    requirements: tuple[str, ...] = ()  # static ones; the hook is asked only where all are met
    hook: Mapping[str, Any] | None = None  # {tree, backend, backend_path}: ask the build backend

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def demands(
    tools: Sequence[Tool], *, only: tuple[str, ...] | None, machine: str, how: str, host: Host
) -> tuple[ToolDemand, ...]:
    """The tools that the matrix demands, those named in ``only`` alone where a shape of the build says so.

    A cross build calls the compiler of the target's machine by its GNU name.
    """
    cross = how == "cross" and machine != host.machine
    return tuple(
        ToolDemand(
            name=tool.name,
            commands=(f"{machine}-linux-gnu-g++",) if cross and tool.name == "c++" else COMMANDS.get(tool.name, ()),
            minimum=tool.minimum,
            why=tool.why,
        )
        for tool in tools
        if only is None or tool.name in only
    )


def question(tool: ToolDemand) -> dict[str, Any]:
    """What the collector is asked about one tool."""
    lists, marks = (NVCC_LISTS, NVCC_MARKS) if tool.name == "nvcc" else ((), ())
    compiles = COMPILES.get(tool.name)
    return {
        "name": tool.name,
        "compiles": {"name": compiles[0], "text": compiles[1]} if compiles else None,
        "commands": list(tool.commands),
        "variable": VARIABLES.get(tool.name, ""),
        "arguments": ["--version"],
        "lists": list(lists),
        "marks": list(marks),
        "beside": list(BESIDE.get(tool.name, ())),
    }


def look_in_folders(further: Sequence[str]) -> tuple[str, ...]:
    """``LOOK_IN`` with the caller's folders before it, each with its ``bin``."""
    own = [folder for given in further for folder in (given, f"{given.rstrip('/')}/bin")]
    return (*own, *LOOK_IN)


def header_folders(further: Sequence[str]) -> tuple[str, ...]:
    """``HEADERS_IN`` with the caller's folders before it."""
    own = [
        folder
        for given in further
        for folder in (
            given,
            f"{given.rstrip('/')}/python{{version}}",
            f"{given.rstrip('/')}/include/python{{version}}",
        )
    ]
    return (*own, *HEADERS_IN)


def collector_source() -> str:
    """The text of the collector, for ``python3 -c`` anywhere."""
    machine, collector = (
        resources.files("builders").joinpath(f"{name}.py").read_text(encoding="utf-8")
        for name in ("machinefacts", "toolsearch_collector")
    )
    ours = ("from __future__ import ", "from builders.")  # the first may stand at the head of a text alone
    return machine + "".join(f"{line}\n" for line in lines_of(collector) if not line.startswith(ours))


def run_here(arguments: Sequence[str]) -> str:
    """Run the collector on this host: the :data:`builders.preflight.Run` of the local engine and of the doctor.

    :raises UnavailableError: it did not run.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=HOST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(
            f"the facts of this host could not be collected: {error}", where=sys.executable
        ) from error
    if done.returncode != 0:
        raise UnavailableError(
            f"the facts of this host could not be collected: {last_line(done.stderr) or done.returncode}",
            where=sys.executable,
        )
    return done.stdout


def this_host() -> Host:
    """This machine, within the limits of the control group that we run in."""
    memory = toolsearch_collector.memory()
    known = [value for value in (memory["available"], memory["limit"]) if value is not None]
    return Host(platform.machine(), toolsearch_collector.cores(), min(known, default=4 << 30))
