"""The JSON schemas of evidence (the in-toto statement with our predicate) and of files of trusted keys.

``python -m qualify.evidenceschema docs/schema`` writes them; a test compares what stands there.  The report inside is
described by ``report.schema.json`` of the same folder, whose definitions are taken over.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from qualify.envelope import PAYLOAD_TYPE
from qualify.evidencedoc import PREDICATE_TYPE, SCHEMA_VERSION, STATEMENT_TYPE, Grade
from qualify.matrix.model import Profile
from qualify.matrix.schema import model_schema_text
from qualify.report import REPORT_VERSION
from qualify.trust import TrustFile

NAME = "evidence.schema.json"
TRUST_NAME = "trusted-keys.schema.json"
REPORT_NAME = "report.schema.json"

_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TEXT = {"type": "string", "minLength": 1}
_MOMENT = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\+00:00$"}


def schema_text(report_schema: str) -> str:
    """The text of the schema of an unsigned evidence file, which is also that of a signed one's payload.

    :param report_schema: the text of ``report.schema.json``.
    """
    definitions: dict[str, Any] = dict(json.loads(report_schema)["$defs"])
    result = definitions.pop("result")
    report = {
        **result,
        "description": "The whole report, findings and policy included; `since` is always null.",
        "required": ["version", *result["required"]],
        "properties": {"version": {"const": REPORT_VERSION}, **result["properties"]},
    }
    subject = _closed(
        {"name": {**_TEXT, "description": "The wheel's file name."}, "digest": _closed({"sha256": _SHA256})}
    )
    body = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Evidence of one wheel for one target, version {SCHEMA_VERSION}",
        "description": "An in-toto Statement v1; in a signed file it is the payload (base64, type "
        f"{PAYLOAD_TYPE}) of a DSSE envelope with one signature.",
        **_closed(
            {
                "_type": {"const": STATEMENT_TYPE},
                "subject": {"type": "array", "items": subject, "minItems": 1, "maxItems": 1},
                "predicateType": {"const": PREDICATE_TYPE},
                "predicate": {"$ref": "#/$defs/predicate"},
            }
        ),
        "$defs": {**definitions, "predicate": _predicate(), "report": report},
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _predicate() -> dict[str, Any]:
    nothing = {"type": "null"}
    control = _closed({"filename": _TEXT, "sha256": _SHA256})
    device = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "compute_capability": _TEXT},
        "required": ["compute_capability"],
    }
    run = {
        "type": "object",
        "description": "One run on a device of the target's kind; it may say more.",
        "properties": {
            "sha256": {**_SHA256, "description": "Of the wheel that ran: the subject's."},
            "target": {**_TEXT, "description": "The same as outside."},
            "outcome": {**_TEXT, "description": '"passed", or what became of it instead.'},
            "device": device,
        },
        "required": ["sha256", "target", "outcome", "device"],
    }
    observation = {
        "type": "object",
        "description": "What `qualify measure --json` said of the wheel.",
        "properties": {"sha256": {**_SHA256, "description": "Of the wheel that was measured: the subject's."}},
        "required": ["sha256"],
    }
    return _closed(
        {
            "tool": _closed({"name": {"const": "wheel-assay"}, "version": _TEXT}),
            "made": {**_MOMENT, "description": "When, in UTC."},
            "expires": {
                "anyOf": [nothing, _MOMENT],
                "description": "From when on it doesn't hold; null: by age alone.",
            },
            "size": {"type": "integer", "minimum": 0, "description": "Bytes of the wheel."},
            "target": _TEXT,
            "profile": {"enum": [each.value for each in Profile]},
            "grade": {
                "enum": [each.value for each in Grade],
                "description": "device: there are device runs, and all of them passed.",
            },
            "matrix": _closed({"asserted_sha256": {**_SHA256, "description": "Of what the matrix asserts."}}),
            "policy": _closed({"sha256": {"type": "string", "description": "Of `report.policy`, canonical JSON."}}),
            "facts": _closed(
                {"sha256": {**_SHA256, "description": "Of what was read from the wheel, canonical JSON."}}
            ),
            "receipt": {
                "anyOf": [nothing, _closed({"sha256": _SHA256})],
                "description": "The build's receipt that lay beside the wheel.",
            },
            "control": {"anyOf": [nothing, control], "description": "The wheel that this one was held against."},
            "waivers": {
                "type": "array",
                "items": {"type": "object"},
                "description": "Those that hold for this wheel; a finding says which lets it through.",
            },
            "observations": {"type": "array", "items": observation},
            "device_runs": {"type": "array", "items": run},
            "report": {"$ref": "#/$defs/report"},
        }
    )


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def trust_schema_text() -> str:
    """The text of the schema of ``trusted-keys.yaml``."""
    return model_schema_text(TrustFile, "trusted-keys.yaml of wheel-assay")


def write(folder: Path) -> None:
    """Write both schemas into the folder that holds the report's."""
    report = (folder / REPORT_NAME).read_text(encoding="utf-8")
    (folder / NAME).write_text(schema_text(report), encoding="utf-8")
    (folder / TRUST_NAME).write_text(trust_schema_text(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schema"))
