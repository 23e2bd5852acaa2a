"""The judgement on tools and headers: found, present where the build doesn't look, of the wrong version, or absent."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from builders.preflight_items import Facts, Item, Status
from builders.toolsearch import VARIABLES, ToolDemand
from qualify.lines import first_line, lines_of

if TYPE_CHECKING:
    from builders.plan import Plan

# What to install where a tool is absent.
INSTALL: Mapping[str, str] = {
    "nvcc": "install the CUDA toolkit",
    "ninja": "install ninja (python -m pip install ninja, or the ninja-build package)",
    "cmake": "install cmake (python -m pip install cmake, or the cmake package)",
    "c++": "install a C++ compiler (the g++ package)",
    "cc": "install a C compiler (the gcc package)",
    "git": "install git",
    "cargo": "install Rust (rustup, or the cargo package)",
}

_VERSION = re.compile(r"\d+(?:\.\d+)+")
_PARENTHESES = re.compile(r"\([^()]*\)")
_RELEASE = re.compile(r"release (\d+\.\d+)(?:, V(\d+\.\d+\.\d+))?")


@dataclass(frozen=True, slots=True)
class Fit:
    """What nvcc has to fit: the target's CUDA and where it comes from ("": any), and the GPU ("": any)."""

    cuda: str = ""
    requirement: str = ""
    compute_capability: str = ""


def judge_tools(
    tools: Sequence[ToolDemand],
    facts: Facts,
    *,
    plan: Plan | None,
    brought: frozenset[str] = frozenset(),
    compute_capability: str = "",
) -> tuple[Item, ...]:
    """One item for each tool; ``Python.h`` is judged by :func:`judge_headers`.

    :param plan: whose toolkit and architecture nvcc must fit; None judges the tools for themselves.
    :param brought: tools that the isolated environment brings once it is made.
    :param compute_capability: without a plan, what nvcc has to compile for; "" for anything.
    """
    fit = Fit(compute_capability=compute_capability)
    if plan is not None and plan.toolkit is not None:
        fit = Fit(plan.toolkit.version, plan.toolkit.requirement, plan.compute_capability)
    return tuple(
        Item(
            tool.name,
            Status.NOT_LOOKED_AT,
            expected=_expected(tool),
            action="comes with the isolated environment, and is looked at there before the compile",
            optional=True,
        )
        if tool.name in brought
        else _judge_tool(tool, facts, fit)
        for tool in tools
        if tool.commands
    )


def _judge_tool(tool: ToolDemand, facts: Facts, fit: Fit) -> Item:
    seen = facts.get("tools", {}).get(tool.name)
    if seen is None:
        return Item(tool.name, Status.NOT_LOOKED_AT, expected=_expected(tool), action="the collector was not asked")
    candidates = [_fault(tool, found, fit) for found in seen["on_path"][:1]]
    if candidates and not candidates[0]:
        found = seen["on_path"][0]
        return Item(tool.name, Status.FOUND, found["path"], version_of(tool.name, found["output"]), _expected(tool))
    fits = [found for found in seen["elsewhere"] if not _fault(tool, found, fit)]
    if fits:
        # A tool that stands in its own place before a script that only calls it.
        fitting = next((found for found in fits if found.get("marked")), fits[0])
        return Item(
            tool.name,
            Status.NOT_ON_PATH,
            fitting["path"],
            version_of(tool.name, fitting["output"]),
            _expected(tool),
            _first(seen["on_path"], tool, fit) + _put_on_path(tool, fitting),
        )
    if candidates and seen["on_path"][0]["status"] == 0:
        found = seen["on_path"][0]
        return _wrong(tool, found, candidates[0])
    if seen["elsewhere"] and seen["elsewhere"][0]["status"] == 0:
        found = seen["elsewhere"][0]
        return _wrong(tool, found, f"it is not on PATH, and {_fault(tool, found, fit)}")
    # One that is there and doesn't start (rustup's cargo under another HOME) is told, not passed over.
    dead = [*seen["on_path"], *seen["elsewhere"]][:1]
    why = f"{dead[0]['path']} does not run ({_fault(tool, dead[0], fit)}); " if dead else ""
    if not candidates and seen.get("named"):
        why = f"{VARIABLES[tool.name]} names {seen['named']}, which is not there; unset it, or "
    return Item(tool.name, Status.ABSENT, expected=_expected(tool), action=why + _install(tool, fit))


