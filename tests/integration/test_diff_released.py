"""The two official wheels of the pin hold the same kernels for every architecture that both ask for."""

from __future__ import annotations

import pytest

from qualify.arch import ComputeCapability
from qualify.diffing import compare
from qualify.fetching import fetch_wheel
from qualify.matrix import load
from qualify.opening import read_wheel
from tests.unit.test_matrix_loader import ROOT

pytestmark = pytest.mark.network


def test_every_architecture_of_both_wheels_differs_by_no_kernel() -> None:
    requirement = load(ROOT / "matrix.yaml").matrix.pin.requirement
    x86_64, aarch64 = (read_wheel(fetch_wheel(requirement, machine, "3.12")) for machine in ("x86_64", "aarch64"))
    difference = compare(aarch64, x86_64, device=ComputeCapability(9, 0))

    assert difference.unknown == ()
    assert difference.extensions.lost == difference.extensions.gained == ()
    assert difference.files.lost == difference.files.gained == difference.files.changed == ()
    differing = {(row.extension, row.architecture): row for row in difference.kernels if row.lost or row.gained}
    # The aarch64 wheel asks for 8.7 and not for 8.6: its sm_86 code is one file's, in one container.
    row = differing.pop(("vllm/_C_stable_libtorch", "sm_86"))
    assert (row.control, row.candidate, row.gained) == (2579, 20, ())
    assert differing == {}
    (member,) = (each for each in aarch64.members if each.path == "vllm/_C_stable_libtorch.abi3.so")
    kernels = [
        entry.kernels
        for container in member.containers
        if any(entry.architecture == "sm_86" and entry.kernels for entry in container.entries)
        for entry in container.entries
        if entry.architecture == "sm_86"
    ]
    assert len(kernels) == 1
    assert all("26_fused_gdn_decode_kernel_cu" in member.symbols[number] for number in kernels[0])
    assert len(difference.kernels) == 31
    assert {each.architecture for each in difference.architectures_lost} == {"sm_75", "sm_86"}
    assert {each.architecture for each in difference.architectures_gained} == {"sm_87", "sm_110", "sm_110f"}

    target = difference.target
    assert target is not None
    assert sum(each.control for each in target.extensions) == sum(each.candidate for each in target.extensions) == 10357
    assert not any(each.lost or each.slower or each.gained for each in target.extensions)
