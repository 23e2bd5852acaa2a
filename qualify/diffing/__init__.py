"""Two wheels held against each other: what was lost, gained and changed between a control and a candidate."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from qualify.arch import ComputeCapability
from qualify.diffing import contents, kernels
from qualify.diffing.device import compare_on
from qualify.diffing.modules import modules_of
from qualify.diffing.values import Change, Difference, Kernels, Names, OnDevice, Side, TargetDifference, side_of
from qualify.facts import Depth, WheelFacts

__all__ = ["Change", "Difference", "Kernels", "Names", "OnDevice", "Side", "TargetDifference", "compare"]


def compare(
    candidate: WheelFacts,
    control: WheelFacts,
    *,
    architectures: Collection[str] = (),
    device: ComputeCapability | None = None,
    target: str = "",
    oldest_cuda: str = "",
) -> Difference:
    """Everything that ``candidate`` lost, gained and changed since ``control``.

    :param architectures: "sm_90a", "compute_80": the kernels of these alone; none: of all.
    :param device: compares what runs on it as well, under a driver of CUDA ``oldest_cuda``.
    """
    now, before = modules_of(candidate), modules_of(control)
    return Difference(
        control=side_of(control),
        candidate=side_of(candidate),
        kernels=tuple(kernels.kernels_of_both(now, before, architectures)),
        architectures_lost=tuple(kernels.architectures_of_one(before, now, architectures)),
        architectures_gained=tuple(kernels.architectures_of_one(now, before, architectures)),
        extensions=Names(
            tuple(path for path in before if path not in now), tuple(path for path in now if path not in before)
        ),
        files=contents.files_of(candidate, control),
        metadata=tuple(contents.metadata_of(candidate, control)),
        entry_points=contents.entry_points_of(candidate, control),
        floors=tuple(contents.floors_of(now, before)),
        compilers=tuple(contents.compilers_of(now, before)),
        sizes=tuple(contents.sizes_of(candidate, control, now, before)),
        unknown=(
            *_not_read(candidate, "candidate"),
            *_not_read(control, "control"),
            *kernels.unread(now, before, architectures),
        ),
        target=None if device is None else compare_on(now, before, device, target=target, oldest_cuda=oldest_cuda),
    )


def _not_read(facts: WheelFacts, side: str) -> Iterator[str]:
    """Why facts are not all that a wheel holds."""
    if facts.depth is not Depth.KERNELS:
        yield f"the kernels of the {side} were not read"
    for problem in facts.problems:
        place = ": ".join(part for part in (problem.member, problem.where) if part)
        yield f"{problem.kind} in the {side}: {place}: {problem.detail}"
