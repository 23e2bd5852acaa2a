"""What a wheel's device code covers on one device: per kernel, per container, per member.

A kernel is counted once per member, by its name, at its best: the same kernel as sm_90 cubin and as compute_80
PTX is native on 9.0.  A container (fat binary; one translation unit, as a rule) counts where it holds at least one
kernel; the empty cubin that a device link leaves in every nvcc-built library covers nothing.

Of a container the driver loads one image and no other.  Measured on an H200 (driver of CUDA 13.0) with containers whose
images hold different kernels: a cubin that fits goes before any PTX, ``sm_90a`` before ``sm_90`` and ``compute_90a``
before ``compute_90``, ``compute_90`` before ``compute_80``, and of two for the same architecture the first; what the
others hold beyond it is CUDA_ERROR_NOT_FOUND.  Where an ``f`` image stands has not been measured: a kernel that only
one of the candidates holds is unknown then.
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
    hidden: tuple[str, ...] = ()  # kernels at NONE that an image holds which could run and isn't loaded, sorted

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
    hidden: set[int] = set()
    containers: list[ContainerCoverage] = []
    entries = unread = 0
    for container in member.containers:
        entries += len(container.entries)
        seen, here, blind, not_loaded = _cover_container(container, device, only)
        unread += blind
        hidden |= not_loaded
        _improve(best, here)
        if seen is not None:
            # The member's symbols are sorted, so that their indices sort as their names do, and sooner.
            order = sorted(here)
            names = tuple([member.symbols[index] for index in order])
            native = tuple([member.symbols[index] for index in order if here[index].native])
            containers.append(ContainerCoverage(container.section, container.offset, seen, names, native))
    by_name = {member.symbols[index]: best[index] for index in sorted(best)}
    left = tuple([member.symbols[index] for index in sorted(hidden) if best[index] is Support.NONE])
    return MemberKernels(member.path, by_name, tuple(containers), entries, unread, left)


def _rank(value: Support) -> int:
    return value.rank


_RELOCATABLE = "__nv_relfatbin"
_Image = tuple[Support, Entry]


def _cover_container(
    container: Container, device: ComputeCapability, only: Callable[[Entry], bool] | None
) -> tuple[Support | None, dict[int, Support], int, set[int]]:
    """A container's best support, that of each kernel, the unread entries that could have run, and hidden kernels.

    The first is None for a container that holds no kernel.  Hidden are kernels of images that could run and are not
    loaded, where the one that is loaded lacks them.
    """
    seen: Support | None = None
    best: dict[int, Support] = {}
    answers: list[tuple[Support, tuple[int, ...]]] = []
    images: list[_Image] = []
    unread = 0
    for entry in container.entries:
        answer = entry_support(entry, device)
        if only is not None and not only(entry):
            answer = Support.NONE
        if not entry.readable and answer is not Support.NONE:
            # Its kernels are not known, so it is no reason to call the container covered, or not covered.
            answer = Support.UNKNOWN
            unread += 1
        elif entry.readable and answer is not Support.NONE:
            images.append((answer, entry))
            continue
        elif not entry.kernels and entry.readable:
            continue
        answers.append((answer, entry.kernels))
    loaded = _loaded(images, alternatives=container.section != _RELOCATABLE)
    for answer, entry in images:
        if entry.kernels:
            answers.append((answer if any(entry is each for _, each in loaded) else Support.NONE, entry.kernels))
    for answer, _ in answers:
        seen = answer if seen is None else min(seen, answer, key=_rank)
    # From the worst to the best, so that the best one stays: kernels are many and answers few.
    for answer, kernels in sorted(answers, key=lambda pair: -pair[0].rank):
        best.update(dict.fromkeys(kernels, answer))
    hidden: set[int] = set()
    if len(loaded) < len(images):
        hidden = {index for _, entry in images for index in entry.kernels if best[index] is Support.NONE}
    if len(loaded) > 1 and container.section != _RELOCATABLE:
        everywhere = set(loaded[0][1].kernels).intersection(*(entry.kernels for _, entry in loaded[1:]))
        somewhere = {index for _, entry in loaded for index in entry.kernels} - everywhere
        best.update(dict.fromkeys(somewhere, Support.UNKNOWN))
    return seen, best, unread, hidden


def _loaded(images: list[_Image], *, alternatives: bool) -> list[_Image]:
    """Of the images that may run, the one that the driver loads, or those that it may load where that is not known.

    :param alternatives: False for relocatable code: its images are linked before anything is loaded.
    """
    if len(images) < 2 or not alternatives:
        return images
    doubtful = [image for image in images if image[0] is Support.UNKNOWN]
    cubins = [image for image in images if image[0].native]
    candidates = cubins or [image for image in images if image[0] is Support.JIT]
    if not candidates:
        return doubtful
    first = max(candidates, key=lambda image: _preference(image[1].architecture))
    family = first[1].architecture.endswith("f")
    return [first, *(i for i in candidates if i[1].architecture.endswith("f") is not family), *doubtful]


@lru_cache(maxsize=4096)
def _preference(architecture: str) -> tuple[int, bool]:
    """The higher, the sooner it is loaded among images of one kind that all run: ``sm_90a`` before ``sm_90``."""
    number = architecture.rpartition("_")[2]
    return int(number.rstrip("af")), number.endswith("a")


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
