"""What the released vLLM 0.33.0 wheels hold, as counts: ours, and those that other tools gave.

``python -m tests.support.vllm WHEEL…`` writes ``tests/data/vllm-0.33.0-<machine>.json`` from wheels on disk.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from qualify.facts import MemberKind, WheelFacts
from qualify.factsjson import code_groups
from qualify.opening import read_wheel

REQUIREMENT = "vllm==0.33.0"
DATA = Path(__file__).resolve().parents[1] / "data"
GOLDEN = {machine: DATA / f"vllm-0.33.0-{machine}.json" for machine in ("x86_64", "aarch64")}


def counts(facts: WheelFacts) -> dict[str, Any]:
    """Each compiled member: kind, machine, and for each kind and architecture [entries, kernels, text sections]."""
    members: dict[str, Any] = {}
    for member in facts.members:
        if member.kind is MemberKind.DATA and not member.containers:
            continue
        groups = {f"{group.kind} {group.architecture}": group for group in code_groups(member)}
        members[member.path] = {
            "kind": str(member.kind),
            "machine": member.elf.machine if member.elf else "",
            "containers": len(member.containers),
            "device_code": {name: [g.entries, g.kernels, g.text_sections] for name, g in groups.items()},
        }
    return {"wheel": facts.filename, "sha256": facts.sha256, "members": members}


def golden(machine: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(GOLDEN[machine].read_text(encoding="utf-8"))
    return document


def published() -> dict[str, dict[str, tuple[int, int | None]]]:
    """``tests/data/vllm-0.33.0-x86_64.table.txt``: path -> "cubin sm_90" -> cubins and their distinct sections."""
    table: dict[str, dict[str, tuple[int, int | None]]] = {}
    for line in (DATA / "vllm-0.33.0-x86_64.table.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        path, *cells = line.split()
        row: dict[str, tuple[int, int | None]] = {}
        for cell in cells:
            name, _, numbers = cell.partition("=")
            entries, _, sections = numbers.partition("/")
            kind = "cubin" if name.startswith("sm_") else "ptx"
            row[f"{kind} {name}"] = (int(entries), int(sections) if sections else None)
        table[path] = row
    return table


def main() -> None:
    for argument in sys.argv[1:]:
        path = Path(argument)
        machine = next(machine for machine in GOLDEN if path.stem.endswith(machine))
        GOLDEN[machine].write_text(json.dumps(counts(read_wheel(path)), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
