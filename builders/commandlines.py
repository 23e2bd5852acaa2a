"""Command lines of compilers and linkers, as build tools print them: which lines are some, and what they are about."""

from __future__ import annotations

import re

_PROGRAM = re.compile(r"(?:[\w.]+-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc|ld|ar|cargo|rustc|cmake)(?:-[\d.]+)?")
_CACHES = ("ccache", "sccache")
_COMPILED = re.compile(r"\s-c\s+([^-\s]\S*)|\s(\S+\.(?:cu|cpp|cc|cxx|c|rs))(?=\s|$)")
_MADE = re.compile(r"\s-o\s+(\S+)")
_SHORT = 8  # words of a command that is shown as it is


def is_command(text: str) -> bool:
    """Is a line the command of a compiler, a linker or a build tool, with options?"""
    words = text.split(maxsplit=2)
    if words and _name(words[0]) in _CACHES:
        words = words[1:]
    return len(words) > 1 and _PROGRAM.fullmatch(_name(words[0])) is not None and " -" in text


def source_of(command: str) -> str:
    """The file that a command compiles; "" for one that compiles none."""
    found = _COMPILED.search(command)
    return (found[1] or found[2]) if found else ""


def made_by(command: str) -> str:
    """The file that a command makes, as its ``-o`` says; "" where it doesn't."""
    found = _MADE.search(command)
    return found[1] if found else ""


def brief(command: str) -> str:
    """A command as people know it again: its program, and what it compiles or makes."""
    words = command.removeprefix(": && ").removesuffix(" && :").split()
    if len(words) < _SHORT:
        return " ".join(words)
    if words[0] == "cd" and "&&" in words:
        return brief(" ".join(words[words.index("&&") + 1 :]))
    source, made = source_of(command), made_by(command)
    what = f"-c {source}" if source else f"-o {made}" if made else words[-1]
    cached = _name(words[0]) in _CACHES
    return f"{words[1] if cached else words[0]} … {what}"


def _name(program: str) -> str:
    """``/usr/bin/x86_64-linux-gnu-g++`` without its folder, and cut: no program's name is longer."""
    return program.rpartition("/")[2][:80].rpartition("linux-gnu-")[2]
