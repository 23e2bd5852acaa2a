"""How long ``qualify verify`` takes, beside one sha256 of the same bytes by hashlib.

    python benchmarks/verify_bench.py WHEEL --target ID [--profile upstream] [--matrix FILE] [--rounds N]

The wheel is judged once and its evidence signed with a key made for it, in a folder of its own.  Then, in turns, the
best of the rounds counts: hashlib alone; the call that takes the judgement at the signer's word (``take_at_word``:
file, signature, bytes, matrix, rules and age), which may take 1.2 times as long; and the commands, from the start of
their interpreter to its end, for which there is no bound.  The exit code is 1 where the bound is not kept.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from qualify import evidence, matrix, trust
from qualify.evidence import Demands

MOST = 1.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--profile", default="upstream", choices=("upstream", "release"))
    parser.add_argument("--matrix", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, keys = folder / arguments.wheel.name, folder / "trusted-keys.yaml"
        wheel.symlink_to(arguments.wheel.resolve())
        loaded = matrix.load(arguments.matrix)
        of_matrix = ["--matrix", str(loaded.path)]
        qualify("key", "new", str(folder / "key"), "--trust", str(keys))
        signed = ["--evidence", "--sign", str(folder / "key")]
        qualify("check", str(wheel), "--target", arguments.target, "--profile", arguments.profile, *of_matrix, *signed)

        def at_word() -> None:
            document = evidence.load(evidence.path_for(wheel, arguments.target))
            demands = Demands(now=datetime.now(UTC), trust=trust.load(keys), signed=True)
            evidence.take_at_word([document], wheel, loaded, demands)

        def hashlib_alone() -> None:
            with wheel.open("rb", buffering=0) as stream:
                hashlib.file_digest(stream, "sha256")

        verify = ["verify", str(wheel), *of_matrix, "--trust", str(keys)]
        rows: dict[str, Callable[[], object]] = {
            "hashlib": hashlib_alone,
            "take_at_word": at_word,
            "qualify verify --no-judging": lambda: qualify(*verify, "--no-judging"),
            "qualify verify": lambda: qualify(*verify),
        }
        best = dict.fromkeys(rows, float("inf"))
        for _ in range(arguments.rounds):
            for row, call in rows.items():
                started = time.perf_counter()
                call()
                best[row] = min(best[row], time.perf_counter() - started)
    print(f"{arguments.wheel.name}, {arguments.wheel.stat().st_size} bytes, best of {arguments.rounds}")
    for row, seconds in best.items():
        print(f"  {row:28} {seconds:7.3f} s  {seconds / best['hashlib']:6.2f} times hashlib")
    good = best["take_at_word"] <= MOST * best["hashlib"]
    print(f"  {'within ' if good else 'OUTSIDE'} take_at_word at most {MOST} times hashlib")
    return 0 if good else 1


def qualify(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "qualify", *words], check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
