"""Wheels with one fault that the checks FLO are for."""

from __future__ import annotations

from qualify.matrix.model import Code
from tests.mutants.case import Case
from tests.mutants.making import (
    LINUX,
    arm_host,
    foreign,
    with_host,
)
from tests.unit.judging_support import SPARK, code, member, wheel

MUTANTS = (
    Case("a glibc above the ceiling", lambda: with_host(version_needs={"libc.so.6": ["GLIBC_2.38"]}), "FLO001"),
    Case(
        "relative relocations under an old glibc",
        lambda: with_host(version_needs={"libc.so.6": ["GLIBC_2.4", "GLIBC_ABI_DT_RELR"]}),
        "FLO001",
    ),
    Case(
        "a libstdc++ above the ceiling",
        lambda: with_host(version_needs={"libstdc++.so.6": ["GLIBCXX_3.4.32"]}),
        "FLO002",
    ),
    Case("a glibc above the preferred one", lambda: arm_host("GLIBC_2.34"), "FLO003", SPARK),
    Case("a tag above the ceiling", lambda: wheel(tag="cp311-abi3-manylinux_2_39_x86_64"), "FLO004"),
    Case(
        "a need above the tag",
        lambda: with_host("cp311-abi3-manylinux_2_17_x86_64", version_needs={"libc.so.6": ["GLIBC_2.28"]}),
        "FLO005",
    ),
    Case("a private symbol version", lambda: with_host(version_needs={"libc.so.6": ["GLIBC_PRIVATE"]}), "FLO006"),
    Case(
        "another project's library above the ceiling",
        lambda: foreign(
            {"other/_a": {"sm_90": ["k"]}, "other/_b": member(version_needs={"libc.so.6": ["GLIBC_2.38"]})}
        ),
        "FLO007",
    ),
    Case(
        "another project's library above the ceiling, and code required of it",
        lambda: foreign({"other/_a": member(code("sm_90"), version_needs={"libc.so.6": ["GLIBC_2.38"]})}, tag=LINUX),
        "FLO001",
        require=Code.NATIVE,
    ),
)
