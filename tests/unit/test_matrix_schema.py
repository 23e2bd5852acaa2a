"""The schemas in docs/schema are fresh, and they take what the loader takes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from qualify.matrix.schema import SCHEMAS, schema_text
from tests.unit.test_matrix_loader import ROOT
from tests.unit.test_matrix_refusals import GOOD

MATRICES = sorted([ROOT / "matrix.yaml", *ROOT.glob("examples/*/matrix.yaml")])


def document(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_in_the_repository_is_fresh(name: str) -> None:
    stored = (ROOT / "docs" / "schema" / name).read_text(encoding="utf-8")
    assert stored == schema_text(name), "run: python -m qualify.matrix.schema docs/schema"


@pytest.mark.parametrize("path", MATRICES, ids=lambda path: path.parent.name)
def test_the_schema_takes_every_matrix_of_the_repository(path: Any) -> None:
    jsonschema.validate(document(path.read_text(encoding="utf-8")), json.loads(schema_text("matrix.schema.json")))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("arch_list", "arch_lst"),
        ('"9.0"\n    python', "9.0\n    python"),
        ('commit: "0123456789abcdef', 'commit: "0123456789ABCDEF'),
        ("presence: required", "presence: requird"),
        ("  x86_64-sm90:", "  hopper:"),
        ("git: axpy.bundle", "bundle: axpy.bundle"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(before: str, after: str) -> None:
    assert GOOD.count(before) == 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document(GOOD.replace(before, after)), json.loads(schema_text("matrix.schema.json")))
