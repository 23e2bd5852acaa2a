"""From a document to a model: every complaint of pydantic in words, with its line and the near name."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from qualify.matrix.document import Document, Path, Problem, dotted

M = TypeVar("M", bound=BaseModel)

# What each pattern of the models asks for, in words.
PATTERN_WORDS = {
    r"^[0-9a-f]{7,40}$": "7 to 40 lower-case hex digits",
    r"^[0-9a-f]{40}$": "all 40 lower-case hex digits",
    r"^[0-9a-f]{64}$": "64 lower-case hex digits",
    r"^[0-9]+(\.[0-9]+)+$": 'a dotted version ("13.0")',
    r"^[a-z0-9_]+-sm[0-9]+[af]?$": 'MACHINE-smNN ("x86_64-sm90")',
    r"^[a-z][a-z0-9_.-]*$": "a lower-case word",
    r"^[A-Z]{3}[0-9]{3}$": 'the code of a check ("DEV001")',
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$": 'a day ("2026-11-30")',
}


def validate(model: type[M], document: Document) -> tuple[M | None, list[Problem]]:
    """Make a ``model`` of a document, or say all that is wrong with it (the document's own problems included)."""
    problems = list(document.problems)
    if not document.readable:
        return None, problems
    taken = {problem.path for problem in problems}
    instance: M | None = None
    complained: set[Path] = set()
    try:
        instance = model.model_validate(document.value)
    except ValidationError as error:
        details = [
            (_path(detail, document.value), detail) for detail in error.errors(include_url=False, include_context=True)
        ]
        # A misspelt key is one mistake: it isn't said again that the key is missing under its right name.
        meant = {
            (*path[:-1], near)
            for path, detail in details
            if detail["type"] == "extra_forbidden" and (near := _near(path, model))
        }
        for path, detail in details:
            if path in complained or dotted(path) in taken or (detail["type"] == "missing" and path in meant):
                continue
            complained.add(path)
            problems.append(_problem(detail, path, model, document))
    for path, typed in document.typed.items():
        # Text, in this reader's eyes; a float, a date or a boolean in another's.  No field wants one of those plain.
        if typed.value is None and path not in complained and dotted(path) not in taken:
            problems.append(_quote(path, document))
    return (None if problems else instance), sorted(problems, key=lambda problem: problem.line)


def _quote(path: Path, document: Document) -> Problem:
    typed = document.typed[path]
    action = f'quote it: "{typed.raw}"' if typed.raw else 'write a value, or "" for none'
    what = f"YAML reads {typed.raw} as {typed.reading}" if typed.raw else "there is no value"
    return Problem(document.line(path), dotted(path), what, action)


def _path(detail: ErrorDetails, value: Any) -> Path:
    """Pydantic's place without the names of union branches, which no document holds."""
    steps: list[str | int] = []
    for step in detail["loc"]:
        holds = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        )
        if holds:
            value = value[step]
            steps.append(step)
    if detail["type"] == "missing":
        steps.append(detail["loc"][-1])
    return tuple(steps)


def _problem(detail: ErrorDetails, path: Path, model: type[BaseModel], document: Document) -> Problem:
    kind, context, found = detail["type"], detail.get("ctx", {}), detail["input"]
    line, name = document.line(path), dotted(path)
    if kind == "missing":
        return Problem(line, name, "the key is missing", "add it")
    if kind == "extra_forbidden":
        near = _near(path, model)
        hint = f"did you mean {near}?" if near else _choice(_names(model, path[:-1]))
        return Problem(line, name, "the key is unknown", hint)
    if path in document.typed and kind in ("string_type", "enum", "literal_error", "string_pattern_mismatch"):
        return _quote(path, document)
    if kind in ("bool_type", "bool_parsing"):
        return Problem(line, name, f"{_shown(found)} is neither true nor false", "write true or false")
    if kind in ("enum", "literal_error"):
        allowed = [word.strip("' ") for word in str(context["expected"]).replace(" or ", ", ").split(", ")]
        close = difflib.get_close_matches(str(found), allowed, n=1)
        return Problem(
            line, name, f"{_shown(found)} isn't known", f"did you mean {close[0]}?" if close else _choice(allowed)
        )
    if kind == "string_pattern_mismatch":
        words = PATTERN_WORDS[str(context["pattern"])]
        return Problem(line, name, f"{_shown(found)} isn't {words}", _pattern_hint(str(found), words))
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return Problem(line, name, f"expected keys and values, found {_shown(found)}")
    if kind in ("tuple_type", "list_type"):
        return Problem(line, name, f"expected a list, found {_shown(found)}", "write it as [a, b]")
    if kind == "string_type":
        return Problem(line, name, f"expected text, found {_shown(found)}")
    if kind in ("too_short", "string_too_short"):
        what = "there is nothing in it" if not found else f"{_shown(found)} is too short to say anything"
        return Problem(line, name, what, "fill it in")
    return Problem(line, name, f"{_shown(found)}: {detail['msg']}")


def _near(path: Path, model: type[BaseModel]) -> str:
    """The key that an unknown one was probably meant to be; "" where none is near."""
    return next(iter(difflib.get_close_matches(str(path[-1]), _names(model, path[:-1]), n=1)), "")


def _pattern_hint(found: str, words: str) -> str:
    if "hex" in words and found != found.lower():
        return "write it in lower case"
    if "code" in words and found != found.upper():
        return "write it in capitals"
    return "mend it"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _choice(names: list[str]) -> str:
    return f"known are {', '.join(names)}"


def _names(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that may stand at ``path``."""
    types_here: list[Any] = [model]
    for step in path:
        types_here = [inner for outer in types_here for inner in _step(outer, step)]
    return sorted({name for option in types_here for kind in _models(option) for name in kind.model_fields})


def _step(outer: Any, step: str | int) -> Iterator[Any]:
    for option in _options(outer):
        if isinstance(option, type) and issubclass(option, BaseModel):
            if isinstance(step, str) and step in option.model_fields:
                yield option.model_fields[step].annotation
        elif get_origin(option) is dict:
            yield get_args(option)[1]
        elif get_origin(option) in (tuple, list):
            yield get_args(option)[0]


def _models(option: Any) -> Iterator[type[BaseModel]]:
    for inner in _options(option):
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield inner


def _options(annotation: Any) -> Iterator[Any]:
    """The alternatives of an annotation, with ``Annotated`` taken off."""
    if get_origin(annotation) is Annotated:
        yield from _options(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _options(part)
    else:
        yield annotation
