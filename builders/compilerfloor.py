"""The oldest C++ compiler that a tree takes, as its own CMake files say: where GCC of a version would be refused.

``if(… CMAKE_CXX_COMPILER_VERSION VERSION_LESS "13")`` around ``message(FATAL_ERROR …)`` says it, in this or any other
form: each condition is evaluated for a GCC just below, at and just above every version that it names.  Nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from builders.externals import Reading
from builders.externals_cmake import Branch
from builders.externals_conditions import walked
from builders.externals_settings import Settings

_VERSION = "CMAKE_CXX_COMPILER_VERSION"
_ID = "CMAKE_CXX_COMPILER_ID"
# What CMake sets itself where GCC compiles on Linux.
_GCC: Mapping[str, str] = {
    _ID: "GNU",
    "CMAKE_COMPILER_IS_GNUCXX": "1",
    "UNIX": "1",
    **dict.fromkeys(("MSVC", "WIN32", "APPLE", "MINGW"), "0"),
}
_ENDING = ("FATAL_ERROR", "SEND_ERROR")
_NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,3}")
_COMPARING = re.compile(r"(?:VERSION_)?(?P<test>LESS|GREATER|EQUAL|LESS_EQUAL|GREATER_EQUAL)")
MAX_VERSIONS = 64  # that one message depends on


@dataclass(frozen=True, slots=True)
class Floor:
    """The oldest version of one tool; ``where`` is the file, and the line where it has one, that says so."""

    tool: str
    version: str
    where: str


def compiler_floor(tree: Path, globs: Sequence[str], variables: Mapping[str, str]) -> Floor | None:
    """The highest version below which the tree's CMake files end with an error; None where none does.

    A branch that is not walked, as far as ``variables`` decide that, doesn't count; what is not known does.

    :param globs: the CMake files to begin with; what they include is read as well.
    :param variables: CMake variables whose values are known.
    """
    commands = Reading(tree).all_commands(globs)
    settings = Settings((placed.command, placed.branches) for placed in commands)
    known = {**_GCC, **variables}
    found: list[Floor] = []
    for index, placed in enumerate(commands):
        words = placed.command.words
        if placed.command.name != "message" or not words or words[0] not in _ENDING:
            continue
        if not any(_names(word, _VERSION) for branch in placed.branches for word in _words(branch)):
            continue
        resolved = [_resolved(branch, settings, index, placed.branches, known) for branch in placed.branches]
        if version := _lowest(resolved, known):
            found.append(Floor("c++", version, f"{placed.file}:{placed.command.line}"))
    return max(found, key=lambda floor: Version(floor.version), default=None)


def _lowest(branches: Sequence[Branch], known: Mapping[str, str]) -> str:
    """The version from which on none of these branches is walked any more; "" where there is none."""
    versions = sorted({Version(text) for branch in branches for text in _compared(branch)})[-MAX_VERSIONS:]
    for version in reversed(versions):
        below, above = Version(f"{version}.dev0"), Version(f"{version}.post1")
        if _refused(branches, version, known):
            if not _refused(branches, above, known):
                return f"{version}.0.1"  # this one itself is refused
        elif _refused(branches, below, known):
            return str(version)
    return ""


def _refused(branches: Sequence[Branch], version: Version, known: Mapping[str, str]) -> bool:
    """Whether a GCC of that version gets there, or may."""
    decided = (
        replace(branch, holds=_decided(branch.holds, version), fails=tuple(_decided(c, version) for c in branch.fails))
        for branch in branches
    )
    return not any(walked(branch, known) is False for branch in decided)


def _decided(words: Sequence[str], version: Version) -> tuple[str, ...]:
    """A condition with ``TRUE`` or ``FALSE`` for each test of the compiler's version or name."""
    found: list[str] = []
    at = 0
    while at < len(words):
        answer = _test(words[at : at + 3], version)
        found.append(words[at] if answer is None else str(answer).upper())
        at += 1 if answer is None else 3
    return tuple(found)


def _test(words: Sequence[str], version: Version) -> bool | None:
    if len(words) < 3:
        return None
    left, test, right = words[0], words[1], words[2].strip('"')
    if _names(left, _ID) and test == "MATCHES":
        try:
            return re.search(right, _GCC[_ID]) is not None
        except re.error:
            return None
    match = _COMPARING.fullmatch(test)
    if not _names(left, _VERSION) or match is None or not _NUMBER.fullmatch(right):
        return None
    other = Version(right)
    return {
        "LESS": version < other,
        "GREATER": version > other,
        "EQUAL": version == other,
        "LESS_EQUAL": version <= other,
        "GREATER_EQUAL": version >= other,
    }[match["test"]]


def _compared(branch: Branch) -> Iterator[str]:
    """The numbers that the compiler's version is compared with."""
    for condition in (branch.holds, *branch.fails):
        for left, test, right in zip(condition, condition[1:], condition[2:], strict=False):
            if _names(left, _VERSION) and _COMPARING.fullmatch(test) and _NUMBER.fullmatch(right.strip('"')):
                yield right.strip('"')


def _resolved(
    branch: Branch, settings: Settings, index: int, branches: tuple[Branch, ...], known: Mapping[str, str]
) -> Branch:
    """The branch with the variables replaced that its conditions compare the compiler's version with."""

    def value(word: str) -> str:
        if "${" not in word or _names(word, _VERSION) or _names(word, _ID):
            return word
        values = {text for text, _ in settings.resolve(word.strip('"'), index, branches, known)}
        only = values.pop() if len(values) == 1 else ""
        return only if _NUMBER.fullmatch(only) else word

    return replace(
        branch,
        holds=tuple(value(word) for word in branch.holds),
        fails=tuple(tuple(value(word) for word in condition) for condition in branch.fails),
    )


def _words(branch: Branch) -> Iterator[str]:
    yield from branch.holds
    for condition in branch.fails:
        yield from condition


def _names(word: str, variable: str) -> bool:
    return word.strip('"') in (variable, f"${{{variable}}}")
