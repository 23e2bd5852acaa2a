"""Which code runs on which GPU: the documented rules, case by case, and what an H200 did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualify.arch import (
    ARCHITECTURES,
    BEFORE_13,
    ComputeCapability,
    DriverAnswer,
    RealArchitecture,
    Support,
    VirtualArchitecture,
    driver_inflates,
    driver_runs,
    driver_runs_cubin,
    driver_runs_ptx,
    support,
)
from qualify.errors import MalformedError
from tools import arch_table, device_table

DATA = Path(__file__).parent.parent / "data"
H200 = json.loads((DATA / "h200.json").read_text())
PTXAS = json.loads((DATA / "ptxas.json").read_text())


def parse(text: str) -> RealArchitecture | VirtualArchitecture:
    return RealArchitecture.parse(text) if text.startswith("sm_") else VirtualArchitecture.parse(text)


def on(text: str, device: str) -> Support:
    return support(parse(text), ComputeCapability.parse(device))


def test_the_rules_foretell_what_an_h200_did_with_every_form() -> None:
    """Cubins and PTX of three toolkits for every architecture, and every compression: loaded and launched there."""
    assert len(H200["forms"]) == 178
    assert device_table.disagreements(H200) == []
    assert {form["outcome"] for form in H200["forms"]} == {
        "runs",
        "CUDA_ERROR_INVALID_PTX",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    }


@pytest.mark.parametrize("name", ["13.0.88-sm_90a.cubin", "13.0.88-compute_80.ptx", "13.5.37-compute_90-size.fatbin"])
def test_a_form_that_did_otherwise_would_be_a_disagreement(name: str) -> None:
    forms = [form | {"outcome": "other" if form["outcome"] == "runs" else "runs"} for form in H200["forms"]]
    (other,) = (form for form in forms if form["file"] == name)
    assert len(device_table.disagreements(H200 | {"forms": [other]})) == 1


@pytest.mark.parametrize("version", PTXAS)
def test_the_rules_for_ptx_are_those_of_ptxas(version: str) -> None:
    wrong, count = arch_table.compare(version, PTXAS[version])
    assert wrong == []
    assert count >= 256


def test_a_family_that_ptxas_has_otherwise_would_be_a_disagreement() -> None:
    reached = {**PTXAS["13.5.37"], "compute_100f": [100, 103], "compute_120f": [120, 121, 110]}
    wrong, _ = arch_table.compare("13.5.37", reached)
    assert [line.partition(";")[0] for line in wrong] == [
        "ptxas 13.5.37 does not compile compute_100f for 10.7",
        "ptxas 13.5.37 compiles compute_120f for 11.0",
    ]


@pytest.mark.parametrize(
    ("code", "device", "expected"),
    [
        ("sm_80", "8.6", Support.SAME_MAJOR),
        ("sm_80", "8.9", Support.SAME_MAJOR),
        ("sm_86", "8.0", Support.NONE),
        ("sm_90", "10.0", Support.NONE),
        ("sm_120", "12.1", Support.SAME_MAJOR),
        ("sm_121", "12.0", Support.NONE),
        ("sm_100", "10.3", Support.SAME_MAJOR),
        # Orin is alone, in both directions.
        ("sm_80", "8.7", Support.NONE),
        ("sm_86", "8.7", Support.NONE),
        ("sm_87", "8.9", Support.NONE),
        ("sm_87", "8.7", Support.EXACT),
        ("compute_80", "8.7", Support.JIT),
        # No document says what 8.8 is.
        ("sm_80", "8.8", Support.UNKNOWN),
        ("sm_88", "8.9", Support.UNKNOWN),
        ("sm_88", "8.8", Support.EXACT),
        ("sm_88", "9.0", Support.NONE),
        ("compute_80", "8.8", Support.JIT),
        # Thor was sm_101 before CUDA 13, where the device reports 11.0.
        ("sm_101", "11.0", Support.NONE),
        ("sm_101a", "11.0", Support.NONE),
        ("sm_100", "10.1", Support.NONE),
        ("sm_100f", "10.1", Support.NONE),
        ("sm_101f", "10.3", Support.NONE),
        ("compute_101", "11.0", Support.JIT),
        ("sm_110", "11.0", Support.EXACT),
        ("sm_110f", "11.0", Support.EXACT),
        ("sm_100f", "11.0", Support.NONE),
        # a: one compute capability alone.
        ("sm_90a", "9.0", Support.EXACT),
        ("sm_120a", "12.1", Support.NONE),
        ("sm_121a", "12.1", Support.EXACT),
        ("compute_90a", "9.0", Support.JIT),
        ("compute_90a", "10.0", Support.NONE),
        ("compute_120a", "12.1", Support.NONE),
        # f: the family.
        ("sm_100f", "10.0", Support.EXACT),
        ("sm_100f", "10.3", Support.FAMILY),
        ("sm_100f", "10.7", Support.FAMILY),
        ("sm_103f", "10.7", Support.FAMILY),
        ("sm_103f", "10.0", Support.NONE),
        ("sm_120f", "12.0", Support.EXACT),
        ("sm_120f", "12.1", Support.FAMILY),
        ("sm_121f", "12.1", Support.EXACT),
        ("sm_121f", "12.0", Support.NONE),
        ("compute_120f", "12.1", Support.JIT),
        ("compute_100f", "12.0", Support.NONE),
        ("compute_103f", "10.0", Support.NONE),
        # Numbers that no table knows: their own device, other majors, and nothing beyond.
        ("sm_130", "13.0", Support.EXACT),
        ("sm_130", "13.1", Support.UNKNOWN),
        ("sm_120", "12.5", Support.UNKNOWN),
        ("sm_120f", "12.5", Support.UNKNOWN),
        ("compute_120f", "12.5", Support.UNKNOWN),
        ("compute_120", "12.5", Support.JIT),
    ],
)
def test_the_documented_rules(code: str, device: str, expected: Support) -> None:
    assert on(code, device) is expected


@pytest.mark.parametrize(
    "text", ["sm_9", "sm_90b", "sm90", "SM_90", "compute_90", "sm_", "sm_090", "sm_9000", "sm_90 ", ""]
)
def test_no_real_architecture(text: str) -> None:
    with pytest.raises(MalformedError):
        RealArchitecture.parse(text)


@pytest.mark.parametrize("text", ["12", "12.1.0", "12.10", "v9.0", "09.0", "9.0a", "", "9,0", "0.9", "٩.0"])
def test_no_compute_capability(text: str) -> None:
    with pytest.raises(MalformedError):
        ComputeCapability.parse(text)


def test_capabilities_are_ordered_as_numbers() -> None:
    texts = ["9.0", "8.9", "10.0", "12.1", "11.0", "12.0"]
    ordered = sorted(ComputeCapability.parse(text) for text in texts)
    assert [str(each) for each in ordered] == ["8.9", "9.0", "10.0", "11.0", "12.0", "12.1"]


def test_a_family_lies_within_one_major() -> None:
    for number, row in ARCHITECTURES.items():
        if row.family:
            assert number // 10 == int(row.family) // 10


@pytest.mark.parametrize(
    ("toolkit", "oldest", "expected"),
    [
        (BEFORE_13, "13.0", DriverAnswer.YES),
        (BEFORE_13, "12.0", DriverAnswer.YES),
        (BEFORE_13, "11.8", DriverAnswer.UNKNOWN),
        ("13.0", "13.0", DriverAnswer.YES),
        ("13.5", "13.0", DriverAnswer.YES),  # minor-version compatibility
        ("12.8", "13.0", DriverAnswer.YES),
        ("13.0", "12.9", DriverAnswer.NO),
        ("", "13.0", DriverAnswer.UNKNOWN),
    ],
)
def test_a_cubin_needs_its_toolkits_major(toolkit: str, oldest: str, expected: DriverAnswer) -> None:
    assert driver_runs_cubin(toolkit, oldest) is expected


@pytest.mark.parametrize(
    ("isa", "oldest", "expected"),
    [
        ("9.0", "13.0", DriverAnswer.YES),
        ("9.3", "13.0", DriverAnswer.NO),
        ("9.0", "13.3", DriverAnswer.YES),
        ("8.8", "12.9", DriverAnswer.YES),
        ("9.0", "12.9", DriverAnswer.NO),
        ("8.5", "12.6", DriverAnswer.YES),
        ("8.6", "12.6", DriverAnswer.NO),
        ("1.4", "13.0", DriverAnswer.YES),
        ("9.9", "13.9", DriverAnswer.UNKNOWN),  # newer than the table knows
        ("9.0", "13.9", DriverAnswer.YES),
        ("7.0", "8.0", DriverAnswer.NO),  # older than the table, and its oldest row knows no more
        ("", "13.0", DriverAnswer.UNKNOWN),
    ],
)
def test_ptx_has_no_grace(isa: str, oldest: str, expected: DriverAnswer) -> None:
    assert driver_runs_ptx(isa, oldest) is expected


@pytest.mark.parametrize(
    ("compression", "oldest", "expected"),
    [
        ("zstd", "12.4", DriverAnswer.YES),
        ("zstd", "12.3", DriverAnswer.NO),
        ("lz4", "11.0", DriverAnswer.YES),
        ("unknown", "13.0", DriverAnswer.UNKNOWN),
        ("zstd", "new", DriverAnswer.UNKNOWN),
    ],
)
def test_a_compressed_container_needs_a_driver_that_knows_it(
    compression: str, oldest: str, expected: DriverAnswer
) -> None:
    assert driver_inflates(compression, oldest) is expected


def test_the_drivers_parts_are_put_together_the_worst_first() -> None:
    def ask(**changes: object) -> DriverAnswer:
        values = {"ptx": False, "isa": "", "toolkit": "12.3", "compression": "zstd", "oldest_cuda": "12.3"} | changes
        return driver_runs(**values)  # type: ignore[arg-type]

    assert ask() is DriverAnswer.NO
    assert ask(compression="none") is DriverAnswer.YES
    assert ask(compression="none", toolkit="") is DriverAnswer.UNKNOWN
    assert ask(toolkit="") is DriverAnswer.NO
    assert ask(ptx=True, isa="8.3", compression="lz4") is DriverAnswer.YES
