"""The JSON schema of facts as ``qualify inspect --json`` prints them, made from the dataclasses and their comments.

``python -m qualify.factsschema docs/schema`` writes it; a test compares what stands there.  :func:`describe` makes that
of other dataclasses likewise.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import sys
import tokenize
import types
import typing
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from qualify import facts, factsjson
from qualify.facts import FACTS_VERSION, WheelFacts
from qualify.factsjson import CodeGroup

NAME = "facts.schema.json"
_PLAIN: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
}
# What the type of a field does not say.
_NARROWER: dict[tuple[str, str], dict[str, Any]] = {
    ("WheelFacts", "version"): {"const": FACTS_VERSION},
    ("WheelFacts", "sha256"): {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    ("Member", "sha256"): {"type": "string", "pattern": "^([0-9a-f]{64})?$"},
    ("Elf", "bits"): {"enum": [32, 64]},
}
# What `factsjson.to_json` adds to the fields of a member.
_ADDED: dict[str, dict[str, Any]] = {
    "machine": {"type": "string", "description": "that of elf; empty where there is none"},
    "device_code": {"type": "array", "items": {"$ref": "#/$defs/CodeGroup"}},
}


def describe(root: type, title: str, *modules: types.ModuleType, more: dict[str, dict[str, Any]] | None = None) -> str:
    """The text of a schema of one dataclass and those that its fields hold.

    :param modules: where the classes are written; the comments behind their fields are the descriptions.
    :param more: properties beside the fields, all required.
    """
    definitions: dict[str, Any] = {}
    comments: dict[tuple[str, str], str] = {}
    for module in modules:
        comments |= _comments(module)
    _define(root, definitions, comments)
    top = definitions.pop(root.__name__)
    top["properties"] = {**(more or {}), **top["properties"]}
    top["required"] = [*(more or {}), *top["required"]]
    body = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **top,
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def schema_text() -> str:
    """The text of the schema file."""
    definitions: dict[str, Any] = {}
    comments = _comments(facts) | _comments(factsjson)
    _define(WheelFacts, definitions, comments)
    _define(CodeGroup, definitions, comments)
    member = definitions["Member"]
    member["properties"] |= _ADDED
    member["required"] += list(_ADDED)
    body = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Facts of one wheel, version {FACTS_VERSION}",
        **definitions.pop("WheelFacts"),
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _define(kind: type, definitions: dict[str, Any], comments: dict[tuple[str, str], str]) -> None:
    """Add the schema of a dataclass, and of those that its fields hold, to ``definitions``."""
    hints = typing.get_type_hints(kind)
    properties: dict[str, Any] = {}
    definitions[kind.__name__] = {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields(kind)],
        "additionalProperties": False,
    }
    if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("):
        definitions[kind.__name__]["description"] = " ".join(kind.__doc__.split())
    for field in fields(kind):
        key = (kind.__name__, field.name)
        shape = dict(_NARROWER.get(key) or _shape(hints[field.name], definitions, comments))
        if key in comments:
            shape["description"] = comments[key]
        properties[field.name] = shape


def _shape(wanted: Any, definitions: dict[str, Any], comments: dict[tuple[str, str], str]) -> dict[str, Any]:
    """The schema of one field's type: the types are those that `factsjson` reads back."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        return {
            "anyOf": [
                {"type": "null"} if each is types.NoneType else _shape(each, definitions, comments) for each in inner
            ]
        }
    if origin is tuple:
        return {"type": "array", "items": _shape(inner[0], definitions, comments)}
    if is_dataclass(wanted) and isinstance(wanted, type):
        if wanted.__name__ not in definitions:
            _define(wanted, definitions, comments)
        return {"$ref": f"#/$defs/{wanted.__name__}"}
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        return {"enum": [str(each) for each in wanted]}
    return _PLAIN[wanted]


def _comments(module: types.ModuleType) -> dict[tuple[str, str], str]:
    """The comment behind each field of the module's classes, by class and field."""
    source = inspect.getsource(module)
    behind = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    return {
        (node.name, line.target.id): behind[line.lineno]
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.lineno in behind
    }


def write(folder: Path) -> None:
    """Write the schema into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schema"))
