"""Which device code runs on which GPU, and which driver it takes.

Two kinds of architecture, never mixed: a :class:`RealArchitecture` (``sm_90a``) is machine code, a
:class:`VirtualArchitecture` (``compute_90a``) is PTX or LTO-IR that a compiler still has to work on.  Both carry
an optional suffix: ``a`` for code bound to one compute capability, ``f`` for code bound to a family.

The rules are those of NVIDIA's CUDA C++ Programming Guide (binary compatibility, PTX compatibility, architecture-
and family-specific features) and of the compiler's documentation.  What varies from one GPU to the next is data:
a new architecture is one row in :data:`ARCHITECTURES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from qualify.errors import MalformedError

Suffix = Literal["", "a", "f"]


@dataclass(frozen=True, slots=True, order=True)
class ComputeCapability:
    """A device's compute capability, ordered: 9.0 < 10.0 < 12.1."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> ComputeCapability:
        """``"12.1"`` -> 12.1.

        :raises MalformedError: for anything else than two plain numbers, the second of one digit.
        """
        match = re.fullmatch(r"([1-9][0-9]?)\.([0-9])", text)
        if match is None:
            raise MalformedError(
                f"{text!r} is no compute capability", expected='major.minor, as in "12.1"', action="see nvidia-smi"
            )
        return cls(int(match[1]), int(match[2]))

    @property
    def number(self) -> int:
        """As architecture names spell it: 12.1 is 121."""
        return self.major * 10 + self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_NAME = re.compile(r"(sm|compute)_([1-9][0-9]?)([0-9])([af]?)")


def _parse(text: str, prefix: str) -> tuple[ComputeCapability, Suffix]:
    match = _NAME.fullmatch(text)
    if match is None or match[1] != prefix:
        raise MalformedError(f"{text!r} is no architecture", expected=f'a name such as "{prefix}_90a"')
    suffix: Suffix = "a" if match[4] == "a" else "f" if match[4] == "f" else ""
    return ComputeCapability(int(match[2]), int(match[3])), suffix


@dataclass(frozen=True, slots=True, order=True)
class RealArchitecture:
    """What a cubin was assembled for: ``sm_90``, ``sm_90a``, ``sm_120f``."""

    capability: ComputeCapability
    suffix: Suffix = ""

    @classmethod
    def parse(cls, text: str) -> RealArchitecture:
        """:raises MalformedError: where ``text`` is no ``sm_…`` name."""
        return cls(*_parse(text, "sm"))

    def __str__(self) -> str:
        return f"sm_{self.capability.number}{self.suffix}"


@dataclass(frozen=True, slots=True, order=True)
class VirtualArchitecture:
    """What PTX (or LTO-IR) was compiled for: ``compute_80``, ``compute_90a``, ``compute_120f``."""

    capability: ComputeCapability
    suffix: Suffix = ""

    @classmethod
    def parse(cls, text: str) -> VirtualArchitecture:
        """:raises MalformedError: where ``text`` is no ``compute_…`` name."""
        return cls(*_parse(text, "compute"))

    def __str__(self) -> str:
        return f"compute_{self.capability.number}{self.suffix}"


class Support(StrEnum):
    """How code runs on a device, from best to worst; ``UNKNOWN`` where no document says."""

    EXACT = "exact"  # compiled for this very compute capability
    SAME_MAJOR = "same-major"  # an earlier minor of the same major: binary compatible
    FAMILY = "family"  # family-specific code of an earlier member of the family
    JIT = "jit"  # PTX: the driver compiles it at first load
    UNKNOWN = "unknown"
    NONE = "none"

    @property
    def native(self) -> bool:
        return self in (Support.EXACT, Support.SAME_MAJOR, Support.FAMILY)

    @property
    def rank(self) -> int:
        """0 is best; lets the best of several be ``min(…, key=rank)``."""
        return _RANK[self]


_RANK: Mapping[Support, int] = MappingProxyType({support: rank for rank, support in enumerate(Support)})


