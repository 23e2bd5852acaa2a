"""Fat binaries through the member reader: every kind, compression and fault."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import zstandard

from qualify.errors import UnavailableError
from qualify.facts import Compression, EntryKind, MemberKind
from qualify.readers.binary import Limits, Problems
from qualify.readers.device import Context
from qualify.readers.members import read_member
from tests.support.context import LIBRARIES, code, read
from tests.support.cubin import cubin
from tests.support.elf import SHT_NOBITS, Section, host_elf
from tests.support.fatbin import Entry, containers, device_code, entry, fatbin, ptx
from tests.support.wheel import extension


def library(*fatbins: bytes, gap: int = 0) -> bytes:
    return host_elf(sections={".nv_fatbin": containers(*fatbins, gap=gap)})


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_every_compression(compression: str) -> None:
    blob = fatbin(
        entry("sm_90a", ["k1", "k2"], compression=compression, functions=["f"]),
        entry("compute_80", ["k3"], compression=compression),
    )
    member, problems = read(library(blob))
    assert problems == ()
    assert code(member) == {"sm_90a": (1, {"k1", "k2"}, {"f"}), "compute_80": (1, {"k3"}, set())}
    first, second = member.containers[0].entries
    assert (first.kind, first.raw_kind, first.toolkit, first.isa) == (EntryKind.CUBIN, 2, "13.0", "")
    assert (second.kind, second.raw_kind, second.toolkit, second.isa) == (EntryKind.PTX, 1, "", "9.0")
    assert first.compression is Compression(compression)
    assert first.size == len(cubin(90, ["k1", "k2"], suffix="a", functions=["f"]))
    assert first.readable
    assert second.readable


@pytest.mark.parametrize(
    "architecture", ["sm_75", "sm_90a", "sm_100f", "sm_120f", "sm_121a", "compute_80", "compute_90a", "compute_120f"]
)
def test_architectures_keep_their_suffix(architecture: str) -> None:
    member, problems = read(library(device_code({architecture: ["k"]})))
    assert (list(code(member)), problems) == ([architecture], ())


def test_lto_ir_is_listed_and_holds_no_known_kernel() -> None:
    member, problems = read(library(device_code({"lto_90": []})))
    assert problems == ()
    found = member.containers[0].entries[0]
    assert (found.kind, found.architecture, found.kernels, found.readable) == (EntryKind.LTO_IR, "compute_90", (), True)


def test_several_containers_with_gaps_in_both_sections() -> None:
    first = containers(device_code({"sm_80": ["a"]}), device_code({"sm_90": ["b"]}), gap=24)
    data = host_elf(sections={".nv_fatbin": first, "__nv_relfatbin": device_code({"sm_90": ["c"]})})
    member, problems = read(data)
    assert problems == ()
    assert [container.section for container in member.containers] == [".nv_fatbin", ".nv_fatbin", "__nv_relfatbin"]
    assert member.containers[0].offset == 0
    assert member.containers[1].offset > 0
    assert code(member) == {"sm_80": (1, {"a"}, set()), "sm_90": (2, {"b", "c"}, set())}


def test_names_are_kept_once_and_indices_ascend() -> None:
    member, _ = read(library(device_code({"sm_80": ["z", "a"], "sm_90": ["a", "m"]})))
    assert member.symbols == ("a", "m", "z")
    assert [found.kernels for found in member.containers[0].entries] == [(0, 2), (0, 1)]


def test_a_longer_header_is_trusted() -> None:
    member, problems = read(library(fatbin(replace(entry("sm_90", ["k"]), header_size=112))))
    assert (code(member)["sm_90"][1], problems) == ({"k"}, ())


def test_the_stub_of_a_device_link_covers_nothing() -> None:
    member, problems = read(library(device_code({"sm_90": []})))
    assert (code(member), problems) == ({"sm_90": (1, set(), set())}, ())


def _one(*entries: Entry, **options: int) -> tuple[str, str, bool]:
    member, problems = read(library(fatbin(*entries, **options)))
    assert len(problems) == 1, problems
    readable = any(found.readable for container in member.containers for found in container.entries)
    return problems[0].kind.value, problems[0].detail, readable


GOOD = entry("sm_90", ["k"])


@pytest.mark.parametrize(
    ("fault", "kind", "fragment"),
    [
        (replace(GOOD, sm=80), "malformed", "header 90"),
        (replace(GOOD, payload=cubin(90, note_sm=80)), "malformed", "note 80"),
        (replace(GOOD, payload=cubin(90, suffix="a")), "malformed", "its note sm_90a"),
        (replace(GOOD, suffix="f"), "malformed", "says sm_90f"),
        (replace(GOOD, overrides={"sm": 0}), "malformed", "no SM number"),
        (replace(GOOD, overrides={"flags": 0x308011}), "malformed", "both"),
        (replace(GOOD, kind=64), "unreadable", "kind 64"),
        (replace(GOOD, overrides={"flags": 0x11}), "unreadable", "way that is not known"),
        (replace(GOOD, overrides={"flags": 0xA011}), "unreadable", "way that is not known"),
        (replace(GOOD, compression="none", payload=b"junk" * 40), "malformed", "ELF header"),
        (replace(GOOD, compression="none", payload=b"junk" * 40, overrides={"flags": 0x40011}), "unreadable", "flags"),
        (replace(GOOD, payload=host_elf()), "malformed", "machine 62"),
        (replace(GOOD, payload=cubin(90, abi=9)), "unreadable", "ABI version 9"),
        (replace(GOOD, overrides={"inflated": 10}), "malformed", "zstd frame says"),
        (replace(GOOD, overrides={"inflated": 1 << 40}), "unreadable", "more than"),
        (replace(GOOD, overrides={"stored": 20}), "malformed", "zstd"),
        (replace(GOOD, compression="lz4", overrides={"inflated": 10}), "malformed", "LZ4"),
        (replace(GOOD, compression="lz4", overrides={"inflated": 1 << 28}), "malformed", "can inflate to"),
        (replace(entry("compute_80"), sm=90), "malformed", "compute_80"),
        (replace(entry("compute_80"), isa=(8, 0)), "malformed", "PTX 9.0"),
        (replace(entry("compute_80"), payload=b"no ptx"), "malformed", "no PTX"),
    ],
)
def test_each_fault_of_an_entry_is_one_problem(fault: Entry, kind: str, fragment: str) -> None:
    found = _one(fault)
    assert found[0] == kind
    assert fragment in found[1]
    assert not found[2]


@pytest.mark.parametrize(
    ("blob", "fragment"),
    [
        (fatbin(replace(GOOD, overrides={"header_size": 16})), "damaged header"),
        (fatbin(replace(GOOD, overrides={"size": 1 << 40})), "damaged header"),
        (fatbin(replace(GOOD, overrides={"stored": 1 << 30})), "compressed bytes out of"),
        (fatbin(GOOD, version=2), "version 2"),
        (fatbin(GOOD, payload_size=1 << 62), "past the end"),
        (fatbin(GOOD)[:-8], "past the end"),
        (fatbin(GOOD, payload_size=40), "cut short"),
        (b"junk" * 8, "no fat binary begins here"),
    ],
)
def test_each_fault_of_a_container_is_a_problem(blob: bytes, fragment: str) -> None:
    _, problems = read(host_elf(sections={".nv_fatbin": blob}))
    assert problems[0].kind.value == "malformed"
    assert fragment in problems[0].detail


def test_damage_keeps_what_came_before_it() -> None:
    member, problems = read(host_elf(sections={".nv_fatbin": fatbin(GOOD) + b"\1" * 32}))
    assert (code(member)["sm_90"][1], len(problems)) == ({"k"}, 1)


def test_device_code_outside_its_sections_is_said() -> None:
    member, problems = read(host_elf(sections={".rodata": device_code({"sm_90": ["k"]})}))
    assert [container.section for container in member.containers] == [".rodata"]
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    assert ".rodata" in problems[0].detail


def test_a_cubin_in_a_stray_fat_binary_is_said_once() -> None:
    _, problems = read(host_elf(sections={".rodata": device_code({"sm_90": ["k"]}, compression="none")}))
    assert len(problems) == 1
    assert "fat binaries lie in" in problems[0].detail


@pytest.mark.parametrize(("symbol", "wrong"), [("_2f_k_cu", True), ("", True), (None, False)])
def test_relocatable_code_without_its_link_does_not_load(symbol: str | None, wrong: bool) -> None:
    undefined = [] if symbol is None else [f"__cudaRegisterLinkedBinary_{symbol}"]
    _, problems = read(host_elf(sections={"__nv_relfatbin": device_code({"sm_90": ["k"]})}, undefined=undefined))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "device code")] * wrong


def test_the_magic_alone_is_no_device_code() -> None:
    member, problems = read(host_elf(sections={".rodata": b"\x50\xed\x55\xba" * 20}))
    assert (member.containers, problems) == ((), ())


def test_a_cubin_in_the_open_is_said() -> None:
    _, problems = read(host_elf(sections={".rodata": cubin()}))
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    assert "1 cubins lie outside" in problems[0].detail


def test_without_section_headers_device_code_is_found_and_said() -> None:
    data = host_elf(sections={".nv_fatbin": device_code({"sm_90": ["k"]})}, section_headers=False)
    member, problems = read(data)
    assert code(member)["sm_90"][1] == {"k"}
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    assert "no section" in problems[0].detail


def test_a_stripped_or_overlapping_section_is_said() -> None:
    blob = device_code({"sm_90": ["k"]})
    _, problems = read(host_elf(sections=[Section(".nv_fatbin", b"", SHT_NOBITS, size=len(blob))]))
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    probe = host_elf(sections=[Section(".nv_fatbin", blob)])
    at = probe.index(blob)
    twice = [Section(".nv_fatbin", blob), Section("__nv_relfatbin", b"", offset=at, size=len(blob))]
    member, problems = read(host_elf(sections=twice))
    assert code(member)["sm_90"][0] == 1
    assert [problem.kind.value for problem in problems] == ["malformed"]


@pytest.mark.parametrize(
    ("data", "kind", "architecture"),
    [
        (cubin(120, ["k"], suffix="f"), MemberKind.CUBIN, "sm_120f"),
        (cubin(90, ["k"], abi=7), MemberKind.CUBIN, "sm_90"),
        (device_code({"sm_90a": ["k"]}), MemberKind.FATBIN, "sm_90a"),
    ],
)
def test_bare_files(data: bytes, kind: MemberKind, architecture: str) -> None:
    member, problems = read(data, "kernels/data.bin")
    assert (member.kind, code(member), problems) == (kind, {architecture: (1, {"k"}, set())}, ())


def test_a_bare_cubin_without_note_leaves_its_suffix_open() -> None:
    member, problems = read(cubin(90, ["k"], notes=False), "k.cubin")
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    assert not member.containers[0].entries[0].readable


@pytest.mark.parametrize(("sm", "suffix", "abi"), [(89, "", 8), (90, "", 7), (90, "a", 7)])
def test_a_bare_cubin_without_note_whose_header_or_number_tells(sm: int, suffix: str, abi: int) -> None:
    """ptxas 12 writes no note below Blackwell; its header says `a` in a flag of its own, and sm_89 knows no `a`."""
    member, problems = read(cubin(sm, ["k"], suffix=suffix, abi=abi, notes=False), "k.cubin")
    assert (code(member), problems) == ({f"sm_{sm}{suffix}": (1, {"k"}, set())}, ())


@pytest.mark.parametrize(("suffix", "says"), [("a", False), ("", True)])
def test_an_entry_whose_suffix_the_cubins_header_denies(suffix: str, says: bool) -> None:
    payload = cubin(90, ["k"], suffix=suffix, abi=7, notes=False, says_specific=says)
    _, problems = read(fatbin(Entry("cubin", 90, payload, suffix)), "k.bin")
    assert [(problem.kind.value, "header" in problem.detail) for problem in problems] == [("malformed", True)]


@pytest.mark.parametrize(
    ("sm", "of_object", "problems"), [(86, 80, []), (86, 89, ["malformed"]), (90, 80, ["malformed"])]
)
def test_objects_of_an_older_architecture_that_were_linked(sm: int, of_object: int, problems: list[str]) -> None:
    """nvlink keeps the objects' SM number in the note, and both command lines; never across a major, nor downwards."""
    payload = cubin(sm, ["k"], note_sm=of_object, options=f"-arch sm_{of_object}")
    _, found = read(fatbin(Entry("cubin", sm, payload)), "k.bin")
    assert [problem.kind.value for problem in found] == problems


