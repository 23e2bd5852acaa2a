"""What two wheels differ in: lost, gained and changed apart, by architecture and by what one device runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from qualify.arch import ComputeCapability
from qualify.diffing import Change, Difference, Names, compare
from qualify.diffing.parity import parity
from qualify.facts import Depth, WheelFacts
from tests.support.fatbin import Entry, containers, device_code, fatbin
from tests.unit.judging_support import code, member, wheel

HOPPER = ComputeCapability(9, 0)


def held(code_of_c: Any, **options: Any) -> WheelFacts:
    """A wheel with this code in ``axpy/_C``."""
    return wheel({"axpy/_C": code_of_c, "axpy/_host": {}}, **options)


def units(*each: dict[str, Sequence[str]]) -> bytes:
    return member(sections={".nv_fatbin": containers(*map(device_code, each))})


def rows(difference: Difference) -> dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]:
    return {(row.extension, row.architecture): (row.lost, row.gained) for row in difference.kernels}


def test_a_wheel_and_itself_differ_in_nothing() -> None:
    facts = held({"sm_90": ["a", "b"], "compute_80": ["a"]})
    difference = compare(facts, facts, device=HOPPER)
    assert not difference.loses
    assert not difference.leaves_open
    assert rows(difference) == {("axpy/_C", "compute_80"): ((), ()), ("axpy/_C", "sm_90"): ((), ())}
    assert (difference.metadata, difference.floors, difference.compilers, difference.sizes) == ((), (), (), ())


def test_kernels_lost_and_gained_by_architecture() -> None:
    before = held({"sm_90": ["a", "b"], "sm_80": ["a"], "sm_75": ["a"]})
    now = held({"sm_90": ["a", "c"], "sm_80": ["a"], "sm_100": ["a", "b"]})
    difference = compare(now, before)
    assert rows(difference) == {("axpy/_C", "sm_80"): ((), ()), ("axpy/_C", "sm_90"): (("b",), ("c",))}
    assert [(each.architecture, each.kernels) for each in difference.architectures_lost] == [("sm_75", 1)]
    assert [(each.architecture, each.kernels) for each in difference.architectures_gained] == [("sm_100", 2)]
    assert difference.loses
    assert not compare(now, before, architectures=["sm_80"]).loses
    assert compare(now, before, architectures=["sm_90"]).loses


def test_names_that_differ_from_build_to_build_are_one_kernel() -> None:
    before, now = (held({"sm_90": [_hashed(path)]}) for path in ("0123abcd", "ffff0000"))
    assert not compare(now, before).loses
    # Two files of one name in two folders have a kernel each; one of them gone is a loss, and says how many.
    both = held({"sm_90": [_hashed("0123abcd"), _hashed("ffff0000")]})
    (row,) = compare(now, both).kernels
    assert (row.control, row.candidate) == (2, 1)
    assert row.lost[0].endswith("(1 of 2)")


def _hashed(path: str) -> str:
    identifier = f"_GLOBAL__N__{path}_4_a_cu_00000001"
    return f"_ZN{len(identifier)}{identifier}1kEv"


def test_extensions_files_metadata_and_entry_points() -> None:
    before = wheel(
        more={"axpy/_gone": {}},
        files={
            "axpy/old.py": "",
            "axpy/same.py": "",
            "axpy/other.py": "a",
            "axpy-0.1.0.dist-info/entry_points.txt": "[console_scripts]\na = axpy:a\nb = axpy:b\n",
        },
        requires=["torch==2.13.0", "numpy"],
    )
    now = wheel(
        more={"axpy/_new": {}},
        files={
            "axpy/new.py": "",
            "axpy/same.py": "",
            "axpy/other.py": "b",
            "axpy-0.2.0.dist-info/entry_points.txt": "[console_scripts]\nb = axpy:c\nc = axpy:c\n",
        },
        requires=["torch==2.14.0"],
        version="0.2.0",
    )
    difference = compare(now, before)
    assert difference.extensions == Names(("axpy/_gone",), ("axpy/_new",))
    assert difference.files == Names(("axpy/old.py",), ("axpy/new.py",), ("axpy/_version.py", "axpy/other.py"))
    assert difference.entry_points == Names(("console_scripts: a",), ("console_scripts: c",), ("console_scripts: b",))
    assert Change("", "Requires-Dist: torch", "torch==2.13.0", "torch==2.14.0") in difference.metadata
    assert Change("", "Requires-Dist: numpy", "numpy", "") in difference.metadata
    assert Change("", "Version", "0.1.0", "0.2.0") in difference.metadata


def test_floors_compilers_and_sizes() -> None:
    before = held(member(code("sm_90", options="-m 64"), version_needs={"libc.so.6": ["GLIBC_2.17"]}))
    now = held(member(code("sm_90", toolkit=(13, 1), options="-m 64 -g"), version_needs={"libc.so.6": ["GLIBC_2.34"]}))
    difference = compare(now, before)
    assert Change("axpy/_C", "GLIBC", "GLIBC_2.17", "GLIBC_2.34") in difference.floors
    assert Change("axpy/_C", "toolkit", "13.0", "13.1") in difference.compilers
    assert any(each.what == "options" and "-g" in each.candidate for each in difference.compilers)
    assert "" in {size.where for size in difference.sizes}


def test_several_files_of_one_module_and_names_that_a_repair_hashed() -> None:
    def built(number: int, library: str) -> WheelFacts:
        name = f"axpy/_C.cpython-3{number}-x86_64-linux-gnu.so"
        return wheel({name: {"sm_90": ["k"]}, "axpy/_host": {}}, files={f"axpy.libs/{library}": member(defined=())})

    difference = compare(built(12, "libx-0123abcd.so.1"), built(11, "libx-ffff0000.so.1"))
    assert not difference.loses
    assert difference.extensions == Names()


def test_what_could_not_be_read_is_neither_lost_nor_equal() -> None:
    unread = held(member(code("sm_90", "a"), Entry("cubin", 90, b"\x7fELF rubbish")))
    whole = held({"sm_90": ["a", "b"]})
    difference = compare(unread, whole)
    assert not any(row.lost for row in difference.kernels)
    assert difference.leaves_open
    assert any("could not be read" in sentence for sentence in difference.unknown)
    headers = dataclasses.replace(whole, depth=Depth.HEADERS)
    assert "the kernels of the candidate were not read" in compare(headers, whole).unknown


def test_what_one_device_runs() -> None:
    before = held(units({"sm_90": ["kept", "slower", "lost"]}, {"compute_80": ["faster"], "sm_80": ["never"]}))
    now = held(units({"sm_90": ["kept", "faster", "new"]}, {"compute_80": ["slower"], "sm_100": ["lost"]}))
    target = compare(now, before, device=HOPPER, target="x86_64-sm90").target
    assert target is not None
    (row,) = target.extensions
    assert (row.lost, row.slower, row.gained, row.faster) == (("lost",), ("slower",), ("new",), ("faster",))
    assert (row.control, row.control_native, row.candidate, row.candidate_native) == (4, 3, 4, 3)


def test_a_build_for_one_gpu_loses_nothing_of_a_fat_one() -> None:
    fat = held({"sm_80": ["a"], "sm_90": ["a", "b"], "sm_100f": ["blackwell"]})
    one = held({"sm_90": ["a", "b", "c"]})
    assert compare(one, fat).loses  # architectures are gone
    difference = compare(one, fat, device=HOPPER)
    assert not difference.loses
    assert difference.target is not None
    assert difference.target.extensions[0].gained == ("c",)


def test_the_driver_that_is_promised_counts() -> None:
    before = held({"sm_90": ["k"]})
    now = held(member(code("sm_90", "k", toolkit=(14, 0))))
    assert not compare(now, before, device=HOPPER).loses
    assert compare(now, before, device=HOPPER, oldest_cuda="13.0").loses


def test_gaps_in_single_containers() -> None:
    whole = held(units({"sm_90": ["k"]}, {"sm_90": ["k", "other"]}))
    gap = held(units({"sm_90": ["k"]}, {"sm_80": ["k"], "sm_90": ["other"]}))
    (found,) = parity(gap, whole, HOPPER, "").gaps
    assert (found.extension, found.kernels) == ("axpy/_C", ("k",))
    assert parity(whole, gap, HOPPER, "").gaps == ()
    assert parity(gap, gap, HOPPER, "").gaps == ()


def test_an_lto_only_member_is_an_architecture_without_kernels() -> None:
    before = held(member(sections={".nv_fatbin": fatbin(Entry("lto-ir", 90, b"\xb3\x8f\x6d\x6c" + bytes(60)))}))
    difference = compare(held({"sm_90": ["k"]}), before)
    assert [(each.architecture, each.kernels) for each in difference.architectures_lost] == [("lto_90", 0)]
