"""What the configure step says of parts that it leaves out, held against what the target expects to be left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from qualify.matrix.model import Configure, NotBuilt

_MARK = re.compile(r"^\s*(?:--\s*)?")  # CMake's "-- " before a status line
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Said by a project of a torch that is newer than the one it names; worth a line in the receipt, and no fault.
TORCH_WARNINGS = (
    re.compile(r"Pytorch version \S+ expected for CUDA build, saw"),
    re.compile(r"The detected CUDA version .* has a (?:minor )?version mismatch"),
    re.compile(r"TORCH_CUDA_ARCH_LIST is not set"),
    re.compile(r"Attempted to use ninja as the BuildExtension backend but we could not find ninja"),
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One line that announces a part that isn't built; ``reason`` is why that is right, "" where nothing expects it."""

    text: str
    line: int  # of the build's output, from 1
    reason: str


def left_out(output: Iterable[str], configure: Configure, own: Sequence[NotBuilt]) -> tuple[LeftOut, ...]:
    """Every announcing line once, in the order of the output."""
    found: dict[str, LeftOut] = {}
    for number, line in enumerate(output, 1):
        text = plain(line)
        if text in found or not any(fnmatchcase(text, pattern) for pattern in configure.announces):
            continue
        expected = next((each for each in (*own, *configure.expected) if fnmatchcase(text, each.pattern)), None)
        found[text] = LeftOut(text, number, expected.reason if expected else "")
    return tuple(found.values())


def torch_warnings(output: Iterable[str]) -> tuple[str, ...]:
    """What the build's output says of torch that a person should know; each once."""
    said = [plain(line) for line in output if any(pattern.search(line) for pattern in TORCH_WARNINGS)]
    return tuple(dict.fromkeys(said))


def plain(line: str) -> str:
    """A line without colours and without CMake's mark."""
    return _MARK.sub("", _COLOUR.sub("", line)).rstrip()
