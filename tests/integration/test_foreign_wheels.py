"""Wheels of other projects, of CUDA toolkits 11 to 13: read without a false problem, and at both depths alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from qualify.facts import Depth, EntryKind, WheelFacts
from qualify.fetching import fetch_wheel
from qualify.opening import read_wheel

pytestmark = pytest.mark.network

# requirement -> toolkits of its cubins; "<13" is all that a cubin without note tells
WHEELS = {
    "bitsandbytes==0.43.0": {"<13"},
    "bitsandbytes==0.50.2": {"<13", "12.8", "13.0", "13.2"},
    "cupy-cuda11x==13.3.0": {"<13"},
    "cupy-cuda12x==14.2.0": {"<13", "12.9"},
    "cupy-cuda13x==14.2.0": {"13.2"},
    "ctranslate2==4.8.5": {"<13"},
    "torchcodec==0.17.0": {"13.0"},
    "xformers==0.0.35": {"<13"},
}


def _headers(facts: WheelFacts) -> list[tuple[object, ...]]:
    """What the headers of the entries say, and all of the members that is not device code."""
    return [
        (
            replace(member, symbols=(), containers=()),
            [
                (
                    *(container.section, container.offset, entry.kind, entry.architecture, entry.isa),
                    *(entry.compression, entry.stored_size, entry.size, entry.debug),
                )
                for container in member.containers
                for entry in container.entries
            ],
        )
        for member in facts.members
    ]


@pytest.mark.parametrize("requirement", list(WHEELS))
def test_nothing_in_them_is_taken_for_a_fault(requirement: str) -> None:
    path = fetch_wheel(requirement, "x86_64", "3.12")
    facts = read_wheel(path)
    assert facts.problems == ()
    entries = [entry for member in facts.members for container in member.containers for entry in container.entries]
    toolkits = Counter(entry.toolkit for entry in entries if entry.kind is EntryKind.CUBIN)
    assert set(toolkits) == WHEELS[requirement]
    assert all(entry.readable for entry in entries)
    # Where there is a note, it tells the command line, and that names the entry's own architecture.
    told = [entry for entry in entries if entry.kind is EntryKind.CUBIN and entry.options]
    assert {entry.toolkit for entry in told} == WHEELS[requirement] - {"<13"}
    assert all(f"-arch {entry.architecture} " in f"{entry.options} " for entry in told)
    headers = read_wheel(path, depth=Depth.HEADERS)
    assert (headers.depth, headers.problems, headers.dist_info) == (Depth.HEADERS, (), facts.dist_info)
    assert _headers(headers) == _headers(facts)
    assert not any(member.symbols for member in headers.members)
