"""Cubins: kernels by STO_CUDA_ENTRY, SM numbers of both ABI versions, notes."""

from __future__ import annotations

import struct

import pytest

from qualify.errors import MalformedError, UnverifiedError
from qualify.readers.cubin import is_cubin, read_cubin
from tests.support.cubin import cubin
from tests.support.elf import host_elf


def test_kernels_and_functions_are_told_apart() -> None:
    read = read_cubin(cubin(90, ["k1", "k2"], functions=["device_function"], helpers=["$__internal_0_$div"]))
    assert read.kernels == (b"k1", b"k2")
    assert read.functions == (b"device_function",)
    assert (read.sm, read.note_sms, read.note_architectures, read.toolkit) == (90, (90,), ("sm_90",), "13.0")


@pytest.mark.parametrize("abi", [7, 8])
@pytest.mark.parametrize("sm", [75, 90, 100, 121])
def test_the_sm_number_of_both_abi_versions(abi: int, sm: int) -> None:
    assert read_cubin(cubin(sm, abi=abi, notes=False)).sm == sm


def test_an_unknown_abi_version_is_not_guessed() -> None:
    with pytest.raises(UnverifiedError, match="ABI version 9"):
        read_cubin(cubin(abi=9))


def test_the_stub_of_a_device_link_holds_nothing() -> None:
    read = read_cubin(cubin(90, []))
    assert (read.kernels, read.functions) == ((), ())


def test_suffix_and_toolkit_come_from_the_notes() -> None:
    read = read_cubin(cubin(120, suffix="f", toolkit=(12, 9)))
    assert (read.note_architectures, read.toolkit) == (("sm_120f",), "12.9")
    assert read_cubin(cubin(120, toolkit=(12, 8), note_form=1)).toolkit == "12.8"
    read = read_cubin(cubin(120, notes=False))
    assert (read.note_sms, read.note_architectures, read.toolkit) == ((), (), "")


def test_more_sections_than_sixteen_bits_count() -> None:
    names = [f"k{index}" for index in range(3)]
    assert read_cubin(cubin(90, names, extended_numbering=True)).kernels == (b"k0", b"k1", b"k2")


def test_is_cubin_by_machine() -> None:
    assert is_cubin(cubin())
    assert not is_cubin(host_elf())
    assert not is_cubin(b"\x7fELF")


def _symbol_field(data: bytes, name: bytes, offset: int, layout: str, value: int) -> bytes:
    """The cubin with one field of the symbol ``name`` changed."""
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * index) for index in range(count)]
    symbols = next(row for row in rows if row[1] == 2)
    strings = rows[symbols[6]]
    changed = bytearray(data)
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        start = strings[4] + struct.unpack_from("<I", data, at)[0]
        if data[start : data.index(b"\0", start)] == name:
            struct.pack_into(layout, changed, at + offset, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("section", "fragment"),
    [(60_000, "of "), (1, "holds no code")],
)
def test_a_kernel_without_code_is_malformed(section: int, fragment: str) -> None:
    with pytest.raises(MalformedError, match=fragment):
        read_cubin(_symbol_field(cubin(), b"axpy", 6, "<H", section))


def test_an_undefined_kernel_does_not_count() -> None:
    assert read_cubin(_symbol_field(cubin(), b"axpy", 6, "<H", 0)).kernels == ()


def test_an_empty_section_is_no_code() -> None:
    with pytest.raises(MalformedError, match="holds no code"):
        read_cubin(cubin(code=b""))


def test_a_section_index_beyond_sixteen_bits_needs_its_table() -> None:
    with pytest.raises(MalformedError, match="section indices"):
        read_cubin(_symbol_field(cubin(), b"axpy", 6, "<H", 0xFFFF))


@pytest.mark.parametrize("length", [0, 10, 63, 64, 200, -1])
def test_a_cut_cubin_is_malformed(length: int) -> None:
    with pytest.raises(MalformedError):
        read_cubin(cubin()[:length])


def test_two_symbol_tables_are_malformed() -> None:
    data = bytearray(cubin())
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    struct.pack_into("<I", data, table + 64 * (count - 1) + 4, 2)
    with pytest.raises(MalformedError, match="2 symbol tables"):
        read_cubin(bytes(data))
