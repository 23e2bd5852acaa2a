"""Whose a library is: by name, under a repair tool's hash, by exports; and of which CUDA."""

from __future__ import annotations

import pytest

from qualify import sonames
from qualify.facts import Member
from qualify.sonames import Owner
from tests.support.elf import host_elf
from tests.unit.judging_support import member, wheel

SIGNATURES = [(owner, stem, symbols) for owner, stem, symbols in sonames._SIGNATURES]


def library(path: str = "axpy/libx.so", **options: object) -> Member:
    """The facts of one member."""
    facts = wheel(files={path: host_elf(**options)})  # type: ignore[arg-type]
    return next(found for found in facts.members if found.path == path)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("libcudart.so.13", "libcudart"),
        ("libcudart-1a2b3c4d.so.13.0.48", "libcudart"),
        ("libopenblasp-r0-59ffcd50.3.15.so", "libopenblasp-r0"),
        ("libgfortran-040039e1-0352e75f.so.5.0.0", "libgfortran"),
        ("libcudart.e8e8b82a.so.12", "libcudart"),
        ("libcudart-12345678.so.12", "libcudart"),
        ("libnvrtc-builtins.so.13.0", "libnvrtc-builtins"),
        ("libfoo-deadbee.so", "libfoo-deadbee"),
    ],
)
def test_a_hash_is_taken_off(name: str, stem: str) -> None:
    assert sonames.stem(name) == stem


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("libcudart-1a2b3c4d.so.13.0.48", True),
        ("libscipy_openblas64_-4b78795a.so", True),
        ("libopenblasp-r0-59ffcd50.3.15.so", True),
        ("libgfortran-040039e1-0352e75f.so.5.0.0", True),
        ("libcudart.e8e8b82a.so.12", True),
        ("libjpeg.20250116.so.8", False),
        ("libfoo-20250116.so", False),
        ("libfoo.so.e8e8b82a", False),
        ("a/libcudart-1a2b3c4d.so.13", False),
        ("libcudart.so.13", False),
        ("libnvrtc-builtins.so.13.0", False),
        ("libfoo-deadbee.so", False),
        ("libfoo-DEADBEEF.so", False),
        ("lib-deadbeef", False),
    ],
)
def test_a_name_that_a_repair_tool_gave(name: str, answer: bool) -> None:
    assert sonames.renamed(name) is answer


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("libcuda.so.1", Owner.DRIVER),
        ("libcuda.so.580.65.06", Owner.DRIVER),
        ("libnvidia-ml.so.1", Owner.DRIVER),
        ("libnvidia-encode.so.1", Owner.DRIVER),
        ("libnvcuvid.so.1", Owner.DRIVER),
        ("libcudart.so.13", Owner.CUDA),
        ("libcudart.so.11.0", Owner.CUDA),
        ("libcudnn_engines_precompiled.so.9", Owner.CUDA),
        ("libnppicc.so.13", Owner.CUDA),
        ("libnvJitLink.so.13", Owner.CUDA),
        ("libnvrtc-builtins.so.13.0", Owner.CUDA),
        ("libnvshmem_host.so.3", Owner.CUDA),
        ("libtorch.so", Owner.TORCH),
        ("libtorch_python.so", Owner.TORCH),
        ("libc10_cuda.so", Owner.TORCH),
        # Links of the development packages, and names that are nobody's.
        ("libcuda.so", None),
        ("libcudart.so", None),
        ("libnccl.so", None),
        ("libtorch.so.2", None),
        ("libcudart-1a2b3c4d.so.13", None),
        ("libtorchcodec_core4.so", None),
        ("libtorch_mine.so", None),
        ("libcudart.a", None),
        ("libcudart.so.13.debug", None),
        ("libc10d.so", None),
        ("libnccl-net.so.0", None),
        ("", None),
    ],
)
def test_who_brings_what_is_asked_for(name: str, owner: Owner | None) -> None:
    assert sonames.provided_as(name) is owner


