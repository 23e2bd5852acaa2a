"""What every reader shares: bounds, checked unpacking, problems, and the decompressors that are passed in."""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

from qualify.errors import MalformedError
from qualify.facts import Problem, ProblemKind

_PROBLEMS_PER_MEMBER = 50
_ROWS = 1 << 14  # that are unpacked at a time
_LONGEST_COMMAND = 1000
_NOT_ZERO = re.compile(rb"[^\0]")


@dataclass(frozen=True, slots=True)
class Limits:
    """Where reading stops and says so (``ProblemKind.UNREADABLE``).  Sizes in bytes.

    The largest values seen are those of torch's and vLLM's wheels: a member of 1.6 GB, a cubin of 18 MB, 2.6 GB of
    device code in one wheel, 5062 sections in one cubin.
    """

    members: int = 200_000
    member_size: int = 3 << 30
    total_size: int = 16 << 30
    inflation: int = 50  # times the size of the wheel, which is also where PyPI stops, ...
    inflation_free: int = 64 << 20  # ... from this many inflated bytes on
    entries: int = 200_000  # fat binary entries of one member
    entry_size: int = 256 << 20  # one entry once inflated
    device_size: int = 16 << 30  # all entries of the wheel once inflated
    symbols_size: int = 512 << 20  # dynamic symbols of the wheel's host files, in memory
    name_bytes: int = 64 << 20  # distinct device symbol names of one member, and 64 for each name
    references: int = 5_000_000  # kernels and functions of all entries of one member
    record_size: int = 64 << 20  # RECORD
    text_size: int = 1 << 20  # METADATA, WHEEL, a version module, a path file
    texts_size: int = 128 << 20  # all of these together
    version_modules: int = 100
    problems: int = 20_000  # of the members' content; beyond it, one of each member is kept


class Budget:
    """An amount of work that all members of a wheel share, over threads."""

    def __init__(self, amount: int) -> None:
        self._left = amount
        self._lock = threading.Lock()

    def take(self, amount: int) -> bool:
        """Whether ``amount`` is still there; it is taken if so."""
        with self._lock:
            if amount > self._left:
                return False
            self._left -= amount
            return True


class Decompressors(Protocol):
    """Decompression by libraries that the readers do not import.

    Each function returns exactly ``size`` bytes, never holds more than ``size`` and a few bytes, and raises
    :class:`~qualify.errors.MalformedError` where the data is damaged or holds more or less than ``size``, and
    :class:`~qualify.errors.UnavailableError` where the library is not there.
    """

    def deflate(self, data: bytes | memoryview, size: int) -> bytes: ...

    def zstd(self, data: bytes | memoryview, size: int) -> bytes: ...

    def lz4(self, data: bytes | memoryview, size: int) -> bytes: ...

    def crc32(self, data: bytes | memoryview) -> int: ...


@dataclass(slots=True)
class Problems:
    """Collects the problems of one member, a bounded number of them."""

    member: str
    items: list[Problem] = field(default_factory=list)
    dropped: int = 0

    def add(self, kind: ProblemKind, where: str, detail: str) -> None:
        if len(self.items) < _PROBLEMS_PER_MEMBER:
            self.items.append(Problem(kind, self.member, where, detail))
        else:
            self.dropped += 1

    def malformed(self, where: str, detail: str) -> None:
        self.add(ProblemKind.MALFORMED, where, detail)

    def unreadable(self, where: str, detail: str) -> None:
        self.add(ProblemKind.UNREADABLE, where, detail)

    def finish(self) -> tuple[Problem, ...]:
        """All problems; where some were left out, the last one says how many."""
        if self.dropped:
            note = f"{self.dropped} further problems of this member are not listed"
            return (*self.items, Problem(ProblemKind.UNREADABLE, self.member, "", note))
        return tuple(self.items)


