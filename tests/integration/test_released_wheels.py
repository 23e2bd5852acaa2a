"""The released wheels of the pin against the repository's matrix."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from qualify.arch import ComputeCapability
from qualify.coverage import kernels_of
from qualify.facts import WheelFacts
from qualify.fetching import fetch_wheel
from qualify.identity import decide, identity_of_pin, identity_of_wheel
from qualify.judging import Context, judge
from qualify.matrix import load
from qualify.matrix.model import Code, Matrix, Profile
from qualify.opening import read_wheel
from qualify.report import Verdict
from tests.unit.test_matrix_loader import ROOT

pytestmark = pytest.mark.network

HOPPER_AND_DATACENTER_ONLY = {
    "vllm/_deepselect_C.abi3.so",
    "vllm/_flashmla_C.abi3.so",
    "vllm/_flashmla_extension_C.abi3.so",
    "vllm/_qutlass_C.abi3.so",
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
}

# target -> members that hold nothing for it, and containers (native, JIT, none) of _C and of _moe_C
EXPECTED = {
    "x86_64-sm90": (
        {"vllm/_deepselect_C.abi3.so", "vllm/_qutlass_C.abi3.so"},
        (66, 12, 29),
        (8, 15, 12),
    ),
    "aarch64-sm110": (
        HOPPER_AND_DATACENTER_ONLY | {"vllm/_flashkda_C.abi3.so"},
        (61, 20, 19),
        (8, 15, 5),
    ),
    "aarch64-sm121": (HOPPER_AND_DATACENTER_ONLY, (76, 6, 18), (27, 1, 0)),
}


def unused_allowances(matrix: Matrix, target: str, facts: WheelFacts) -> list[str]:
    """Patterns of jit_ok that match no PTX-only kernel any more, and are to be taken out."""
    device = ComputeCapability.parse(matrix.targets[target].compute_capability)
    jit = {
        member.path.partition(".")[0]: kernels_of(member, device).jit for member in facts.members if member.containers
    }
    return [
        f"{member}: {allowance.pattern}"
        for member, expectation in matrix.expectations(target).items()
        for allowance in expectation.jit_ok
        if not any(fnmatchcase(name, allowance.pattern) for name in jit.get(member, ()))
    ]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_pin_s_wheel_qualifies_for_every_target_of_its_machine(machine: str) -> None:
    matrix = load(ROOT / "matrix.yaml").matrix
    facts = read_wheel(fetch_wheel(matrix.pin.requirement, machine, "3.12"))
    assert facts.problems == ()

    identity = identity_of_wheel(facts, matrix.project.version_module)
    assert (identity.commit, decide(identity, identity_of_pin(matrix)).accepted) == ("4ba787ec9", True)

    for target in (name for name, value in matrix.targets.items() if value.machine == machine):
        nothing, core, moe = EXPECTED[target]
        report = judge(facts, Context(matrix=matrix, target=target, profile=Profile.UPSTREAM))
        assert report.verdict is Verdict.QUALIFIED, report.findings
        assert {finding.member for finding in report.findings if finding.slug == "nothing-for-target"} == nothing
        assert [f.member for f in report.findings if f.slug == "jit-only"] == [
            "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"
        ]
        assert {f.member for f in report.findings if f.slug == "partly-jit"} == {
            "vllm/_C_stable_libtorch.abi3.so",
            "vllm/_moe_C_stable_libtorch.abi3.so",
        }
        counts = {
            row.member: (row.containers_native, row.containers_jit, row.containers_none) for row in report.coverage
        }
        assert counts["vllm/_C_stable_libtorch.abi3.so"] == core
        assert counts["vllm/_moe_C_stable_libtorch.abi3.so"] == moe
        assert unused_allowances(matrix, target, facts) == []
        strict = judge(facts, Context(matrix=matrix, target=target, profile=Profile.UPSTREAM, require=Code.NATIVE))
        assert strict.verdict is Verdict.REJECTED
