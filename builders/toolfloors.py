"""The oldest tools that a tree takes, as it says itself; for Rust, in its toolchain file.

A matrix can name minimums of its own; the higher of the two counts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from builders.compilerfloor import Floor
from builders.toolsearch import ToolDemand

MAX_BYTES = 1 << 20
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


def rust_toolchain(tree: Path, file: str) -> str:
    """The channel that the tree's toolchain file names: ``1.95``, ``stable``; "" where it names none."""
    path = tree / file
    if not file or not path.resolve().is_relative_to(tree.resolve()) or not path.is_file():
        return ""
    if path.stat().st_size > MAX_BYTES:
        return ""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        channel = str(tomllib.loads(text)["toolchain"]["channel"])
    except (ValueError, KeyError, TypeError):
        channel = text.strip()  # the older form: the name alone
    return channel if _CHANNEL.fullmatch(channel) else ""


def cargo_floor(tree: Path, file: str) -> Floor | None:
    """The toolchain that the tree's file names, where it is a number; None for "stable"."""
    channel = rust_toolchain(tree, file)
    return Floor("cargo", channel, file) if _NUMBER.fullmatch(channel) else None


def raised(
    tools: Sequence[ToolDemand], floors: Sequence[Floor | None], *, toolchain: str = ""
) -> tuple[ToolDemand, ...]:
    """The demands with the tree's own floors where those are higher than the matrix's.

    :param toolchain: the channel of the tree's toolchain file, which rustup's cargo obeys to the letter.
    """
    known = {floor.tool: floor for floor in floors if floor is not None}
    tools = [replace(tool, toolchain=toolchain) if tool.name == "cargo" else tool for tool in tools]
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