def _first(on_path: Sequence[Mapping[str, Any]], tool: ToolDemand, fit: Fit) -> str:
    """What is wrong with the one that the build would call now; "" where there is none."""
    return f"{on_path[0]['path']} comes first now: {_fault(tool, on_path[0], fit)}; " if on_path else ""


def _wrong(tool: ToolDemand, found: Mapping[str, Any], fault: str) -> Item:
    return Item(
        tool.name,
        Status.WRONG_VERSION,
        found["path"],
        version_of(tool.name, found["output"]),
        _expected(tool),
        f"{fault}{_remedy(found, fault)}",
    )


def _remedy(found: Mapping[str, Any], fault: str) -> str:
    if "rustup toolchain install" in fault:
        return ""
    if (found.get("compiles") or {"status": 0})["status"] != 0:
        return "; give it what it misses (binutils, libc's and libstdc++'s headers), or put another first on PATH"
    return "; install one that fits and put it first on PATH"


def _fault(tool: ToolDemand, found: Mapping[str, Any], fit: Fit) -> str:
    """Why one candidate will not do; "" if it will."""
    if found["status"] != 0:
        return first_line(str(found["output"])) or f"exit status {found['status']}"
    tried = found.get("compiles")
    if tried is not None and tried["status"] != 0:
        return f"it compiles nothing: {tried['output'] or tried['status']}"
    version = version_of(tool.name, found["output"])
    # A minimum for a C++ compiler counts GCC's releases; Clang has numbers of its own.
    if tool.minimum and not (tool.name == "c++" and "clang" in found["output"].lower()):
        if not version:
            return "it does not say its version"
        if not at_least(version, tool.minimum):
            return f"version {version} is older than {tool.minimum}" + (f" ({tool.why})" if tool.why else "")
    if tool.name == "cargo":
        return _toolchain_fault(tool, found)
    return _nvcc_fault(found, fit) if tool.name == "nvcc" else ""


def _toolchain_fault(tool: ToolDemand, found: Mapping[str, Any]) -> str:
    """rustup's cargo runs the toolchain that the tree's file names, and fetches it where it isn't installed.

    A cargo that is not rustup's doesn't read that file.
    """
    rustup = found.get("beside", {}).get("rustup")
    if not tool.toolchain or rustup is None or rustup["status"] != 0:
        return ""
    installed = [words[0] for line in lines_of(str(rustup["output"])) if (words := line.split())]
    # "1.95-x86_64-unknown-linux-gnu", or a name that somebody gave
    if any(name == tool.toolchain or name.startswith(f"{tool.toolchain}-") for name in installed):
        return ""
    return (
        f"rustup has no toolchain {tool.toolchain}, which the tree's toolchain file names, and would fetch it in the "
        f"middle of the build (it has {', '.join(installed) or 'none'}): rustup toolchain install {tool.toolchain}"
    )


def _nvcc_fault(found: Mapping[str, Any], fit: Fit) -> str:
    """Whether this nvcc is the target's toolkit and can compile for the target."""
    version = version_of("nvcc", found["output"])
    if fit.cuda and version.split(".")[:2] != fit.cuda.split(".")[:2]:
        return f"its CUDA is {version or 'not stated'}, the target's {fit.cuda}"
    number = fit.compute_capability.replace(".", "")
    if not number:
        return ""
    listed = {item for items in found.get("lists", {}).values() for item in items}
    if not listed:
        return "it does not list its architectures (--list-gpu-arch)"
    if not {f"sm_{number}", f"compute_{number}"} & listed:
        return f"it does not know sm_{number}; it knows {', '.join(sorted(listed)) or 'none'}"
    return ""


