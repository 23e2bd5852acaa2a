"""Where other tools say otherwise on real wheels, and why: each one looked into, none of them waved through."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Explained:
    """Disagreements of one tool that have one reason."""

    tool: str
    wheel: str  # fnmatch pattern over the file name
    line: str  # regular expression over the disagreement
    reason: str

    def fits(self, wheel: str, tool: str, line: str) -> bool:
        return tool == self.tool and fnmatchcase(wheel, self.wheel) and re.search(self.line, line) is not None


EXPLAINED: tuple[Explained, ...] = (
    Explained(
        "cuobjdump",
        "bitsandbytes-0.50.2-*",
        "libbitsandbytes_cuda121.*Invalid ELF",
        "cuobjdump 13.5 calls the CUDA 12.1 build an invalid ELF file, whatever is asked of it; those of 11.8 "
        "and of 12.4 to 13.2 beside it, with the same architectures, it reads. cubloaty reads all of them, and lists "
        "the same images and kernels as we do; readelf finds nothing wrong with the file.",
    ),
)
