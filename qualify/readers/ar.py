"""Static libraries: the members of an ``ar`` archive, in GNU and BSD form (ar(5))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qualify.errors import MalformedError, UnverifiedError

MAGIC, THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"
_HEADER, _LONGEST_NAME = 60, 4096


@dataclass(frozen=True, slots=True)
class ArMember:
    name: str
    start: int
    end: int


def read_members(data: bytes) -> Iterator[ArMember]:
    """Each member but the tables of symbols and names.

    :raises MalformedError: at the first damaged header.
    :raises UnverifiedError: for a thin archive, whose members lie elsewhere.
    """
    if data[:8] == THIN_MAGIC:
        raise UnverifiedError("is a thin archive, whose members lie elsewhere")
    at, names = 8, b""
    while at < len(data):
        if at + _HEADER > len(data) or data[at + 58 : at + 60] != b"`\n":
            raise MalformedError(f"the member header at {at:#x} is damaged")
        digits = data[at + 48 : at + 58].rstrip()
        if not digits.isdigit():
            raise MalformedError(f"the member header at {at:#x} has no size")
        start, size = at + _HEADER, int(digits)
        end = start + size
        if end > len(data):
            raise MalformedError(f"the member at {at:#x} reaches past the end")
        raw = data[at : at + 16].rstrip()
        if raw == b"//":
            names = data[start:end]
        elif raw.startswith(b"#1/") and raw[3:].isdigit():
            length = min(int(raw[3:]), size)
            if length > _LONGEST_NAME:
                raise MalformedError(f"the member at {at:#x} has a name of {length} bytes")
            yield ArMember(_text(data[start : start + length].rstrip(b"\0")), start + length, end)
        elif raw[:1] == b"/" and raw[1:].isdigit():
            begin = int(raw[1:])
            stop = names.find(b"/\n", begin, begin + _LONGEST_NAME)
            yield ArMember(_text(names[begin : max(begin, stop)]), start, end)
        elif raw not in (b"/", b"/SYM64/", b"__.SYMDEF"):
            yield ArMember(_text(raw.removesuffix(b"/")), start, end)
        at = end + (end & 1)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
