"""The oldest driver that a target promises to run on."""

from __future__ import annotations

from collections.abc import Iterator

from qualify.arch import PTX_OF_CUDA, Support
from qualify.checks.case import Case, Demand, examples
from qualify.checks.registry import Observation, check
from qualify.coverage import MemberKernels
from qualify.matrix.model import Code
from qualify.report import Severity


def _lost(before: MemberKernels, after: MemberKernels, demand: Demand) -> tuple[str, ...]:
    """Kernels that run before the driver's answer and not after it, or are no longer native where that is asked."""
    lost: list[str] = []
    if after is before:
        return ()
    for name, best in before.best.items():
        kept = after.best[name]
        gone = (best.native or best is Support.JIT) and not (kept.native or kept is Support.JIT)
        slower = demand.code is Code.NATIVE and best.native and not kept.native
        if gone or slower:
            lost.append(name)
    return tuple(sorted(lost))


def _ptx_limit(oldest_cuda: str) -> str:
    known = {f"{major}.{minor}": ptx for (major, minor), ptx in PTX_OF_CUDA.items()}
    ptx = known.get(oldest_cuda)
    return f", PTX ISA up to {ptx[0]}.{ptx[1]}" if ptx else ""


@check("DRV001", "beyond-driver")
def beyond_driver(case: Case) -> Iterator[Observation]:
    """Kernels that a member depends on need a newer driver than the oldest that the target promises.

    Why: a cubin needs a driver of its toolkit's CUDA major. PTX has no such grace: PTX of toolkit 13.3 fails on a
    driver whose CUDA is 13.0. A compressed container needs a driver that knows the compression. The driver of GB10
    and Thor follows their OS image, so that it cannot simply be renewed.

    Mend: build with a toolkit no newer than that driver, or raise `driver.oldest_cuda` if the promise was wrong.
    """
    for kernels, demand in case.demanded(Code.NATIVE, Code.JIT):
        lost = _lost(kernels, case.under_driver[kernels.member], demand)
        if lost:
            found = f"{len(lost)} kernels need a newer driver, such as {examples(lost)}"
            oldest = case.policy.oldest_cuda
            expected = f"code for a driver of CUDA {oldest}{_ptx_limit(oldest)}"
            yield Observation(kernels.member, found, expected, f"build with a toolkit no newer than CUDA {oldest}")


@check("DRV002", "driver-unknown", upstream=Severity.UNVERIFIED, release=Severity.UNVERIFIED)
def driver_unknown(case: Case) -> Iterator[Observation]:
    """Whether the oldest promised driver takes code that a member depends on is not known.

    Why: the cubin carries no note of its toolkit, or the driver or the PTX ISA version is newer than this tool's
    table. What cannot be told is not a pass.

    Mend: build with a toolkit that leaves its note (12.8 and newer do), or use a newer version of this tool.
    """
    for kernels, demand in case.demanded(Code.NATIVE, Code.JIT):
        unsure = _lost(case.under_driver[kernels.member], case.surely_under_driver[kernels.member], demand)
        if unsure:
            found = f"{len(unsure)} kernels without a known driver, such as {examples(unsure)}"
            expected = f"code that a driver of CUDA {case.policy.oldest_cuda} is known to take"
            yield Observation(kernels.member, found, expected, "build with a toolkit that leaves its note")
