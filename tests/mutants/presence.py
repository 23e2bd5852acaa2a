"""Wheels with one fault that the checks PRE are for."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.support.elf import host_elf
from tests.unit.judging_support import wheel

MUTANTS = (
    Case("an empty shell", lambda: wheel({}), "PRE001"),
    Case(
        "an empty shell with an executable",
        lambda: wheel({}, files={"axpy/tool": host_elf(elf_type="exec", interpreter="/lib64/ld-linux-x86-64.so.2")}),
        "PRE001",
    ),
    Case("a required extension left out", lambda: wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}}), "PRE002"),
    Case("an extension that nobody named", lambda: wheel(more={"axpy/_stray": {}}), "PRE003"),
)
