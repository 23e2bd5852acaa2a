"""Host ELF facts, held against pyelftools."""

from __future__ import annotations

import io
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from qualify.errors import MalformedError
from qualify.facts import MemberKind, VersionNeed
from qualify.readers.binary import Problems
from qualify.readers.elf import read_header, read_sections
from qualify.readers.hostelf import read_host_elf
from tests.support.context import read
from tests.support.elf import Section, assemble, host_elf
from tests.support.pyelftools import ours, theirs

FULL = {
    "soname": "libx.so.1",
    "needed": ["libc.so.6", "libtorch.so"],
    "rpath": "/opt/lib:$ORIGIN",
    "runpath": "$ORIGIN/../torch/lib",
    "version_needs": {"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]},
    "defined": ["PyInit__C", "PyInit_other", "plain"],
    "undefined": ["memcpy@GLIBC_2.17", "PyInit_not_here"],
}


def test_all_facts_of_a_library() -> None:
    problems = Problems("x")
    facts = read_host_elf(host_elf("aarch64", **FULL), problems).facts  # type: ignore[arg-type]
    assert problems.items == []
    assert (facts.bits, facts.little_endian, facts.machine, facts.type) == (64, True, "aarch64", "dyn")
    assert facts.soname == "libx.so.1"
    assert facts.needed == ("libc.so.6", "libtorch.so")
    assert facts.rpath == ("/opt/lib", "$ORIGIN")
    assert facts.runpath == ("$ORIGIN/../torch/lib",)
    assert facts.version_needs == (
        VersionNeed("libc.so.6", "GLIBC_2.17"),
        VersionNeed("libc.so.6", "GLIBC_2.28"),
        VersionNeed("libstdc++.so.6", "GLIBCXX_3.4.21"),
    )
    assert facts.python_inits == ("_C", "other")
    assert facts.interpreter == ""


def test_no_section_headers_leave_what_a_loader_reads() -> None:
    facts = read_host_elf(host_elf(**FULL, section_headers=False), Problems("x")).facts  # type: ignore[arg-type]
    assert facts.needed == ("libc.so.6", "libtorch.so")
    assert len(facts.version_needs) == 3


@pytest.mark.parametrize(
    ("options", "path", "kind"),
    [
        ({"defined": ["PyInit__C"]}, "a/_C.so", MemberKind.EXTENSION),
        ({}, "a/_C.abi3.so", MemberKind.EXTENSION),
        ({}, "a/_C.cpython-312-x86_64-linux-gnu.so", MemberKind.EXTENSION),
        ({}, "a/libx.so.1", MemberKind.LIBRARY),
        ({}, "a/data.txt", MemberKind.LIBRARY),
        ({"elf_type": "exec"}, "bin/tool", MemberKind.EXECUTABLE),
        ({"interpreter": "/lib64/ld-linux-x86-64.so.2"}, "bin/tool", MemberKind.EXECUTABLE),
        ({"interpreter": "/lib64/ld.so", "soname": "libc.so.6"}, "libc.so.6", MemberKind.LIBRARY),
        ({"elf_type": "rel"}, "x.o", MemberKind.ARCHIVE),
    ],
)
def test_kinds_by_headers(options: dict[str, object], path: str, kind: MemberKind) -> None:
    member, problems = read(host_elf(**options), path)  # type: ignore[arg-type]
    assert (member.kind, problems) == (kind, ())


def system_files() -> list[Path]:
    """Programs and libraries of this machine, of all sizes up to a bound: pyelftools takes a second for a megabyte."""
    folders = [*Path("/usr/lib").glob("*-linux-gnu"), Path("/usr/bin")]
    found = sorted({file.resolve() for folder in folders for file in folder.iterdir() if file.is_file()})
    small = [file for file in found if file.stat().st_size < 1 << 20]
    good = [file for file in small if file.read_bytes().startswith(b"\x7fELF")]
    return [Path(sys.executable).resolve(), *good[:: max(1, len(good) // 60)]]


@pytest.mark.parametrize("path", system_files())
def test_agrees_with_pyelftools_on_this_machine(path: Path) -> None:
    data = path.read_bytes()
    problems = Problems("x")
    facts = read_host_elf(data, problems).facts
    expected = theirs(data)
    assert problems.items == []
    assert ours(facts, stack_is_said=expected.executable_stack is not None) == expected
    sections = [section.name for section in ELFFile(io.BytesIO(data)).iter_sections()]
    assert [section.name for section in read_sections(data, read_header(data))] == sections


@pytest.mark.parametrize("path", system_files()[::3])
def test_a_loader_s_view_is_the_same_without_section_headers(path: Path) -> None:
    data = path.read_bytes()
    header = read_header(data)
    stripped = bytearray(data)
    narrow = header.bits == 32
    struct.pack_into(header.order + ("I" if narrow else "Q"), stripped, 32 if narrow else 40, 0)
    struct.pack_into(header.order + "HH", stripped, 48 if narrow else 60, 0, 0)
    problems = Problems("x")
    found, whole = read_host_elf(bytes(stripped), problems).facts, read_host_elf(data, Problems("x")).facts
    assert problems.items == []
    assert replace(found, imports=whole.imports) == whole
    # A loader never looks for a symbol that no relocation names; a section of symbols may hold one all the same.
    assert set(found.imports) <= set(whole.imports)


def test_thirty_two_bits_and_big_endian_headers() -> None:
    ident = b"\x7fELF" + bytes([1, 2, 1]) + bytes(9)
    data = ident + struct.pack(">HHIIIIIHHHHHH", 3, 22, 1, 0, 0, 0, 0, 52, 32, 0, 40, 0, 0)
    facts = read_host_elf(data, Problems("x")).facts
    assert (facts.bits, facts.little_endian, facts.machine) == (32, False, "s390x")


@pytest.mark.parametrize("cut", [4, 20, 63])
def test_a_header_cut_short_is_malformed_and_stays_compiled_code(cut: int) -> None:
    member, problems = read(host_elf()[:cut])
    assert member.kind is MemberKind.LIBRARY
    assert [problem.kind.value for problem in problems] == ["malformed"]


def test_damage_is_named_by_its_place() -> None:
    good = host_elf(**FULL)  # type: ignore[arg-type]
    where = {}
    for name, at, value in (("section headers", 40, 1 << 40), ("program headers", 32, 1 << 40)):
        broken = bytearray(good)
        struct.pack_into("<Q", broken, at, value)
        where[name] = [problem.where for problem in read(bytes(broken))[1]]
    assert where == {"section headers": ["section headers"], "program headers": ["program headers"]}
    truncated = read(good[: len(good) // 2])[1]
    assert "section headers" in [problem.where for problem in truncated]


def test_counts_that_lie_are_bounded() -> None:
    data = bytearray(host_elf(section_headers=True))
    table = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    struct.pack_into("<Q", data, table + 32, 1 << 32)  # 4 G sections in section 0
    with pytest.raises(MalformedError, match="sections"):
        read_sections(bytes(data), read_header(bytes(data)))


def test_names_that_overlap_do_not_multiply() -> None:
    sections = [Section("x" * 60_000, b"")] + [Section(f"s{index}", b"") for index in range(3000)]
    data = bytearray(assemble(sections, machine=62, elf_type=3))
    header = read_header(bytes(data))
    for index in range(1, 3002):
        struct.pack_into("<I", data, header.section_table + 64 * index, 1)
    with pytest.raises(MalformedError, match="overlap each other"):
        read_sections(bytes(data), header)
