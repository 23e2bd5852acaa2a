"""A short round of the fuzzer: faults in good files of every format, and what must hold for any bytes.

``nox -s fuzz`` is the long one.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import mutate
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS, run

#: Whole wheels are read, judged and rendered: fewer of them.
EXAMPLES = {"wheel": 60, "inside": 40}


def test_every_target_reads_its_own_seeds() -> None:
    assert set(SEEDS) == set(TARGETS)
    for target, seeds in SEEDS.items():
        for data in seeds:
            assert run(target, data), target


@pytest.mark.parametrize("target", SEEDS)
def test_only_our_own_errors_come_out(target: str) -> None:
    seeds = SEEDS[target]

    @settings(max_examples=EXAMPLES.get(target, 400))
    @given(which=st.integers(0, len(seeds) - 1), number=st.integers(0, (1 << 32) - 1))
    def faulty(which: int, number: int) -> None:
        run(target, mutate(seeds[which], seeds, random.Random(number)))

    faulty()


def test_the_mutator_repeats_itself_by_its_number_and_leaves_few_files_as_they_were() -> None:
    seeds = SEEDS["member"]
    made = [mutate(seeds[0], seeds, random.Random(number)) for number in range(200)]
    assert made == [mutate(seeds[0], seeds, random.Random(number)) for number in range(200)]
    assert sum(each == seeds[0] for each in made) < 40
    assert len(set(made)) > 150
