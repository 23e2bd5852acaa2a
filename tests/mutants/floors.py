"""Wheels with one fault that the checks FLO are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qualify.facts import WheelFacts
from qualify.matrix.model import Code, Profile
from tests.mutants.case import Case
from tests.mutants.making import (
    LINUX,
    arm_host,
    foreign,
    with_host,
)
from tests.unit.judging_support import SPARK, code, member, wheel

Needs = Mapping[str, Sequence[str]]

TAG_2_17 = "cp311-abi3-manylinux_2_17_x86_64"
TAG_2_28 = "cp311-abi3-manylinux_2_28_x86_64"
SET = "cp311-abi3-manylinux_2_28_x86_64.manylinux2010_x86_64"
FUTURE = "cp311-abi3-manylinux_2_99_x86_64.linux_x86_64"
MUSL = "cp311-abi3-manylinux_2_28_x86_64.musllinux_1_2_x86_64"
OLD: Needs = {"libc.so.6": ["GLIBC_2.5"]}
ZLIB: Needs = {**OLD, "libz.so.1": ["ZLIB_1.2.9"]}


def needing(needs: Needs, tag: str, **options: object) -> WheelFacts:
    """The good wheel under another tag, of which ``axpy/_host`` alone needs these versions, and the rest glibc 2.5."""
    kernels = member(code("sm_90"), version_needs=OLD)
    return wheel({"axpy/_C": kernels, "axpy/_host": member(version_needs=needs, **options)}, tag=tag)


def of_another(needs: Needs, tag: str) -> WheelFacts:
    """A wheel of a project that the matrix does not name, of which ``other/_b`` needs these versions."""
    kernels = member(code("sm_90"), version_needs=OLD)
    return wheel({"other/_a": kernels, "other/_b": member(version_needs=needs)}, name="other", tag=tag)


def on_spark(needs: Needs, tag: str) -> WheelFacts:
    """The good wheel for a target of which no ceiling of libgcc or of the C++ runtime is asked."""
    machine = "aarch64"
    kernels = member(code("sm_120"), machine=machine)
    return wheel({"axpy/_C": kernels, "axpy/_host": member(machine=machine, version_needs=needs)}, tag=tag)


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
    Case("a C++ runtime above the ceiling", lambda: needing({"libstdc++.so.6": ["CXXABI_1.3.13"]}, LINUX), "FLO008"),
    Case("a libgcc above the ceiling", lambda: needing({"libgcc_s.so.1": ["GCC_12.0.0"]}, LINUX), "FLO009"),
    Case(
        "a C++ runtime above the tag, under an old glibc",
        lambda: needing({**OLD, "libstdc++.so.6": ["CXXABI_1.3.9"]}, TAG_2_17),
        "FLO005",
    ),
    Case("a libstdc++ above the tag", lambda: needing({"libstdc++.so.6": ["GLIBCXX_3.4.21"]}, TAG_2_17), "FLO005"),
    Case("a libgcc above the tag", lambda: needing({"libgcc_s.so.1": ["GCC_7.0.0"]}, TAG_2_17), "FLO005"),
    Case("a zlib above the tag", lambda: needing(ZLIB, TAG_2_17), "FLO005"),
    Case("a set of tags whose oldest is not true", lambda: needing({"libc.so.6": ["GLIBC_2.17"]}, SET), "FLO005"),
    Case(
        "a tag newer than any policy, over a C++ runtime that none of them knows",
        lambda: on_spark({"libstdc++.so.6": ["CXXABI_1.3.99"]}, FUTURE.replace("x86_64", "aarch64")),
        "FLO006",
        SPARK,
    ),
    Case(
        "a C++ runtime's version that is a name nobody knows",
        lambda: needing({"libstdc++.so.6": ["CXXABI_NEW_1"]}, LINUX),
        "FLO006",
    ),
    Case(
        "another project's library above its tag",
        lambda: of_another({"libc.so.6": ["GLIBC_2.28"]}, TAG_2_17),
        "FLO010",
        profile=Profile.UPSTREAM,
    ),
    Case("a tag higher than needed", lambda: needing({"libc.so.6": ["GLIBC_2.17"]}, TAG_2_28), "FLO011"),
    Case("a tag of Linux where one of manylinux is true", lambda: needing(OLD, LINUX), "FLO011"),
    Case("a symbol internal to zlib", lambda: needing(ZLIB, TAG_2_28, undefined=["_tr_init@ZLIB_1.2.9"]), "FLO012"),
    Case("a tag of musl beside one of glibc", lambda: wheel(tag=MUSL), "FLO013"),
)

NEAR_MISSES = (
    Case("a C++ runtime at the ceiling", lambda: needing({"libstdc++.so.6": ["CXXABI_1.3.11"]}, LINUX)),
    Case("a libgcc at the ceiling, with a zero more", lambda: needing({"libgcc_s.so.1": ["GCC_7.0"]}, LINUX)),
    Case(
        "what a tag promises of every library",
        lambda: needing(
            {
                "libc.so.6": ["GLIBC_2.17"],
                "libstdc++.so.6": ["GLIBCXX_3.4.19", "CXXABI_1.3.7", "CXXABI_TM_1"],
                "libgcc_s.so.1": ["GCC_4.8.0"],
            },
            TAG_2_17,
        ),
    ),
    Case(
        "a set of tags whose oldest is true, by its older name",
        lambda: needing({"libc.so.6": ["GLIBC_2.17"]}, f"{TAG_2_28}.manylinux2014_x86_64"),
    ),
    Case(
        "a glibc without a policy of its own, which its number allows",
        lambda: needing({"libc.so.6": ["GLIBC_2.18"]}, "cp311-abi3-manylinux_2_23_x86_64"),
    ),
    Case(
        "a version of the family's name, of a library that is not the host's",
        lambda: needing({**OLD, "libother.so.6": ["GLIBCXX_3.4.33"]}, TAG_2_17),
    ),
    Case("a public symbol of zlib", lambda: needing(ZLIB, TAG_2_28, undefined=["deflate@ZLIB_1.2.9"])),
    Case("an internal symbol of zlib, weak", lambda: needing(ZLIB, TAG_2_28, weak=["_tr_init@ZLIB_1.2.9"])),
)
