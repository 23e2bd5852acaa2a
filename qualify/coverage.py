"""What a wheel's device code covers on one device: per kernel, per container, per member.

A kernel is counted once per member, by its name, at its best: the same kernel as sm_90 cubin and as compute_80
PTX is native on 9.0.  A container (fat binary; one translation unit, as a rule) counts where it holds at least one
kernel; the empty cubin that a device link leaves in every nvcc-built library covers nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from qualify.arch import (
    ComputeCapability,
    DriverAnswer,
    RealArchitecture,
    Support,
    VirtualArchitecture,
    driver_runs,
    support,
)
from qualify.errors import MalformedError
from qualify.facts import Container, Entry, EntryKind, Member, WheelFacts
from qualify.report import MemberCoverage


@dataclass(frozen=True, slots=True)
class ContainerCoverage:
    """One fat binary that holds kernels, or whose kernels could not be read."""

    section: str
    offset: int  # bytes from the start of the section
    best: Support
    kernels: tuple[str, ...]  # distinct names over its entries, sorted
    native: tuple[str, ...]  # those of them that run natively from this very container, sorted


@dataclass(frozen=True, slots=True)
class MemberKernels:
    """The kernels of one member, and how each runs on the device."""

    member: str
    best: dict[str, Support]  # kernel name -> its best support, in the order of the names
    containers: tuple[ContainerCoverage, ...]
    entries: int  # entries of any kind, those without a kernel as well
    unread: int  # entries that could run on the device, as far as known, and whose kernels could not be read

    def having(self, wanted: Callable[[Support], bool]) -> tuple[str, ...]:
        """Names of the kernels whose best support satisfies ``wanted``, sorted."""
        return tuple([name for name, best in self.best.items() if wanted(best)])

    @property
    def native(self) -> tuple[str, ...]:
        return self.having(lambda best: best.native)

    @property
    def jit(self) -> tuple[str, ...]:
        return self.having(lambda best: best is Support.JIT)

    @property
    def none(self) -> tuple[str, ...]:
        return self.having(lambda best: best is Support.NONE)

    @property
    def unknown(self) -> tuple[str, ...]:
        return self.having(lambda best: best is Support.UNKNOWN)

    @property
    def has_kernels(self) -> bool:
        """Whether the member holds device code that counts: a kernel, or an entry that nobody could read."""
        return bool(self.best) or any(not container.kernels for container in self.containers)


@lru_cache(maxsize=4096)
def _support_of_name(architecture: str, kind: EntryKind, device: ComputeCapability) -> Support:
    try:
        if kind is EntryKind.CUBIN:
            return support(RealArchitecture.parse(architecture), device)
        return support(VirtualArchitecture.parse(architecture), device)
    except MalformedError:
        return Support.UNKNOWN


def entry_support(entry: Entry, device: ComputeCapability) -> Support:
    """How one entry runs on ``device``.  LTO-IR runs nowhere by itself; an unknown kind is unknown."""
    if entry.kind is EntryKind.LTO_IR:
        return Support.NONE
    if entry.kind is EntryKind.UNKNOWN:
        return Support.UNKNOWN
    return _support_of_name(entry.architecture, entry.kind, device)


def entry_driver(entry: Entry, oldest_cuda: str) -> DriverAnswer:
    """Whether a driver of CUDA ``oldest_cuda`` takes one entry."""
    return driver_runs(
        ptx=entry.kind is EntryKind.PTX,
        isa=entry.isa,
        toolkit=entry.toolkit,
        compression=entry.compression.value,
        oldest_cuda=oldest_cuda,
    )


def kernels_of(member: Member, device: ComputeCapability, only: Callable[[Entry], bool] | None = None) -> MemberKernels:
    """Coverage of one member, kernel by kernel.

    :param only: entries that it refuses are taken as not running on the device (the driver's part, say); the
        kernels in them still count, at ``NONE`` where nothing else holds them.
    """
    best: dict[int, Support] = {}
    containers: list[ContainerCoverage] = []
    entries = unread = 0
    for container in member.containers:
        entries += len(container.entries)
        seen, here, blind = _cover_container(container, device, only)
        unread += blind
        _improve(best, here)
        if seen is not None:
            # The member's symbols are sorted, so that their indices sort as their names do, and sooner.
            order = sorted(here)
            names = tuple([member.symbols[index] for index in order])
            native = tuple([member.symbols[index] for index in order if here[index].native])
            containers.append(ContainerCoverage(container.section, container.offset, seen, names, native))
    by_name = {member.symbols[index]: best[index] for index in sorted(best)}
    return MemberKernels(member.path, by_name, tuple(containers), entries, unread)


def _rank(value: Support) -> int:
    return value.rank


def _cover_container(
    container: Container, device: ComputeCapability, only: Callable[[Entry], bool] | None
) -> tuple[Support | None, dict[int, Support], int]:
    """Best support of a container, that of each of its kernels, and how many unread entries could have run.

    The first is None for a container that holds no kernel.
    """
    seen: Support | None = None
    best: dict[int, Support] = {}
    answers: list[tuple[Support, tuple[int, ...]]] = []
    unread = 0
    for entry in container.entries:
        answer = entry_support(entry, device)
        if only is not None and not only(entry):
            answer = Support.NONE
        if not entry.readable and answer is not Support.NONE:
            # Its kernels are not known, so it is no reason to call the container covered, or not covered.
            answer = Support.UNKNOWN
            unread += 1
        elif entry.readable and not entry.kernels:
            continue
        seen = answer if seen is None else min(seen, answer, key=_rank)
        answers.append((answer, entry.kernels))
    # From the worst to the best, so that the best one stays: kernels are many and answers few.
    for answer, kernels in sorted(answers, key=lambda pair: -pair[0].rank):
        best.update(dict.fromkeys(kernels, answer))
    return seen, best, unread


def _improve(best: dict[int, Support], other: dict[int, Support]) -> None:
    """Put the better of two answers for each kernel into ``best``."""
    for index, support_ in other.items():
        known = best.get(index)
        if known is None or (known is not support_ and support_.rank < known.rank):
            best[index] = support_


def summarize(kernels: MemberKernels, expectation: str = "") -> MemberCoverage:
    """The counts that a report carries."""
    supports = list(kernels.best.values())
    containers = [container.best for container in kernels.containers]
    return MemberCoverage(
        member=kernels.member,
        native=sum(value.native for value in supports),
        jit=supports.count(Support.JIT),
        none=supports.count(Support.NONE),
        exact=supports.count(Support.EXACT),
        same_major=supports.count(Support.SAME_MAJOR),
        family=supports.count(Support.FAMILY),
        unknown=supports.count(Support.UNKNOWN),
        containers_native=sum(value.native for value in containers),
        containers_jit=containers.count(Support.JIT),
        containers_none=containers.count(Support.NONE),
        containers_unknown=containers.count(Support.UNKNOWN),
        expectation=expectation,
    )


def cover(facts: WheelFacts, device: ComputeCapability) -> tuple[MemberCoverage, ...]:
    """Coverage of every member with device code, in the wheel's order."""
    return tuple(summarize(kernels_of(member, device)) for member in facts.members if member.containers)
