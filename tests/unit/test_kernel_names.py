"""Kernel names as nvcc writes them, of every form, and what is left of them once normalised."""

from __future__ import annotations

import time

import pytest

from qualify.kernelnames import normalised, respelt

#: As the released vLLM 0.33.0 wheels hold them, x86_64 and aarch64.
RELEASED = (
    "_ZN66_GLOBAL__N__24963849_28_dcp_direct_a2a_lse_reduce_cu_6b687e18_759313signal_kernelEPKlS1_ll",
    "_ZN66_GLOBAL__N__24963849_28_dcp_direct_a2a_lse_reduce_cu_d1c01ebb_627913signal_kernelEPKlS1_ll",
)


def test_the_two_released_spellings_are_one_kernel() -> None:
    assert {normalised(name) for name in RELEASED} == {
        "_ZN39_GLOBAL__N.dcp_direct_a2a_lse_reduce_cu13signal_kernelEPKlS1_ll"
    }
    assert {source for _, source in respelt(RELEASED).values()} == {"24963849"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_ZN3cub17CUB_300001_SM_9006detail11EmptyKernelIvEEvv", "_ZN3cub5CCCL.6detail11EmptyKernelIvEEvv"),
        ("_ZN3cub18CUB_300001_SM_10006detail11EmptyKernelIvEEvv", "_ZN3cub5CCCL.6detail11EmptyKernelIvEEvv"),
        ("_ZN3cub16_V_300200_SM_9006detail11EmptyKernelIvEEvv", "_ZN3cub5CCCL.6detail11EmptyKernelIvEEvv"),
        ("_ZN33_INTERNAL_67223d63_6_k_1_cu_plain1kEv", "_ZN16_INTERNAL.k_1_cu1kEv"),
        # Before CUDA 11.3 the temporary file's name stood where the file's stands.
        (
            "_ZN74_GLOBAL__N__50_tmpxft_0000a1b2_00000000_7_k_cu_compute_90_cpp1_ii_1234abcd1kEv",
            "_ZN15_GLOBAL__N.k_cu1kEv",
        ),
    ],
)
def test_every_form(name: str, expected: str) -> None:
    assert normalised(name) == expected
    assert normalised(expected) == expected


def test_folders_are_told_apart_by_what_was_lost() -> None:
    one, other = (f"_ZN33_INTERNAL_{path}_6_k_1_cu_plain1kEv" for path in ("67223d63", "00000000"))
    found = respelt([one, other, "_Z5plainv"])
    assert found == {
        one: ("_ZN16_INTERNAL.k_1_cu1kEv", "67223d63"),
        other: ("_ZN16_INTERNAL.k_1_cu1kEv", "00000000"),
    }


@pytest.mark.parametrize("piece", ["9999_INTERNAL_", "9999CUB_1", "9999THRUST_1_SM_1", "__nv_static_999_", "9"])
def test_a_mebibyte_of_what_is_nearly_a_name_takes_no_second_per_reading(piece: str) -> None:
    start = time.process_time()
    normalised(piece * ((1 << 20) // len(piece)))
    assert time.process_time() - start < 10  # measured: at most 0.5 s; a quadratic one takes hours
