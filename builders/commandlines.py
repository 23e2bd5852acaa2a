"""Command lines of compilers and linkers, as build tools print them: which lines are some, and what they are about."""

from __future__ import annotations

import re

_COMMAND = re.compile(
    r"^\s*((\S*/)?s?ccache )?(\S*/)?([\w.]+-)*(gcc|g\+\+|cc|c\+\+|clang(\+\+)?|nvcc|ld|ar|cargo|rustc|cmake)"
    r"(-[\d.]+)? .*-\w"
)
_COMPILED = re.compile(r"\s-c\s+([^-\s]\S*)|\s(\S+\.(?:cu|cpp|cc|cxx|c|rs))(?=\s|$)")
_MADE = re.compile(r"\s-o\s+(\S+)")
_SHORT = 8  # words of a command that is shown as it is


def is_command(text: str) -> bool:
    """Is a line the command of a compiler, a linker or a build tool, with options?"""
    return _COMMAND.match(text) is not None


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
    cached = words[0].rpartition("/")[2] in ("ccache", "sccache")
    return f"{words[1] if cached else words[0]} … {what}"