def version_of(tool: str, output: str) -> str:
    """The version in what a tool prints, "" where there is none.

    nvcc: ``release 13.0, V13.0.88``; GCC: what follows the packager's parentheses, ``g++ (Debian 12.2.0-14) 12.2.0``.
    """
    if tool == "nvcc":
        match = _RELEASE.search(output)
        return (match[2] or match[1]) if match else ""
    found = _VERSION.search(_PARENTHESES.sub("", output)) or _VERSION.search(output)
    return found[0] if found else ""


def at_least(version: str, minimum: str) -> bool:
    """Whether ``version`` is not older than ``minimum``; a version that cannot be compared is not."""
    try:
        return Version(version) >= Version(minimum)
    except InvalidVersion:
        return False


def _expected(tool: ToolDemand) -> str:
    return f"{tool.minimum} or newer" if tool.minimum else ""


def _put_on_path(tool: ToolDemand, found: Mapping[str, Any]) -> str:
    folder = posixpath.dirname(found["path"])
    setting = f'export PATH="{folder}:$PATH"'
    if tool.name == "nvcc":
        # CMake finds the compiler by CUDACXX or PATH, torch and setup.py files by CUDA_HOME.
        setting += f' CUDACXX="{found["path"]}"'
        if found.get("marked"):
            setting += f' CUDA_HOME="{posixpath.dirname(folder)}"'
    return setting


def _install(tool: ToolDemand, fit: Fit) -> str:
    if tool.name == "nvcc" and fit.requirement:
        return f"install CUDA {fit.cuda} (python -m pip install '{fit.requirement}')"
    if tool.name == "c++" and tool.commands and tool.commands[0] != "c++":
        return f"install {tool.commands[0]} (the {tool.commands[0].replace('g++', '').strip('-')} cross compiler)"
    newer = f", {tool.minimum} or newer" if tool.minimum else ""
    return INSTALL.get(tool.name, f"install {tool.name}") + newer


def judge_headers(facts: Facts, *, demanded: bool) -> tuple[Item, ...]:
    """``Python.h`` of the interpreter that builds: in its own folder, in one that compilers are told, or elsewhere."""
    if not demanded:
        return ()
    interpreter = facts.get("interpreter")
    if not interpreter:
        return (Item("Python.h", Status.NOT_LOOKED_AT, action="because the interpreter could not be asked"),)
    short = interpreter["short"]
    series = ".".join(interpreter["version"].split(".")[:2])
    headers = facts["headers"]
    install = f"install the headers (python{series}-dev on Debian, python{series}-devel on Fedora)"
    near = [*headers["own"], *headers["told"]]
    fitting = [found for found in near if _same_series(found["version"], series)]
    if fitting:
        return (Item("Python.h", Status.FOUND, fitting[0]["path"], fitting[0]["version"]),)
    elsewhere = [found for found in headers["elsewhere"] if _same_series(found["version"], series)]
    if elsewhere:
        folder = posixpath.dirname(elsewhere[0]["path"])
        action = f'export CPLUS_INCLUDE_PATH="{folder}" C_INCLUDE_PATH="{folder}", or {install}'
        return (Item("Python.h", Status.NOT_ON_PATH, elsewhere[0]["path"], elsewhere[0]["version"], action=action),)
    if near:
        return (
            Item("Python.h", Status.WRONG_VERSION, near[0]["path"], near[0]["version"], f"Python {series}", install),
        )
    looked = ", ".join(headers["own_folders"]) or f"python{short}"
    return (Item("Python.h", Status.ABSENT, expected=f"in {looked}", action=install),)


def _same_series(version: str, series: str) -> bool:
    return version.startswith(f"{series}.") or version == ""