def test_a_bare_cubin_whose_note_disagrees() -> None:
    _, problems = read(cubin(90, ["k"], note_sm=80), "k.cubin")
    assert [problem.kind.value for problem in problems] == ["malformed"]


def _ar(members: dict[str, bytes]) -> bytes:
    out = bytearray(b"!<arch>\n")
    for name, content in members.items():
        out += f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) % 2)
    return bytes(out)


def test_a_static_library() -> None:
    unit = host_elf(elf_type="rel", sections={"__nv_relfatbin": device_code({"sm_90": ["k"]})})
    member, problems = read(_ar({"a.o": unit, "note.txt": b"odd", "b.o": unit}), "libx.a")
    assert (member.kind, problems) == (MemberKind.ARCHIVE, ())
    assert [container.section for container in member.containers] == ["a.o:__nv_relfatbin", "b.o:__nv_relfatbin"]
    assert code(member)["sm_90"] == (2, {"k"}, set())


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"!<thin>\n", "unreadable"),
        (_ar({"a.o": b"x" * 99})[:-30], "malformed"),
        (b"!<arch>\n" + b"junk" * 30, "malformed"),
    ],
)
def test_damaged_static_libraries(data: bytes, kind: str) -> None:
    member, problems = read(data, "libx.a")
    assert (member.kind, [problem.kind.value for problem in problems]) == (MemberKind.ARCHIVE, [kind])


