"""The makers against readers that are not ours: zipfile, pyelftools."""

from __future__ import annotations

import io
import zipfile

import zstandard
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from tests.support.cubin import cubin
from tests.support.elf import host_elf
from tests.support.fatbin import device_code, entry
from tests.support.wheel import ZipMember, make_wheel, zip_bytes


def test_a_wheel_is_a_zip_that_tests_clean() -> None:
    archive = zipfile.ZipFile(io.BytesIO(make_wheel()))
    assert archive.testzip() is None
    assert "axpy/_C.abi3.so" in archive.namelist()
    assert archive.namelist()[-1] == "axpy-0.1.0.dist-info/RECORD"


def test_zip64_and_data_descriptors_read_back() -> None:
    members = [ZipMember("a", b"one" * 99, zip64=True), ZipMember("b", b"two", flags=8), ZipMember("ü", method=0)]
    archive = zipfile.ZipFile(io.BytesIO(zip_bytes(members, zip64=True)))
    assert archive.testzip() is None
    assert {name: archive.read(name) for name in archive.namelist()} == {"a": b"one" * 99, "b": b"two", "ü": b""}


def test_a_host_elf_reads_with_pyelftools() -> None:
    data = host_elf(
        "aarch64",
        soname="libx.so.1",
        needed=["libc.so.6", "libcuda.so.1"],
        runpath="$ORIGIN/../lib",
        version_needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]},
        defined=["PyInit__C"],
        undefined=["memcpy@GLIBC_2.28"],
        sections={".nv_fatbin": b"x" * 24},
    )
    elf = ELFFile(io.BytesIO(data))
    assert elf["e_machine"] == "EM_AARCH64"
    dynamic = elf.get_section_by_name(".dynamic")
    assert [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] == ["libc.so.6", "libcuda.so.1"]
    assert [tag.runpath for tag in dynamic.iter_tags("DT_RUNPATH")] == ["$ORIGIN/../lib"]
    needs = elf.get_section_by_name(".gnu.version_r")
    assert isinstance(needs, GNUVerNeedSection)
    assert {library.name: [aux.name for aux in auxes] for library, auxes in needs.iter_versions()} == {
        "libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"],
        "libstdc++.so.6": ["GLIBCXX_3.4.21"],
    }
    assert elf.get_section_by_name(".nv_fatbin").data() == b"x" * 24
    assert [symbol.name for symbol in elf.get_section_by_name(".dynsym").iter_symbols()] == ["", "memcpy", "PyInit__C"]


def test_a_cubin_has_kernels_functions_and_notes() -> None:
    elf = ELFFile(io.BytesIO(cubin(120, ["k1", "k2"], suffix="f", functions=["helper"])))
    assert elf["e_machine"] == "EM_CUDA"
    assert (elf["e_flags"] >> 8) & 0xFF == 120
    other = {symbol.name: symbol.entry["st_other"] for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
    assert {"k1", "k2", "helper", "printf"} <= set(other)
    assert b"-arch sm_120f" in elf.get_section_by_name(".note.nv.tkinfo").data()
    symbol = elf.get_section_by_name(".symtab").get_symbol_by_name("k2")[0]
    assert elf.get_section(symbol["st_shndx"]).name == ".text.k2"


def test_an_entry_is_compressed_as_asked() -> None:
    raw = entry("sm_90a", ["k"], compression="zstd")
    encoded = raw.encode()
    assert zstandard.ZstdDecompressor().decompress(encoded[64:], max_output_size=1 << 20) == raw.payload
    assert device_code({"compute_80": ["k"]}, compression="none").count(b".entry k(") == 1
