"""Kernel names of two builds of one source are equal once normalised, and no two kernels become one."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from qualify.kernelnames import normalised, respelt

HASH = st.text("0123456789abcdef", min_size=8, max_size=8)
FILE = st.from_regex(r"[a-z][a-z0-9_]{0,20}_cu", fullmatch=True)
IDENTIFIER = st.from_regex(r"[a-z][A-Za-z_]{0,20}", fullmatch=True)
ARCHITECTURES = st.lists(
    st.sampled_from(["500", "750", "800", "860", "890", "900", "1000", "1200"]), min_size=1, unique=True
)


def spelt(identifier: str) -> str:
    """An identifier behind its length (Itanium C++ ABI, 5.1.2)."""
    return f"{len(identifier)}{identifier}"


def internal(path: str, file: str, unit: str, kernel: str) -> str:
    """A kernel in an anonymous namespace, as nvcc names it."""
    return f"_ZN{spelt(f'_GLOBAL__N__{path}_{len(file)}_{file}_{unit}')}{spelt(kernel)}EPfi"


def library(name: str, version: str, architectures: list[str], suffix: str, kernel: str) -> str:
    """A kernel in the inline namespace of CUB or Thrust."""
    namespace = f"{name}_{version}_SM_{'_'.join(architectures)}{suffix}"
    return f"_ZN3cub{spelt(namespace)}6detail{spelt(kernel)}IfEEvPT_"


@given(paths=st.tuples(HASH, HASH), units=st.tuples(HASH, HASH), file=FILE, kernel=IDENTIFIER)
def test_hashes_of_paths_and_units_make_no_difference(
    paths: tuple[str, str], units: tuple[str, str], file: str, kernel: str
) -> None:
    one, other = (internal(path, file, unit, kernel) for path, unit in zip(paths, units, strict=True))
    assert normalised(one) == normalised(other)
    assert file in normalised(one)
    assert kernel in normalised(one)


@given(
    name=st.sampled_from(["CUB", "THRUST"]),
    suffixes=st.tuples(st.sampled_from(["", "_NS"]), st.sampled_from(["", "_NS"])),
    lists=st.tuples(ARCHITECTURES, ARCHITECTURES),
    kernel=IDENTIFIER,
)
def test_the_list_of_architectures_makes_no_difference(
    name: str, suffixes: tuple[str, str], lists: tuple[list[str], list[str]], kernel: str
) -> None:
    one, other = (library(name, "300001", each, suffix, kernel) for each, suffix in zip(lists, suffixes, strict=True))
    assert normalised(one) == normalised(other)


@given(path=HASH, unit=HASH, files=st.tuples(FILE, FILE), kernels=st.tuples(IDENTIFIER, IDENTIFIER))
def test_other_kernels_and_other_files_stay_apart(
    path: str, unit: str, files: tuple[str, str], kernels: tuple[str, str]
) -> None:
    assume(files != (files[0], files[0]) or kernels[0] != kernels[1])
    one, other = (internal(path, file, unit, kernel) for file, kernel in zip(files, kernels, strict=True))
    if one != other:
        assert normalised(one) != normalised(other)


@given(name=st.text("_ZN0123456789abcdefGLOBALINTERNSMCUB_ vstaic", max_size=120))
def test_normalising_twice_is_normalising_once(name: str) -> None:
    once = normalised(name)
    assert normalised(once) == once


@given(names=st.lists(IDENTIFIER, max_size=10), path=HASH, unit=HASH, file=FILE, kernel=IDENTIFIER)
def test_only_names_that_change_are_respelt(names: list[str], path: str, unit: str, file: str, kernel: str) -> None:
    changed = internal(path, file, unit, kernel)
    assert respelt([*names, changed]) == {changed: (normalised(changed), path)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_Z4axpyifPKfPf", "_Z4axpyifPKfPf"),
        (
            "_ZN66_GLOBAL__N__24963849_28_dcp_direct_a2a_lse_reduce_cu_6b687e18_759326dispatch_output_lse_kernelIfEEvPf",
            "_ZN39_GLOBAL__N.dcp_direct_a2a_lse_reduce_cu26dispatch_output_lse_kernelIfEEvPf",
        ),
        ("__nv_static_24__67223d63_6_k_1_cu_plain__Z4statPf", "__nv_static.k_1_cu__Z4statPf"),
        ("_ZN43CUB_300001_SM_750_800_860_890_900_1000_12006detail5emptyEv", "_ZN5CCCL.6detail5emptyEv"),
        ("_ZN23THRUST_300001_SM_900_NS5emptyEv", "_ZN5CCCL.5emptyEv"),
        ("_ZN99_GLOBAL__N__24963849_28_short", "_ZN99_GLOBAL__N__24963849_28_short"),
    ],
)
def test_real_spellings(name: str, expected: str) -> None:
    assert normalised(name) == expected


@pytest.mark.parametrize(
    "piece", ["9", "_GLOBAL__N__", "1_GLOBAL__N__00000000_1_a_0", "CUB_3", "__nv_static_1_", "40_INTERNAL_"]
)
def test_a_mebibyte_takes_a_time_that_grows_with_its_length(piece: str) -> None:
    def seconds(length: int) -> float:
        name = piece * (length // len(piece))
        start = time.process_time()
        normalised(name)
        return time.process_time() - start

    small, large = seconds(1 << 17), seconds(1 << 20)
    assert large < 40 * small + 0.5  # eight times as long; a quadratic one takes 64 times
