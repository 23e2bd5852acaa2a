"""What a difference counts as lost, leaves open, or passes over: each rule turned both ways."""

from __future__ import annotations

from typing import Any

import pytest

from qualify.arch import ComputeCapability
from qualify.diffing import Change, Difference, compare
from qualify.facts import WheelFacts
from tests.support.fatbin import Entry, containers, device_code, ptx
from tests.unit.judging_support import code, member, wheel

HOPPER = ComputeCapability(9, 0)
UNREAD = Entry("cubin", 90, b"\x7fELF rubbish")
ENTRY_POINTS = "axpy-0.1.0.dist-info/entry_points.txt"


def held(code_of_c: Any, **options: Any) -> WheelFacts:
    return wheel({"axpy/_C": code_of_c, "axpy/_host": {}}, **options)


def whats(difference: Difference) -> set[str]:
    return {each.what for each in difference.compilers}


def test_each_loss_counts_alone() -> None:
    plain = wheel()
    for more in ({"axpy/data.txt": "x"}, {ENTRY_POINTS: "[console_scripts]\na = axpy:a\n"}):
        fuller = wheel(files=more)
        assert compare(plain, fuller).loses
        assert compare(plain, fuller, device=HOPPER).loses
        assert not compare(fuller, plain).loses
    fuller = wheel(more={"axpy/_extra": {}})
    assert compare(plain, fuller).loses
    assert not compare(fuller, plain).loses


def test_slower_alone_counts_for_a_device_and_faster_does_not() -> None:
    native, jit = held({"sm_90": ["k"]}), held({"compute_80": ["k"]})
    assert compare(jit, native, device=HOPPER).loses
    assert not compare(native, jit, device=HOPPER).loses


@pytest.mark.parametrize(
    ("gone", "lost"),
    [
        ({}, True),  # no device code by nature
        ({"sm_90": ["k"]}, True),
        ({"sm_100": ["k"]}, False),  # never ran on this device
        (member(UNREAD), True),  # nobody knows
    ],
)
def test_an_extension_that_is_gone_counts_where_it_served_the_device(gone: Any, lost: bool) -> None:
    without, having = held({"sm_90": ["k"]}), wheel({"axpy/_C": {"sm_90": ["k"]}, "axpy/_host": {}, "axpy/_b": gone})
    target, back = (compare(*pair, device=HOPPER).target for pair in ((without, having), (having, without)))
    assert target is not None
    assert back is not None
    assert bool(target.lost) is bool(back.gained) is lost


def test_what_an_entry_that_could_not_be_read_might_hold_is_unknown() -> None:
    whole = held({"sm_90": ["k"]})
    for entries in ((UNREAD,), (code("sm_90", "other"), UNREAD), (code("compute_80", "k"), UNREAD)):
        difference = compare(held(member(*entries)), whole, device=HOPPER)
        assert difference.target is not None
        (row,) = difference.target.extensions
        assert (row.lost, row.slower, row.unknown) == ((), (), ("k",))
        assert difference.leaves_open
        assert not difference.loses


def test_what_the_control_could_not_be_read_for_is_not_gained() -> None:
    difference = compare(held({"sm_90": ["a", "b"]}), held(member(code("sm_90", "a"), UNREAD)))
    assert [row.gained for row in difference.kernels] == [()]
    assert difference.leaves_open
    only = compare(held({"sm_90": ["a"]}), held(member(UNREAD)))
    assert only.architectures_gained == ()
    assert compare(held(member(UNREAD)), held({"sm_90": ["a"]})).architectures_lost == ()


def test_an_extension_of_one_wheel_is_not_said_to_be_unread_as_well() -> None:
    without, having = (
        held({"sm_90": ["k"]}),
        wheel({"axpy/_C": {"sm_90": ["k"]}, "axpy/_host": {}, "axpy/_b": member(UNREAD)}),
    )
    assert not any("could not be read" in sentence for sentence in compare(without, having).unknown)


def test_files_of_one_name_in_two_folders_have_a_place_each_on_a_device() -> None:
    def hashed(path: str) -> str:
        identifier = f"_GLOBAL__N__{path}_4_a_cu_00000001"
        return f"_ZN{len(identifier)}{identifier}1kEv"

    one, other = (hashed(path) for path in ("0123abcd", "ffff0000"))
    difference = compare(held({"sm_90": [one], "sm_100": [other]}), held({"sm_90": [one, other]}), device=HOPPER)
    assert difference.target is not None
    (row,) = difference.target.extensions
    assert row.control == 2
    assert row.candidate == 1
    assert row.lost == ("_ZN15_GLOBAL__N.a_cu1kEv #2",)


def test_how_code_was_compiled() -> None:
    def packed(compression: str) -> WheelFacts:
        return held(member(sections={".nv_fatbin": containers(device_code({"sm_90": ["k"]}, compression=compression))}))

    def noted(options: str) -> WheelFacts:
        return held(member(code("sm_90", "k", options=options)))

    def text(isa: tuple[int, int] = (9, 0), *, debug: bool = False) -> WheelFacts:
        return held(member(Entry("ptx", 90, ptx("compute_90", ["k"], isa), isa=isa, debug=debug)))

    assert Change("axpy/_C", "compression", "lz4", "zstd") in compare(packed("zstd"), packed("lz4")).compilers
    assert "options" in whats(compare(noted("-arch sm_90 -g"), noted("-arch sm_90")))
    assert "options" not in whats(compare(noted("-arch sm_90 -m 64"), noted("-arch sm_90a -m 64")))
    assert Change("axpy/_C", "debug", "", "debug") in compare(text(debug=True), text()).compilers
    assert Change("axpy/_C", "PTX ISA", "9.0", "8.7") in compare(text((8, 7)), text()).compilers


def test_tags_and_the_spelling_of_requirements() -> None:
    before, now = wheel(requires=["Torch_Lib >=2"]), wheel(requires=["torch-lib>=2"])
    assert compare(now, before).metadata == ()
    other = wheel(tag="cp311-abi3-manylinux_2_34_x86_64")
    assert {each.what for each in compare(other, before).metadata} >= {"Tag of the file name", "Tag of WHEEL"}
