"""The released wheel of the pin beside torch wheels: nothing is missing, or each miss has its reason."""

from __future__ import annotations

from collections import Counter

import pytest

from qualify.facts import WheelFacts
from qualify.fetching import Fetcher, fetch_wheel
from qualify.linking.link import Link
from qualify.linking.resolve import Lack
from qualify.linking.tables import release_of, stable_functions
from qualify.opening import read_wheel
from qualify.torchindex import Host, TorchIndexes
from tests.support.vllm import REQUIREMENT

pytestmark = pytest.mark.network

HERE = Host("x86_64", "3.12")


@pytest.fixture(scope="module")
def vllm() -> WheelFacts:
    return read_wheel(fetch_wheel(REQUIREMENT, HERE.machine, HERE.python))


def linked(facts: WheelFacts, requirement: str) -> Link:
    return Link(facts, TorchIndexes(Fetcher()).load(requirement, HERE))


def test_every_symbol_is_in_the_torch_that_metadata_asks_for(vllm: WheelFacts) -> None:
    link = linked(vllm, "torch==2.14.0")
    counts = sum((Counter(each.counts) for each in link.resolutions), Counter[str]())
    assert [miss for each in link.resolutions for miss in each.misses] == []
    assert dict(counts) == {
        "the C and C++ libraries": 1084,
        "torch": 745,
        "CUDA and the driver": 213,
        "the interpreter": 85,
        "nobody needs to: weak": 83,
    }
    assert link.minimum[0] == "2.13.0"


def test_an_older_torch_lacks_what_later_releases_brought(vllm: WheelFacts) -> None:
    misses = [miss for each in linked(vllm, "torch==2.9.1").resolutions for miss in each.misses]
    assert len(misses) == 99
    assert {miss.lack for miss in misses} == {Lack.TORCH}
    assert all(release_of(stable_functions()[miss.name]) > (2, 9, 0) for miss in misses)


def test_the_table_is_true_of_what_torch_exports() -> None:
    """Functions of the table for CPU and CUDA are in the torch wheels from their release on, and in no earlier one."""
    older, newer = (TorchIndexes(Fetcher()).load(f"torch=={release}", HERE) for release in ("2.9.1", "2.14.0"))
    before = frozenset().union(*older.libraries.values())
    after = frozenset().union(*newer.libraries.values())
    since = {name for name, release in stable_functions().items() if (2, 9, 0) < release_of(release) <= (2, 14, 0)}
    assert {name for name in since & after if name in before} == set()
    shims = {name for name in after if name.startswith(("aoti_torch_", "torch_"))}
    assert shims - set(stable_functions()) == {"torch_c_dynamo_eval_frame_init"}, "of Python's side, in no header of it"
