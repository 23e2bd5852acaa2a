"""Dynamic symbols: as many as a loader reaches, each with the library and version that it is bound to."""

from __future__ import annotations

import io
import struct
import time
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from qualify.errors import UnverifiedError
from qualify.facts import Elf, Import
from qualify.readers import dynsym
from qualify.readers.binary import Budget, Problems
from qualify.readers.elf import read_header
from qualify.readers.hostelf import read_host_elf
from tests.support.context import read
from tests.support.elf import Symbol, host_elf

BOTH_MATHS = {"libc.so.6": ["GLIBC_2.17", "GLIBC_2.34"], "libm.so.6": ["GLIBC_2.17", "GLIBC_2.29"]}
FULL: dict[str, Any] = {
    "version_needs": BOTH_MATHS,
    "undefined": ["memcpy@GLIBC_2.17:libc.so.6", "log@GLIBC_2.29", "sin@GLIBC_2.17:libm.so.6", "PyList_New"],
    "weak": ["__gmon_start__", "__cxa_finalize@GLIBC_2.17:libc.so.6"],
    "defined": ["PyInit__C", "run"],
    "symbols": [
        Symbol("one", binding="unique"),
        Symbol("maybe", binding="weak"),
        Symbol("kept", visibility="protected"),
        Symbol("hidden", visibility="hidden"),
        Symbol("inside", visibility="internal"),
        Symbol("own", binding="local"),
        Symbol("strange", defined=False, binding="local"),
    ],
}


def facts(data: bytes) -> Elf:
    problems = Problems("x")
    found = read_host_elf(data, problems).facts
    assert problems.items == []
    return found


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "i386", "arm", "ppc", "ppc64", "s390x"])
@pytest.mark.parametrize("hash_style", ["sysv", "gnu", "both"])
@pytest.mark.parametrize("section_headers", [True, False])
def test_what_is_taken_from_where_and_what_is_given(machine: str, hash_style: str, section_headers: bool) -> None:
    found = facts(host_elf(machine, **FULL, hash_style=hash_style, section_headers=section_headers))
    assert found.imports == (
        Import("PyList_New", "", "", weak=False),
        Import("__cxa_finalize", "GLIBC_2.17", "libc.so.6", weak=True),
        Import("__gmon_start__", "", "", weak=True),
        Import("log", "GLIBC_2.29", "libm.so.6", weak=False),
        Import("memcpy", "GLIBC_2.17", "libc.so.6", weak=False),
        Import("sin", "GLIBC_2.17", "libm.so.6", weak=False),
    )
    assert found.exports == ("PyInit__C", "kept", "maybe", "one", "run")
    assert found.python_inits == ("_C",)


@pytest.mark.parametrize("machine", ["x86_64", "i386", "s390x", "ppc"])
@pytest.mark.parametrize("hash_style", ["gnu", "none"])
def test_symbols_that_relocations_alone_reach(machine: str, hash_style: str) -> None:
    options: dict[str, Any] = {"undefined": ["a", "b@GLIBC_2.17"], "hash_style": hash_style, "section_headers": False}
    options["version_needs"] = {"libc.so.6": ["GLIBC_2.17"]}
    assert facts(host_elf(machine, **options)).imports == ()
    found = facts(host_elf(machine, **options, relocations=True))
    assert [(symbol.name, symbol.version) for symbol in found.imports] == [("a", ""), ("b", "GLIBC_2.17")]


@pytest.mark.parametrize("machine", ["x86_64", "i386", "s390x"])
def test_the_maker_agrees_with_pyelftools(machine: str) -> None:
    elf: Any = ELFFile(io.BytesIO(host_elf(machine, **FULL, hash_style="gnu")))
    names = [symbol.name for symbol in elf.get_section_by_name(".dynsym").iter_symbols()]
    assert names[1:5] == ["memcpy", "log", "sin", "PyList_New"]
    assert elf.get_section_by_name(".gnu.hash").get_symbol("run").name == "run"
    assert elf.get_section_by_name(".gnu.hash").get_number_of_symbols() == len(names)
    stack = [segment["p_flags"] for segment in elf.iter_segments() if segment["p_type"] == "PT_GNU_STACK"]
    assert stack == [6]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"executable_stack": False}, False),
        ({"executable_stack": True}, True),
        ({"executable_stack": None}, True),
        ({"executable_stack": None, "machine": "aarch64"}, False),
        ({"executable_stack": True, "machine": "aarch64"}, True),
        ({"executable_stack": None, "machine": "i386"}, True),
        ({"executable_stack": None, "elf_type": "rel"}, False),
    ],
)
def test_who_asks_for_an_executable_stack(options: dict[str, Any], expected: bool) -> None:
    assert facts(host_elf(**options)).executable_stack is expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, False), ({"text_relocations": True}, True), ({"flags": 4}, True), ({"flags": 8}, False)],
)
def test_relocations_of_code(options: dict[str, Any], expected: bool) -> None:
    assert facts(host_elf(**options)).text_relocations is expected


