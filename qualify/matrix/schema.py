"""The JSON schemas of the matrix and of the local settings, for editors and other programs.

``python -m qualify.matrix.schema docs/schema`` writes them; a test compares what stands there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from qualify.matrix.local import LocalSettings
from qualify.matrix.model import Matrix

SCHEMAS: dict[str, tuple[type[BaseModel], str]] = {
    "matrix.schema.json": (Matrix, "matrix.yaml of wheel-assay"),
    "matrix.local.schema.json": (LocalSettings, "matrix.local.yaml of wheel-assay"),
}


def schema_text(name: str) -> str:
    """The text of one of :data:`SCHEMAS`."""
    return model_schema_text(*SCHEMAS[name])


def model_schema_text(model: type[BaseModel], title: str) -> str:
    """The JSON schema of a model, the same with every supported pydantic."""
    body = model.model_json_schema(mode="validation")
    body = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **_plain(body)}
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Without the titles that repeat each name, and with maps of named keys closed: pydantic leaves those open."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: _plain(item) for key, item in value.items() if not (key == "title" and isinstance(item, str))}
    if "patternProperties" in result:
        result["additionalProperties"] = False
    if result.get("additionalProperties") is True:
        del result["additionalProperties"]  # what is meant anyway; pydantic says it since 2.11
    if "const" in result:
        result.pop("enum", None)  # pydantic before 2.10 says it twice
    return result


def write(folder: Path) -> None:
    """Write every schema into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (folder / name).write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schema"))
