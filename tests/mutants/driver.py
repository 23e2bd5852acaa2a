"""Wheels with one fault that the checks DRV are for."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.mutants.making import (
    ptx_entry,
    with_c,
)
from tests.unit.judging_support import code, member, wheel

MUTANTS = (
    Case("a cubin of a newer toolkit's major", lambda: with_c(code("sm_90", toolkit=(14, 0))), "DRV001"),
    Case(
        "PTX newer than the driver",
        lambda: wheel(more={"axpy/_fast": member(ptx_entry("compute_80", (9, 3)))}),
        "DRV001",
    ),
    Case("a cubin without its toolkit's note", lambda: with_c(code("sm_90", notes=False)), "DRV002"),
)
