"""The ``measured:`` part of a matrix as text: one entry more, or the values of one replaced, and no other byte touched.

The YAML reader is used to find the place, the change is made in the text, and the result is read again and held against
what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from qualify.errors import ConfigurationError, RefusedError
from qualify.matrix.model import Measured

_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_PLAIN_KEY = re.compile(r"[a-z][a-z0-9_-]+")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})  # of one YAML or another: keys in quotes
ORDER = tuple(Measured.model_fields)
Values = Mapping[str, "str | Mapping[str, str]"]


def insert(text: str, target: str, measured: Measured) -> str:
    """The matrix's text with one more entry under ``measured:``; every other character stays.

    :raises ConfigurationError: the file is written in a way that leaves no safe place for it.
    """
    values = _values(target, measured)
    root = _compose(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    key, node = _child(root, "measured")
    if node is None:
        result = _after(text, _end(root), _block("measured", {target: values}, 0, newline), newline)
    elif key is not None and isinstance(node, MappingNode) and node.value and node.flow_style:
        result = _into_flow(text, node, target, values)
    elif key is not None and isinstance(node, MappingNode) and node.value:
        indent = node.value[0][0].start_mark.column
        result = _after(text, _end(node), _block(target, values, indent, newline), newline)
    elif key is not None and (isinstance(node, MappingNode) or node.tag == "tag:yaml.org,2002:null"):
        start, end = node.start_mark.index, node.end_mark.index
        # ``measured: {}  # a comment``: the braces go, the comment stays on its line.
        cut = text[:start].rstrip(" ") + text[end:] if end > start else text
        place = key.end_mark.index
        result = _after(cut, place, _block(target, values, key.start_mark.column + 2, newline), newline)
    else:
        raise _no_place("measured is no mapping")
    _verify(text, result, target, values)
    return result


def replace(text: str, target: str, measured: Measured) -> str:
    """The matrix's text with other values in an entry that is there; every other character stays.

    Comments inside the entry stay too, unless the entry gains or loses a key.

    :raises ConfigurationError: there is no such entry, or it is written in a way that leaves no safe place.
    """
    values = _values(target, measured)
    _, node = _child(_compose(text), "measured")
    _, entry = _child(node, target) if isinstance(node, MappingNode) else (None, None)
    if not isinstance(entry, MappingNode) or not entry.value:
        raise _no_place(f"there is no entry {target}")
    result = text
    if _same_keys(entry, values):
        for node, value in sorted(_leaves(entry, values, target), key=lambda leaf: -leaf[0].start_mark.index):
            start, end = node.start_mark.index, node.end_mark.index
            result = result[:start] + json.dumps(value) + result[end:]
    else:
        start, end = entry.start_mark.index, _end(entry)
        if entry.flow_style:
            inner = _flow(values)
        else:
            newline = "\r\n" if "\r\n" in text else "\n"
            column = entry.value[0][0].start_mark.column
            inner = _lines(values, column, newline)[column : -len(newline)]
        result = text[:start] + inner + text[end:]
    _verify(text, result, target, values)
    return result


def _same_keys(node: MappingNode, values: Values) -> bool:
    there = {key.value: value for key, value in node.value if isinstance(key, ScalarNode)}
    return there.keys() == values.keys() and all(
        isinstance(there[name], MappingNode) and _same_keys(there[name], value)
        for name, value in values.items()
        if isinstance(value, Mapping)
    )


def _leaves(node: MappingNode, values: Values, target: str) -> Iterator[tuple[ScalarNode, str]]:
    """Each value of an entry that has the same keys, with the one that takes its place."""
    for key, there in node.value:
        value = values[key.value]
        if isinstance(value, Mapping):
            yield from _leaves(there, value, target)
        elif isinstance(there, ScalarNode) and there.style not in ("|", ">"):
            yield there, value
        else:
            raise _no_place(f"{key.value} of {target} is no plain value")


def _values(target: str, measured: Measured) -> dict[str, str | Mapping[str, str]]:
    """What an entry says, in its order.

    :raises RefusedError: a value that is not printable ASCII.
    """
    values: dict[str, str | Mapping[str, str]] = {name: str(getattr(measured, name)) for name in ORDER}
    values["companions"] = dict(sorted(measured.companions.items()))
    if measured.verdict == "qualified":
        del values["verdict"]  # an entry says it only where it is not so
    if not measured.companions:
        del values["companions"]
    texts = [
        *values.items(),
        *(item for pair in measured.companions.items() for item in (("a companion", pair[0]), pair)),
    ]
    for name, value in texts:
        if isinstance(value, str) and not _PRINTABLE.fullmatch(value):
            raise RefusedError(f"{name} is {value!r}", where=target, expected="printable ASCII")
    return values


def _compose(text: str) -> MappingNode:
    try:
        root = YAML(typ="rt", pure=True).compose(text)
    except YAMLError as error:
        raise _no_place(f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(root, MappingNode) or root.flow_style:
        raise _no_place("the top level is no block of keys")
    return root


def _child(root: MappingNode, name: str) -> tuple[Node | None, Node | None]:
    for key, value in root.value:
        if isinstance(key, ScalarNode) and key.value == name:
            return key, value
    return None, None


def _end(node: Node) -> int:
    """Where the last scalar or flow collection below a block node ends: its own mark runs on over comments."""
    while isinstance(node, CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        raise _no_place("the entry before it is a block of text")
    return int(node.end_mark.index)


def _after(text: str, place: int, block: str, newline: str) -> str:
    """Put ``block`` on the lines after the one that holds ``place``."""
    end = text.find("\n", place)
    if end < 0:
        return text + newline + block
    return text[: end + 1] + block + text[end + 1 :]


def _block(key: str, content: Mapping[str, object], indent: int, newline: str) -> str:
    return f"{' ' * indent}{_key(key)}:{newline}{_lines(content, indent + 2, newline)}"


def _lines(content: Mapping[str, object], indent: int, newline: str) -> str:
    lines = ""
    for name, value in content.items():
        if isinstance(value, Mapping):
            lines += _block(name, value, indent, newline)
        else:
            # A JSON string of printable ASCII is a double-quoted YAML string.
            lines += f"{' ' * indent}{_key(name)}: {json.dumps(value)}{newline}"
    return lines


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) and name not in _WORDS else json.dumps(name)


def _flow(values: Mapping[str, object]) -> str:
    inner = (
        (name, _flow(value) if isinstance(value, Mapping) else json.dumps(value)) for name, value in values.items()
    )
    return "{" + ", ".join(f"{_key(name)}: {text}" for name, text in inner) + "}"


def _into_flow(text: str, node: MappingNode, target: str, values: Values) -> str:
    place = int(node.value[-1][1].end_mark.index)
    return f"{text[:place]}, {target}: {_flow(values)}{text[place:]}"


def _verify(before: str, after: str, target: str, values: Values) -> None:
    """Read both texts: nothing may differ but the one entry, and what is outside ``measured`` not at all."""
    plain = YAML(typ="safe", pure=True)
    try:
        old, new = plain.load(before), plain.load(after)
    except YAMLError as error:
        raise _no_place(f"the entry would break it: {' '.join(str(error).split())}") from error
    expected = {**(old.get("measured") or {}), target: dict(values)}
    if new.get("measured") != expected or {**old, "measured": None} != {**new, "measured": None}:
        raise _no_place("the entry would change something else")


def _no_place(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"no safe place for the entry: {why}",
        where="measured",
        expected="`measured: {}` or a block of entries at the end of the file",
        action="write it so; nothing was changed",
    )
