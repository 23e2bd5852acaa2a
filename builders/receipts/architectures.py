"""Requested beside emitted: what the arch list asked for, and what every member of the wheel holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qualify.arch import ComputeCapability, Support
from qualify.coverage import entry_support
from qualify.facts import Entry, WheelFacts

_WORDS = {
    Support.EXACT: "as asked",
    Support.SAME_MAJOR: "runs there: same major, lower minor",
    Support.FAMILY: "runs there: of its family",
    Support.JIT: "PTX, which the driver compiles there",
    Support.NONE: "nothing that runs there",
}


def requested_beside_emitted(facts: WheelFacts, requested: Sequence[str], device: str) -> list[dict[str, Any]]:
    """For each member with device code: what was asked, what it holds, and how that serves the target.

    :param requested: as the arch list writes them.
    :param device: the target's compute capability.
    """
    capability = ComputeCapability.parse(device)
    rows = []
    for member in facts.members:
        entries = [entry for container in member.containers for entry in container.entries]
        if not entries:
            continue
        emitted: dict[str, str] = {}
        for entry in entries:
            emitted.setdefault(_named(entry), _words(entry, capability))
        rows.append({"member": member.path, "requested": list(requested), "emitted": dict(sorted(emitted.items()))})
    return rows


def _named(entry: Entry) -> str:
    return f"{entry.architecture} ({entry.kind.value})"


def _words(entry: Entry, device: ComputeCapability) -> str:
    support = entry_support(entry, device)
    return _WORDS.get(support, support.name.lower().replace("_", " "))
