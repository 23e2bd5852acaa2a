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

# Kind and what it looks like.  Where several stand in a log, the first line that any of them matches is the cause:
# what comes after is the tools reporting each other's failure.
CAUSES: tuple[tuple[str, Pattern[str]], ...] = (
    ("killed", re.compile(r"Killed signal terminated program|\bout of memory\b|^Killed$|signal 9", re.IGNORECASE)),
    ("missing header", re.compile(r"fatal error: \S+: No such file or directory|cannot open source file")),
    ("unknown architecture", re.compile(r"Unsupported gpu architecture|is not defined for option 'gpu-architecture'")),
    ("compiler crash", re.compile(r"internal compiler error|Segmentation fault|signal 11")),
    ("disk full", re.compile(r"No space left on device")),
    ("network", re.compile(r"Could not resolve host|Temporary failure in name resolution|unable to access '")),
    ("requirement", re.compile(r"^\s*ModuleNotFoundError: |Could not find a version that satisfies")),
    ("cmake", re.compile(r"^CMake Error")),
    ("link", re.compile(r"cannot find -l|undefined reference to|ld returned")),
    ("compile", re.compile(r"(^|\s)\S+:\d+(:\d+)?: error:|\): error:|error: command '.*' failed")),
    ("python", re.compile(r"^\s*(\w+\.)*\w*(Error|Exception)(:|$)")),
    ("build", re.compile(r"^ninja: (error|build stopped)|^\s*error: |^environment: ")),
)
_CONTEXT = 2  # lines after a CMake error, which says what is wrong below where it is


@dataclass(frozen=True, slots=True)
class Cause:
    """``kind`` is one of :data:`CAUSES`; ``line`` counts from 1; ``lines`` are the words of the log."""

    kind: str
    line: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(text.strip() for text in self.lines if text.strip())


def first_cause(log: Iterable[str]) -> Cause | None:
    """The first line that says why a build failed; None where no line is known to."""
    lines = list(log)
    for number, text in enumerate(lines, 1):
        if any(pattern.search(text) for pattern in HARMLESS):
            continue
        for kind, pattern in CAUSES:
            if pattern.search(text):
                more = _CONTEXT if kind == "cmake" else 0
                return Cause(kind, number, tuple(_plain(line) for line in lines[number - 1 : number + more]))
    return None


def _plain(line: str) -> str:
    """Without the colours that compilers and pip write."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip()