@dataclass(frozen=True, slots=True)
class Row:
    """One architecture.

    ``island`` names the chips that plain cubins are compatible among; binary compatibility holds between equal
    islands of one major.  A Tegra chip is an island of its own.  An empty island says that no document states
    where the chip belongs.  ``family`` names the family of ``f`` code; empty where the chip has none.
    """

    island: str
    family: str = ""


#: number -> row.  Families as ptxas takes them: sm_100f code is accepted for 100, 103 and 107, sm_120f for 120, 121.
ARCHITECTURES: Mapping[int, Row] = MappingProxyType(
    {
        50: Row("desktop"),
        52: Row("desktop"),
        53: Row("tegra-x1"),
        60: Row("desktop"),
        61: Row("desktop"),
        62: Row("tegra-x2"),
        70: Row("desktop"),
        72: Row("xavier"),
        75: Row("desktop"),
        80: Row("desktop"),
        86: Row("desktop"),
        87: Row("orin"),
        88: Row(""),  # nvcc 13 lists it; no document says what it is compatible with
        89: Row("desktop"),
        90: Row("desktop"),
        100: Row("desktop", "100"),
        101: Row("thor-cuda-12", "101"),  # Jetson Thor before CUDA 13, where the same chip is 11.0
        103: Row("desktop", "100"),
        107: Row("desktop", "100"),
        110: Row("thor", "110"),
        120: Row("desktop", "120"),
        121: Row("desktop", "120"),
    }
)


def support(code: RealArchitecture | VirtualArchitecture, device: ComputeCapability) -> Support:
    """How ``code`` runs on ``device``, by architecture alone (see :func:`driver_runs` for the driver's part)."""
    if isinstance(code, VirtualArchitecture):
        return _support_of_ptx(code, device)
    own = code.capability
    if own == device:
        return Support.EXACT
    if code.suffix == "a" or own.major != device.major or own.minor > device.minor:
        return Support.NONE
    if code.suffix == "f":
        return _same_family(own, device, Support.FAMILY)
    ours, theirs = ARCHITECTURES.get(own.number), ARCHITECTURES.get(device.number)
    if ours is None or theirs is None or not ours.island or not theirs.island:
        return Support.UNKNOWN
    return Support.SAME_MAJOR if ours.island == theirs.island else Support.NONE


def _support_of_ptx(code: VirtualArchitecture, device: ComputeCapability) -> Support:
    own = code.capability
    if own == device:
        return Support.JIT
    if code.suffix == "a" or own > device:
        return Support.NONE
    if code.suffix == "f":
        return Support.NONE if own.major != device.major else _same_family(own, device, Support.JIT)
    return Support.JIT


def _same_family(own: ComputeCapability, device: ComputeCapability, yes: Support) -> Support:
    ours, theirs = ARCHITECTURES.get(own.number), ARCHITECTURES.get(device.number)
    if ours is None or theirs is None:
        return Support.UNKNOWN
    return yes if ours.family and ours.family == theirs.family else Support.NONE


