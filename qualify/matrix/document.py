"""YAML text to plain values, with the line of each, and nothing guessed.

YAML reads ``3.10`` as 3.1, ``no`` as False and ``0123456`` as 42798, and lets a repeated key win silently.  The text
is therefore composed to nodes only; values are made here.  A scalar that a YAML 1.1 or a YAML 1.2 reader takes for
anything but text keeps that fact (:class:`Typed`), so that the caller can refuse it by line and name.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Path = tuple[str | int, ...]

_MAX_CHARACTERS = 4 << 20
_MAX_DEPTH = 32
_LONGEST_NUMBER = 200

_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"(?i:y|n|yes|no|true|false|on|off)")
_INT = re.compile(r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*|[1-9][0-9_]*(:[0-5]?[0-9])+)|[-+]_[0-9_]*")
_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9_]+|[0-9][0-9_]*(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?")
_STANDARD_TAG = "tag:yaml.org,2002:"
_TAGS = frozenset({"map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a document."""

    line: int  # from 1; 0 where there is no line
    path: str  # "targets.x86_64-sm90.toolkit"; "" for the document
    what: str
    action: str = ""

    def render(self, name: str) -> str:
        where = f"{name}:{self.line}: " if self.line else f"{name}: "
        return where + (f"{self.path}: " if self.path else "") + self.what + (f"; {self.action}" if self.action else "")


@dataclass(frozen=True, slots=True)
class Typed:
    """A plain scalar that YAML readers do not take for text."""

    raw: str  # as written
    reading: str  # "the number 3.1", "false", "the date 2026-11-30", "nothing"
    value: int | bool | None  # for an integer or a boolean that both YAML versions read alike; else None


@dataclass(frozen=True, slots=True)
class Document:
    value: Any  # dict, list, str, int, bool; a scalar with a Problem stands as its text
    lines: dict[Path, int]  # line of each key and item, from 1
    quoted: frozenset[Path]  # paths of scalars that stand in quotes
    typed: dict[Path, Typed]
    problems: tuple[Problem, ...]
    readable: bool = True  # False: no keys and values came out of it, so nothing more can be said of them

    def line(self, path: Path) -> int:
        """The line of the nearest thing on the way to ``path`` that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def dotted(path: Path) -> str:
    """A key path as people write it; a key that holds a dot or a slash stands in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w-]+", step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def parse(text: str) -> Document:
    """Read one YAML document.  Whatever is wrong with it stands in ``problems``; nothing is raised."""
    reader = _Reader()
    if len(text) > _MAX_CHARACTERS:
        reader.problems.append(Problem(0, "", f"{len(text)} characters are more than a matrix has"))
        return reader.document({}, readable=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            node = YAML(typ="safe", pure=True).compose(text)
    except ReusedAnchorWarning:
        # Which of the two is meant would be a guess.
        reader.problems.append(Problem(0, "", "not YAML that can be read in one way: an anchor is named twice"))
        return reader.document({}, readable=False)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        what = ", ".join(part for part in (error.context, error.problem) if part)
        reader.problems.append(Problem(line, "", f"not YAML: {what}"))
        return reader.document({}, readable=False)
    except YAMLError as error:
        reader.problems.append(Problem(0, "", "not YAML: " + " ".join(str(error).split())))
        return reader.document({}, readable=False)
    except RecursionError:
        reader.problems.append(Problem(0, "", "nested too deeply"))
        return reader.document({}, readable=False)
    if node is None:
        reader.problems.append(Problem(0, "", "the file is empty"))
        return reader.document({}, readable=False)
    value = reader.read(node, ())
    if not isinstance(value, dict):
        reader.problems.append(Problem(node.start_mark.line + 1, "", "expected keys and values at the top"))
        return reader.document({}, readable=False)
    return reader.document(value)


class _Reader:
    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.quoted: set[Path] = set()
        self.typed: dict[Path, Typed] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()

    def document(self, value: Any, *, readable: bool = True) -> Document:
        return Document(value, self.lines, frozenset(self.quoted), self.typed, tuple(self.problems), readable)

    def read(self, node: Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        # A node met twice is an alias: refused, since it can blow up without bound and hides what a target says.
        if id(node) in self._seen:
            self._problem(self.lines[path], path, "an alias (*name) isn't read here", "write the value out")
            return ""
        self._seen.add(id(node))
        if len(path) > _MAX_DEPTH:
            self._problem(line, path, "nested too deeply")
            return ""
        tag = str(node.tag)
        if tag.removeprefix(_STANDARD_TAG) not in _TAGS:
            self._problem(line, path, f"the tag {tag} isn't read here", "write the plain value")
            return ""
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._problem(line, path, "this kind of YAML node isn't read here")
        return ""

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._problem(line, path, "a key that is no word isn't read here", "write a plain key")
                continue
            key = str(key_node.value)
            here = (*path, key)
            if key == "<<":
                self._problem(line, path, "a merge (<<) isn't read here", "write the keys out")
                continue
            if key in result:
                first = self.lines[here]
                self._problem(line, here, f"the key is repeated; it stands in line {first} already", "keep one of them")
                continue
            if not key_node.style and (typed := classify(key)):
                self._problem(line, here, f"YAML reads the key {key} as {typed.reading}", f'quote it: "{key}"')
            self.lines[here] = line
            result[key] = self.read(value_node, here)
        return result

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        text = str(node.value)
        if node.style:
            self.quoted.add(path)
            return text
        typed = classify(text)
        if typed is None:
            return text
        self.typed[path] = typed
        return text if typed.value is None else typed.value

    def _problem(self, line: int, path: Path, what: str, action: str = "") -> None:
        self.problems.append(Problem(line, dotted(path), what, action))


def classify(text: str) -> Typed | None:
    """What a YAML 1.1 or 1.2 reader makes of a plain scalar, if that isn't text."""
    if len(text) > _LONGEST_NUMBER:
        return Typed(text, "a number", None) if re.fullmatch(r"[-+]?[0-9_.:eExXoObB+-]+", text) else None
    if _NULL.fullmatch(text):
        return Typed(text, "nothing", None)
    if _BOOL.fullmatch(text):
        value = text.lower() in ("y", "yes", "true", "on")
        return Typed(text, str(value).lower(), value if text in ("true", "false") else None)
    try:
        if _INT.fullmatch(text):
            return _integer(text)
        if _FLOAT.fullmatch(text):
            return Typed(text, f"the number {_float(text)}", None)
    except ValueError:
        # What YAML 1.1 lets through as a number and nobody can read as one: "0b_", "._".
        return Typed(text, "a number", None)
    if _DATE.fullmatch(text):
        return Typed(text, f"the date {text}", None)
    return None


def _integer(text: str) -> Typed:
    digits = text.replace("_", "")
    body = digits.lstrip("+-")
    if ":" in body:
        value = 0
        for part in body.split(":"):
            value = value * 60 + int(part)
    elif body[:2].lower() in ("0b", "0o", "0x"):
        value = int(body, 0)
    elif body.startswith("0") and len(body) > 1:
        # YAML 1.1 reads octal (0123456 is 42798), YAML 1.2 drops the zero: neither is what was written.
        value = int(body, 8) if not set(body) & set("89") else int(body)
    else:
        plain = -int(body) if digits.startswith("-") else int(body)
        return Typed(text, f"the number {plain}", plain if text == str(plain) else None)
    return Typed(text, f"the number {-value if digits.startswith('-') else value}", None)


def _float(text: str) -> str:
    digits = text.replace("_", "").lower()
    if ":" in digits:
        return "in base 60"
    return str(float(digits.replace(".inf", "inf").replace(".nan", "nan")))
