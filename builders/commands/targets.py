"""``python -m builders targets``: the targets of the matrix."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from qualify.errors import ExitCode

HELP = "list the targets of the matrix"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--matrix", type=Path, help="the matrix file (default: WHEEL_ASSAY_MATRIX, else the nearest)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.matrix import load

    matrix = load(arguments.matrix).matrix
    if arguments.json:
        targets = [
            {
                "id": name,
                "machine": target.machine,
                "compute_capability": target.compute_capability,
                "python": list(target.python),
                "engine": target.engine,
                "how": target.how,
            }
            for name, target in matrix.targets.items()
        ]
        print(json.dumps({"version": 1, "targets": targets}, indent=2))
        return ExitCode.OK
    width = max(len(name) for name in matrix.targets)
    for name, target in matrix.targets.items():
        pythons = " ".join(target.python)
        print(
            f"{name:{width}}  {target.machine}  {target.compute_capability:>4}  CUDA {target.toolkit}  "
            f"Python {pythons}  {target.how}, engine {target.engine}"
        )
    return ExitCode.OK
