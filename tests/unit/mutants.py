"""Wheels that are one fault away from a good one, each for one check; and near misses that are no fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qualify.facts import Problem, ProblemKind, WheelFacts
from qualify.matrix.model import Code, Profile
from tests.support.elf import host_elf
from tests.support.fatbin import Entry, containers, fatbin, ptx
from tests.support.wheel import COMMIT, TAG, ZipMember, record_hash, replaced, wheel_filename, wheel_members
from tests.unit.judging_support import ADA, ARM_TAG, HOPPER, ORIN, SPARK, archive, code, member, wheel

LINUX = "cp311-abi3-linux_x86_64"


@dataclass(frozen=True)
class Case:
    """One wheel, and what it is judged by."""

    name: str
    make: Callable[[], WheelFacts]
    code: str = ""  # the check that has to speak; "" for a near miss
    target: str = HOPPER
    profile: Profile = Profile.RELEASE
    require: Code | None = None
    extensions: Mapping[str, object] = field(default_factory=dict)


def _record(change: Callable[[str], str], **options: object) -> WheelFacts:
    """The good wheel with its RECORD text changed."""
    members = wheel_members(**options)  # type: ignore[arg-type]
    text = members[-1].data.decode()
    return archive(replaced(members, members[-1].name, data=change(text).encode()))


def _renamed_info(folder: str) -> WheelFacts:
    """The good wheel with another dist-info folder, RECORD included."""
    old = "axpy-0.1.0.dist-info"
    members = []
    for each in wheel_members():
        data = each.data.replace(old.encode(), folder.encode()) if each.name.endswith("RECORD") else each.data
        members.append(ZipMember(each.name.replace(old, folder), data))
    return archive(members)


def _with_problem(kind: ProblemKind) -> WheelFacts:
    problem = Problem(kind, "axpy/_C.abi3.so", ".nv_fatbin+0x0", "zstd is not installed")
    return dataclasses.replace(wheel(), problems=(problem,))


def _c(*entries: Entry, **options: object) -> WheelFacts:
    """The good wheel with another ``axpy/_C``."""
    return wheel({"axpy/_C": member(*entries, **options), "axpy/_host": {}})


def _arm(code_of_c: Mapping[str, list[str]]) -> WheelFacts:
    return wheel({"axpy/_C": code_of_c, "axpy/_host": {}}, tag=ARM_TAG)


def _host(tag: str = LINUX, **options: object) -> WheelFacts:
    """The good wheel with another ``axpy/_host``."""
    return wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}, "axpy/_host": member(**options)}, tag=tag)


def _other(extensions: Mapping[str, object], **options: object) -> WheelFacts:
    """A wheel of a project that the matrix does not name."""
    return wheel(extensions, name="other", **options)  # type: ignore[arg-type]


def _metadata(*lines: str) -> str:
    return "\n".join(["Metadata-Version: 2.1", *lines, "", ""])


def _unlinked() -> WheelFacts:
    symbol = "__cudaRegisterLinkedBinary_0ae0b001_4_k_cu_0d5514b8"
    sections = {"__nv_relfatbin": containers(fatbin(code("sm_90")))}
    return wheel({"axpy/_C": member(sections=sections, undefined=[symbol]), "axpy/_host": {}})


_GOOD: Mapping[str, object] = {"axpy/_C": {"sm_90": ["axpy_kernel"]}}
_TEXT = wheel_members()[0].name

MUTANTS = (
    Case("a CRC that is not the bytes'", lambda: archive(replaced(wheel_members(), _TEXT, crc=1)), "ARC001"),
    Case(
        "a fat binary entry of a kind that nobody knows",
        lambda: _c(code("sm_90"), Entry(64, 90, b"\1" * 32)),
        "ARC002",
    ),
    Case("a decompressor that this host lacks", lambda: _with_problem(ProblemKind.ENVIRONMENT), "ARC003"),
    Case("an editable install's finder", lambda: wheel(files={"__editable___axpy_finder.py": "x = 1\n"}), "EDI001"),
    Case("a path to a source tree", lambda: wheel(files={"axpy.pth": "/home/me/src/axpy\n"}), "EDI002"),
    Case(
        "the hook of another backend's editable install",
        lambda: wheel(files={"axpy-editable.pth": "import _axpy_editable_loader\n", "_axpy_editable_loader.py": ""}),
        "EDI002",
    ),
    Case("no WHEEL", lambda: wheel(omit=["axpy-0.1.0.dist-info/WHEEL"]), "NAM001"),
    Case("another name in METADATA", lambda: wheel(metadata=_metadata("Name: axpi", "Version: 0.1.0")), "NAM002"),
    Case("another version in METADATA", lambda: wheel(metadata=_metadata("Name: axpy", "Version: 0.1.1")), "NAM003"),
    Case(
        "a local version in the file name alone",
        lambda: archive(wheel_members(), wheel_filename(version="0.1.0+cu130")),
        "NAM003",
        profile=Profile.UPSTREAM,
    ),
    Case(
        "a retag of the file name alone",
        lambda: wheel(wheel="Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: cp311-abi3-linux_x86_64\n"),
        "NAM004",
    ),
    Case("a dist-info folder of another version", lambda: _renamed_info("axpy-0.1.1.dist-info"), "NAM005"),
    Case(
        "a wheel format that no installer knows",
        lambda: wheel(wheel=f"Wheel-Version: 2.0\nRoot-Is-Purelib: false\nTag: {TAG}\n"),
        "NAM006",
    ),
    Case("no RECORD", lambda: wheel(omit=["axpy-0.1.0.dist-info/RECORD"]), "REC001"),
    Case(
        "a file changed after packing",
        lambda: archive(replaced(wheel_members(), _TEXT, data=b"changed = True\n")),
        "REC002",
    ),
    Case("a stray file", lambda: archive([*wheel_members(), ZipMember("axpy/stray.txt", b"stray")]), "REC003"),
    Case("a file taken out", lambda: archive([m for m in wheel_members() if m.name != _TEXT]), "REC004"),
    Case(
        "a row without a hash",
        lambda: _record(lambda t: t.replace(f"{_TEXT},{record_hash(b'')},", f"{_TEXT},,")),
        "REC005",
    ),
    Case(
        "a row with md5", lambda: _record(lambda t: t.replace(record_hash(b""), "md5=1B2M2Y8AsgTpgAmY7PhCfg")), "REC005"
    ),
    Case(
        "a row with sha512",
        lambda: _record(lambda t: t.replace(record_hash(b""), "sha512=z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg")),
        "REC006",
    ),
    Case(
        "the other machine's wheel",
        lambda: wheel({"axpy/_C": {"sm_90": ["k"]}, "axpy/_host": {}}, tag=ARM_TAG),
        "TAG001",
    ),
    Case("a wheel for musl", lambda: wheel(tag="cp311-abi3-musllinux_1_2_x86_64"), "TAG001"),
    Case("binaries under the tag any", lambda: wheel(tag="py3-none-any"), "TAG002"),
    Case("a binary of the other machine", lambda: _host(TAG, machine="aarch64"), "ELF001"),
    Case("an empty shell", lambda: wheel({}), "PRE001"),
    Case(
        "an empty shell with an executable",
        lambda: wheel({}, files={"axpy/tool": host_elf(elf_type="exec", interpreter="/lib64/ld-linux-x86-64.so.2")}),
        "PRE001",
    ),
    Case("a required extension left out", lambda: wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}}), "PRE002"),
    Case("an extension that nobody named", lambda: wheel(more={"axpy/_stray": {}}), "PRE003"),
    Case("code for another GPU alone", lambda: _c(code("sm_100")), "DEV001"),
    Case("an extension without device code", lambda: _c(), "DEV001"),
    Case(
        "a device-link stub and nothing else",
        lambda: _c(Entry("cubin", 90, _stub())),
        "DEV001",
    ),
    Case("a kernel for 9.0a on Blackwell", lambda: _arm({"sm_90a": ["k"], "compute_90a": ["k"]}), "DEV001", SPARK),
    Case("sm_120a on 12.1", lambda: _arm({"sm_120a": ["k"]}), "DEV001", SPARK),
    Case("sm_86 on Orin", lambda: _arm({"sm_86": ["k"]}), "DEV001", ORIN),
    Case("PTX alone where native code is asked for", lambda: _c(code("compute_80")), "DEV002"),
    Case("one kernel of two as PTX", lambda: _c(code("sm_90", "a"), code("compute_80", "a", "b")), "DEV002"),
    Case("nothing native, and all PTX allowed", lambda: _c(code("compute_80", "marlin_gemm")), "DEV002"),
    Case(
        "allowed PTX, and native code required for this run",
        lambda: _c(code("sm_90", "a"), code("compute_80", "marlin_gemm")),
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
    Case("code whose rule nobody knows", lambda: _arm({"sm_88": ["k"]}), "DEV004", ADA),
    Case("a gap in one container", lambda: _gap(), "DEV005"),
    Case("PTX alone where that is enough", lambda: wheel(more={"axpy/_fast": {"compute_80": ["k"]}}), "DEV006"),
    Case("allowed PTX beside native code", lambda: _c(code("sm_90", "a"), code("compute_80", "marlin_gemm")), "DEV007"),
    Case("nothing where nothing is asked", lambda: wheel(more={"axpy/_any": {"sm_100": ["k"]}}), "DEV008"),
    Case("kernels in host code", lambda: _host(TAG, sections={".nv_fatbin": _fatbin("sm_90")}), "DEV009"),
    Case("another project's wheel where nothing runs", lambda: _other({"other/_C": {"sm_100": ["k"]}}), "DEV010"),
    Case("another project's wheel without device code", lambda: _other({"other/_C": {}}), "DEV011"),
    Case(
        "another project's wheel where something might run",
        lambda: _other({"other/_C": {"sm_88": ["k"]}}, tag=ARM_TAG),
        "DEV012",
        ADA,
    ),
    Case("a cubin of a newer toolkit's major", lambda: _c(code("sm_90", toolkit=(14, 0))), "DRV001"),
    Case("PTX newer than the driver", lambda: wheel(more={"axpy/_fast": member(_ptx("compute_80", (9, 3)))}), "DRV001"),
    Case("a cubin without its toolkit's note", lambda: _c(code("sm_90", notes=False)), "DRV002"),
    Case("a glibc above the ceiling", lambda: _host(version_needs={"libc.so.6": ["GLIBC_2.38"]}), "FLO001"),
    Case(
        "relative relocations under an old glibc",
        lambda: _host(version_needs={"libc.so.6": ["GLIBC_2.4", "GLIBC_ABI_DT_RELR"]}),
        "FLO001",
    ),
    Case(
        "a libstdc++ above the ceiling", lambda: _host(version_needs={"libstdc++.so.6": ["GLIBCXX_3.4.32"]}), "FLO002"
    ),
    Case("a glibc above the preferred one", lambda: _arm_host("GLIBC_2.34"), "FLO003", SPARK),
    Case("a tag above the ceiling", lambda: wheel(tag="cp311-abi3-manylinux_2_39_x86_64"), "FLO004"),
    Case(
        "a need above the tag",
        lambda: _host("cp311-abi3-manylinux_2_17_x86_64", version_needs={"libc.so.6": ["GLIBC_2.28"]}),
        "FLO005",
    ),
    Case("a private symbol version", lambda: _host(version_needs={"libc.so.6": ["GLIBC_PRIVATE"]}), "FLO006"),
    Case(
        "another project's library above the ceiling",
        lambda: _other({"other/_a": {"sm_90": ["k"]}, "other/_b": member(version_needs={"libc.so.6": ["GLIBC_2.38"]})}),
        "FLO007",
    ),
    Case(
        "another project's wheel of which only what doesn't load would run",
        lambda: _other({"other/_a": member(code("sm_90"), version_needs={"libc.so.6": ["GLIBC_2.38"]})}),
        "DEV010",
    ),
    Case(
        "another project's static library, which nobody loads",
        lambda: _other({"other/_host": {}}, files={"other/libk.a": _static_library()}),
        "DEV010",
    ),
    Case(
        "another project's library above the ceiling, and code required of it",
        lambda: _other({"other/_a": member(code("sm_90"), version_needs={"libc.so.6": ["GLIBC_2.38"]})}, tag=LINUX),
        "FLO001",
        require=Code.NATIVE,
    ),
    Case(
        "another project's code for other GPUs alone, where host code is enough",
        lambda: _other({"other/_C": {"sm_100": ["k"]}}),
        "DEV010",
        require=Code.HOST,
    ),
    Case(
        "another project's static library, where code is required",
        lambda: _other({"other/_host": {}}, files={"other/libk.a": _static_library()}),
        "DEV010",
        require=Code.NATIVE,
    ),
    Case(
        "another project's code in a file of another machine's name",
        lambda: _other({"other/_C.cpython-312-aarch64-linux-gnu.so": {"sm_90": ["k"]}, "other/_host": {}}),
        "DEV010",
    ),
    Case(
        "an extension for some of the target's Pythons",
        lambda: wheel(
            {
                "axpy/_C.cpython-311-x86_64-linux-gnu.so": {"sm_90": ["k"]},
                "axpy/_C.cpython-312-x86_64-linux-gnu.so": {"sm_90": ["k"]},
                "axpy/_host": {},
            }
        ),
        "PYT003",
    ),
    Case(
        "an extension that a cross build named after its own machine",
        lambda: wheel({**_GOOD, "axpy/_host.cpython-312-aarch64-linux-gnu.so": {}}),
        "PYT003",
    ),
    Case(
        "another project's extension for another interpreter",
        lambda: _other({"other/_C.pypy310-pp73-x86_64-linux-gnu.so": {}}),
        "PYT003",
        require=Code.HOST,
    ),
    Case("relocatable code that was never linked", _unlinked, "ARC001"),
    Case("a tag for one Python", lambda: wheel(tag="cp312-cp312-manylinux_2_28_x86_64"), "PYT001"),
    Case(
        "a Requires-Python that leaves one out",
        lambda: wheel(metadata=_metadata("Name: axpy", "Version: 0.1.0", "Requires-Python: >=3.12")),
        "PYT002",
    ),
    Case(
        "a Requires-Python that is none",
        lambda: wheel(metadata=_metadata("Name: axpy", "Version: 0.1.0", "Requires-Python: three")),
        "PYT002",
    ),
    Case("another commit", lambda: wheel(commit="g" + "f" * 40), "IDN001"),
    Case("no commit", lambda: wheel(commit=None), "IDN002"),
    Case("no commit, and another version", lambda: wheel(version="0.2.0", commit=None), "IDN003"),
    Case("the pinned commit under another version", lambda: wheel(version="0.1.1"), "IDN004"),
    Case("foreign binaries, by its own word", lambda: wheel(version="0.1.0+precompiled"), "IDN005"),
    Case("a changed tree", lambda: wheel(version="0.1.0+d20260904"), "IDN006"),
    Case("a mark that nothing explains", lambda: wheel(version="0.1.0+thor"), "IDN007"),
)


def _stub() -> bytes:
    from tests.support.cubin import cubin

    return cubin(90, ())


def _fatbin(architecture: str) -> bytes:
    from tests.support.fatbin import fatbin

    return fatbin(code(architecture))


def _ptx(architecture: str, isa: tuple[int, int]) -> Entry:
    return dataclasses.replace(code(architecture), payload=ptx(architecture, ("k",), isa), isa=isa)


def _static_library() -> bytes:
    """An ar archive with one object file that holds a kernel."""
    data = member(code("sm_90"), elf_type="rel")
    header = f"{'k.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n"
    return b"!<arch>\n" + header.encode() + data + b"\n" * (len(data) % 2)


def _gap() -> WheelFacts:
    return wheel({"axpy/_C": [{"sm_90": ["a"]}, {"sm_100": ["b"]}], "axpy/_host": {}})


def _arm_host(need: str) -> WheelFacts:
    binary = member(machine="aarch64", version_needs={"libc.so.6": [need]})
    tag = "cp311-abi3-manylinux_2_39_aarch64"
    return wheel({"axpy/_C": {"sm_120": ["k"]}, "axpy/_host": binary}, tag=tag)


NEAR_MISSES = (
    Case("the good wheel", wheel),
    Case("a version one patch ahead with the right commit", lambda: wheel(version="0.1.1")),
    Case("a label that a target declares", lambda: wheel(version="0.1.0+orin")),
    Case("an abbreviated commit", lambda: wheel(commit=COMMIT[:10])),
    Case("another commit, of someone else", lambda: wheel(commit="g" + "f" * 40), profile=Profile.UPSTREAM),
    Case("the good wheel, judged as someone else's", wheel, profile=Profile.UPSTREAM),
    Case("the good wheel of the other machine", lambda: wheel(tag=ARM_TAG), target=SPARK),
    Case("sm_120 on 12.1", lambda: _arm({"sm_120": ["k"]}), target=SPARK),
    Case("sm_120f on 12.1", lambda: _arm({"sm_120f": ["k"]}), target=SPARK),
    Case(
        "a kernel native in one container, and elsewhere for another GPU",
        lambda: wheel({"axpy/_C": [{"sm_90": ["k"]}, {"sm_100": ["k"]}], "axpy/_host": {}}),
    ),
    Case("a device-link stub beside kernels", lambda: _c(code("sm_90"), Entry("cubin", 90, _stub()))),
    Case("allowed PTX beside native code", lambda: _c(code("sm_90", "a"), code("compute_80", "marlin_gemm"))),
    Case("an optional member that holds nothing for the target", lambda: wheel(more={"axpy/_any": {"sm_100": ["k"]}})),
    Case("listed kernels, all native", lambda: wheel(more={"axpy/_listed": {"sm_90": ["vital_one", "vital_two"]}})),
    Case("PTX where that is enough", lambda: wheel(more={"axpy/_fast": {"compute_80": ["k"]}})),
    Case("PTX that needs the promised driver", lambda: wheel(more={"axpy/_fast": member(_ptx("compute_80", (9, 0)))})),
    Case("newer PTX beside a cubin", lambda: _c(code("sm_90", "k"), _ptx("compute_90", (9, 5)))),
    Case("a cubin of CUDA 12 or earlier, which leaves no note", lambda: _c(code("sm_90", abi=7, notes=False))),
    Case("a later toolkit of the driver's major", lambda: _c(code("sm_90", toolkit=(13, 5)))),
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
    Case("a glibc at the ceiling", lambda: _host(TAG, version_needs={"libc.so.6": ["GLIBC_2.28"]})),
    Case("a glibc above the preferred one", lambda: _arm_host("GLIBC_2.34"), target=SPARK),
    Case("a library's own symbol versions", lambda: _host(version_needs={"libother.so.1": ["OTHER_9.9"]})),
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
        lambda: _other({"other/_a": {"sm_100": ["k"]}, "other/_b": {"compute_80": ["k"]}}),
    ),
    Case(
        "another project's wheel for one Python of several",
        lambda: _other({"other/_C": {"sm_90": ["k"]}}, tag="cp312-cp312-manylinux_2_28_x86_64"),
    ),
    Case(
        "another project's wheel without device code, where none is right",
        lambda: _other({"other/_C": {}}),
        require=Code.HOST,
    ),
    Case("PTX where JIT is enough for this run", lambda: _c(code("compute_80")), require=Code.JIT),
)

__all__ = ["COMMIT", "MUTANTS", "NEAR_MISSES", "Case"]
