"""How long a wheel takes to inspect and to judge, beside the floor and beside the tools that people use today.

    python benchmarks/bench.py [WHEEL] [--workers N] [--rounds N] [--target ID] [--no-chain] [--big]

In one run on one machine, in turns, the best of the rounds counts:

* ``floor``: every member is inflated with isal and hashed with sha256 by N processes (``floor.py``);
* ``inspect``: reading at header depth and at kernel depth, and ``check``: judging with all checks.  Each as a command,
  from the start of its interpreter to its end, which is held against the floor's own from start to end; and as a call
  of the library, which is held against the floor without the start of its processes;
* the chain (``chain.py``), once: unzip, cuobjdump on each library, auditwheel, abi3audit, check-wheel-contents.

``--big`` makes a wheel of 2 GB out of WHEEL's members instead, and compares the time for each byte with WHEEL's.
Without WHEEL, the pinned vLLM release for x86_64 is fetched.  The exit code is 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import big
import chain
from processes import Measured, measure

REQUIREMENT = "vllm==0.33.0"
MOST_HEADERS, MOST_KERNELS, LEAST_CHAIN, MOST_SLOPE = 1.3, 2.0, 8.0, 1.25
MORE_THAN_LARGEST, MOST_MEMORY = 200 << 20, 1 << 30
HERE = Path(__file__).resolve().parent
#: What is measured: its name, the floor that it is held against, and how many times that it may take.
ROWS = {
    "floor, start to end": ("", 0.0),
    "floor, inflating alone": ("", 0.0),
    "floor, nothing kept": ("", 0.0),
    "inspect --depth headers": ("floor, start to end", MOST_HEADERS),
    "read_wheel(HEADERS)": ("floor, inflating alone", MOST_HEADERS),
    "inspect --depth kernels": ("floor, start to end", MOST_KERNELS),
    "check": ("floor, start to end", MOST_KERNELS),
    "read_wheel and judge": ("floor, inflating alone", MOST_KERNELS),
}


@dataclass(frozen=True)
class Bounds:
    """What is printed and decides: each line, and whether it holds."""

    lines: list[tuple[str, bool]]

    def show(self) -> int:
        for line, good in self.lines:
            print(f"  {'within ' if good else 'OUTSIDE'} {line}")
        good = all(good for _, good in self.lines)
        print("within all bounds" if good else "OUTSIDE the bounds")
        return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", default="x86_64-sm90")
    parser.add_argument("--chain", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--big", action="store_true")
    parser.add_argument("--library", choices=["headers", "kernels"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        print(json.dumps(call(arguments.wheel, arguments.workers, arguments.library, arguments.target)))
        return 0
    wheel = arguments.wheel or fetch()
    while_reading(wheel)  # the file is in the page cache for everyone, or for none
    if arguments.big:
        return grow(wheel, arguments.workers, arguments.rounds)
    best: dict[str, Measured] = {}
    for number in range(arguments.rounds):
        for name, measured in one_round(wheel, arguments.workers, arguments.target):
            print(f"round {number + 1}: {name:<24} {measured.seconds:6.2f} s", file=sys.stderr)
            best[name] = better(best.get(name, measured), measured)
    return report(wheel, arguments.workers, best, list(steps(wheel)) if arguments.chain else [])


def one_round(wheel: Path, workers: int, target: str) -> Iterator[tuple[str, Measured]]:
    """Every row of the table once.  ``inspect`` and ``check`` take as many workers as there are cores."""
    floor = [sys.executable, str(HERE / "floor.py"), str(wheel), str(workers)]
    whole = measure([*floor, "whole"])
    yield "floor, start to end", whole
    yield "floor, inflating alone", inside(whole)
    yield "floor, nothing kept", inside(measure([*floor, "streamed"]))
    qualify = [sys.executable, "-m", "qualify"]
    for depth in ("headers", "kernels"):
        yield f"inspect --depth {depth}", measure([*qualify, "inspect", str(wheel), "--json", "--depth", depth])
    # A wheel that is not fit for the target is judged all the same.
    judging = ["--target", target, "--profile", "upstream", "--json"]
    yield "check", measure([*qualify, "check", str(wheel), *judging], good=(0, 1, 3))
    library = [sys.executable, str(HERE / "bench.py"), str(wheel), "--workers", str(workers), "--target", target]
    yield "read_wheel(HEADERS)", inside(measure([*library, "--library", "headers"]))
    yield "read_wheel and judge", inside(measure([*library, "--library", "kernels"]))


def inside(measured: Measured) -> Measured:
    """The same run with the time that it took itself in place of that from its start to its end."""
    return replace(measured, seconds=json.loads(measured.output)["seconds"])


def better(known: Measured, other: Measured) -> Measured:
    """The shorter times and the larger peak of two runs."""
    return Measured(
        min(known.seconds, other.seconds),
        min(known.processor, other.processor),
        max(known.peak, other.peak),
        "",
    )


def steps(wheel: Path) -> Iterator[chain.Step]:
    for step in chain.run(wheel):
        print(f"chain: {step[0]:<40} {step[1]:6.2f} s", file=sys.stderr)
        yield step


def report(wheel: Path, workers: int, best: dict[str, Measured], chained: list[chain.Step]) -> int:
    largest = largest_member(wheel)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.0f} MB, {workers} workers, best of the rounds")
    print(f"  load of the machine over the last 5 minutes: {os.getloadavg()[1]:.1f}, our own work included")
    print(f"  {'':<24} {'seconds':>8} {'of floor':>9} {'processor':>10} {'of floor':>9} {'peak MiB':>9}")
    lines: list[tuple[str, bool]] = []
    for name, (against, most) in ROWS.items():
        measured = best[name]
        ratio = measured.seconds / best[against].seconds if against else 0.0
        shown = f"{ratio:.2f}" if against else ""
        work = f"{measured.processor / best[against].processor:.2f}" if against else ""
        peak = "" if name.startswith("floor") else f"{measured.peak >> 20}"
        print(f"  {name:<24} {measured.seconds:8.2f} {shown:>9} {measured.processor:9.2f}s {work:>9} {peak:>9}")
        if against:
            lines.append((f"{name}: {ratio:.2f} of {most:g} times the {against}", ratio <= most))
    peak = max(measured.peak for name, measured in best.items() if not name.startswith("floor"))
    most_memory = min(largest + MORE_THAN_LARGEST, MOST_MEMORY)
    lines.append((f"peak memory {peak >> 20} of {most_memory >> 20} MiB", peak <= most_memory))
    if chained:
        total = sum(seconds for _, seconds, _ in chained)
        for name, seconds, peak in chained:
            print(f"  {name:<40} {seconds:8.2f} s {peak >> 20:>9}")
        times = total / best["check"].seconds
        print(f"  {'the chain':<40} {total:8.2f} s: {times:.1f} times as long as check")
        lines.append(
            (f"the chain takes {times:.1f} times as long as check, at least {LEAST_CHAIN:g}", times >= LEAST_CHAIN)
        )
    return Bounds(lines).show()


def grow(wheel: Path, workers: int, rounds: int) -> int:
    """Both depths over the wheel and over one of 2 GB; the time is to grow as the bytes do, and the memory not."""
    lines: list[tuple[str, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        # Made by a process of its own: a child's peak is counted from its parent's memory on.
        large = Path(measure([sys.executable, str(HERE / "big.py"), str(wheel), folder]).output.strip())
        amounts = {path: big.amount(path) for path in (wheel, large)}
        for path, amount in amounts.items():
            print(f"{path.name}: {path.stat().st_size / 1e9:.2f} GB, {amount / 1e9:.2f} GB inflated, ", end="")
            print(f"largest member {largest_member(path) / 1e9:.2f} GB")
        for depth in ("headers", "kernels"):
            best: dict[Path, Measured] = {}
            for _ in range(rounds):
                for path in amounts:
                    command = [sys.executable, str(HERE / "bench.py"), str(path), "--workers", str(workers)]
                    measured = inside(measure([*command, "--library", depth, "--target", ""]))
                    best[path] = better(best.get(path, measured), measured)
            rates = {path: best[path].seconds / amounts[path] * 1e9 for path in amounts}
            for path, measured in best.items():
                print(f"  {depth:<8} {measured.seconds:7.2f} s, {rates[path]:.2f} s for each GB, ", end="")
                print(f"processor {measured.processor:.2f} s, peak {measured.peak >> 20} MiB")
            slope = rates[large] / rates[wheel]
            lines.append((f"{depth}: {slope:.2f} of {MOST_SLOPE} times as long for each byte", slope <= MOST_SLOPE))
            most = largest_member(large) + MORE_THAN_LARGEST
            peak = best[large].peak
            lines.append((f"{depth}: peak memory {peak >> 20} of {most >> 20} MiB", peak <= most))
    return Bounds(lines).show()


def call(wheel: Path, workers: int, depth: str, target: str) -> dict[str, float]:
    """Read the wheel by the library, and judge it where a target is named; the seconds that it took."""
    import time

    from qualify.facts import Depth
    from qualify.judging import Context, judge
    from qualify.matrix import load
    from qualify.matrix.model import Profile
    from qualify.opening import read_wheel

    context = Context(load(None).matrix, target, Profile.UPSTREAM) if target and depth == "kernels" else None
    begin = time.perf_counter()
    facts = read_wheel(wheel, depth=Depth(depth), workers=workers)
    if context is not None and judge(facts, context).coverage == ():
        raise SystemExit("nothing was judged")
    seconds = time.perf_counter() - begin
    if not facts.members:
        raise SystemExit("nothing was read")
    return {"seconds": seconds}


def largest_member(wheel: Path) -> int:
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        return max(member.file_size for member in archive.infolist())


def while_reading(wheel: Path) -> None:
    with wheel.open("rb") as file:
        while file.read(8 << 20):
            pass


def fetch() -> Path:
    from qualify.fetching import fetch_wheel

    return fetch_wheel(REQUIREMENT, "x86_64", "3.12")


if __name__ == "__main__":
    raise SystemExit(main())
