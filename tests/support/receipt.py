"""Receipts as the builder leaves them beside a wheel, made up for the tests that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from qualify.facts import WheelFacts
from qualify.provenance import Receipt, binaries, parse

SDIST = "0" * 64  # of the sdist that the tests' matrix pins


def receipt_document(
    facts: WheelFacts,
    *,
    wheel: str | None = None,
    kind: str = "sdist",
    commit: str = "",
    sdist: str = SDIST,
    patches: Sequence[str] = (),
    members: Mapping[str, str] | None = None,
    bundled: Sequence[str] = (),
) -> dict[str, Any]:
    """The parts of a receipt that a judgement reads; by default of a local compile of every binary.

    :param members: replaces what is said of single binaries; "" leaves one out.
    """
    said = {member.path: "compiled here" for member in binaries(facts)} | dict(members or {})
    return {
        "version": 2,
        "key": "1" * 64,
        "wheel": {"sha256": facts.sha256 if wheel is None else wheel},
        "source": {
            "kind": kind,
            "commit": commit,
            "sha256": sdist if kind == "sdist" else "",
            "patches": {f"{index}.patch": each for index, each in enumerate(patches)},
        },
        "proof": {"members": [{"member": path, "provenance": each} for path, each in said.items() if each]},
        "repair": {"bundled": list(bundled)},
    }


def receipt(facts: WheelFacts, **changes: Any) -> Receipt:
    """The same, as it is read."""
    return parse(json.dumps(receipt_document(facts, **changes)).encode(), f"{facts.filename}.receipt.json")