def _dynamic(data: bytes, tag: int, value: int) -> bytes:
    """The file with one entry of the dynamic section changed."""
    broken = bytearray(data)
    header = read_header(data)
    for index in range(header.program_count):
        kind, _, offset, *_ = struct.unpack_from("<IIQ", data, header.program_table + 56 * index)
        if kind == 2:
            while struct.unpack_from("<Q", data, offset)[0] != tag:
                offset += 16
            struct.pack_into("<Q", broken, offset + 8, value)
    return bytes(broken)


@pytest.mark.parametrize(
    ("tag", "value", "detail"),
    [
        (4, 1 << 40, "the hash table at address"),
        (6, 1 << 40, "the dynamic symbols at address"),
        (0x6FFFFFF0, 1 << 40, "the versions of symbols at address"),
        (0x6FFFFEF5, 1 << 40, "the GNU hash table at address"),
        (8, 1 << 40, "reaches past the end"),
        (5, 1 << 40, "the dynamic strings at address"),
    ],
)
def test_tables_that_are_not_there_are_named(tag: int, value: int, detail: str) -> None:
    good = host_elf(undefined=["a"], hash_style="both", relocations=True)
    _, problems = read(_dynamic(good, tag, value))
    assert problems
    assert {problem.kind.value for problem in problems} == {"malformed"}
    assert detail in problems[0].detail


def test_a_count_of_four_billion_is_no_count() -> None:
    good = host_elf(undefined=["a"], section_headers=False)
    data = bytearray(good)
    at = good.index(struct.pack("<5I", 1, 2, 1, 0, 0))
    struct.pack_into("<I", data, at + 4, 0xFFFFFFFF)
    start = time.process_time()
    _, problems = read(bytes(data))
    assert time.process_time() - start < 1
    assert [problem.kind.value for problem in problems] == ["unreadable"]
    struct.pack_into("<I", data, at + 4, 100_000)
    _, problems = read(bytes(data))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "dynamic symbols")]


def test_a_section_that_hides_symbols_from_other_tools() -> None:
    good = host_elf(undefined=["a", "b"], defined=["PyInit__C"])
    data = bytearray(good)
    header = read_header(good)
    row = next(
        header.section_table + 64 * index
        for index in range(header.section_count)
        if struct.unpack_from("<I", good, header.section_table + 64 * index + 4)[0] == 11
    )
    struct.pack_into("<Q", data, row + 32, 48)  # two symbols, the null symbol included
    member, problems = read(bytes(data))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "dynamic symbols")]
    assert "lists 2 of them" in problems[0].detail
    assert member.elf is not None
    assert [symbol.name for symbol in member.elf.imports] == ["a", "b"]
    offset = struct.unpack_from("<Q", good, row + 24)[0]
    struct.pack_into("<QQ", data, row + 24, offset + 24, 24 * 3)
    assert "a loader finds 4" in read(bytes(data))[1][0].detail


def test_a_name_that_is_not_there_is_malformed() -> None:
    good = host_elf(undefined=["some_name"])
    data = bytearray(good)
    symbol = next(
        offset for offset in range(0, len(good), 8) if struct.unpack_from("<IBBH", good, offset)[1:] == (0x12, 0, 0)
    )
    struct.pack_into("<I", data, symbol, 1 << 30)
    _, problems = read(bytes(data))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "dynamic symbols")]


def test_a_version_that_no_library_is_asked_for() -> None:
    good = host_elf(undefined=["memcpy@GLIBC_2.28"], section_headers=False)
    versions = struct.pack("<2H", 0, 2)
    assert good.count(versions + bytes(4)) == 1
    member, problems = read(good.replace(versions + bytes(4), struct.pack("<2H", 0, 9) + bytes(4)))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "dynamic symbols")]
    assert "memcpy is bound to a version" in problems[0].detail
    assert member.elf is not None
    assert member.elf.imports == (Import("memcpy", "", "", weak=False),)


