"""Wheels with one fault that the checks LIB of run paths and of the dynamic section are for."""

from __future__ import annotations

from qualify.facts import WheelFacts
from qualify.matrix.model import Profile
from tests.mutants.case import Case
from tests.support.elf import host_elf
from tests.unit.judging_support import member, wheel

UP = Profile.UPSTREAM


def host(**options: object) -> WheelFacts:
    """The good wheel with another ``axpy/_host``."""
    return wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}, "axpy/_host": member(**options)})


def needing(*names: str) -> WheelFacts:
    """The good wheel, of which ``axpy/_host`` needs these libraries."""
    return host(needed=("libc.so.6", *names))


MUTANTS = (
    Case(
        "a library that was renamed in one of two tables",
        lambda: host(
            needed=("libc.so.6", "libother.so.13"),
            version_needs={"libother-1a2b3c4d.so.13": ["libother.so.13"]},
        ),
        "LIB010",
    ),
    Case("a run path of the build host", lambda: host(runpath="/usr/local/lib:$ORIGIN"), "LIB011"),
    Case("a run path of the build host, by DT_RPATH", lambda: host(rpath="/tmp/build/lib"), "LIB011"),
    Case(
        "a stub of the driver that is found first",
        lambda: host(runpath="/usr/local/cuda/lib64/stubs", needed=("libc.so.6", "libcuda.so.1")),
        "LIB012",
    ),
    Case("an empty entry in a run path", lambda: host(runpath="$ORIGIN:"), "LIB013"),
    Case("a relative run path", lambda: host(runpath="../axpy.libs"), "LIB013"),
    Case("a folder too many up", lambda: host(runpath="$ORIGIN/../../lib"), "LIB014"),
    Case("a file as a run path", lambda: host(runpath="$ORIGIN/../axpy.libs/libz-1a2b3c4d.so.1.3"), "LIB015"),
    Case("a library by its path", lambda: needing("/usr/local/cuda/lib64/libcudart.so.13"), "LIB016"),
    Case("an executable stack", lambda: host(executable_stack=True), "LIB017"),
    Case("no word about the stack", lambda: host(executable_stack=None), "LIB017"),
    Case("relocations in code", lambda: host(text_relocations=True), "LIB018"),
    Case("an extension that needs libpython", lambda: needing("libpython3.12.so.1.0"), "LIB019"),
)

NEAR_MISSES = (
    Case("a run path to another wheel's libraries", lambda: host(runpath="$ORIGIN/../nvidia/cu13/lib:${ORIGIN}")),
    Case("an empty run path, which loaders ignore", lambda: host(runpath="")),
    Case(
        "a run path of the build host, in someone else's wheel",
        lambda: host(runpath="/usr/local/cuda-13.0/lib64"),
        profile=UP,
    ),
    Case(
        "stubs in the run path of what needs no driver, in someone else's wheel",
        lambda: host(runpath="/usr/local/cuda/lib64/stubs"),
        profile=UP,
    ),
    Case("versions of libc, which is in every process", lambda: host(needed=())),
    Case(
        "a script that looks from its own folder",
        lambda: wheel(files={"axpy-0.1.0.data/scripts/tool": host_elf(runpath="$ORIGIN/../lib")}),
        profile=UP,
    ),
)
