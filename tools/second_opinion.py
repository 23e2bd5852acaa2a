"""Judge wheels a second time with cuobjdump and readelf alone, and compare line by line with ``qualify check``.

    python -m tools.second_opinion WHEEL ... [--matrix FILE]

WHEEL is a file, or a requirement whose wheels for both machines are fetched.  For every target of the matrix, of the
wheel's machine or not, and both profiles: the kernels that run natively, by
JIT and not at all are counted anew from cuobjdump's symbol and PTX dumps; glibc's and libstdc++'s floors from readelf.
Nothing of our readers or rules is used: what runs where stands below, as NVIDIA's documents say it.  Exit code 1: a
number differs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import peers

#: Compute capability -> the cubins that run on it (CUDA C++ Programming Guide, binary and family compatibility).
NATIVE = {
    "9.0": {"sm_90", "sm_90a"},
    "11.0": {"sm_110", "sm_110a", "sm_110f"},
    "12.1": {"sm_120", "sm_120f", "sm_121", "sm_121a", "sm_121f"},
}
#: … and the PTX that its driver compiles: every plain one up to it, and its own.
JIT = {
    "9.0": {
        "sm_50",
        "sm_52",
        "sm_60",
        "sm_61",
        "sm_70",
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_87",
        "sm_89",
        "sm_90",
        "sm_90a",
    },
    "11.0": {"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_110a", "sm_110f"},
    "12.1": {
        *("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_120f"),
        *("sm_121", "sm_121a", "sm_121f"),
    },
}
_ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([A-Za-z_$%][\w$]*)", re.MULTILINE)
_TARGET = re.compile(r"^\.target\s+(sm_\d+[af]?)", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """One member as cuobjdump and readelf show it."""

    cubins: peers.Kernels
    ptx: peers.Kernels
    needs: set[tuple[str, str]]
    undefined: set[str]  # "statx@GLIBC_2.28"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+")
    parser.add_argument("--matrix", type=Path, default=Path("matrix.yaml"))
    arguments = parser.parse_args()
    lines = differing = 0
    for wheel in (wheel for name in arguments.wheels for wheel in files_of(name)):
        seen = look(wheel)
        for profile in ("upstream", "release"):
            for report in reports(wheel, profile, arguments.matrix):
                print(f"{wheel.name} {report['target']} {profile}: {report['verdict']}")
                for what, ours, theirs in compare(report, seen):
                    lines += 1
                    differing += ours != theirs
                    mark = "" if ours == theirs else f"   DIFFERS: check says {ours}"
                    print(f"  {what}: {theirs}{mark}")
    print(f"{lines} lines compared, {differing} differ")
    return 1 if differing or not lines else 0


def files_of(name: str) -> list[Path]:
    if name.endswith(".whl"):
        return [Path(name)]
    from qualify.fetching import fetch_wheel

    return [fetch_wheel(name, machine, "3.12") for machine in ("x86_64", "aarch64")]


def look(wheel: Path) -> dict[str, Seen]:
    """Every member that readelf takes for an ELF file of the host, by its path."""
    found: dict[str, Seen] = {}
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        for name in archive.namelist():
            data = archive.read(name)
            if data[:4] != b"\x7fELF":
                continue
            path = Path(scratch) / "member"
            path.write_bytes(data)
            undefined, _ = peers.readelf_symbols(path)
            needs = peers.readelf_needs(path)
            found[name] = Seen(peers.cuobjdump_kernels(path), ptx_kernels(path), needs, undefined)
    return found


def ptx_kernels(path: Path) -> peers.Kernels:
    """Distinct ``.entry`` names by the ``.target`` of their text, as cuobjdump prints it."""
    command = [str(peers.cuobjdump()), "--all-fatbin", "--dump-ptx", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found: peers.Kernels = {}
    for block in text.split("Fatbin ptx code:")[1:]:
        if target := _TARGET.search(block):
            found.setdefault(target[1], set()).update(_ENTRY.findall(block.partition("Fatbin elf code:")[0]))
    return found


def reports(wheel: Path, profile: str, matrix: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "qualify", "check", str(wheel), "--all-targets", "--profile", profile, "--json"]
    done = subprocess.run([*command, "--matrix", str(matrix)], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"qualify check ended with {done.returncode}:\n{done.stderr}")
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return results


def compare(report: dict[str, Any], seen: dict[str, Seen]) -> Iterator[tuple[str, object, object]]:
    """(what, what ``check`` says, what the tools say) for each line of a report's coverage, and its numbers."""
    yield from floors(report, seen)
    capability = {"sm90": "9.0", "sm110": "11.0", "sm121": "12.1"}[report["target"].rpartition("-")[2]]
    for row in report["coverage"]:
        member = seen[row["member"]]
        native = union(member.cubins, NATIVE[capability])
        jit = union(member.ptx, JIT[capability]) - native
        every = union(member.cubins) | union(member.ptx)
        theirs = {"native": len(native), "jit": len(jit), "none": len(every - native - jit)}
        yield row["member"], {name: row[name] for name in theirs}, theirs
        for finding in report["findings"]:
            if finding["member"] == row["member"]:
                yield from numbers(finding, theirs, len(every), member)


def floors(report: dict[str, Any], seen: dict[str, Seen]) -> Iterator[tuple[str, object, object]]:
    """The wheel's floor of each family, the member that sets it, and how many symbols of it bind to it there."""
    for row in report["floors"]:
        family = row["version"].partition("_")[0]
        highest = max((floor(member, f"{family}_") for member in seen.values()), key=_order)
        bound = {name for name in seen[row["member"]].undefined if name.endswith(f"@{row['version']}")}
        ours = (row["version"], row["symbol_count"], set(row["symbols"]) <= {name.partition("@")[0] for name in bound})
        yield f"{family} floor, set by {row['member']}", ours, (highest, len(bound), True)


def _order(version: str) -> list[int]:
    return [int(part) for part in version.partition("_")[2].split(".") if part]


def numbers(
    finding: dict[str, str], counts: dict[str, int], every: int, member: Seen
) -> Iterator[tuple[str, object, object]]:
    """The numbers that a finding's sentence states, as the tools give them."""
    patterns = {
        "DEV006": (r"all (\d+) kernels that run are PTX", (counts["jit"],)),
        "DEV007": (r"(\d+) kernels native, (\d+) PTX only", (counts["native"], counts["jit"])),
        "DEV008": (r"in (\d+) kernels", (every,)),
        "DEV001": (r"none of (\d+) kernels runs there", (every,)),
    }
    if finding["code"] in patterns:
        pattern, theirs = patterns[finding["code"]]
        match = re.search(pattern, finding["found"])
        ours = tuple(map(int, match.groups())) if match else finding["found"]
        yield f"{finding['code']} {finding['member']}", ours, theirs
    elif finding["code"] in ("FLO001", "FLO003", "FLO005"):
        ours_floor = re.findall(r"GLIBC_[0-9.]+[0-9]", finding["found"])[:1]
        yield f"{finding['code']} {finding['member']}", ours_floor, [floor(member, "GLIBC_")]


def floor(member: Seen, prefix: str) -> str:
    """The highest numbered version under a prefix, "GLIBC_2.34"."""
    versions = [version for _, version in member.needs if re.fullmatch(re.escape(prefix) + r"[0-9.]+", version)]
    return max(versions, key=lambda name: [int(part) for part in name.removeprefix(prefix).split(".")], default="")


def union(kernels: peers.Kernels, only: set[str] | None = None) -> set[str]:
    return set().union(*(names for arch, names in kernels.items() if only is None or arch in only))


if __name__ == "__main__":
    sys.exit(main())
