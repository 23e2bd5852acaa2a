"""The oldest tools that a tree takes, as it says itself: compilers in its CMake files, cargo in its toolchain file.

A matrix can name minimums of its own; the higher of the two counts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from builders.externals import Placed, Reading
from builders.externals_cmake import Branch
from builders.externals_conditions import walked
from builders.toolsearch import ToolDemand

MAX_BYTES = 1 << 20
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_COMPILER = "CMAKE_CXX_COMPILER_VERSION"


@dataclass(frozen=True, slots=True)
class Floor:
    """The oldest version of one tool; ``where`` is the file and line that says so."""

    tool: str
    version: str
    where: str


def compiler_floor(tree: Path, globs: Sequence[str], variables: Mapping[str, str]) -> Floor | None:
    """The oldest C++ compiler that the tree's CMake files take: the highest version below which they end.

    ``if(… CMAKE_CXX_COMPILER_VERSION VERSION_LESS "13")`` around ``message(FATAL_ERROR …)`` says it.  A branch that
    is not walked, as far as ``variables`` decide that, doesn't count; what is not known does.
    """
    found: list[Floor] = []
    for placed in Reading(tree).all_commands(globs):
        words = placed.command.words
        if placed.command.name != "message" or not words or words[0] != "FATAL_ERROR":
            continue
        version = next((text for branch in placed.branches if (text := _less_than(branch))), "")
        if version and not _excluded(placed, variables):
            found.append(Floor("c++", version, f"{placed.file}:{placed.command.line}"))
    return max(found, key=lambda floor: Version(floor.version), default=None)


def _less_than(branch: Branch) -> str:
    """The version below which this branch is walked; "" where it asks for no such thing."""
    words = branch.holds
    for at, word in enumerate(words[:-2]):
        if word.strip('"{}$') == _COMPILER and words[at + 1] == "VERSION_LESS":
            text = words[at + 2].strip('"')
            return text if _NUMBER.fullmatch(text) else ""
    return ""


def _excluded(placed: Placed, variables: Mapping[str, str]) -> bool:
    return any(walked(branch, variables) is False for branch in placed.branches)


def cargo_floor(tree: Path, file: str) -> Floor | None:
    """The toolchain that the tree's file names, where it is a number: ``channel = "1.95"``; None for "stable"."""
    path = tree / file
    if not file or not path.is_file() or path.stat().st_size > MAX_BYTES:
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        channel = str(tomllib.loads(text)["toolchain"]["channel"])
    except (ValueError, KeyError, TypeError):
        channel = text.strip()  # the older form: the name alone
    return Floor("cargo", channel, file) if _NUMBER.fullmatch(channel) else None


def raised(tools: Sequence[ToolDemand], floors: Sequence[Floor | None]) -> tuple[ToolDemand, ...]:
    """The demands with the tree's own floors where those are higher than the matrix's."""
    known = {floor.tool: floor for floor in floors if floor is not None}
    return tuple(
        replace(tool, minimum=floor.version, why=f"{floor.where} says so")
        if (floor := known.get(tool.name)) is not None and _higher(floor.version, tool.minimum)
        else tool
        for tool in tools
    )


def _higher(version: str, than: str) -> bool:
    try:
        return not than or Version(version) > Version(than)
    except InvalidVersion:
        return True
