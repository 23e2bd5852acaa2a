"""Wheels with sources that are named for other architectures than the target's, and those that are covered."""

from __future__ import annotations

from qualify.facts import WheelFacts
from tests.mutants.case import Case
from tests.support.wheel import TAG
from tests.unit.judging_support import ARM_TAG, SPARK, wheel


def _named(*names: str, tag: str = TAG) -> WheelFacts:
    return wheel(tag=tag, files={f"axpy/include/axpy/{name}": "" for name in names})


MUTANTS = (
    Case("headers for 10.0 and 12.0 alone", lambda: _named("sm100_scale.cuh", "sm120_scale.cuh"), "DEV013"),
    Case("headers for 10.0 alone on 12.1", lambda: _named("sm100_scale.cuh", tag=ARM_TAG), "DEV013", SPARK),
    Case("headers for 12.0 and no other on 12.1", lambda: _named("sm120a_scale.cuh", tag=ARM_TAG), "DEV013", SPARK),
    Case(
        "a package of sources for another architecture",
        lambda: wheel(files={"axpy/fmha_sm100/csrc/run.cu": "", "axpy/fmha_sm100/include/mma_sm90.h": ""}),
        "DEV013",
    ),
)

NEAR_MISSES = (
    Case("headers for 12.0 on 12.1", lambda: _named("sm100_scale.cuh", "sm120_scale.cuh", tag=ARM_TAG), target=SPARK),
    Case("headers for the whole of 12 on 12.1", lambda: _named("sm12x_scale.cuh", tag=ARM_TAG), target=SPARK),
    Case("headers for what every later one has", lambda: _named("mma_sm75.h", "mma_sm80.h")),
    Case("names that are no architecture's", lambda: _named("small100.h", "sm1000.h", "rsm100.h", "sm100ab.h")),
)
