"""Wheels with an extension module too many or under another name, and those whose files belong together."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.support.elf import host_elf
from tests.unit.judging_support import member, wheel

_C = {"axpy/_C": {"sm_90": ["axpy_kernel"]}}

MUTANTS = (
    Case(
        "one module by the stable ABI and by one Python's",
        lambda: wheel(more={"axpy/_host.cpython-312-x86_64-linux-gnu.so": {}}),
        "MET015",
    ),
    Case("one module by the stable ABI and by none", lambda: wheel(more={"axpy/_host.so": {}}), "MET015"),
    Case(
        "a stray of the other machine beside the right file",
        lambda: wheel(more={"axpy/_host.cpython-312-aarch64-linux-gnu.so": {}}),
        "MET016",
    ),
    Case(
        "a stray of a debug build beside the right file",
        lambda: wheel(more={"axpy/_host.cpython-312d-x86_64-linux-gnu.so": {}}),
        "MET016",
    ),
    Case(
        "a stray for free-threaded builds, which no tag names",
        lambda: wheel(more={"axpy/_host.cpython-313t-x86_64-linux-gnu.so": {}}),
        "MET016",
    ),
    Case(
        "a stray of another interpreter beside the right file",
        lambda: wheel(more={"axpy/_host.pypy311-pp73-x86_64-linux-gnu.so": {}}),
        "MET016",
    ),
    Case(
        "a file of another name than its module",
        lambda: wheel({**_C, "axpy/_host": member(defined=["PyInit_host"])}),
        "MET017",
    ),
)

NEAR_MISSES = (
    Case(
        "a library with a module in it, loaded by its path",
        lambda: wheel(files={"axpy/libops.so": host_elf(defined=["PyInit_ops"])}),
        extensions={"axpy/libops": {"code": "host"}},
    ),
    Case(
        "a file that defines its module and others",
        lambda: wheel({**_C, "axpy/_host": member(defined=["PyInit_other", "PyInit__host"])}),
    ),
    Case(
        "a module by another entry point",
        lambda: wheel({**_C, "axpy/_host": member(defined=["PyModExport__host"])}),
    ),
)
