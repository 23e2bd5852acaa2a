"""PTX text: its version, its target, and the names of its kernels.

Grammar: NVIDIA's "Parallel Thread Execution ISA": ``.version major.minor``, ``.target sm_XX[af] [, …]``, and
``[.visible | .weak] .entry name [(parameters)] … { body }``.  An ``.entry`` that ends with a semicolon, or is
``.extern``, declares a kernel that lies elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qualify.errors import MalformedError

_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d{1,3}\.\d{1,3})\s", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+sm_(\d{1,4})([a-z]?)\s*[,\s/]", re.MULTILINE)
_NAME = re.compile(rb"\s+([A-Za-z_$%][\w$]*)")
_BEGIN_OR_END = re.compile(rb"[{;]")
_WINDOW = 4096  # as far back as a line's beginning is looked for
_COMMENT_OR_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Ptx:
    isa: str  # "9.0"
    sm: int
    suffix: str  # "a", "f" or ""
    kernels: tuple[bytes, ...]  # distinct names, in order


def read_ptx(data: bytes) -> Ptx:
    """Read PTX text, with or without the NUL bytes that end it in a fat binary.

    :raises MalformedError: where it has no version or no target, or a NUL byte stands within it.
    """
    source = data.rstrip(b"\0")
    if b"\0" in source:
        raise MalformedError("has NUL bytes within its text")
    version, target = _VERSION.search(source), _TARGET.search(source + b"\n")
    if version is None or target is None:
        raise MalformedError("is no PTX text: it has no .version or no .target line")
    return Ptx(version[1].decode(), int(target[1]), target[2].decode(), tuple(_kernels(source)))


def _kernels(source: bytes) -> dict[bytes, None]:
    if b"/*" in source:
        # The compiler writes none of these; taking them out costs a pass over the text.
        source = _COMMENT_OR_STRING.sub(b" ", source)
    found: dict[bytes, None] = {}
    at = source.find(b".entry")
    while at >= 0:
        name = _NAME.match(source, at + 6)
        before = source[max(0, at - _WINDOW) : at]
        line = before[before.rfind(b"\n") + 1 :]
        if name and b"//" not in line and b'"' not in line and (not before or before[-1:].isspace()):
            end = _BEGIN_OR_END.search(source, name.end())
            if end and end[0] == b"{" and before.split()[-1:] != [b".extern"]:
                found[name[1]] = None
        at = source.find(b".entry", at + 6)
    return found
