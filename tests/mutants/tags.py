"""Wheels with one fault that the checks TAG are for."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.unit.judging_support import ARM_TAG, wheel

MUTANTS = (
    Case(
        "the other machine's wheel",
        lambda: wheel({"axpy/_C": {"sm_90": ["k"]}, "axpy/_host": {}}, tag=ARM_TAG),
        "TAG001",
    ),
    Case("a wheel for musl", lambda: wheel(tag="cp311-abi3-musllinux_1_2_x86_64"), "TAG001"),
    Case("binaries under the tag any", lambda: wheel(tag="py3-none-any"), "TAG002"),
)
