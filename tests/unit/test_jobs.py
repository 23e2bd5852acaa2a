"""How many jobs a place bears, and what a place says of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.engines.local import LocalEngine
from builders.jobs import Place, jobs_for, jobs_in, measure, place_of
from tests.support.engines import Heard, request

GB = 10**9


@pytest.mark.parametrize(
    ("cores", "memory", "per_job", "jobs"),
    [
        (8, 64 * GB, 5 * GB, 8),  # as many as cores
        (64, 64 * GB, 5 * GB, 12),  # as far as the memory reaches
        (64, 64 * GB, 10 * GB, 6),  # two threads a compiler
        (4, 3 * GB, 5 * GB, 1),  # one in any case
        (0, 64 * GB, 5 * GB, 12),  # cores unknown
        (8, 0, 5 * GB, 8),  # memory unknown
        (0, 0, 5 * GB, 1),
    ],
)
def test_one_job_a_core_as_far_as_the_memory_reaches(cores: int, memory: int, per_job: int, jobs: int) -> None:
    assert jobs_for(cores, memory, per_job) == jobs


@given(st.integers(0, 512), st.integers(0, 4096 * GB), st.integers(1, 64 * GB), st.integers(1, 512))
def test_a_place_never_bears_more_than_was_planned_and_always_one(
    cores: int, memory: int, per_job: int, planned: int
) -> None:
    jobs = jobs_in(Place(cores, available=memory), planned, per_job)
    assert 1 <= jobs <= planned
    assert jobs == 1 or not memory or jobs * per_job <= memory


def test_what_a_model_on_the_gpu_has_taken_of_unified_memory_is_not_there_for_the_compile() -> None:
    lines = ["cores 20", "total 125000000000", "available 21000000000", "limit max", "board NVIDIA DGX Spark"]
    place = place_of(lines)
    assert place.unified
    assert place.memory == 21_000_000 * 1024
    assert jobs_in(place, 20, 5 * GB) == 4
    assert place.words() == "20 cores, 21.5 GB available, which the GPU shares"


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["cores 16", "limit 8000000000", "quota max", "period 100000"], Place(16, limit=8 * GB)),  # version 2
        (["cores 16", "limit 9223372036854771712", "quota -1", "period 100000"], Place(16)),  # version 1, no limit
        (["cores 16", "quota 250000", "period 100000"], Place(2)),
        (["cores 16", "quota 50000", "period 100000"], Place(1)),
        (["sh: nproc: not found", "total x", ""], Place()),
        (["board Raspberry Pi 5"], Place()),
        (["board NVIDIA Jetson AGX Thor Developer Kit"], Place(unified=True)),
    ],
)
def test_what_is_not_said_or_has_no_end_sets_no_bound(lines: list[str], place: Place) -> None:
    assert place_of(lines) == place


def test_the_limit_of_the_control_group_counts_where_it_is_the_smaller() -> None:
    place = Place(8, total=64 * GB, available=32 * GB, limit=11 * GB)
    assert place.memory == 11 * GB
    assert replace(place, limit=0).memory == 32 * GB
    assert Place(total=64 * GB).memory == 64 * GB


def test_this_host_says_what_it_has(tmp_path: Path) -> None:
    with LocalEngine(tmp_path).open(request(), Heard()) as room:
        place = measure(room)
    assert place.cores >= 1
    assert 0 < place.available <= place.total
    assert place.total > 1 << 28
