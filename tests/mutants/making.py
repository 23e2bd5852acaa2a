"""The good wheel with one thing changed: what the cases of several families are made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from qualify.facts import Problem, ProblemKind, WheelFacts
from tests.support.fatbin import Entry, containers, fatbin, ptx
from tests.support.wheel import ZipMember, replaced, wheel_members
from tests.unit.judging_support import ARM_TAG, archive, code, member, wheel

LINUX = "cp311-abi3-linux_x86_64"
GOOD: Mapping[str, object] = {"axpy/_C": {"sm_90": ["axpy_kernel"]}}
TEXT = wheel_members()[0].name


def with_record(change: Callable[[str], str], **options: object) -> WheelFacts:
    """The good wheel with its RECORD text changed."""
    members = wheel_members(**options)  # type: ignore[arg-type]
    text = members[-1].data.decode()
    return archive(replaced(members, members[-1].name, data=change(text).encode()))


def with_info_folder(folder: str) -> WheelFacts:
    """The good wheel with another dist-info folder, RECORD included."""
    old = "axpy-0.1.0.dist-info"
    members = []
    for each in wheel_members():
        data = each.data.replace(old.encode(), folder.encode()) if each.name.endswith("RECORD") else each.data
        members.append(ZipMember(each.name.replace(old, folder), data))
    return archive(members)


def with_problem(kind: ProblemKind) -> WheelFacts:
    problem = Problem(kind, "axpy/_C.abi3.so", ".nv_fatbin+0x0", "zstd is not installed")
    return dataclasses.replace(wheel(), problems=(problem,))


def with_c(*entries: Entry, **options: object) -> WheelFacts:
    """The good wheel with another ``axpy/_C``."""
    return wheel({"axpy/_C": member(*entries, **options), "axpy/_host": {}})


def with_units(*units: Mapping[str, list[str]]) -> WheelFacts:
    """The good wheel with an ``axpy/_C`` of several translation units, a container each."""
    return wheel({"axpy/_C": list(units), "axpy/_host": {}})


def for_arm(code_of_c: Mapping[str, list[str]]) -> WheelFacts:
    return wheel({"axpy/_C": code_of_c, "axpy/_host": {}}, tag=ARM_TAG)


def with_host(tag: str = LINUX, **options: object) -> WheelFacts:
    """The good wheel with another ``axpy/_host``."""
    return wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}, "axpy/_host": member(**options)}, tag=tag)


def foreign(extensions: Mapping[str, object], **options: object) -> WheelFacts:
    """A wheel of a project that the matrix does not name."""
    return wheel(extensions, name="other", **options)  # type: ignore[arg-type]


def metadata(*lines: str) -> str:
    return "\n".join(["Metadata-Version: 2.1", *lines, "", ""])


def unlinked() -> WheelFacts:
    symbol = "__cudaRegisterLinkedBinary_0ae0b001_4_k_cu_0d5514b8"
    sections = {"__nv_relfatbin": containers(fatbin(code("sm_90")))}
    return wheel({"axpy/_C": member(sections=sections, undefined=[symbol]), "axpy/_host": {}})


def stub() -> bytes:
    from tests.support.cubin import cubin

    return cubin(90, ())


def one_fatbin(architecture: str) -> bytes:
    from tests.support.fatbin import fatbin

    return fatbin(code(architecture))


def ptx_entry(architecture: str, isa: tuple[int, int]) -> Entry:
    return dataclasses.replace(code(architecture), payload=ptx(architecture, ("k",), isa), isa=isa)


def static_library() -> bytes:
    """An ar archive with one object file that holds a kernel."""
    data = member(code("sm_90"), elf_type="rel")
    header = f"{'k.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n"
    return b"!<arch>\n" + header.encode() + data + b"\n" * (len(data) % 2)


def gap() -> WheelFacts:
    return wheel({"axpy/_C": [{"sm_90": ["a"]}, {"sm_100": ["b"]}], "axpy/_host": {}})


def arm_host(need: str) -> WheelFacts:
    binary = member(machine="aarch64", version_needs={"libc.so.6": [need]})
    tag = "cp311-abi3-manylinux_2_39_aarch64"
    return wheel({"axpy/_C": {"sm_120": ["k"]}, "axpy/_host": binary}, tag=tag)
