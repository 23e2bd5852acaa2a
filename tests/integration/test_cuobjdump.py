"""The pinned release's wheels: our lists of device code are cuobjdump's, member by member.

In CI the members up to 6 MB are compared; with ``WHEEL_ASSAY_WHOLE=1`` all of them.
"""

from __future__ import annotations

import os
import zipfile
from functools import cache
from pathlib import Path

import pytest

from qualify.facts import MemberKind, WheelFacts
from qualify.fetching import fetch_wheel
from qualify.opening import read_wheel
from tests.support.cuobjdump import listed, ours
from tests.support.vllm import GOLDEN, REQUIREMENT, counts, golden, published

pytestmark = pytest.mark.network
MACHINES = ["x86_64", "aarch64"]
LARGEST = None if os.environ.get("WHEEL_ASSAY_WHOLE") == "1" else 6_000_000


@cache
def wheel(machine: str) -> Path:
    return fetch_wheel(REQUIREMENT, machine, "3.12")


@cache
def facts(machine: str) -> WheelFacts:
    return read_wheel(wheel(machine))


@pytest.mark.parametrize("machine", MACHINES)
def test_every_member_is_listed_as_cuobjdump_lists_it(machine: str, tmp_path: Path) -> None:
    compared = 0
    with zipfile.ZipFile(wheel(machine)) as archive:
        for member in facts(machine).members:
            if member.kind is MemberKind.DATA or (LARGEST and member.size > LARGEST):
                continue
            path = tmp_path / "member.so"
            path.write_bytes(archive.read(member.path))
            assert listed(path) == ours(member), member.path
            compared += 1
    assert compared >= (14 if LARGEST is None else 7)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_wheel_reads_without_a_problem(machine: str) -> None:
    assert facts(machine).problems == ()


@pytest.mark.parametrize("machine", MACHINES)
def test_counts_are_the_golden_ones(machine: str) -> None:
    assert counts(facts(machine)) == golden(machine)
    assert set(GOLDEN) == set(MACHINES)


def test_counts_are_those_that_other_tools_gave() -> None:
    """The table that was measured with readelf and cuobjdump: cubins, and distinct ``.text.`` sections."""
    found = {path: shown["device_code"] for path, shown in counts(facts("x86_64"))["members"].items()}
    for path, expected in published().items():
        ours_here = {
            name: (entries, text_sections if name.startswith("cubin") else None)
            for name, (entries, _, text_sections) in found[path].items()
        }
        assert ours_here == expected, path
    assert found.keys() == published().keys()
