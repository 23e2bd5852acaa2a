"""Texts from a wheel, of any content: the checks of METADATA and entry points answer, and soon."""

from __future__ import annotations

import dataclasses
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qualify.checks import CHECKS
from qualify.checks.case import Case
from qualify.checks.entrypoints import read_entry_points
from qualify.checks.metadata import invalid_fields, parse_headers
from qualify.checks.scripts import module_names
from qualify.checks.suffixes import suffix_of
from qualify.facts import DistInfo, WheelFacts
from qualify.judging import policy_for
from qualify.report import Severity
from tests.unit.judging_support import context, wheel

MINE = [check for check in CHECKS if check.code[:3] in ("ABI", "MET", "PYT", "NAM", "TAG") or check.code == "DEV013"]
GOOD = wheel()
SECONDS = 10  # of processor time for a mebibyte, on a machine of any speed; each takes about one

fields = st.sampled_from(
    (
        *("Metadata-Version", "Name", "Version", "Requires-Dist", "Requires-Python", "License-File", "Dynamic"),
        *("Description-Content-Type", "Project-URL", "License-Expression", "Provides-Extra", "Import-Name"),
        *("Keywords", "X", "", "a b"),
    )
)
values = st.one_of(
    st.text(max_size=40), st.sampled_from(["2.1", "2.4", "axpy", "0.1.0", "a>=1; (os_name=='x')", "LICENSE"])
)
headers = st.lists(st.tuples(fields, values), max_size=12).map(
    lambda rows: "".join(f"{field}: {value}\n" for field, value in rows)
)


def with_texts(metadata: str = "", entry_points: str = "", **changes: object) -> WheelFacts:
    assert GOOD.dist_info is not None
    info: DistInfo = dataclasses.replace(
        GOOD.dist_info,
        metadata=metadata or GOOD.dist_info.metadata,
        entry_points=entry_points,
        **changes,  # type: ignore[arg-type]
    )
    return dataclasses.replace(GOOD, dist_info=info)


def answered(facts: WheelFacts) -> None:
    """Every check of these families gives an answer: none crashes, which would be UNVERIFIED."""
    case = Case(facts, policy_for(facts, context()))
    for check in MINE:
        for finding in check.run(case):
            assert not finding.found.startswith("the check itself failed"), finding
            assert finding.severity is check.severities[case.policy.profile]
            assert finding.severity is not Severity.UNVERIFIED
            assert len(finding.found) < 1000


@settings(max_examples=200, deadline=None)
@given(headers)
@example("Metadata-Version: 2.1\nRequires-Dist: a; " + "(" * 3000)
@example("Metadata-Version: 2.1\nVersion: " + "1" * 5000)
@example("Description-Content-Type: text/plain; x*\n")
@example("Import-Name: \n")
@example(" Name: axpy\n")
@example("Description: a\n\nb\n")
def test_any_headers_are_answered(text: str) -> None:
    answered(with_texts(metadata=text))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_as_headers_is_answered(text: str) -> None:
    answered(with_texts(metadata=text))
    list(invalid_fields(parse_headers(text)))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="[]=:.#;\n\t a_1-/\\é", max_size=80))
def test_any_entry_points_are_answered(text: str) -> None:
    entries, faults = read_entry_points(text)
    lines = [line for line in map(str.strip, text.splitlines()) if line and line[0] != "#"]
    groups = sum(line.startswith("[") for line in lines)
    # Each line is a group, an entry or a fault, and no line is two of the latter.
    assert len(entries) + len(faults) <= len(lines)
    assert len(entries) + len(faults) >= len(lines) - groups
    answered(with_texts(entry_points=text))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=4), st.text(max_size=30))
def test_any_requirements_are_answered(requires: list[str], python: str) -> None:
    answered(with_texts(requires_dist=tuple(requires), requires_python=python))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abi3t.-cpython12_so/x86 ", max_size=60))
def test_any_path_has_a_suffix_or_none(path: str) -> None:
    seen = suffix_of(path)
    assert seen is None or (path.endswith(".so") and "/" not in seen.module)
    assert all(name and "/" not in name for name in module_names([path]))


SIZE = 1 << 20
LONG = {
    "one value": "Requires-Dist: a" + ">=1," * (SIZE // 4),
    "one name": "Name: " + "a-" * (SIZE // 2),
    "many fields": "X: y\n" * (SIZE // 5),
    "many names": "".join(f"X-{number}: y\n" for number in range(SIZE // 16)),
    "continued": "Summary: x\n" + " y\n" * (SIZE // 3),
    "a licence": "Metadata-Version: 2.4\nLicense-Expression: " + "MIT AND (" * (SIZE // 9),
    "a content type": "Metadata-Version: 2.1\nDescription-Content-Type: " + "text/plain;" * (SIZE // 11),
    "no headers": "x" * SIZE,
}


@pytest.mark.parametrize("name", LONG)
def test_headers_of_a_mebibyte_take_no_time_to_speak_of(name: str) -> None:
    start = time.process_time()
    answered(with_texts(metadata=LONG[name]))
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "[" * SIZE,
        "[g]\na = " + "b." * (SIZE // 2),
        "[g]\n" + "=\n" * (SIZE // 2),
        "[g]\na = b" + " " * SIZE + "!",
        "[g]\na = b [" + "x," * (SIZE // 2),
        "[console_scripts]\n" + "".join(f"a{n} = b{n}:c\n" for n in range(SIZE // 32)),
    ],
    ids=range(6),
)
def test_entry_points_of_a_mebibyte_take_no_time_to_speak_of(text: str) -> None:
    start = time.process_time()
    answered(with_texts(entry_points=text))
    assert time.process_time() - start < SECONDS


def test_many_requirements_take_no_time_to_speak_of() -> None:
    start = time.process_time()
    answered(with_texts(requires_dist=tuple(f"a{number}>={number}" for number in range(SIZE // 32))))
    assert time.process_time() - start < SECONDS
