"""What the builders add to a compile, and what they save, as ratios.

    python benchmarks/build_bench.py [torchsort] [axpy] [preflight] [--rounds N]

In one run on one machine, in turns, the best of the rounds counts.  Needs a Docker engine and, once, the network.

* By hand: the command that the receipt's build ran, in the same image with the same environment, variables and limits,
  by ``docker run`` on a fresh copy of the same tree, without a compiler cache.
* Cold: a whole build, from its command to its end, with the environment installed and nothing in the compiler cache.
* Warm: the same again, with what the cold one left in the cache.
* Nothing to do: the same once more, where the wheel lies there.
* Preflight: ``doctor --static`` for a target of the main matrix, and the answer of the backend's hook in a real build.

The exit code is 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker

from builders.source import open_source
from qualify.matrix import load

ROOT = Path(__file__).resolve().parents[1]
TARGET = "x86_64-sm90"
MOST_ADDED_SHARE, MOST_ADDED_SECONDS, MOST_WARM, MOST_IDLE, MOST_PREFLIGHT = 0.03, 10.0, 0.2, 3.0, 5.0
# Variables of the compiler cache, and beginnings of their names: by hand there is none.
CACHE = ("CC", "CXX", "PYTORCH_NVCC")
CACHE_BEGINS = ("CCACHE_", "SCCACHE_", "CMAKE_C_COMPILER_", "CMAKE_CXX_COMPILER_", "CMAKE_CUDA_COMPILER_")


@dataclass
class Timed:
    """Seconds of each round."""

    by_hand: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)  # of a cold build, the compile's container alone


class Bounds:
    """What is held against a bound, as it is found out."""

    def __init__(self) -> None:
        self.good = True

    def hold(self, what: str, value: float, bound: float, unit: str = "") -> None:
        kept = value <= bound
        self.good = self.good and kept
        print(f"  {'within ' if kept else 'OUTSIDE'} {what}: {value:.2f} of {bound:g}{unit}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="torchsort, axpy, preflight; default: all")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    parts = arguments.parts or ["axpy", "preflight", "torchsort"]
    if unknown := set(parts) - {"torchsort", "axpy", "preflight"}:
        parser.error(f"no part is named {', '.join(sorted(unknown))}")
    bounds = Bounds()
    for part in parts:
        if part == "preflight":
            preflight(bounds, arguments.rounds)
            continue
        timed = rounds_of(ROOT / "examples" / part / "matrix.yaml", arguments.rounds)
        hand, cold, warm, idle = (min(each) for each in (timed.by_hand, timed.cold, timed.warm, timed.idle))
        print(
            f"{part}: by hand {hand:.1f} s, cold {cold:.1f} s (its compile step {min(timed.step):.1f} s), "
            f"warm {warm:.1f} s, nothing to do {idle:.2f} s"
        )
        if part == "torchsort":
            bounds.hold("what the engine adds to the compile", min(timed.step) / hand - 1, MOST_ADDED_SHARE)
            bounds.hold("what the whole build adds", cold / hand - 1, MOST_ADDED_SHARE)
            bounds.hold("warm beside cold", warm / cold, MOST_WARM)
        else:
            bounds.hold("what the whole build adds", cold - hand, MOST_ADDED_SECONDS, " s")
        bounds.hold("nothing to do", idle, MOST_IDLE, " s")
    print("within all bounds" if bounds.good else "OUTSIDE the bounds")
    return 0 if bounds.good else 1


def rounds_of(matrix: Path, rounds: int) -> Timed:
    timed = Timed()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        build(matrix, out)  # image and environment are there afterwards
        shutil.rmtree(out)
        for _ in range(rounds):
            # A namespace that nothing was cached in: the users' cache stays as it is.
            name = f"CCACHE_NAMESPACE=bench-{secrets.token_hex(4)}"
            seconds, receipt, volume = build(matrix, out, "--set", name)
            timed.cold.append(seconds)
            timed.step.append(receipt["tries"][-1]["seconds"])
            timed.by_hand.append(by_hand(matrix, receipt, volume, Path(folder) / "hand"))
            timed.warm.append(build(matrix, out, "--set", name, "--rebuild")[0])
            timed.idle.append(build(matrix, out, "--set", name)[0])
            shutil.rmtree(out)
    return timed


def build(matrix: Path, out: Path, *options: str) -> tuple[float, dict[str, Any], str]:
    """Seconds from start to end, the receipt, and the volume of the environment ("" where nothing was built)."""
    command = [sys.executable, "-m", "builders", "build", TARGET, "--matrix", str(matrix), "--out", str(out), "--json"]
    with Watch() as watch:
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "--engine", "docker", *options], capture_output=True, text=True, cwd=ROOT, check=False
        )
        seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return seconds, json.loads(done.stdout), watch.volume


class Watch:
    """Sees, of a container of the build that runs meanwhile, which volume its environment is."""

    def __init__(self) -> None:
        self.volume = ""
        self._before: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._before = {container.id for container in containers()}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.2) and not self.volume:
            for container in containers():
                if container.id not in self._before:
                    for mount in container.attrs["Mounts"]:
                        if mount["Destination"] == "/env":
                            self.volume = mount["Name"]


def containers() -> list[Any]:
    client = docker.from_env()
    try:
        found: list[Any] = client.containers.list(all=True, filters={"label": "wheel-assay.build"}, ignore_removed=True)
        return [each for each in found if each.labels["wheel-assay.build"].startswith(TARGET)]
    finally:
        client.close()


def by_hand(matrix: Path, receipt: dict[str, Any], volume: str, work: Path) -> float:
    """Seconds of the compile as a person runs it: the tree copied into a container, and the command."""
    shutil.rmtree(work, ignore_errors=True)
    source = open_source(load(matrix), work / "source", progress=lambda _: None)
    tree = work / "tree"
    shutil.copytree(source.tree, tree, symlinks=True)
    subprocess.run(["chmod", "-R", "a+rwX", str(tree)], check=True)
    variables = {
        name: value
        for name, value in receipt["environment"]["variables"].items()
        if name not in CACHE and not name.startswith(CACHE_BEGINS)
    }
    command = ["docker", "run", "--rm", "--network=none", "--user=1000:1000", f"--volume={volume}:/env:ro", "--init"]
    command += [f"--volume={tree}:/tree:ro", "--cap-drop=ALL", "--workdir=/room/source"]
    command += [part for name, value in variables.items() for part in ("--env", f"{name}={value}")]
    script = (
        "cp -r /tree/. . && exec /env/venv/bin/python -m pip wheel --verbose --no-build-isolation --no-deps --no-index "
        "--no-cache-dir --progress-bar off --wheel-dir /room/out ."
    )
    began = time.perf_counter()
    done = subprocess.run(
        [*command, receipt["engine"]["image"], "sh", "-c", script], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"by hand it ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return seconds


def preflight(bounds: Bounds, rounds: int) -> None:
    """The host and static part for the tree of the main matrix, which is fetched before."""
    command = [sys.executable, "-m", "builders", "doctor", TARGET, "--static"]
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ, check=False)
        seconds.append(time.perf_counter() - began)
        if done.returncode not in (0, 8):
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    print(f"preflight of {TARGET}, {len(done.stdout.splitlines())} items: {min(seconds[1:]):.2f} s")
    bounds.hold("preflight, host and static part", min(seconds[1:]), MOST_PREFLIGHT, " s")


if __name__ == "__main__":
    sys.exit(main())