def test_symbols_are_bounded_over_a_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    data = host_elf(defined=[f"f{index}" for index in range(100)])
    problems = Problems("x")
    assert read_host_elf(data, problems, Budget(1000)).facts.exports == ()
    assert [(problem.kind.value, problem.where) for problem in problems.items] == [("unreadable", "dynamic symbols")]
    assert len(read_host_elf(data, Problems("x"), Budget(100_000)).facts.exports) == 100
    monkeypatch.setattr(dynsym, "_MOST_SYMBOLS", 50)
    tables = dynsym.Tables(0, data.index(struct.pack("<2I", 1, 101)), -1, -1, own_versions=False, relocations=())
    with pytest.raises(UnverifiedError, match="101 of them"):
        dynsym.count_symbols(data, read_header(data), tables)


def test_a_gnu_hash_chain_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynsym, "_MOST_SYMBOLS", 50)
    data = host_elf()
    tables = dynsym.Tables(0, -1, len(data), -1, own_versions=False, relocations=())
    table = struct.pack("<5I", 1, 1, 0, 0, 1)
    with pytest.raises(UnverifiedError, match="51 of them"):
        dynsym.count_symbols(data + table + bytes(1000), read_header(data), tables)
    with pytest.raises(UnverifiedError, match="100 buckets"):
        dynsym.count_symbols(data + struct.pack("<4I", 100, 1, 0, 0), read_header(data), tables)


def test_many_symbols_take_linear_time() -> None:
    took = []
    for count in (4000, 64_000):
        data = host_elf(defined=[f"_ZN5torch6symbol{index}Ev" for index in range(count)], undefined=["a"])
        start = time.process_time()
        assert len(facts(data).exports) == count
        took.append(time.process_time() - start)
    assert took[1] < 80 * max(took[0], 0.001)


def _dynamic_header(data: bytes, **fields: int) -> bytes:
    """The file with some fields of the program header of its dynamic section changed."""
    places = {"offset": 8, "address": 16, "size": 32}
    header = read_header(data)
    changed = bytearray(data)
    for index in range(header.program_count):
        at = header.program_table + 56 * index
        if struct.unpack_from("<I", data, at)[0] == 2:
            for name, value in fields.items():
                struct.pack_into("<Q", changed, at + places[name], value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("fields", "fragment"),
    [
        ({"offset": 64}, "and said to be at 0x40"),
        ({"size": 16}, "goes on behind the 16 bytes"),
        ({"size": 0}, "goes on behind the 0 bytes"),
        ({"address": 1 << 40}, "where no segment is"),
    ],
)
def test_a_dynamic_section_that_hides_entries_from_other_tools(fields: dict[str, int], fragment: str) -> None:
    good = host_elf(needed=["libevil.so"], runpath="/tmp")
    member, problems = read(_dynamic_header(good, **fields))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "dynamic section")]
    assert fragment in problems[0].detail
    assert member.elf is not None
    if "address" not in fields:
        assert (member.elf.needed, member.elf.runpath) == (("libevil.so",), ("/tmp",))


def test_a_dynamic_section_without_an_end() -> None:
    good = host_elf(section_headers=False)
    header = read_header(good)
    rows = [struct.unpack_from("<IIQQQQQQ", good, header.program_table + 56 * n) for n in range(header.program_count)]
    offset, size = next((row[2], row[5]) for row in rows if row[0] == 2)
    _, problems = read(good[: offset + size - 16])
    details = {problem.where: problem.detail for problem in problems}
    assert "an entry" in details["dynamic section"]
    assert {problem.kind.value for problem in problems} == {"malformed"}


@pytest.mark.parametrize(("layout", "at", "value"), [("<H", 2, 0), ("<H", 2, 1), ("<H", 2, 9)])
def test_counts_of_versions_that_hide_rows_from_other_tools(layout: str, at: int, value: int) -> None:
    good = host_elf(version_needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.99"]}, section_headers=False)
    row = good.index(struct.pack("<2H", 1, 2))
    broken = bytearray(good)
    struct.pack_into(layout, broken, row + at, value)
    member, problems = read(bytes(broken))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "dynamic section")]
    assert "more or fewer" in problems[0].detail
    assert member.elf is not None
    assert [need.version for need in member.elf.version_needs] == ["GLIBC_2.17", "GLIBC_2.99"]


@pytest.mark.parametrize("count", [0, 2, 1 << 40])
def test_a_count_of_libraries_that_lies(count: int) -> None:
    member, problems = read(_dynamic(host_elf(), 0x6FFFFFFF, count))
    assert [(problem.kind.value, problem.where) for problem in problems] == [("malformed", "dynamic section")]
    assert member.elf is not None
    assert [need.version for need in member.elf.version_needs] == ["GLIBC_2.28"]
