"""Floors and libraries of real wheels: the true tag is auditwheel's, and what is said of libraries is so.

auditwheel also counts what the libraries need that it finds on its host, so that a host with libheif raises the tag of
torchcodec.  It is given no folder to look in, for an answer that is the wheel's own, as ours is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from qualify.checks import CHECKS
from qualify.checks.case import Case
from qualify.facts import WheelFacts
from qualify.fetching import fetch_wheel
from qualify.floors import true_tag
from qualify.judging import Context, policy_for
from qualify.matrix import load
from qualify.matrix.model import Profile
from qualify.opening import read_wheel
from qualify.report import Severity

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[2]
TARGETS = {"x86_64": "x86_64-sm90", "aarch64": "aarch64-sm110"}

# requirement, machine -> the true tag, and which checks of floors and libraries speak of the wheel
WHEELS = {
    ("bitsandbytes==0.50.2", "x86_64"): ("2_34", {"FLO007", "FLO010", "LIB005", "LIB009", "LIB011"}),
    ("cupy-cuda13x==14.2.0", "x86_64"): ("2_24", {"FLO010"}),
    ("ctranslate2==4.8.5", "x86_64"): ("2_27", set()),
    ("ctranslate2==4.8.5", "aarch64"): ("2_27", set()),
    ("torchcodec==0.17.0", "x86_64"): ("2_27", {"LIB003", "LIB005", "LIB007"}),
    ("torchcodec==0.17.0", "aarch64"): ("2_27", {"LIB003", "LIB005", "LIB007"}),
    ("torchvision==0.29.1", "x86_64"): ("2_27", {"FLO011", "LIB003", "LIB011"}),
    ("numpy==2.5.5", "x86_64"): ("2_27", set()),
    ("scipy==1.18.1", "x86_64"): ("2_27", set()),
    ("pillow==13.0.0", "x86_64"): ("2_27", set()),
}


def auditwheel(wheel: Path) -> str:
    """auditwheel's tag by symbol versions, from the wheel alone."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", "--ldpaths=", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["sym_tag"])


def spoken(facts: WheelFacts, machine: str) -> tuple[set[str], list[str]]:
    """The codes of floors and libraries that speak in profile upstream, and the findings that are no note."""
    context = Context(load(ROOT / "matrix.yaml").matrix, TARGETS[machine], Profile.UPSTREAM)
    case = Case(facts, policy_for(facts, context))
    found = [finding for check in CHECKS if check.code[:3] in ("FLO", "LIB") for finding in check.run(case)]
    worse = [f"{each.code} {each.member} {each.found}" for each in found if each.severity is not Severity.NOTE]
    return {each.code for each in found}, worse


@pytest.mark.parametrize(("requirement", "machine"), WHEELS)
def test_the_true_tag_is_auditwheel_s_and_the_findings_are_known(requirement: str, machine: str) -> None:
    wheel = fetch_wheel(requirement, machine, "3.12")
    facts = read_wheel(wheel)
    glibc, codes = WHEELS[requirement, machine]
    assert true_tag(facts, machine) == f"manylinux_{glibc}_{machine}" == auditwheel(wheel)
    assert spoken(facts, machine) == (codes, [])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_pin_s_wheels_keep_what_their_tag_says_and_bring_nobody_s_library(machine: str) -> None:
    requirement = load(ROOT / "matrix.yaml").matrix.pin.requirement
    facts = read_wheel(fetch_wheel(requirement, machine, "3.12"))
    assert true_tag(facts, machine) == f"manylinux_2_28_{machine}"
    assert spoken(facts, machine) == (set(), [])