class DriverAnswer(StrEnum):
    """Whether a driver takes a piece of code."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


#: CUDA version of a driver -> the newest PTX ISA version it knows (PTX ISA manual, release history).
PTX_OF_CUDA: Mapping[tuple[int, int], tuple[int, int]] = MappingProxyType(
    {
        (9, 0): (6, 0),
        (9, 1): (6, 1),
        (9, 2): (6, 2),
        (10, 0): (6, 3),
        (10, 1): (6, 4),
        (10, 2): (6, 5),
        (11, 0): (7, 0),
        (11, 1): (7, 1),
        (11, 2): (7, 2),
        (11, 3): (7, 3),
        (11, 4): (7, 4),
        (11, 5): (7, 5),
        (11, 6): (7, 6),
        (11, 7): (7, 7),
        (11, 8): (7, 8),
        (12, 0): (8, 0),
        (12, 1): (8, 1),
        (12, 2): (8, 2),
        (12, 3): (8, 3),
        (12, 4): (8, 4),
        (12, 5): (8, 5),
        (12, 6): (8, 5),
        (12, 7): (8, 6),
        (12, 8): (8, 7),
        (12, 9): (8, 8),
        (13, 0): (9, 0),
        (13, 1): (9, 1),
        (13, 2): (9, 2),
        (13, 3): (9, 3),
        (13, 4): (9, 4),
        (13, 5): (9, 5),
    }
)

#: The first driver, by its CUDA version, that inflates a zstd-compressed container (550.54.14).
ZSTD_SINCE = (12, 4)


def parse_version(text: str) -> tuple[int, int]:
    """``"13.0"`` -> (13, 0); further parts are dropped.

    :raises MalformedError: where ``text`` doesn't begin with two numbers.
    """
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9.]*)?", text)
    if match is None:
        raise MalformedError(f"{text!r} is no version", expected='two numbers, as in "13.0"')
    return int(match[1]), int(match[2])


#: The toolkit of a cubin that has no note of it and an ABI version that no toolkit of CUDA 13 or later writes.
BEFORE_13 = "<13"


def driver_runs_cubin(toolkit: str, oldest_cuda: str) -> DriverAnswer:
    """A cubin needs a driver of its toolkit's CUDA major, or a later one (minor-version compatibility)."""
    try:
        if toolkit == BEFORE_13:
            return DriverAnswer.YES if parse_version(oldest_cuda) >= (12, 0) else DriverAnswer.UNKNOWN
        return DriverAnswer.YES if parse_version(toolkit)[0] <= parse_version(oldest_cuda)[0] else DriverAnswer.NO
    except MalformedError:
        return DriverAnswer.UNKNOWN


def driver_runs_ptx(isa: str, oldest_cuda: str) -> DriverAnswer:
    """PTX has no grace between minors: the driver must know the entry's ISA version.

    A driver outside the table is answered as far as its neighbours bound it, and ``UNKNOWN`` beyond.
    """
    try:
        wanted, cuda = parse_version(isa), parse_version(oldest_cuda)
    except MalformedError:
        return DriverAnswer.UNKNOWN
    at_least = [ptx for version, ptx in PTX_OF_CUDA.items() if version <= cuda]
    if at_least and wanted <= max(at_least):
        return DriverAnswer.YES
    if cuda in PTX_OF_CUDA:
        return DriverAnswer.NO
    later = [ptx for version, ptx in PTX_OF_CUDA.items() if version > cuda]
    return DriverAnswer.NO if later and wanted > min(later) else DriverAnswer.UNKNOWN


def driver_inflates(compression: str, oldest_cuda: str) -> DriverAnswer:
    """Whether the driver knows an entry's compression: ``none`` and ``lz4`` always, ``zstd`` since 12.4."""
    if compression in ("none", "lz4"):
        return DriverAnswer.YES
    if compression != "zstd":
        return DriverAnswer.UNKNOWN
    try:
        return DriverAnswer.YES if parse_version(oldest_cuda) >= ZSTD_SINCE else DriverAnswer.NO
    except MalformedError:
        return DriverAnswer.UNKNOWN


def driver_runs(*, ptx: bool, isa: str, toolkit: str, compression: str, oldest_cuda: str) -> DriverAnswer:
    """Whether the oldest driver that a target promises (``oldest_cuda``, "13.0") takes one entry.

    ``ptx`` chooses the rule: PTX is held by its ISA version, a cubin by its toolkit's CUDA major; both by their
    compression.  ``NO`` beats ``UNKNOWN`` beats ``YES``.
    """
    code = driver_runs_ptx(isa, oldest_cuda) if ptx else driver_runs_cubin(toolkit, oldest_cuda)
    answers = (code, driver_inflates(compression, oldest_cuda))
    for answer in (DriverAnswer.NO, DriverAnswer.UNKNOWN):
        if answer in answers:
            return answer
    return DriverAnswer.YES