class _Without:
    """Decompressors of a host that lacks zstandard."""

    deflate = LIBRARIES.deflate
    lz4 = LIBRARIES.lz4
    crc32 = LIBRARIES.crc32

    def zstd(self, data: bytes | memoryview, size: int) -> bytes:
        raise UnavailableError("the Python package zstandard is not installed")


def test_a_missing_decompressor_is_the_environments_fault() -> None:
    problems = Problems("x.so")
    member = read_member("x.so", extension({"sm_90": ["k"]}), 1, Context.make(_Without()), problems)
    assert [problem.kind.value for problem in problems.items] == ["environment"]
    assert not member.containers[0].entries[0].readable


def test_bombs_are_bounded() -> None:
    big = zstandard.ZstdCompressor(level=1).compress(bytes(64 << 20))
    bomb = Entry("cubin", 90, b"", overrides={"flags": 0x8011, "stored": len(big), "inflated": 64 << 20})
    raw = replace(bomb, payload=big)
    start = time.process_time()
    _, problems = read(library(fatbin(*([raw] * 64))), limits=Limits(device_size=256 << 20))
    assert time.process_time() - start < 10
    assert {problem.kind.value for problem in problems} == {"malformed", "unreadable"}
    _, problems = read(library(fatbin(raw)), limits=Limits(entry_size=1 << 20))
    assert [problem.kind.value for problem in problems] == ["unreadable"]