def unpack(layout: struct.Struct, data: bytes, offset: int, what: str) -> tuple[int, ...]:
    """``layout`` at ``offset``, or :class:`MalformedError` that names ``what`` where the data ends before it."""
    if offset < 0 or offset + layout.size > len(data):
        raise MalformedError(f"{what} at {offset:#x} reaches past the end ({len(data):#x})")
    return layout.unpack_from(data, offset)


def unpacked(layout: struct.Struct, data: bytes, start: int, count: int) -> Iterator[tuple[int, ...]]:
    """``count`` rows of ``layout`` from ``start`` on, a block of them at a time.

    ``Struct.iter_unpack`` is always run to its end: CPython 3.12.1 crashes in its garbage collector where an error
    leaves one half way.
    """
    view = memoryview(data)
    for first in range(0, count, _ROWS):
        at = start + first * layout.size
        yield from list(layout.iter_unpack(view[at : at + min(_ROWS, count - first) * layout.size]))


def check_extent(offset: int, size: int, end: int, what: str) -> None:
    """Raise :class:`MalformedError` unless ``offset .. offset + size`` lies below ``end``."""
    if offset < 0 or size < 0 or offset + size > end:
        raise MalformedError(f"{what} ({offset:#x} + {size:#x}) reaches past the end ({end:#x})")


def first_nonzero(data: bytes, start: int, end: int) -> int:
    """The offset of the first byte that is not zero; ``end`` where there is none."""
    found = _NOT_ZERO.search(data, start, end)
    return found.start() if found else end


def find(data: bytes, needle: bytes, start: int, end: int) -> int:
    """``data.find(needle, start, end)``, by the C library's ``memmem`` where there is one.

    It is four times as fast as ``bytes.find`` for short needles, and other threads run meanwhile: a wheel's PTX text
    comes to a gigabyte.
    """
    end = min(end, len(data))
    if _MEMMEM is None or end - start < _SMALL:
        return data.find(needle, start, end)
    base = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    found: int | None = _MEMMEM(base + start, end - start, needle, len(needle))
    return found - base if found else -1


def _memmem() -> Callable[[int, int, bytes, int], int | None] | None:
    try:
        function = ctypes.CDLL(None).memmem
    except (OSError, AttributeError, TypeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return cast("Callable[[int, int, bytes, int], int | None]", function)


_MEMMEM = _memmem()
_SMALL = 1 << 12


class Strings:
    """A table of NUL-terminated strings at ``start .. end`` of a file.

    Names may share their tails, so that a table of n bytes can hold n names of up to n bytes each.  No compiler's
    output comes near the bound on what is taken out of one table; a file made to exhaust memory does.
    """

    __slots__ = ("_data", "_end", "_left", "_start", "_what")

    def __init__(self, data: bytes, start: int, end: int, what: str) -> None:
        self._data, self._start, self._end, self._what = data, start, min(end, len(data)), what
        self._left = 16 * max(0, self._end - start) + (1 << 20)

    def get(self, offset: int) -> bytes:
        """The string at ``offset`` from the start of the table.

        :raises MalformedError: where it has no end inside the table, or too much was taken out of the table.
        """
        begin = self._start + offset
        stop = self._data.find(b"\0", begin, self._end) if 0 <= self._start <= begin < self._end else -1
        if stop < 0:
            raise MalformedError(f"{self._what} at {offset:#x} has no end inside its table of strings")
        self._left -= stop - begin
        if self._left < 0:
            raise MalformedError(f"{self._what}: the names overlap each other far more than a compiler makes them")
        return self._data[begin:stop]


def text(raw: bytes) -> str:
    """Bytes of a file's own string table as text that JSON and a terminal can carry."""
    return raw.decode("utf-8", "backslashreplace")


def command_line(raw: bytes) -> str:
    """A command line as facts keep it: without the blanks around it, and cut where no compiler's would be as long."""
    command = raw.strip(b"\0 \t\n")
    return text(command) if len(command) <= _LONGEST_COMMAND else f"{text(command[:_LONGEST_COMMAND])}…"
