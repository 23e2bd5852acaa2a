"""Wheels with one fault that the checks ARC are for."""

from __future__ import annotations

from qualify.facts import ProblemKind
from tests.mutants.case import Case
from tests.mutants.making import (
    TEXT,
    unlinked,
    with_c,
    with_problem,
)
from tests.support.fatbin import Entry
from tests.support.wheel import replaced, wheel_members
from tests.unit.judging_support import archive, code

MUTANTS = (
    Case("a CRC that is not the bytes'", lambda: archive(replaced(wheel_members(), TEXT, crc=1)), "ARC001"),
    Case(
        "a fat binary entry of a kind that nobody knows",
        lambda: with_c(code("sm_90"), Entry(64, 90, b"\1" * 32)),
        "ARC002",
    ),
    Case("a decompressor that this host lacks", lambda: with_problem(ProblemKind.ENVIRONMENT), "ARC003"),
    Case("relocatable code that was never linked", unlinked, "ARC001"),
)