@pytest.mark.parametrize(
    ("name", "majors"),
    [
        ("libcudart.so.11.0", {11}),
        ("libcudart-1a2b3c4d.so.12.9.79", {12}),
        ("libcudart.e8e8b82a.so.12", {12}),
        ("libnvrtc.so.13", {13}),
        ("libnppc.so.12", {12}),
        ("libcufft.so.12", {13}),
        ("libcufft.so.11", {12}),
        ("libcusolver.so.11", {11, 12}),
        ("libcusolver.so.12", {13}),
        ("libcusparse.so.12", {12, 13}),
        ("libcurand.so.10", set()),
        ("libcudnn.so.9", set()),
        ("libcufft.so.99", set()),
        ("libcudart.so", set()),
        ("libcuda.so.1", set()),
        ("libtorch.so", set()),
        ("libmine.so.13", set()),
    ],
)
def test_the_cuda_majors_that_have_a_library(name: str, majors: set[int]) -> None:
    assert sonames.cuda_majors(name) == majors


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("libpython3.12.so.1.0", True),
        ("libpython3.13t.so.1.0", True),
        ("libpython3.11d.so.1.0", True),
        ("libpython3.so", True),
        ("libpython2.7.so.1.0", False),
        ("libpython3.12.so.2", False),
        ("libpythonic.so", False),
    ],
)
def test_python_s_own_library(name: str, answer: bool) -> None:
    assert sonames.is_libpython(name) is answer


@pytest.mark.parametrize(("owner", "stem", "symbols"), SIGNATURES, ids=[row[1] for row in SIGNATURES])
def test_a_library_under_another_name_is_known_by_all_of_its_signature(
    owner: Owner, stem: str, symbols: tuple[str, ...]
) -> None:
    found = sonames.bundled(library(defined=("a", *symbols, "z")))
    assert found is not None
    assert (found.owner, found.stem) == (owner, stem)
    assert symbols[0] in found.sign
    for missing in symbols:
        rest = tuple(symbol for symbol in symbols if symbol != missing)
        assert sonames.bundled(library(defined=rest)) is None
        assert sonames.bundled(library(defined=rest, undefined=[missing])) is None


def test_signatures_are_of_several_symbols_and_share_none_whole() -> None:
    for _, stem, symbols in SIGNATURES:
        assert len(set(symbols)) >= 2, stem
        assert not any(set(symbols) <= set(other) for _, name, other in SIGNATURES if name != stem)


def test_a_name_tells_before_exports_do() -> None:
    found = sonames.bundled(library("axpy.libs/libcublas-0a1b2c3d.so.13.1", soname="libcublas-0a1b2c3d.so.13.1"))
    assert found == sonames.Known(Owner.CUDA, "libcublas", "libcublas-0a1b2c3d.so.13.1")
    assert sonames.bundled(library(soname="libnccl.so.2")) == sonames.Known(Owner.CUDA, "libnccl", "libnccl.so.2")


def test_what_is_no_library_is_nobody_s() -> None:
    cudart = next(symbols for _, stem, symbols in SIGNATURES if stem == "libcudart")
    facts = wheel({"axpy/_C": member(defined=("PyInit__C", *cudart))}, files={"axpy/libcuda.so.1.txt": "no library"})
    assert [sonames.bundled(found) for found in facts.members] == [None] * len(facts.members)
    assert sonames.bundled(library("axpy/tool", elf_type="exec", defined=cudart)) is None


def test_the_names_under_which_a_member_is_found() -> None:
    assert sonames.names_of(library("a/libx.so.1.2", soname="libx.so.1")) == ("libx.so.1.2", "libx.so.1")
    assert sonames.names_of(library("a/libx.so.1", soname="libx.so.1")) == ("libx.so.1",)
    assert sonames.names_of(library("a/libx.so")) == ("libx.so",)
