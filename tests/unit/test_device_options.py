"""What a compiler was told: in a cubin's note, in the header of a PTX entry; and headers of older and other forms."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from qualify.readers.binary import Limits
from qualify.readers.cubin import read_cubin
from tests.support.context import code, read
from tests.support.cubin import cubin, tkinfo
from tests.support.elf import host_elf
from tests.support.fatbin import Entry, entry, fatbin, ptx


def library(*entries: Entry) -> bytes:
    return host_elf(sections={".nv_fatbin": fatbin(*entries)})


def test_a_cubins_command_line_is_that_of_its_note() -> None:
    member, problems = read(library(entry("sm_120f", ["k"], options="-g --device-debug ")))
    assert problems == ()
    assert member.containers[0].entries[0].options == "-arch sm_120f -m 64 -g --device-debug"
    member, problems = read(cubin(90, ["k"], suffix="a"), "k.cubin")
    assert (member.containers[0].entries[0].options, problems) == ("-arch sm_90a -m 64", ())


def test_without_a_note_there_is_none() -> None:
    member, problems = read(library(entry("sm_90", ["k"], notes=False)))
    assert (member.containers[0].entries[0].options, problems) == ("", ())


def test_a_note_of_a_form_that_is_not_known_says_nothing_of_options() -> None:
    good = tkinfo("sm_90", "13.0")
    payload = cubin(90, ["k"])
    at = payload.index(good)
    # The last of the six numbers says where the command line begins.
    for place in (1 << 20, 0xFFFFFFFF, 0):
        changed = bytearray(payload)
        struct.pack_into("<I", changed, at + 24 + 20, place)
        read_back = read_cubin(bytes(changed))
        assert (read_back.options, read_back.note_architectures) == ("", ("sm_90",))


def test_a_command_line_that_no_compiler_has_is_cut() -> None:
    assert read_cubin(cubin(90, options="x" * 5000)).options.endswith("x…")
    assert len(read_cubin(cubin(90, options="x" * 5000)).options) == 1001


def test_ptx_carries_what_it_is_to_be_compiled_with() -> None:
    member, problems = read(library(replace(entry("compute_80", ["k"]), options="-v -O2  ")))
    assert problems == ()
    assert [found.options for found in member.containers[0].entries] == ["-v -O2"]


@pytest.mark.parametrize("place", [(80, 4000), (1 << 31, 8), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_options_past_the_header_are_malformed_and_the_next_entry_is_read(place: tuple[int, int]) -> None:
    blob = bytearray(fatbin(replace(entry("compute_80", ["k"]), options="-O2"), entry("sm_90", ["k"])))
    struct.pack_into("<II", blob, 16 + 64, *place)
    member, problems = read(host_elf(sections={".nv_fatbin": bytes(blob)}))
    assert [(problem.kind.value, "options" in problem.detail) for problem in problems] == [("malformed", True)]
    assert [found.readable for found in member.containers[0].entries] == [False, True]
    assert code(member)["compute_80"][1] == set()


def test_an_extended_header_that_is_not_there_is_malformed() -> None:
    blob = bytearray(fatbin(entry("compute_80", ["k"])))
    struct.pack_into("<I", blob, 16 + 20, 76)
    _, problems = read(host_elf(sections={".nv_fatbin": bytes(blob)}))
    assert [(problem.kind.value, "options" in problem.detail) for problem in problems] == [("malformed", True)]


def test_an_identifier_between_header_and_payload() -> None:
    member, problems = read(
        library(
            replace(entry("sm_90", ["k"]), identifier="kernels/axpy.cu", debug=True),
            replace(entry("compute_80", ["k"]), identifier="kernels/axpy.cu", options="-O2"),
        )
    )
    assert (code(member), problems) == ({"sm_90": (1, {"k"}, set()), "compute_80": (1, {"k"}, set())}, ())
    assert [(found.debug, found.options) for found in member.containers[0].entries] == [
        (True, "-arch sm_90 -m 64"),
        (False, "-O2"),
    ]


def test_ptx_of_an_old_header_has_no_place_for_options() -> None:
    blob = bytearray(fatbin(replace(entry("compute_80", ["k"], compression="none"), isa=(9, 0))))
    struct.pack_into("<I", blob, 16 + 20, 0)
    member, problems = read(host_elf(sections={".nv_fatbin": bytes(blob)}))
    assert (code(member)["compute_80"][1], member.containers[0].entries[0].options, problems) == ({"k"}, "", ())


def test_code_for_32_bit_processes_is_not_known() -> None:
    """The entry's flag, the class of a cubin and the address size of PTX text each say it."""
    flags = {"flags": 0x10 | 0x8000}
    small = ptx("compute_80", ["k"]).replace(b".address_size 64", b".address_size 32")
    for fault in (
        replace(entry("sm_90", ["k"]), overrides=flags),
        replace(entry("compute_80", ["k"]), overrides=flags),
        replace(entry("compute_80", ["k"]), payload=small),
    ):
        member, problems = read(library(fault, entry("sm_90", ["other"])))
        assert [(problem.kind.value, "32-bit" in problem.detail) for problem in problems] == [("unreadable", True)]
        assert [found.readable for found in member.containers[0].entries] == [False, True]


@pytest.mark.parametrize("abi", [0, 6, 9, 255])
def test_an_abi_version_that_is_not_known_is_unreadable_whatever_else_is_there(abi: int) -> None:
    whole = cubin(90, ["k"])
    for payload in (whole, whole[: len(whole) - 64 * 3]):
        changed = bytearray(payload)
        changed[8] = abi
        _, problems = read(library(replace(entry("sm_90"), payload=bytes(changed)), entry("sm_80")))
        assert [(problem.kind.value, "ABI version" in problem.detail) for problem in problems] == [("unreadable", True)]


def test_command_lines_count_against_the_bound_on_names() -> None:
    entries = [entry("sm_90", ["k"], options=f"-o{index:0900}") for index in range(20)]
    member, problems = read(library(*entries), limits=Limits(name_bytes=5000))
    assert sum(len(found.options) for found in member.containers[0].entries) < 5000
    assert {problem.kind.value for problem in problems} <= {"unreadable"}
