"""Derive from ptxas which PTX reaches which architecture, and hold this project's rules against it.

    python -m tools.arch_table [VERSION ...] [--write FILE]

For every ``.target`` that a toolkit knows (plain, ``a``, ``f``) ptxas is asked which ``-arch`` it compiles it for.  A
device of compute capability X.Y is reached where ptxas compiles for sm_XY, sm_XYa or sm_XYf; the families of the ``f``
targets follow from that.  Each answer is compared with :func:`qualify.arch.support`.  Exit code 1: they disagree.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from qualify.arch import ARCHITECTURES, ComputeCapability, Support, VirtualArchitecture, support
from tools.ptxas import Toolkit, install

#: The oldest toolkit of the package index, the first with families, the one of the targets, and the newest.
TOOLKITS = ("11.8.89", "12.9.86", "13.0.88", "13.5.37")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toolkits", nargs="*", default=TOOLKITS)
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the table as JSON")
    parser.add_argument("--cache", type=Path, help="keep the toolkits there")
    arguments = parser.parse_args()
    table: dict[str, dict[str, list[int]]] = {}
    disagreements = asked = 0
    with tempfile.TemporaryDirectory() as scratch:
        for version in arguments.toolkits:
            toolkit = install(version, arguments.cache or Path(scratch) / "toolkits")
            reached = reach(toolkit, Path(scratch))
            table[version] = {name: sorted(devices(archs)) for name, archs in reached.items()}
            wrong, count = compare(version, table[version])
            show(version, reached)
            asked += count
            disagreements += len(wrong)
            for line in wrong:
                print(f"  DISAGREES: {line}")
    if arguments.write:
        arguments.write.write_text(as_json(table), encoding="utf-8")
    print(f"{asked} answers of {len(table)} toolkits, {disagreements} disagreements with the rules")
    return 1 if disagreements or not asked else 0


def as_json(table: dict[str, dict[str, list[int]]]) -> str:
    """A line for each target, so that a change of one is a change of one line."""
    toolkits = []
    for version, reached in table.items():
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in reached.items())
        toolkits.append(f" {json.dumps(version)}: {{\n{rows}\n }}")
    return "{\n" + ",\n".join(toolkits) + "\n}\n"


def reach(toolkit: Toolkit, scratch: Path) -> dict[str, list[str]]:
    """``compute_X`` -> every ``sm_Y`` that ptxas compiles it for, suffixes as ptxas takes them."""
    names = toolkit.architectures()
    pairs = [(target, arch) for target in names for arch in names]

    def ask(pair: tuple[str, str]) -> bool:
        out = scratch / f"{toolkit.version}-{pair[0]}-{pair[1]}.cubin"
        made = toolkit.compile(*pair, out) == ""
        out.unlink(missing_ok=True)
        return made

    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(ask, pairs))
    reached: dict[str, list[str]] = {target.replace("sm_", "compute_"): [] for target in names}
    for (target, arch), made in zip(pairs, answers, strict=True):
        if made:
            reached[target.replace("sm_", "compute_")].append(arch)
    return reached


def devices(archs: list[str]) -> set[int]:
    """The SM numbers among ``sm_90``, ``sm_90a``, …"""
    return {int(arch[3:].rstrip("af")) for arch in archs}


def compare(version: str, reached: dict[str, list[int]]) -> tuple[list[str], int]:
    """Where ptxas and :func:`qualify.arch.support` differ, and how many answers were compared.

    :param reached: ``compute_X`` -> the SM numbers that it reaches.
    """
    wrong: list[str] = []
    count = 0
    for name, numbers in reached.items():
        code = VirtualArchitecture.parse(name)
        for number in sorted({number for each in reached.values() for number in each}):
            count += 1
            device = ComputeCapability(*divmod(number, 10))
            ours, theirs = support(code, device), number in numbers
            if ours is Support.UNKNOWN or (ours is Support.JIT) != theirs:
                said = "compiles" if theirs else "does not compile"
                wrong.append(f"ptxas {version} {said} {name} for {device}; the rules say {ours.value}")
    return wrong, count


def show(version: str, reached: dict[str, list[str]]) -> None:
    families: dict[frozenset[int], list[str]] = defaultdict(list)
    for name, archs in reached.items():
        if name.endswith("f"):
            families[frozenset(devices(archs))].append(name)
    print(f"ptxas {version}: {len(reached)} targets, {sum(map(len, reached.values()))} pairs compile")
    for members, names in sorted(families.items(), key=lambda item: sorted(item[0])):
        row = ARCHITECTURES.get(min(members))
        family = row.family if row is not None else "?"
        print(f"  family {family:>4}: {', '.join(names)} reach {', '.join(f'sm_{n}' for n in sorted(members))}")
    specific = [name for name, archs in reached.items() if name.endswith("a") and len(devices(archs)) != 1]
    print(f"  architecture-specific targets that reach more or less than one: {', '.join(specific) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
