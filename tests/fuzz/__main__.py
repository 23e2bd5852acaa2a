"""Fuzz every target for a while, each in a process of its own, and print the totals.

    python -m tests.fuzz [--minutes N] [--target NAME ...] [--keep FOLDER] [--seed N]

It takes atheris (libFuzzer).  One input may take 25 seconds and a process 2 GiB; beyond it the input is a finding, as
is any exception that is not this project's own.  Findings are kept in ``FOLDER/TARGET/``; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.seeds import SEEDS

MEMORY, SECONDS = 2048, 25  # MiB of one process; for one input
_TOTALS = {
    "executions": re.compile(r"stat::number_of_executed_units:\s+(\d+)"),
    "kept": re.compile(r"stat::new_units_added:\s+(\d+)"),
    "peak": re.compile(r"stat::peak_rss_mb:\s+(\d+)"),
}
_COVERAGE = re.compile(r"\bcov: (\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=14.0, help="for all targets together")
    parser.add_argument("--target", action="append", choices=tuple(SEEDS), default=[])
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return fuzz(arguments.child, arguments.keep, arguments.minutes * 60, arguments.seed)
    chosen = tuple(arguments.target) or tuple(SEEDS)
    print(f"{'target':8} {'inputs':>9} {'kept':>6} {'lines':>6} {'seconds':>8} {'peak':>9}  findings")
    executed = findings = 0
    for target in chosen:
        totals, found = session(target, arguments.keep, arguments.minutes / len(chosen), arguments.seed)
        executed += totals["executions"]
        findings += len(found)
        numbers = f"{totals['executions']:9} {totals['kept']:6} {totals['coverage']:6} {totals['seconds']:8}"
        print(f"{target:8} {numbers} {totals['peak']:5} MiB  {', '.join(found) or 'none'}", flush=True)
    print(f"{executed} inputs over {len(chosen)} targets, {findings} findings")
    return 1 if findings or not executed else 0


def session(target: str, keep: Path, minutes: float, seed: int) -> tuple[dict[str, int], list[str]]:
    """Totals of one target, and the files of its findings."""
    folder = keep / target
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    command = [sys.executable, "-m", "tests.fuzz", "--child", target, "--keep", str(keep), "--minutes", str(minutes)]
    start = time.monotonic()
    done = subprocess.run(
        [*command, "--seed", str(seed)], capture_output=True, text=True, errors="replace", check=False
    )
    totals = {"seconds": round(time.monotonic() - start)}
    for name, pattern in _TOTALS.items():
        found = pattern.findall(done.stderr)
        totals[name] = int(found[-1]) if found else 0
    totals["coverage"] = int((_COVERAGE.findall(done.stderr) or ["0"])[-1])
    new = sorted(path.name for path in set(folder.iterdir()) - before)
    if done.returncode and not new:
        new = [f"ended with {done.returncode}"]
    if new:
        (folder / "log.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return totals, new


def fuzz(target: str, keep: Path, seconds: float, seed: int) -> int:
    """Run libFuzzer over one target; it ends this process."""
    import atheris

    with atheris.instrument_imports(include=["qualify"]):
        from tests.fuzz import targets
    from tests.fuzz.mutation import mutate

    seeds = SEEDS[target]

    def one(data: bytes) -> None:
        targets.run(target, data)

    def mutator(data: bytes, most: int, number: int) -> bytes:
        dice = random.Random(number)
        if dice.random() < 0.1:
            return bytes(atheris.Mutate(data, most))
        return mutate(data, seeds, dice, most)

    with tempfile.TemporaryDirectory(prefix="corpus-") as corpus:
        for number, data in enumerate(seeds):
            (Path(corpus) / str(number)).write_bytes(data)
        options = [
            f"-max_total_time={max(1, int(seconds))}",
            f"-rss_limit_mb={MEMORY}",
            f"-timeout={SECONDS}",
            f"-artifact_prefix={keep / target}/",
            "-max_len=65536",
            "-print_final_stats=1",
            *([f"-seed={seed}"] if seed else []),
        ]
        atheris.Setup([sys.argv[0], corpus, *options], one, custom_mutator=mutator)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
