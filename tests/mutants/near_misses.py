"""Wheels that look like a fault and are none."""

from __future__ import annotations

from qualify.matrix.model import Code, Profile
from tests.mutants.case import Case
from tests.mutants.making import (
    arm_host,
    for_arm,
    foreign,
    ptx_entry,
    static_library,
    stub,
    with_c,
    with_host,
    with_units,
)
from tests.support.elf import host_elf
from tests.support.fatbin import Entry
from tests.support.wheel import COMMIT, TAG
from tests.unit.judging_support import ARM_TAG, SPARK, code, member, wheel

NEAR_MISSES = (
    Case(
        "another project's static library beside host code, where that is enough",
        lambda: foreign({"other/_host": {}}, files={"other/libk.a": static_library()}),
        require=Code.HOST,
    ),
    Case("the good wheel", wheel),
    Case("a version one patch ahead with the right commit", lambda: wheel(version="0.1.1")),
    Case("a label that a target declares", lambda: wheel(version="0.1.0+orin")),
    Case("an abbreviated commit", lambda: wheel(commit=COMMIT[:10])),
    Case("another commit, of someone else", lambda: wheel(commit="g" + "f" * 40), profile=Profile.UPSTREAM),
    Case("the good wheel, judged as someone else's", wheel, profile=Profile.UPSTREAM),
    Case("the good wheel of the other machine", lambda: wheel(tag=ARM_TAG), target=SPARK),
    Case("sm_120 on 12.1", lambda: for_arm({"sm_120": ["k"]}), target=SPARK),
    Case("sm_120f on 12.1", lambda: for_arm({"sm_120f": ["k"]}), target=SPARK),
    Case(
        "a kernel native in one container, and elsewhere for another GPU",
        lambda: wheel({"axpy/_C": [{"sm_90": ["k"]}, {"sm_100": ["k"]}], "axpy/_host": {}}),
    ),
    Case("a device-link stub beside kernels", lambda: with_c(code("sm_90"), Entry("cubin", 90, stub()))),
    Case("allowed PTX beside native code", lambda: with_units({"sm_90": ["a"]}, {"compute_80": ["marlin_gemm"]})),
    Case("PTX with the kernels of the cubin beside it", lambda: with_c(code("sm_90", "a"), code("compute_80", "a"))),
    Case("code for sm_90 and sm_90a with the same kernels", lambda: with_c(code("sm_90", "a"), code("sm_90a", "a"))),
    Case("an optional member that holds nothing for the target", lambda: wheel(more={"axpy/_any": {"sm_100": ["k"]}})),
    Case("listed kernels, all native", lambda: wheel(more={"axpy/_listed": {"sm_90": ["vital_one", "vital_two"]}})),
    Case("PTX where that is enough", lambda: wheel(more={"axpy/_fast": {"compute_80": ["k"]}})),
    Case(
        "PTX that needs the promised driver",
        lambda: wheel(more={"axpy/_fast": member(ptx_entry("compute_80", (9, 0)))}),
    ),
    Case("newer PTX beside a cubin", lambda: with_c(code("sm_90", "k"), ptx_entry("compute_90", (9, 5)))),
    Case("a cubin of CUDA 12 or earlier, which leaves no note", lambda: with_c(code("sm_90", abi=7, notes=False))),
    Case("a later toolkit of the driver's major", lambda: with_c(code("sm_90", toolkit=(13, 5)))),
    Case("an executable that the matrix names", lambda: wheel(files={"axpy/tool": host_elf(elf_type="exec")})),
    Case(
        "builds side by side for several Pythons",
        lambda: wheel(
            {
                "axpy/_C.cpython-311-x86_64-linux-gnu.so": {"sm_90": ["k"]},
                "axpy/_C.cpython-312-x86_64-linux-gnu.so": {"sm_90": ["k"]},
                "axpy/_C.cpython-313-x86_64-linux-gnu.so": {"sm_90": ["k"]},
                "axpy/_host": {},
            }
        ),
    ),
    Case(
        "a library that is named like an extension, and loaded by its path",
        lambda: wheel({"axpy/_C.cpython-312-x86_64-linux-gnu.so": member(code("sm_90"), defined=()), "axpy/_host": {}}),
    ),
    Case(
        "extensions below the folder that is installed as site-packages",
        lambda: wheel(
            {
                f"axpy-0.1.0.data/platlib/axpy/{name}": {"sm_90": ["k"]} if name == "_C" else {}
                for name in ("_C", "_host")
            }
        ),
    ),
    Case(
        "weights under a path file's suffix", lambda: wheel(files={"axpy/weights/net.pth": b"PK\3\4\n/abs\n../x\n\xff"})
    ),
    Case("a glibc at the ceiling", lambda: with_host(TAG, version_needs={"libc.so.6": ["GLIBC_2.28"]})),
    Case("a glibc above the preferred one", lambda: arm_host("GLIBC_2.34"), target=SPARK),
    Case("a library's own symbol versions", lambda: with_host(version_needs={"libother.so.1": ["OTHER_9.9"]})),
    Case(
        "a tag of an older manylinux beside a newer one",
        lambda: wheel(tag="cp311-abi3-manylinux_2_39_x86_64.manylinux_2_28_x86_64"),
    ),
    Case("a tag that serves any Python", lambda: wheel(tag="py3-none-manylinux_2_28_x86_64")),
    Case("a tag per Python", lambda: wheel(tag="cp311.cp312.cp313-cp311.cp312.cp313-manylinux_2_28_x86_64")),
    Case("a path file that names a folder inside the wheel", lambda: wheel(files={"axpy.pth": "axpy/vendored\n"})),
    Case(
        "a path file that starts a hook of the wheel's own",
        lambda: wheel(files={"axpy.pth": "import axpy; axpy.patch()\n"}),
    ),
    Case(
        "a retag of the file name alone, by someone else",
        lambda: wheel(wheel="Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-abi3-linux_x86_64\n"),
        profile=Profile.UPSTREAM,
    ),
    Case(
        "an extension that nobody named, of someone else",
        lambda: wheel(more={"axpy/_stray": {}}),
        profile=Profile.UPSTREAM,
    ),
    Case(
        "another project's wheel of which one member runs",
        lambda: foreign({"other/_a": {"sm_100": ["k"]}, "other/_b": {"compute_80": ["k"]}}),
    ),
    Case(
        "another project's wheel for one Python of several",
        lambda: foreign({"other/_C": {"sm_90": ["k"]}}, tag="cp312-cp312-manylinux_2_28_x86_64"),
    ),
    Case(
        "another project's wheel without device code, where none is right",
        lambda: foreign({"other/_C": {}}),
        require=Code.HOST,
    ),
    Case("PTX where JIT is enough for this run", lambda: with_c(code("compute_80")), require=Code.JIT),
)
