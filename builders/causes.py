"""The first true cause in the log of a build that failed: data, and one walk over the lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from re import Pattern

# Said by builds that end well; never the cause.
HARMLESS = (
    re.compile(r"Pytorch version \S+ expected for CUDA build, saw"),
    re.compile(r"Using default MoE config"),
    re.compile(r"^\s*warning:", re.IGNORECASE),
)

# Kind and what it looks like, in two ranks.  The first line of the first rank is the cause; where there is none, the
# first of the second rank, which is how build systems and Python report that something below them failed.
FIRST: tuple[tuple[str, Pattern[str]], ...] = (
    ("killed", re.compile(r"Killed signal terminated program|\bout of memory\b|^\s*Killed$|signal 9", re.IGNORECASE)),
    ("missing header", re.compile(r"fatal error: \S+: No\b|cannot open source file")),
    ("unknown architecture", re.compile(r"Unsupported gpu architecture|is not defined for option 'gpu-architecture'")),
    ("compiler crash", re.compile(r"internal compiler error|Segmentation fault|signal 11")),
    ("disk full", re.compile(r"No space left on device")),
    ("network", re.compile(r"Could not resolve host|Temporary failure in name resolution|unable to access '")),
    ("requirement", re.compile(r"^\s*ModuleNotFoundError: |Could not find a version that satisfies")),
    ("link", re.compile(r"cannot find -l|undefined reference to|ld returned")),
    ("compile", re.compile(r"(^|\s)\S+:\d+(:\d+)?: error:|\S+\(\d+\): error:|error: command '.*' failed")),
)
SECOND: tuple[tuple[str, Pattern[str]], ...] = (
    ("cmake", re.compile(r"^\s*CMake Error")),
    ("build", re.compile(r"^\s*ninja: (error|build stopped)|^environment: ")),
    ("python", re.compile(r"^\s*([A-Za-z_]\w*\.)*\w*(Error|Exception)(:|$)")),
    ("build", re.compile(r"^\s*error: ", re.IGNORECASE)),
)
_CONTEXT = 2  # lines with words after a CMake error, which says below what is wrong
_LOOK_AFTER = 6


@dataclass(frozen=True, slots=True)
class Cause:
    """``kind`` is one of :data:`FIRST` or :data:`SECOND`; ``line`` counts from 1; ``lines`` are the log's."""

    kind: str
    line: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(text.strip() for text in self.lines if text.strip())


def first_cause(log: Iterable[str]) -> Cause | None:
    """The first line that says why a build failed; None where no line is known to."""
    lines = [_plain(line) for line in log]
    told = [(number, text) for number, text in enumerate(lines, 1) if not any(harm.search(text) for harm in HARMLESS)]
    found = _first(told, FIRST)
    for row in SECOND:
        found = found or _first(told, (row,))
    if found is None:
        return None
    number, kind = found
    after = [text for text in lines[number : number + _LOOK_AFTER] if text.strip()]
    more = after[:_CONTEXT] if kind == "cmake" else []
    return Cause(kind, number, (lines[number - 1], *more))


def _first(told: list[tuple[int, str]], rows: tuple[tuple[str, Pattern[str]], ...]) -> tuple[int, str] | None:
    return next(((number, kind) for number, text in told for kind, pattern in rows if pattern.search(text)), None)


def _plain(line: str) -> str:
    """Without the colours that compilers and pip write."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip()
