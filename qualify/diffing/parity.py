"""A candidate against a control on one device: what it lost, and which translation units lack what others hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qualify.arch import ComputeCapability, Support
from qualify.coverage import MemberKernels
from qualify.diffing.device import compare_on, cover
from qualify.diffing.modules import Module, modules_of
from qualify.diffing.values import OnDevice
from qualify.facts import WheelFacts


@dataclass(frozen=True, slots=True)
class Gap:
    """Kernels that some container of an extension holds without native code, and that the control covers in each."""

    extension: str  # module path
    kernels: tuple[str, ...]  # normalised names, sorted


@dataclass(frozen=True, slots=True)
class Parity:
    """What the checks ask of two wheels."""

    extensions: tuple[OnDevice, ...]
    lost: tuple[str, ...]  # extensions that are gone and served the device
    gained: tuple[str, ...]
    gaps: tuple[Gap, ...]


def parity(candidate: WheelFacts, control: WheelFacts, device: ComputeCapability, oldest_cuda: str) -> Parity:
    """Hold a candidate against its control, under a driver of CUDA ``oldest_cuda`` ("": any)."""
    now, before = modules_of(candidate), modules_of(control)
    covered = cover(now, device, oldest_cuda), cover(before, device, oldest_cuda)
    found = compare_on(now, before, device, oldest_cuda=oldest_cuda, covered=covered)
    gaps = []
    for path, module in now.items():
        if path in before and module.has_device_code:
            ours = _covered(module, covered[0][path])
            if not ours.partly:
                continue
            theirs = _covered(before[path], covered[1][path])
            # Native from one container and not from another, where no container of the control lacks it.
            names = sorted(ours.partly & (theirs.native - theirs.partly))
            if names:
                gaps.append(Gap(path, tuple(names)))
    return Parity(found.extensions, found.lost, found.gained, tuple(gaps))


@dataclass(frozen=True, slots=True)
class _Covered:
    native: frozenset[str]  # kernels that run natively from at least one container
    partly: frozenset[str]  # of these, the ones that another container holds without native code


def _covered(module: Module, coverage: Iterable[MemberKernels]) -> _Covered:
    native: set[str] = set()
    lacking: set[str] = set()
    for kernels in coverage:
        for container in kernels.containers:
            if container.best is Support.UNKNOWN:
                continue  # nobody knows what it lacks
            native.update(container.native)
            lacking.update(set(container.kernels) - set(container.native))
    return _Covered(_respelt(native, module.respelt), _respelt(native & lacking, module.respelt))


def _respelt(names: Iterable[str], respelt: Mapping[str, tuple[str, str]]) -> frozenset[str]:
    return frozenset(respelt[name][0] if name in respelt else name for name in names)
