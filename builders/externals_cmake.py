"""CMake files as commands with their lines and the branches they stand in; nothing is run.

The grammar is that of cmake-language(7): bracket, quoted and unquoted arguments, bracket and line comments, escapes
and line continuations.  What breaks it is an error with its line, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_CHARACTERS = 4 << 20
MAX_DEPTH = 200


class CMakeError(ValueError):
    """The text breaks CMake's grammar, or is nested or sized beyond our bounds."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


@dataclass(frozen=True)
class Argument:
    """One argument, its escapes still in it; ``literal`` ones (in brackets) hold no variable references."""

    text: str
    line: int
    quoted: bool = False
    literal: bool = False


@dataclass(frozen=True)
class Branch:
    """One branch of one ``if`` block: what must be true and what false for it to be walked.

    Conditions are kept as their words, parentheses and the quotes of quoted words among them.
    """

    block: int  # the same for the branches of one if block
    index: int
    holds: tuple[str, ...]  # () for else
    fails: tuple[tuple[str, ...], ...]  # the conditions of the branches before it


@dataclass(frozen=True)
class Command:
    name: str  # lower case
    arguments: tuple[Argument, ...]
    line: int
    branches: tuple[Branch, ...] = ()  # from the outermost
    body: str = ""  # the function or macro that it stands in

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(argument.text for argument in self.arguments)

    @property
    def condition(self) -> tuple[str, ...]:
        """The words with the quotes of quoted ones, since CMake takes only an unquoted word for a variable's name."""
        return tuple(f'"{argument.text}"' if argument.quoted else argument.text for argument in self.arguments)


_SPACE = re.compile(r"[ \t\r\n;]*")
_BLANK = re.compile(r"[ \t]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACKET = re.compile(r"\[(=*)\[")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# `$<…>`, `$ENV{…}` and `${…}` are runs of plain characters; a legacy unquoted one may hold quoted parts (-Da="b c").
_UNQUOTED = re.compile(r"(?:[^\s()#\"\\;]|\\.|\"(?:[^\"\\]|\\.)*\")+", re.DOTALL)


def read_commands(text: str) -> tuple[Command, ...]:
    """All command invocations of a file, in order, each with the branches that it stands in.

    :raises CMakeError: the text breaks the grammar, or its blocks do not close.
    """
    if len(text) > MAX_CHARACTERS:
        raise CMakeError(0, f"{len(text)} characters are more than a CMake file has")
    return tuple(_blocks(_invocations(text)))


def _invocations(text: str) -> Iterator[Command]:
    at = 0
    lines = _Lines(text)
    while True:
        at = _skip(text, at, lines)
        if at >= len(text):
            return
        start = at
        match = _IDENTIFIER.match(text, at)
        if not match:
            raise CMakeError(lines.at(at), f"expected a command, found {text[at : at + 20]!r}")
        at = _past(_BLANK, text, match.end())
        if text[at : at + 1] != "(":
            raise CMakeError(lines.at(at), f"expected ( after {match[0]}")
        arguments, at = _arguments(text, at + 1, lines)
        yield Command(match[0].lower(), tuple(arguments), lines.at(start))


def _arguments(text: str, at: int, lines: _Lines) -> tuple[list[Argument], int]:
    """The arguments up to the parenthesis that closes; inner parentheses are arguments of their own."""
    found: list[Argument] = []
    depth = 0
    opened = at
    while True:
        at = _skip(text, at, lines)
        if at >= len(text):
            raise CMakeError(lines.at(opened), "the parenthesis that opens here never closes")
        line = lines.at(at)
        character = text[at]
        if character == ")" and depth == 0:
            return found, at + 1
        if character in "()":
            depth += 1 if character == "(" else -1
            if depth > MAX_DEPTH:
                raise CMakeError(line, "parentheses are nested too deeply")
            found.append(Argument(character, line))
            at += 1
        elif bracket := _BRACKET.match(text, at):
            end = text.find(f"]{bracket[1]}]", bracket.end())
            if end < 0:
                raise CMakeError(line, "the bracket argument that opens here never closes")
            found.append(Argument(text[bracket.end() : end].removeprefix("\n"), line, quoted=True, literal=True))
            at = end + len(bracket[1]) + 2
        elif character == '"':
            quoted = _QUOTED.match(text, at)
            if not quoted:
                raise CMakeError(line, "the quoted argument that opens here never closes")
            found.append(Argument(quoted[1].replace("\\\n", ""), line, quoted=True))
            at = quoted.end()
        elif unquoted := _UNQUOTED.match(text, at):
            found.append(Argument(unquoted[0], line))
            at = unquoted.end()
        else:
            raise CMakeError(line, f"cannot read {text[at : at + 20]!r}")


def _skip(text: str, at: int, lines: _Lines) -> int:
    """Past white space, list separators and comments."""
    while True:
        at = _past(_SPACE, text, at)
        if text[at : at + 1] != "#":
            return at
        bracket = _BRACKET.match(text, at + 1)
        if bracket:
            end = text.find(f"]{bracket[1]}]", bracket.end())
            if end < 0:
                raise CMakeError(lines.at(at), "the bracket comment that opens here never closes")
            at = end + len(bracket[1]) + 2
        else:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


class _Lines:
    """Line numbers from offsets that only grow: counted once over the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset = 0
        self._line = 1

    def at(self, offset: int) -> int:
        if offset < self._offset:
            return self._line - self._text.count("\n", offset, self._offset)
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line


@dataclass
class _Open:
    """An ``if`` block that has not closed yet."""

    block: int
    line: int
    holds: tuple[str, ...]
    fails: list[tuple[str, ...]] = field(default_factory=list)

    def branch(self) -> Branch:
        return Branch(self.block, len(self.fails), self.holds, tuple(self.fails))


def _blocks(commands: Iterator[Command]) -> Iterator[Command]:
    """Give each command its branches.  After ``return()`` in a branch, the rest of the file is its other branch."""
    stack: list[_Open] = []
    bodies: list[str] = []
    returned: list[Branch] = []
    count = 0
    for command in commands:
        name = command.name
        if name == "if":
            if len(stack) >= MAX_DEPTH:
                raise CMakeError(command.line, "if blocks are nested too deeply")
            count += 1
            stack.append(_Open(count, command.line, command.condition))
        elif name in ("elseif", "else", "endif"):
            if not stack:
                raise CMakeError(command.line, f"{name} without if")
            if name == "endif":
                stack.pop()
            else:
                stack[-1].fails.append(stack[-1].holds)
                stack[-1].holds = command.condition if name == "elseif" else ()
        elif name in ("function", "macro"):
            bodies.append(command.words[0] if command.words else "")
        elif name in ("endfunction", "endmacro"):
            if not bodies:
                raise CMakeError(command.line, f"{name} without its beginning")
            bodies.pop()
        else:
            branches = (*returned, *(entry.branch() for entry in stack))
            yield Command(name, command.arguments, command.line, branches, bodies[-1] if bodies else "")
            if name == "return" and not bodies:
                count += 1
                returned.append(Branch(count, 1, (), (_all_of(stack) or ("TRUE",),)))
    if stack:
        raise CMakeError(stack[-1].line, "the if that opens here never closes")


def _all_of(stack: list[_Open]) -> tuple[str, ...]:
    """The words of one condition that is true where all these branches are walked."""
    words: list[str] = []
    for branch in (entry.branch() for entry in stack):
        for condition in branch.fails:
            words += ["AND", "NOT", "(", *condition, ")"]
        if branch.holds:
            words += ["AND", "(", *branch.holds, ")"]
    return tuple(words[1:])
