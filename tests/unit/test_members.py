"""Members of every kind, class and byte order: what can be read of one is kept, what cannot is said."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from qualify.facts import MemberKind
from qualify.readers.elf import read_header
from tests.support.context import code, read
from tests.support.cubin import cubin
from tests.support.elf import Form, Section, assemble, host_elf
from tests.support.fatbin import Entry, containers, device_code, entry, fatbin

CODE = {"sm_90": ["k1", "k2"], "compute_80": ["k1"]}
FATBIN = device_code(CODE)


def said(problems: tuple[Any, ...]) -> list[tuple[str, str]]:
    return [(problem.kind.value, problem.where) for problem in problems]


def archive(**members: bytes) -> bytes:
    """A static library with members of these names and ``.o``."""
    out = b"!<arch>\n"
    for name, content in members.items():
        out += f"{name + '.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) & 1)
    return out


def narrow_cubin() -> bytes:
    """A cubin of 32 bits, as toolkits wrote them for 32-bit processes."""
    sections = [Section(".text.k", b"\x90" * 32, flags=6)]
    return assemble(sections, machine=190, elf_type=2, flags=0x500 | 30, osabi=0x33, abi_version=7, form=Form(32, "<"))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "i386", "arm", "ppc64", "s390x"])
def test_device_code_in_a_host_file_of_any_class_and_byte_order(machine: str) -> None:
    member, problems = read(host_elf(machine, sections={".nv_fatbin": FATBIN}))
    assert problems == ()
    assert member.kind is MemberKind.LIBRARY
    assert member.elf is not None
    assert member.elf.machine == machine
    assert {name: kernels for name, (_, kernels, _) in code(member).items()} == {
        "sm_90": {"k1", "k2"},
        "compute_80": {"k1"},
    }


def test_a_machine_without_a_name() -> None:
    data = bytearray(host_elf())
    struct.pack_into("<H", data, 18, 0x1234)
    member, problems = read(bytes(data))
    assert member.elf is not None
    assert (member.elf.machine, problems) == ("em-4660", ())


def test_a_cubin_of_32_bits_is_not_guessed_at() -> None:
    # No process of the targets can load one, and no toolkit that is known here writes one: unverified, not rejected.
    member, problems = read(narrow_cubin(), "k.cubin")
    assert (member.kind, said(problems)) == (MemberKind.CUBIN, [("unreadable", "cubin")])
    assert [each.readable for container in member.containers for each in container.entries] == [False]
    mixed = fatbin(entry("sm_90", ["k1"]), Entry("cubin", 30, narrow_cubin()), entry("sm_120f", ["k2"]))
    member, problems = read(host_elf(sections={".nv_fatbin": mixed}))
    assert [kind for kind, _ in said(problems)] == ["unreadable"]
    assert {name: kernels for name, (_, kernels, _) in code(member).items()} == {
        "sm_90": {"k1"},
        "sm_30": set(),
        "sm_120f": {"k2"},
    }


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (Entry(77, 90, b"?" * 64), "unreadable"),
        (Entry("cubin", 90, cubin(90, abi=9)), "unreadable"),
        (Entry("cubin", 90, b"\x7fELF" + bytes(60)), "malformed"),
        (Entry("ptx", 80, b"no text\0"), "malformed"),
        (Entry("cubin", 90, cubin(90), overrides={"flags": 0x4011, "stored": 8}), "unreadable"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_mix_of_readable_and_unreadable_entries_loses_neither(bad: Entry, kind: str, place: int) -> None:
    entries = [entry("sm_90", ["k1"]), entry("sm_120", ["k2"])]
    entries.insert(place, bad)
    blob = containers(fatbin(*entries), device_code({"sm_100f": ["k3"]}))
    member, problems = read(host_elf(sections={".nv_fatbin": blob, "__nv_relfatbin": device_code({"sm_80": ["k4"]})}))
    found = [each for container in member.containers for each in container.entries]
    assert [each.readable for each in found].count(False) == 1
    assert len(found) == 5
    assert member.symbols == ("k1", "k2", "k3", "k4")
    assert {problem.kind.value for problem in problems} == {kind}


def test_a_static_library_keeps_what_can_be_read_of_it() -> None:
    good = host_elf(elf_type="rel", sections={".nv_fatbin": FATBIN})
    broken = bytearray(good)
    struct.pack_into("<Q", broken, 40, 1 << 40)  # its section headers are elsewhere
    data = archive(a=good, b=bytes(broken), c=b"\x7fELF", d=archive(x=good), e=FATBIN, f=cubin(120, ["k5"]), g=b"text")
    member, problems = read(data, "lib.a")
    assert member.kind is MemberKind.ARCHIVE
    assert {name for name, (_, kernels, _) in code(member).items() if kernels} == {"sm_90", "compute_80", "sm_120"}
    assert ("malformed", "b.o:section headers") in said(problems)
    assert ("malformed", "c.o") in said(problems)
    assert ("unreadable", "d.o") in said(problems)
    assert {where.partition(":")[0] for _, where in said(problems)} == {"b.o", "c.o", "d.o"}
    assert [container.section for container in member.containers] == ["a.o:.nv_fatbin", "b.o:", "e.o", "f.o"]


def _segment(data: bytes, **values: int) -> bytes:
    """The file with another PT_LOAD in place of its PT_GNU_STACK."""
    header = read_header(data)
    changed = bytearray(data)
    for index in range(header.program_count):
        at = header.program_table + 56 * index
        if struct.unpack_from("<I", data, at)[0] == 0x6474E551:
            address, offset, size = values["address"], values["offset"], values["size"]
            struct.pack_into("<IIQQQQQQ", changed, at, 1, 6, offset, address, address, size, size, 4096)
    return bytes(changed)


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        ({"address": 0x100, "offset": 0, "size": 64}, "two segments are loaded to address 0x100"),
        ({"address": 1 << 20, "offset": 0, "size": 1 << 30}, "reaches past the end"),
        ({"address": 1 << 20, "offset": 1 << 40, "size": 8}, "reaches past the end"),
    ],
)
def test_segments_that_overlap_or_are_not_there(values: dict[str, int], fragment: str) -> None:
    assert read(_segment(host_elf(), address=1 << 20, offset=0, size=64))[1] == ()
    _, problems = read(_segment(host_elf(), **values))
    assert said(problems) == [("malformed", "program headers")]
    assert fragment in problems[0].detail


def test_sections_that_overlap_themselves_and_each_other() -> None:
    blob = device_code({"sm_90": ["k1"]})
    base = host_elf(sections={".nv_fatbin": blob})
    at = base.index(blob)
    twice = host_elf(
        sections=[Section(".nv_fatbin", blob), Section(".nv_fatbin", b"", offset=at + 8, size=len(blob) - 8)]
    )
    member, problems = read(twice)
    assert ("malformed", ".nv_fatbin") in said(problems)
    assert len(member.containers) == 1
    whole = host_elf(sections=[Section(".nv_fatbin", blob, offset=0, size=at + len(blob))])
    member, problems = read(whole)
    assert problems
    assert {problem.kind.value for problem in problems} <= {"malformed", "unreadable"}
