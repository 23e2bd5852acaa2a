"""A difference as ``qualify diff --json`` prints it, and the schema of that.

``python -m qualify.diffing.json docs/schema`` writes the schema; a test compares what stands there.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qualify.diffing import values
from qualify.diffing.values import Difference
from qualify.factsschema import describe

DIFFERENCE_VERSION = 1
NAME = "diff.schema.json"


def to_json(difference: Difference) -> dict[str, Any]:
    """Plain values: the fields, and what follows from them."""
    head = {"version": DIFFERENCE_VERSION, "loses": difference.loses, "leaves_open": difference.leaves_open}
    return head | asdict(difference)


def schema_text() -> str:
    """The text of the schema file."""
    more: dict[str, dict[str, Any]] = {
        "version": {"const": DIFFERENCE_VERSION},
        "loses": {"type": "boolean", "description": "whether something is lost that counts: exit code 1"},
        "leaves_open": {"type": "boolean", "description": "whether something could not be compared"},
    }
    title = f"What two wheels differ in, version {DIFFERENCE_VERSION}"
    return describe(Difference, title, values, more=more)


if __name__ == "__main__":
    (Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schema") / NAME).write_text(schema_text(), encoding="utf-8")
