"""Whether a branch of a CMake file is walked, as far as what is known decides it: yes, no, or not known (``None``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from builders.externals_cmake import Branch

_UNARY = frozenset(
    {"EXISTS", "COMMAND", "POLICY", "TARGET", "TEST", "DEFINED", "IS_DIRECTORY", "IS_SYMLINK", "IS_ABSOLUTE"}
    | {"IS_READABLE", "IS_WRITABLE", "IS_EXECUTABLE"}
)
_BINARY = frozenset(
    {f"{kind}{test}" for kind in ("", "STR", "VERSION_") for test in ("EQUAL", "LESS", "GREATER")}
    | {f"{kind}{test}_EQUAL" for kind in ("", "STR", "VERSION_") for test in ("LESS", "GREATER")}
    | {"MATCHES", "IN_LIST", "PATH_EQUAL", "IS_NEWER_THAN"}
)
_TRUE = frozenset({"1", "ON", "YES", "TRUE", "Y"})
_FALSE = frozenset({"0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", ""})
_NO_OPERANDS = frozenset({"(", ")", "AND", "OR", "NOT"})  # unquoted
_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")


def walked(branch: Branch, variables: Mapping[str, str]) -> bool | None:
    """Whether one branch is walked: none of the conditions before it is true, and its own is."""
    answers = [_not(evaluate(condition, variables)) for condition in branch.fails]
    if branch.holds:
        answers.append(evaluate(branch.holds, variables))
    return _and(answers)


def evaluate(words: Sequence[str], variables: Mapping[str, str]) -> bool | None:
    """One condition of ``if()``; only ``variables`` are known, and whatever else it asks is not.

    A condition that breaks the grammar isn't known either: what depends on it is then taken as needed.
    """
    parser = _Condition(list(words), variables)
    try:
        answer = parser.disjunction()
    except (IndexError, RecursionError):
        return None
    return answer if parser.at == len(parser.words) else None


def shown(branch: Branch) -> str:
    """The condition of a branch as people read it."""
    parts = [f"NOT ({' '.join(condition)})" for condition in branch.fails]
    if branch.holds:
        parts.append(" ".join(branch.holds))
    return " AND ".join(parts)


class _Condition:
    """Recursive descent, in CMake's order: parentheses, tests, NOT, AND, OR."""

    def __init__(self, words: list[str], variables: Mapping[str, str]) -> None:
        self.words = words
        self.variables = variables
        self.at = 0

    def disjunction(self) -> bool | None:
        answers = [self.conjunction()]
        while self._take("OR"):
            answers.append(self.conjunction())
        return _or(answers)

    def conjunction(self) -> bool | None:
        answers = [self.negation()]
        while self._take("AND"):
            answers.append(self.negation())
        return _and(answers)

    def negation(self) -> bool | None:
        if self._take("NOT"):
            return _not(self.negation())
        return self.test()

    def test(self) -> bool | None:
        if self._take("("):
            answer = self.disjunction()
            if not self._take(")"):
                raise IndexError
            return answer
        word = self._next()
        if word in _UNARY:
            operand = self._next()
            return True if word == "DEFINED" and operand in self.variables else None
        if self.at < len(self.words) and self.words[self.at] in _BINARY:
            operator = self._next()
            left, right = self._value(word), self._value(self._next(), right=True)
            return left == right if operator == "STREQUAL" and left is not None and right is not None else None
        return self._truth(word)

    def _next(self) -> str:
        word = self.words[self.at]
        if word in _NO_OPERANDS:
            raise IndexError
        self.at += 1
        return word

    def _take(self, word: str) -> bool:
        if self.at < len(self.words) and self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def _value(self, word: str, *, right: bool = False) -> str | None:
        """A quoted word is text; an unquoted one a variable's name, or, where it is compared with, text."""
        if word.startswith('"'):
            return self._expanded(word[1:-1])
        if word in self.variables:
            return self.variables[word]
        if "$" in word:
            return self._expanded(word)
        return word if right else None

    def _expanded(self, text: str) -> str | None:
        for name in _REFERENCE.findall(text):
            if name not in self.variables:
                return None
        expanded = _REFERENCE.sub(lambda match: self.variables[match[1]], text)
        return None if "$" in expanded else expanded

    def _truth(self, word: str) -> bool | None:
        value = word[1:-1] if word.startswith('"') else self.variables.get(word, word)
        if value.upper() in _TRUE:
            return True
        if value.upper() in _FALSE or value.upper().endswith("-NOTFOUND"):
            return False
        return None


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _and(answers: Sequence[bool | None]) -> bool | None:
    if False in answers:
        return False
    return None if None in answers else True


def _or(answers: Sequence[bool | None]) -> bool | None:
    if True in answers:
        return True
    return None if None in answers else False