def test_entries_names_and_problems_are_bounded() -> None:
    many = fatbin(*([entry("compute_80", ["k"])] * 50))
    member, problems = read(library(many), limits=Limits(entries=10))
    assert len(member.containers[0].entries) == 10
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    _, problems = read(library(device_code({"sm_90": ["n" * 500]})), limits=Limits(name_bytes=100))
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    faults = fatbin(*([replace(entry("compute_80", ["k"]), sm=90)] * 80))
    _, problems = read(library(faults))
    assert len(problems) == 51
    assert "30 further problems" in problems[-1].detail


def test_ptx_without_its_nul_reads_too() -> None:
    bare = replace(entry("compute_80"), payload=ptx("compute_80", ["k"]).rstrip(b"\0"))
    member, problems = read(library(fatbin(bare)))
    assert (code(member)["compute_80"][1], problems) == ({"k"}, ())


def test_references_and_empty_containers_are_bounded() -> None:
    blob = device_code({"sm_90": ["a", "b", "c"], "sm_80": ["a", "b", "c"]})
    _, problems = read(library(blob), limits=Limits(references=4))
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    member, problems = read(library(*([fatbin()] * 50)), limits=Limits(entries=10))
    assert len(member.containers) == 10
    assert [problem.kind.value for problem in problems] == ["unreadable"]


@pytest.mark.parametrize(
    "data",
    [
        host_elf(sections={".rodata": b"\x50\xed\x55\xba" * (4 << 20)}),
        *(
            library(fatbin(replace(entry("compute_80"), payload=ptx("compute_80").rstrip(b"\0") + body)))
            for body in (b" .entry k;" * (1 << 18), b" .entry k" * (1 << 17) + b";{")
        ),
        host_elf(sections={".rodata": b"\x7fELF\2\1\1\0" * (2 << 20)}),
        host_elf(sections={".nv_fatbin": bytes(32 << 20)}),
        host_elf(sections={".nv_fatbin": fatbin() * (1 << 20)}),
        b"!<arch>\n" + b"a/" + b" " * 46 + b"0         `\n" + b"x" * (16 << 20),
        library(fatbin(replace(entry("compute_80"), payload=ptx("compute_80").rstrip(b"\0") + b"/*" * (4 << 20)))),
        library(fatbin(replace(entry("compute_80"), payload=ptx("compute_80").rstrip(b"\0") + b'/*"\\' * (4 << 20)))),
        library(fatbin(replace(entry("compute_80"), payload=bytes(64 << 20)))),
        library(fatbin(replace(entry("compute_80"), payload=b" \n" * (16 << 20)))),
        library(
            fatbin(replace(entry("compute_80"), payload=ptx("compute_80").rstrip(b"\0") + b" .entry k" * (1 << 18)))
        ),
    ],
    ids=[
        "magics",
        "declarations",
        "declarations and a brace",
        "elf magics",
        "zeros",
        "empty",
        "ar",
        "comments",
        "quotes",
        "nuls",
        "lines",
        "entries",
    ],
)
def test_what_is_made_to_be_slow_is_not(data: bytes) -> None:
    start = time.process_time()
    read(data)
    assert time.process_time() - start < 10
