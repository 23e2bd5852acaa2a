"""Counting kernels: by name, at their best, by container, and what was not read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pytest

from qualify.arch import ComputeCapability, DriverAnswer, Support
from qualify.coverage import entry_driver, entry_support, kernels_of, summarize
from qualify.facts import Compression, Container, Entry, EntryKind, Member, MemberKind

HOPPER = ComputeCapability(9, 0)
SPARK = ComputeCapability(12, 1)


def entry(architecture: str, kernels: Sequence[int] = (), **changes: object) -> Entry:
    ptx = architecture.startswith("compute")
    made = Entry(
        kind=EntryKind.PTX if ptx else EntryKind.CUBIN,
        raw_kind=1 if ptx else 2,
        architecture=architecture,
        isa="9.0" if ptx else "",
        toolkit="" if ptx else "13.0",
        compression=Compression.ZSTD,
        stored_size=10,
        size=20,
        debug=False,
        options="",
        kernels=tuple(kernels),
        functions=(),
        readable=True,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def member(*containers: Sequence[Entry], symbols: Sequence[str] = ("k0", "k1", "k2", "k3")) -> Member:
    made = tuple(Container(".nv_fatbin", 64 * index, tuple(entries)) for index, entries in enumerate(containers))
    return Member("pkg/_C.abi3.so", MemberKind.EXTENSION, 1, 1, "", None, tuple(symbols), made)


def best(of: Member, device: ComputeCapability) -> Mapping[str, str]:
    return {name: support.value for name, support in kernels_of(of, device).best.items()}


def test_a_kernel_counts_once_at_its_best() -> None:
    of = member(
        [entry("sm_80", [0, 1, 2]), entry("sm_90", [0])],
        [entry("sm_80", [0, 1]), entry("compute_80", [0, 1, 2])],
        [entry("sm_100", [3])],
    )
    assert best(of, HOPPER) == {"k0": "exact", "k1": "jit", "k2": "jit", "k3": "none"}
    row = summarize(kernels_of(of, HOPPER))
    assert (row.native, row.jit, row.none, row.exact) == (1, 2, 1, 1)


def test_the_same_kernel_in_two_containers_is_one_kernel_and_two_containers() -> None:
    of = member([entry("sm_90", [0])], [entry("sm_100", [0])])
    row = summarize(kernels_of(of, HOPPER))
    assert (row.native, row.none) == (1, 0)
    assert (row.containers_native, row.containers_jit, row.containers_none) == (1, 0, 1)


def test_native_tells_exact_from_same_major_from_family() -> None:
    of = member([entry("sm_121", [0])], [entry("sm_120", [0, 1])], [entry("sm_120f", [1, 2])])
    row = summarize(kernels_of(of, SPARK))
    assert (row.exact, row.same_major, row.family, row.native) == (1, 1, 1, 3)


def test_an_entry_without_a_kernel_covers_nothing() -> None:
    stub = member([entry("sm_90")], [entry("sm_90"), entry("sm_100", [0])])
    kernels = kernels_of(stub, HOPPER)
    assert kernels.native == ()
    assert [container.best for container in kernels.containers] == [Support.NONE]
    assert kernels.entries == 3
    only_stubs = kernels_of(member([entry("sm_90")]), HOPPER)
    assert not only_stubs.has_kernels
    assert only_stubs.containers == ()


def test_lto_ir_runs_nowhere_and_an_unknown_kind_is_unknown() -> None:
    assert entry_support(entry("compute_90", kind=EntryKind.LTO_IR), HOPPER) is Support.NONE
    assert entry_support(entry("", kind=EntryKind.UNKNOWN), HOPPER) is Support.UNKNOWN
    assert entry_support(entry("sm_xyz"), HOPPER) is Support.UNKNOWN


def test_what_could_not_be_read_is_neither_covered_nor_uncovered() -> None:
    unread = entry("sm_90", readable=False)
    kernels = kernels_of(member([unread, entry("sm_100", [0])], [unread, entry("compute_80", [1])]), HOPPER)
    assert kernels.unread == 2
    assert [container.best for container in kernels.containers] == [Support.UNKNOWN, Support.JIT]
    alone = kernels_of(member([unread]), HOPPER)
    assert alone.has_kernels
    assert summarize(alone).containers_unknown == 1


def test_what_could_not_be_read_of_another_architecture_hides_nothing() -> None:
    kernels = kernels_of(member([entry("sm_100", readable=False), entry("sm_100", [0])]), HOPPER)
    assert kernels.unread == 0
    assert kernels.containers[0].best is Support.NONE


def test_a_refused_entry_leaves_its_kernels_uncovered() -> None:
    of = member([entry("sm_90", [0], toolkit="14.0"), entry("compute_80", [0, 1])])
    kept = kernels_of(of, HOPPER, lambda each: entry_driver(each, "13.0") is not DriverAnswer.NO)
    assert kept.best == {"k0": Support.JIT, "k1": Support.JIT}
    none = kernels_of(of, HOPPER, lambda _: False)
    assert none.none == ("k0", "k1")


# What an H200 (CC 9.0, driver of CUDA 13.0) found of k0 and k1 in containers of two images, each loaded by
# cuModuleLoadFatBinary and looked for by cuModuleGetFunction; what isn't here was CUDA_ERROR_NOT_FOUND.
LOADED: Mapping[tuple[tuple[str, tuple[int, ...]], ...], Mapping[str, str]] = {
    (("sm_90", (0,)), ("compute_80", (0, 1))): {"k0": "exact"},
    (("compute_80", (0, 1)), ("sm_90", (0,))): {"k0": "exact"},
    (("sm_90", (0,)), ("sm_90a", (1,))): {"k1": "exact"},
    (("sm_90a", (1,)), ("sm_90", (0,))): {"k1": "exact"},
    (("sm_90", (0,)), ("compute_90a", (1,))): {"k0": "exact"},
    (("sm_90a", (0,)), ("compute_90a", (0, 1))): {"k0": "exact"},
    (("compute_80", (0,)), ("compute_90", (1,))): {"k1": "jit"},
    (("compute_90", (1,)), ("compute_80", (0,))): {"k1": "jit"},
    (("compute_90", (0,)), ("compute_90a", (1,))): {"k1": "jit"},
    (("sm_90", (0,)), ("sm_90", (1,))): {"k0": "exact"},
    (("sm_90", (1,)), ("sm_90", (0,))): {"k1": "exact"},
}


@pytest.mark.parametrize("images", LOADED, ids=str)
def test_of_a_container_one_image_is_loaded(images: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    kernels = kernels_of(member([entry(*image) for image in images]), HOPPER)
    runs = {name: support.value for name, support in kernels.best.items() if support is not Support.NONE}
    assert runs == LOADED[images]
    assert set(kernels.hidden) == {"k0", "k1"} - set(runs)


def test_an_empty_cubin_hides_the_ptx_beside_it_and_not_that_of_another_container() -> None:
    empty = [entry("sm_90"), entry("compute_80", [0])]
    hidden = kernels_of(member(empty), HOPPER)
    assert (hidden.hidden, hidden.jit, hidden.containers[0].best) == (("k0",), (), Support.NONE)
    elsewhere = kernels_of(member(empty, [entry("compute_80", [0])]), HOPPER)
    assert (elsewhere.hidden, elsewhere.jit) == ((), ("k0",))
    assert [container.best for container in elsewhere.containers] == [Support.NONE, Support.JIT]


def test_the_closest_minor_is_loaded() -> None:
    of = member([entry("sm_80", [0, 1]), entry("sm_86", [0])])
    assert best(of, ComputeCapability(8, 9)) == {"k0": "same-major", "k1": "none"}
    assert best(of, ComputeCapability(8, 0)) == {"k0": "exact", "k1": "exact"}


@pytest.mark.parametrize("other", ["sm_120", "sm_121"])
def test_which_of_a_family_image_and_a_plain_one_is_loaded_is_not_known(other: str) -> None:
    of = member([entry(other, [0, 1]), entry("sm_120f", [0, 2])])
    found = best(of, SPARK)
    assert found == {"k0": "exact" if other == "sm_121" else "same-major", "k1": "unknown", "k2": "unknown"}
    assert kernels_of(of, SPARK).hidden == ()


def test_code_without_a_rule_may_be_what_is_loaded() -> None:
    ada = ComputeCapability(8, 9)
    assert best(member([entry("sm_88", [0]), entry("compute_80", [0, 1])]), ada) == {"k0": "jit", "k1": "unknown"}
    assert best(member([entry("sm_88", [0, 1]), entry("sm_89", [0, 1])]), ada) == {"k0": "exact", "k1": "exact"}


def test_images_of_relocatable_code_are_linked_and_no_alternatives() -> None:
    plain = member([entry("sm_90", [0]), entry("compute_80", [0, 1])])
    (container,) = plain.containers
    of = dataclasses.replace(plain, containers=(dataclasses.replace(container, section="__nv_relfatbin"),))
    assert best(of, HOPPER) == {"k0": "exact", "k1": "jit"}


@pytest.mark.parametrize(
    ("architectures", "device", "expected"),
    [
        (["sm_101", "sm_101a", "sm_101f"], ComputeCapability(11, 0), "none"),  # Thor before CUDA 13 called it so
        (["compute_101"], ComputeCapability(11, 0), "jit"),
        (["compute_101a", "compute_101f"], ComputeCapability(11, 0), "none"),
        (["sm_88"], ComputeCapability(8, 9), "unknown"),
        (["sm_88"], ComputeCapability(9, 0), "none"),
        (["compute_121"], ComputeCapability(12, 0), "none"),
        (["compute_120f"], SPARK, "jit"),
        (["compute_121f"], ComputeCapability(12, 0), "none"),
        (["compute_100f"], ComputeCapability(11, 0), "none"),
        (["sm_121", "sm_121"], SPARK, "exact"),
    ],
)
def test_the_kernel_of_a_container(architectures: list[str], device: ComputeCapability, expected: str) -> None:
    of = member([entry(architecture, [0]) for architecture in architectures])
    assert best(of, device) == {"k0": expected}
    assert kernels_of(of, device).containers[0].best.value == expected
