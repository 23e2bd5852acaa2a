"""Wheels with one fault that the checks DEV are for."""

from __future__ import annotations

from qualify.matrix.model import Code
from tests.mutants.case import Case
from tests.mutants.making import (
    for_arm,
    foreign,
    gap,
    one_fatbin,
    ptx_entry,
    static_library,
    stub,
    with_c,
    with_host,
    with_units,
)
from tests.support.fatbin import Entry
from tests.support.wheel import TAG
from tests.unit.judging_support import ADA, ARM_TAG, ORIN, SPARK, code, member, wheel

MUTANTS = (
    Case("code for another GPU alone", lambda: with_c(code("sm_100")), "DEV001"),
    Case("an extension without device code", lambda: with_c(), "DEV001"),
    Case(
        "a device-link stub and nothing else",
        lambda: with_c(Entry("cubin", 90, stub())),
        "DEV001",
    ),
    Case("a kernel for 9.0a on Blackwell", lambda: for_arm({"sm_90a": ["k"], "compute_90a": ["k"]}), "DEV001", SPARK),
    Case("sm_120a on 12.1", lambda: for_arm({"sm_120a": ["k"]}), "DEV001", SPARK),
    Case("sm_86 on Orin", lambda: for_arm({"sm_86": ["k"]}), "DEV001", ORIN),
    Case("PTX alone where native code is asked for", lambda: with_c(code("compute_80")), "DEV002"),
    Case("one kernel of two as PTX", lambda: with_units({"sm_90": ["a"]}, {"compute_80": ["a", "b"]}), "DEV002"),
    Case("nothing native, and all PTX allowed", lambda: with_c(code("compute_80", "marlin_gemm")), "DEV002"),
    Case(
        "allowed PTX, and native code required for this run",
        lambda: with_units({"sm_90": ["a"]}, {"compute_80": ["marlin_gemm"]}),
        "DEV002",
        require=Code.NATIVE,
    ),
    Case(
        "a listed kernel for another GPU",
        lambda: wheel(more={"axpy/_listed": {"sm_90": ["other"], "sm_100": ["vital_one"]}}),
        "DEV003",
    ),
    Case(
        "a listed kernel that one container of two holds for another GPU",
        lambda: wheel(more={"axpy/_listed": [{"sm_90": ["vital_one"]}, {"sm_100": ["vital_one"]}]}),
        "DEV003",
    ),
    Case("a listed kernel that is lost", lambda: wheel(more={"axpy/_listed": {"sm_90": ["other"]}}), "DEV003"),
    Case("code whose rule nobody knows", lambda: for_arm({"sm_88": ["k"]}), "DEV004", ADA),
    Case("a gap in one container", lambda: gap(), "DEV005"),
    Case("PTX alone where that is enough", lambda: wheel(more={"axpy/_fast": {"compute_80": ["k"]}}), "DEV006"),
    Case(
        "allowed PTX beside native code",
        lambda: with_units({"sm_90": ["a"]}, {"compute_80": ["marlin_gemm"]}),
        "DEV007",
    ),
    Case(
        "a kernel as PTX beside a cubin without it, which is what the driver loads",
        lambda: with_c(code("sm_90", "a"), code("compute_80", "a", "b")),
        "DEV014",
    ),
    Case(
        "an empty cubin for the target beside PTX with every kernel",
        lambda: with_c(Entry("cubin", 90, stub()), code("compute_80", "marlin_gemm")),
        "DEV014",
    ),
    Case(
        "a kernel for sm_90 beside code for sm_90a without it",
        lambda: with_c(code("sm_90", "a", "b"), code("sm_90a", "a")),
        "DEV014",
    ),
    Case(
        "LTO-IR and nothing else",
        lambda: with_c(Entry("lto-ir", 90, b"\xb3\x8f\x6d\x6c" + bytes(60))),
        "DEV001",
    ),
    Case(
        "another project's LTO-IR",
        lambda: foreign({"other/_C": member(Entry("lto-ir", 90, b"\xb3\x8f\x6d\x6c" + bytes(60)))}),
        "DEV011",
    ),
    Case(
        "PTX newer than the driver, where nothing is asked",
        lambda: wheel(more={"axpy/_any": member(ptx_entry("compute_80", (9, 3)))}),
        "DEV008",
    ),
    Case(
        "another project's PTX, newer than the driver",
        lambda: foreign({"other/_C": member(ptx_entry("compute_80", (9, 3)))}),
        "DEV010",
    ),
    Case("nothing where nothing is asked", lambda: wheel(more={"axpy/_any": {"sm_100": ["k"]}}), "DEV008"),
    Case("kernels in host code", lambda: with_host(TAG, sections={".nv_fatbin": one_fatbin("sm_90")}), "DEV009"),
    Case(
        "another project's wheel where nothing runs",
        lambda: foreign({"other/_C": {"sm_100": ["k"]}}),
        "DEV010",
    ),
    Case("another project's wheel without device code", lambda: foreign({"other/_C": {}}), "DEV011"),
    Case(
        "another project's wheel where something might run",
        lambda: foreign({"other/_C": {"sm_88": ["k"]}}, tag=ARM_TAG),
        "DEV012",
        ADA,
    ),
    Case(
        "another project's wheel of which only what doesn't load would run",
        lambda: foreign({"other/_a": member(code("sm_90"), version_needs={"libc.so.6": ["GLIBC_2.38"]})}),
        "DEV010",
    ),
    Case(
        "another project's static library, which nobody loads",
        lambda: foreign({"other/_host": {}}, files={"other/libk.a": static_library()}),
        "DEV010",
    ),
    Case(
        "another project's code for other GPUs alone, where host code is enough",
        lambda: foreign({"other/_C": {"sm_100": ["k"]}}),
        "DEV010",
        require=Code.HOST,
    ),
    Case(
        "another project's static library, where code is required",
        lambda: foreign({"other/_host": {}}, files={"other/libk.a": static_library()}),
        "DEV010",
        require=Code.NATIVE,
    ),
    Case(
        "another project's code in a file of another machine's name",
        lambda: foreign({"other/_C.cpython-312-aarch64-linux-gnu.so": {"sm_90": ["k"]}, "other/_host": {}}),
        "DEV010",
    ),
)
