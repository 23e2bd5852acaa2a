"""What two wheels differ in, frozen: ``control`` is what was there before, ``candidate`` what is there now."""

from __future__ import annotations

from dataclasses import dataclass

from qualify.facts import WheelFacts


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two wheels."""

    filename: str
    sha256: str
    project: str
    version: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of one extension on one architecture that both wheels hold."""

    extension: str  # module path: installed path without the suffix of a shared object
    architecture: str  # "sm_120f", "compute_80"
    control: int  # distinct kernels
    candidate: int
    lost: tuple[str, ...]  # normalised names, sorted
    gained: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Architecture:
    """Device code of one extension that only one wheel holds, the extension being in both."""

    extension: str
    architecture: str  # "lto_90" for LTO-IR, of which no kernel is known
    kernels: int


@dataclass(frozen=True, slots=True)
class Names:
    """Names that one side has and the other not, and those that both have and that differ."""

    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; a side that has none has ""."""

    where: str  # extension, or "" for the wheel
    what: str  # "GLIBC", "Requires-Python", "toolkit"
    control: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of one extension, or of the wheel's file ("")."""

    where: str
    control: int
    candidate: int


@dataclass(frozen=True, slots=True)
class OnDevice:
    """How the kernels of one extension run on one device, from either wheel.  Names are normalised and sorted."""

    extension: str
    control: int  # kernels that run from the control, natively or by JIT
    candidate: int
    control_native: int
    candidate_native: int
    lost: tuple[str, ...]  # ran, and do not any more
    slower: tuple[str, ...]  # native before, by JIT now
    gained: tuple[str, ...]  # run now, and did not
    faster: tuple[str, ...]  # by JIT before, native now
    unknown: tuple[str, ...]  # ran, and nobody can tell whether they do: a rule or an entry is not known


@dataclass(frozen=True, slots=True)
class TargetDifference:
    """What one target runs of either wheel."""

    target: str  # "aarch64-sm121", or what the caller calls it
    device: str  # compute capability, "12.1"
    oldest_cuda: str  # "" where no driver is promised
    extensions: tuple[OnDevice, ...]  # that both wheels hold, and of which something runs from one of them
    lost: tuple[str, ...]  # extensions that are gone and served the target: they hold no device code, or some that runs
    gained: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything that two wheels differ in."""

    control: Side
    candidate: Side
    kernels: tuple[Kernels, ...]  # every extension and architecture that both hold, the equal ones as well
    architectures_lost: tuple[Architecture, ...]
    architectures_gained: tuple[Architecture, ...]
    extensions: Names  # compiled members by module path; never "changed"
    files: Names  # other members by installed path; changed: other bytes
    metadata: tuple[Change, ...]
    entry_points: Names
    floors: tuple[Change, ...]
    compilers: tuple[Change, ...]  # toolkit, options, compression, debug, on the architectures that both hold
    sizes: tuple[Size, ...]
    unknown: tuple[str, ...]  # what could not be compared, a sentence each
    target: TargetDifference | None = None

    @property
    def loses(self) -> bool:
        """Whether something is lost: a kernel, an architecture, an extension, a file, an entry point.

        With a target, of the kernels and extensions only what served it counts, and a kernel that was native and
        waits for the driver's JIT now counts as well.
        """
        if self.files.lost or self.entry_points.lost:
            return True
        if self.target is not None:
            return bool(self.target.lost) or any(each.lost or each.slower for each in self.target.extensions)
        return bool(self.extensions.lost or self.architectures_lost) or any(each.lost for each in self.kernels)

    @property
    def leaves_open(self) -> bool:
        """Whether something could not be compared."""
        return bool(self.unknown) or (self.target is not None and any(each.unknown for each in self.target.extensions))


def side_of(facts: WheelFacts) -> Side:
    """What is said of a wheel beside what it differs in."""
    return Side(facts.filename, facts.sha256, facts.name, facts.wheel_version, facts.size)
