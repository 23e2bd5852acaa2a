"""The verdicts on the released vLLM 0.33.0 wheels, as a user gets them, held against a snapshot.

The snapshot (tests/data/verdicts-vllm-0.33.0.json) holds verdicts, counts and findings: a difference is a change of
judgement, and wants a reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualify.cli import main

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[2]
SNAPSHOT = json.loads((ROOT / "tests" / "data" / "verdicts-vllm-0.33.0.json").read_text())

Check = Callable[..., tuple[int, dict[str, dict[str, Any]]]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """Run ``check … --json`` with the repository's matrix; the exit code, and the results by target."""

    def call(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
        code = main(["check", "--matrix", str(ROOT / "matrix.yaml"), "--json", *arguments])
        results = json.loads(capsys.readouterr().out)["results"]
        return code, {result["target"]: result for result in results}

    return call


def digest(result: dict[str, Any]) -> dict[str, Any]:
    """What the snapshot keeps of one result."""
    coverage = {
        row["member"]: {
            "kernels": [row["native"], row["jit"], row["none"]],
            "containers": [row["containers_native"], row["containers_jit"], row["containers_none"]],
        }
        for row in result["coverage"]
        if row["native"] or row["jit"] or row["none"]
    }
    findings = sorted(f"{finding['code']} {finding['member']}" for finding in result["findings"])
    return {"wheel": result["wheel"], "verdict": result["verdict"], "coverage": coverage, "findings": findings}


def errors(result: dict[str, Any]) -> set[tuple[str, str]]:
    return {(f["code"], f["member"]) for f in result["findings"] if f["severity"] == "error"}


def test_the_pins_wheels_are_qualified_for_every_target(check: Check) -> None:
    code, results = check("--pin", "--profile", "upstream")
    assert {target: digest(result) for target, result in results.items()} == SNAPSHOT
    assert code == 0


def test_the_other_machines_wheel_is_rejected_for_the_machine(check: Check) -> None:
    _, fetched = check("vllm==0.33.0", "--target", "x86_64-sm90", "--profile", "upstream")
    assert fetched["x86_64-sm90"]["verdict"] == "qualified"
    wheel = _cached("x86_64-sm90", fetched["x86_64-sm90"]["sha256"])
    code, results = check(str(wheel), "--target", "aarch64-sm121", "--profile", "upstream")
    assert code == 1
    assert ("TAG001", "") in errors(results["aarch64-sm121"])


def _cached(target: str, sha256: str) -> Path:
    """The file that the check fetched; a second fetch needs no network."""
    from qualify.fetching import Fetcher
    from qualify.files import sha256_of
    from qualify.matrix import load

    loaded = load(ROOT / "matrix.yaml")
    wanted = loaded.matrix.targets[target]
    fetcher = Fetcher(local=loaded.local)
    path = fetcher.fetch_wheel("vllm==0.33.0", wanted.machine, wanted.python[0], glibc=wanted.ceilings.glibc)
    assert sha256_of(path).sha256 == sha256
    return path


def test_native_code_required_on_thor_names_the_extensions_without_it(check: Check) -> None:
    code, results = check("vllm==0.33.0", "--target", "aarch64-sm110", "--require", "native", "--profile", "upstream")
    assert code == 1
    assert errors(results["aarch64-sm110"]) == {
        ("DEV001", "vllm/_deepselect_C.abi3.so"),
        ("DEV001", "vllm/_flashkda_C.abi3.so"),
        ("DEV001", "vllm/_flashmla_C.abi3.so"),
        ("DEV001", "vllm/_flashmla_extension_C.abi3.so"),
        ("DEV001", "vllm/_qutlass_C.abi3.so"),
        ("DEV001", "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so"),
        ("DEV002", "vllm/_C_stable_libtorch.abi3.so"),
        ("DEV002", "vllm/_moe_C_stable_libtorch.abi3.so"),
        ("DEV002", "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"),
    }


def test_someone_elses_wheel_is_not_ours_to_publish(check: Check) -> None:
    code, results = check("vllm==0.33.0", "--target", "aarch64-sm121")
    assert code == 1
    assert ("NAM004", "vllm-0.33.0.dist-info/WHEEL") in errors(results["aarch64-sm121"])
