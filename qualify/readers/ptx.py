"""PTX text: its version, its target, and the names of its kernels.

Grammar: NVIDIA's "Parallel Thread Execution ISA": ``.version major.minor``, ``.target sm_XX[af] [, …]``, and
``[.visible | .weak] .entry name [(parameters)] … { body }``.  An ``.entry`` that ends with a semicolon, or is
``.extern``, declares a kernel that lies elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qualify.errors import MalformedError, UnverifiedError
from qualify.readers.binary import find, first_nonzero

_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d{1,3}\.\d{1,3})\s", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+sm_(\d{1,4})([a-z]?)\s*(?:[,\s/]|$)", re.MULTILINE)
_ADDRESS_SIZE = re.compile(rb"^[ \t]*\.address_size[ \t]+32\b", re.MULTILINE)
_NAME = re.compile(rb"\s+([A-Za-z_$%][\w$]*)")
_HEAD = 1 << 20  # version and target stand before anything but comments
_BEGINNING = 4096  # the address size stands right behind the target
_WINDOW = 1024  # as far back as a line's beginning is looked for
_COMMENT_OR_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Ptx:
    isa: str  # "9.0"
    sm: int
    suffix: str  # "a", "f" or ""
    kernels: tuple[bytes, ...]  # distinct names, in order


def read_ptx(data: bytes) -> Ptx:
    """Read PTX text, with or without the NUL bytes that end it in a fat binary.

    :raises MalformedError: where it has no version or no target, or a NUL byte stands within it.
    :raises UnverifiedError: where it is for 32-bit processes.
    """
    nul = data.find(b"\0")
    end = len(data) if nul < 0 else nul
    if first_nonzero(data, end, len(data)) < len(data):
        raise MalformedError("has NUL bytes within its text")
    version, target = _VERSION.search(data, 0, min(end, _HEAD)), _TARGET.search(data, 0, min(end, _HEAD))
    if version is None or target is None:
        raise MalformedError("is no PTX text: it has no .version or no .target line")
    if _ADDRESS_SIZE.search(data, 0, min(end, version.end() + _BEGINNING)):
        raise UnverifiedError("is code for 32-bit processes, which is not known here")
    return Ptx(version[1].decode(), int(target[1]), target[2].decode(), tuple(_kernels(data, end)))


def _kernels(source: bytes, stop: int) -> dict[bytes, None]:
    # The compiler writes no such comments, and a single letter is looked for ten times as fast as two.
    if source.find(b"*", 0, stop) >= 0 and source.find(b"/*", 0, stop) >= 0:
        source = _COMMENT_OR_STRING.sub(b" ", source[:stop])
        stop = len(source)
    found: dict[bytes, None] = {}
    # The first brace and semicolon after the last name, kept so that a text without any is searched once.
    brace = semicolon = -1
    at = find(source, b".entry", 0, stop)
    while at >= 0:
        name = _NAME.match(source, at + 6, stop)
        before = source[max(0, at - _WINDOW) : at]
        line = before[before.rfind(b"\n") + 1 :]
        if name and b"//" not in line and b'"' not in line and (not before or before[-1:].isspace()):
            if brace < name.end():
                brace = source.find(b"{", name.end(), stop) % (stop + 1)  # none: stop
            if semicolon < name.end():
                semicolon = source.find(b";", name.end(), stop) % (stop + 1)
            # A declaration ends with a semicolon before any brace.
            defined = brace < semicolon
            if defined and before[-64:].split()[-1:] != [b".extern"]:
                found[name[1]] = None
        at = find(source, b".entry", at + 6, stop)
    return found
