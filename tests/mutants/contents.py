"""Wheels with one stray or misplaced file, or of too many bytes, and those with files that may be there."""

from __future__ import annotations

import random

from qualify.facts import WheelFacts
from tests.mutants.case import Case
from tests.support.wheel import TAG
from tests.unit.judging_support import HOPPER, MATRIX, wheel

_SMALL = {"targets": {HOPPER: {**MATRIX["targets"][HOPPER], "ceilings": {"glibc": "2.28", "glibcxx": "3.4.24"}}}}
_SMALL["targets"][HOPPER]["ceilings"]["wheel_size"] = 1


def _stating(*lines: str) -> WheelFacts:
    """The good wheel with other lines in WHEEL."""
    return wheel(wheel="\n".join(["Wheel-Version: 1.0", "Generator: maker (1)", *lines, f"Tag: {TAG}", "", ""]))


def _holding(*paths: str) -> WheelFacts:
    return wheel(files=dict.fromkeys(paths, ""))


def _weighing(size: int) -> WheelFacts:
    return wheel(files={"axpy/weights.bin": random.Random(1).randbytes(size)})


MUTANTS = (
    Case("binaries in a wheel that says it has none", lambda: _stating("Root-Is-Purelib: true"), "MET010"),
    Case("a Root-Is-Purelib that is neither yes nor no", lambda: _stating("Root-Is-Purelib: maybe"), "MET010"),
    Case("a WHEEL that says nothing of binaries", lambda: _stating(), "MET010"),
    Case("a scheme that nobody knows", lambda: _holding("axpy-0.1.0.data/share/axpy.txt"), "MET011"),
    Case("a file in no scheme", lambda: _holding("axpy-0.1.0.data/axpy.txt"), "MET011"),
    Case("a folder with weights that is named like one of schemes", lambda: _holding("weights.data/net.bin"), "MET011"),
    Case("schemes of another version", lambda: _holding("axpy-0.1.1.data/data/share/axpy.txt"), "MET012"),
    Case("tests beside the package", lambda: _holding("tests/__init__.py"), "MET013"),
    Case("the project's own set-up beside the package", lambda: _holding("setup.py"), "MET013"),
    Case(
        "a package of its own below platlib that many have",
        lambda: _holding("axpy-0.1.0.data/platlib/build/a.py"),
        "MET013",
    ),
    Case("byte code of the building interpreter", lambda: _holding("axpy/__pycache__/a.cpython-312.pyc"), "MET014"),
    Case("a build's cache", lambda: _holding("axpy/CMakeFiles/a.make", "axpy/CMakeCache.txt"), "MET014"),
    Case("an object file that is none", lambda: _holding("axpy/csrc/a.cu.o"), "MET014"),
    Case("a checkout", lambda: _holding("axpy/third_party/cutlass/.git/HEAD"), "MET014"),
    Case("a file above the ceiling", lambda: _weighing(1 << 20), "MET018", matrix=_SMALL),
)

NEAR_MISSES = (
    Case(
        "headers, data and scripts in their schemes",
        lambda: _holding("axpy-0.1.0.data/headers/axpy.h", "axpy-0.1.0.data/data/share/axpy.txt"),
    ),
    Case(
        "tests, sources and what keeps a folder, inside the package",
        lambda: _holding("axpy/tests/__init__.py", "axpy/src/axpy.cu", "axpy/build/__init__.py", "axpy/.gitkeep"),
    ),
    Case("names that only begin like leftovers", lambda: _holding("axpy/core.py", "axpy/a.origin", "axpy/.gitignore")),
    Case("a file below the ceiling", lambda: _weighing(1 << 19), matrix=_SMALL),
)
