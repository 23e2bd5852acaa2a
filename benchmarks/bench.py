"""How long a wheel's reading and judging take, beside inflating its members with zlib in the same run.

    python benchmarks/bench.py [WHEEL] [--workers N] [--rounds N] [--target ID]

Three things are timed in turn, each in a fresh process, the best of the rounds counts:

* ``zlib``: every member is inflated with zlib by N processes, biggest first; starting them is not counted;
* ``read``: ``qualify.opening.read_wheel`` with N workers: everything inflated, hashed and read, kernels included;
* ``check``: the whole command ``qualify check``, from the start of its interpreter to its end.

Without WHEEL, the pinned vLLM release for x86_64 is fetched.  The exit code is 1 where ``read`` or ``check`` take twice
as long as ``zlib`` or more, or more memory than one GiB at its peak.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

MOST_TIMES, MOST_MEMORY = 2.0, 1 << 30
REQUIREMENT = "vllm==0.33.0"


@dataclass(frozen=True)
class Measured:
    seconds: float
    peak: int  # bytes; 0 where it is not measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", default="x86_64-sm90")
    parser.add_argument("--measure", choices=["zlib", "read"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure = inflate_all if arguments.measure == "zlib" else read_all
        print(json.dumps(measure(arguments.wheel, arguments.workers)))
        return 0
    wheel = arguments.wheel or fetch()
    while_reading(wheel)  # the file is in the page cache for everyone, or for none
    best: dict[str, Measured] = {}
    for round_number in range(arguments.rounds):
        for name in ("zlib", "read", "check"):
            measured = run(name, wheel, arguments.workers, arguments.target)
            print(f"round {round_number + 1}: {name:<5} {measured.seconds:6.2f} s", file=sys.stderr)
            known = best.get(name, measured)
            best[name] = Measured(min(known.seconds, measured.seconds), max(known.peak, measured.peak))
    return report(wheel, arguments.workers, best)


def report(wheel: Path, workers: int, best: dict[str, Measured]) -> int:
    base = best["zlib"].seconds
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.0f} MB, {workers} workers, best of the rounds")
    print(f"  zlib   {base:6.2f} s   inflating every member with zlib in {workers} processes")
    good = True
    for name in ("read", "check"):
        measured = best[name]
        ratio = measured.seconds / base
        print(f"  {name:<5}  {measured.seconds:6.2f} s   ratio {ratio:.2f}, peak {measured.peak / (1 << 20):.0f} MiB")
        good = good and ratio < MOST_TIMES and measured.peak < MOST_MEMORY
    print(f"  {'within' if good else 'OUTSIDE'} the bounds: under {MOST_TIMES:g} times zlib, under 1 GiB")
    return 0 if good else 1


def run(name: str, wheel: Path, workers: int, target: str) -> Measured:
    """One measurement in a fresh process; ``peak`` is that process's largest resident set."""
    command = [sys.executable, __file__, str(wheel), "--workers", str(workers), "--measure", name]
    if name == "check":
        command = [sys.executable, "-m", "qualify", "check", str(wheel), "--target", target, "--profile", "upstream"]
        command.append("--json")
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        output, errors = process.communicate()
        seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{errors.decode()}")
    if name == "check":
        return Measured(seconds, peak_of(command))
    answer = json.loads(output)
    return Measured(answer["seconds"], answer["peak"])


def peak_of(command: list[str]) -> int:
    """The largest resident set of a command and its children, asked of the kernel by a process that runs it alone."""
    script = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", script, *command], check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024


def read_all(wheel: Path, workers: int) -> dict[str, float]:
    import resource

    from qualify.opening import read_wheel

    start = time.perf_counter()
    facts = read_wheel(wheel, workers=workers)
    seconds = time.perf_counter() - start
    if not facts.members:
        raise SystemExit("nothing was read")
    return {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def inflate_all(wheel: Path, workers: int) -> dict[str, float]:
    with zipfile.ZipFile(wheel) as archive:
        members = sorted(archive.infolist(), key=lambda member: -member.compress_size)
    jobs = [(str(wheel), member.header_offset, member.compress_size, member.compress_type) for member in members]
    big, small = jobs[:50], jobs[50:]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        pool.map(abs, range(workers), chunksize=1)  # every process is there before the clock starts
        start = time.perf_counter()
        first = pool.imap_unordered(inflate_one, big, chunksize=1)
        second = pool.imap_unordered(inflate_one, small, chunksize=64)
        total = sum(first) + sum(second)
        seconds = time.perf_counter() - start
    expected = sum(member.file_size for member in members)
    if total != expected:
        raise SystemExit(f"zlib inflated {total} bytes instead of {expected}")
    return {"seconds": seconds, "peak": 0}


def inflate_one(job: tuple[str, int, int, int]) -> int:
    path, offset, size, method = job
    with open(path, "rb") as file:  # noqa: PTH123 - the fastest way for the baseline
        file.seek(offset)
        header = file.read(30)
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), os.SEEK_CUR)
        stored = file.read(size)
    return len(zlib.decompress(stored, -15) if method == 8 else stored)


def while_reading(wheel: Path) -> None:
    with wheel.open("rb") as file:
        while file.read(8 << 20):
            pass


def fetch() -> Path:
    from qualify.fetching import fetch_wheel

    return fetch_wheel(REQUIREMENT, "x86_64", "3.12")


if __name__ == "__main__":
    raise SystemExit(main())
