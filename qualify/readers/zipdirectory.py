"""The end records and the central directory of a zip archive, with all that is wrong with them.

Format: PKWARE APPNOTE 6.3.10, sections 4.3.12 to 4.3.16 (records), 4.4 (fields), 4.5.3 (ZIP64) and 4.6.9 (names).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from qualify.errors import MalformedError
from qualify.readers.binary import Limits, Problems

U32, U16 = 0xFFFFFFFF, 0xFFFF
LONGEST_PATH = 1024
ZIP64, UNICODE_PATH = 1, 0x7075
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_EXTRA = struct.Struct("<2H")
_MOST_EXTRA = 64
_NEWEST_VERSION = 63  # of the format, in tenths: APPNOTE's own, and all that Python's zipfile opens
_RECORD_IN_COMMENT = re.compile(rb"PK(?:\x01\x02|\x03\x04|\x05\x06|\x06\x06|\x06\x07)")


@dataclass(frozen=True, slots=True)
class End:
    start: int  # where the end records begin: the central directory must end here
    count: int
    directory_size: int
    directory_offset: int
    record_offset: int = -1  # where the ZIP64 locator says that its record begins; -1 without one


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the central directory.  Of a name that is longer than any path, only the beginning is kept."""

    name: bytes
    name_at: int  # in the buffer
    name_size: int
    flags: int
    method: int
    crc: int
    size: int
    stored_size: int
    offset: int
    mode: int  # the file mode of Unix, with its type; 0 where there is none
    whole: bool  # False: a 64-bit value that the row points at is not there
    faults: tuple[str, ...]  # of its extra fields


def find_end(view: memoryview, whole: Problems) -> End:
    """The end record, by the ZIP64 one where there is one.

    :raises MalformedError: where there is none, or the ZIP64 record is not where it has to be.
    """
    tail_start = max(0, len(view) - _END.size - U16)
    tail = bytes(view[tail_start:])
    at = _end_signature(tail)
    if at < 0:
        raise MalformedError(
            "no end of central directory",
            expected="a zip archive",
            action="it is cut short or no wheel: fetch it again",
        )
    _, disk, directory_disk, count_here, count, size, offset, comment = _END.unpack_from(tail, at)
    start = tail_start + at
    trailing = len(view) - start - _END.size - comment
    if trailing:
        whole.malformed("end of central directory", f"{trailing} foreign bytes stand after the end of the archive")
    if tail.find(b"PK\5\6", at + 4) >= 0:
        whole.malformed("end of central directory", "there are two of them, and readers differ in which one they take")
    elif _RECORD_IN_COMMENT.search(tail, at + _END.size):
        whole.malformed("end of central directory", "records of an archive stand in its comment or behind it")
    if disk or directory_disk or count_here != count:
        whole.malformed("end of central directory", "the archive says that it is split over several files")
    locator = start - _LOCATOR64.size
    if locator >= 0 and view[locator : locator + 4].tobytes() == b"PK\6\7":
        return _end64(view, locator, (count, size, offset), whole)
    if U32 in (size, offset):
        raise MalformedError("the ZIP64 end record is not there", expected="a whole zip archive")
    return End(start, count, size, offset)


def _end_signature(tail: bytes) -> int:
    """Where the end record begins in the last bytes: the last one whose comment ends the file, else the last one."""
    last = -1
    at = tail.rfind(b"PK\5\6")
    while at >= 0:
        if at + _END.size <= len(tail):
            stop = at + _END.size + int(struct.unpack_from("<H", tail, at + 20)[0])
            if stop == len(tail):
                return at
            last = at if last < 0 and stop < len(tail) else last
        at = tail.rfind(b"PK\5\6", 0, at)
    return last


def _end64(view: memoryview, locator: int, short: tuple[int, int, int], whole: Problems) -> End:
    _, disk, at, disks = _LOCATOR64.unpack_from(view, locator)
    # The record stands right before its locator; the offset in the locator is off where bytes were put in front.
    start = locator - _END64.size
    if start < 0 or view[start : start + 4].tobytes() != b"PK\6\6":
        raise MalformedError("the ZIP64 end record is not where its locator says", expected="a whole zip archive")
    _, record, _, _, here, directory_disk, count_here, count, size, offset = _END64.unpack_from(view, start)
    if record != _END64.size - 12 or at > start:
        raise MalformedError("the ZIP64 end record is damaged", expected="a whole zip archive")
    if disk or disks > 1 or here or directory_disk or count_here != count:
        whole.malformed("end of central directory", "the archive says that it is split over several files")
    for value, wide, sentinel in zip(short, (count, size, offset), (U16, U32, U32), strict=True):
        if value not in (sentinel, wide):
            whole.malformed("end of central directory", "its ZIP64 record and its short record disagree")
            break
    return End(start, count, size, offset, at)


def read_rows(view: memoryview, first: int, end: End, limits: Limits, whole: Problems) -> tuple[list[Row], bool]:
    """The rows that begin at ``first``, as many as are looked at, and whether those are all of them."""
    rows: list[Row] = []
    at = first
    while at < end.start:
        if len(rows) == limits.members:
            whole.unreadable("central directory", f"more than {limits.members} members; the rest was not looked at")
            return rows, False
        if at + _CENTRAL.size > end.start or view[at : at + 4].tobytes() != b"PK\1\2":
            whole.malformed("central directory", f"row {len(rows)} is damaged; what follows could not be read")
            return rows, False
        row, after = _row(view, at)
        if after > end.start:
            whole.malformed("central directory", f"row {len(rows)} reaches past the end of the directory")
            return rows, False
        rows.append(row)
        at = after
    if len(rows) != end.count:
        whole.malformed("central directory", f"holds {len(rows)} members where its end record says {end.count}")
    return rows, True


def _row(view: memoryview, at: int) -> tuple[Row, int]:
    values = _CENTRAL.unpack_from(view, at)
    _, _, needed, flags, method, _, _, crc, stored, size, name_size, extra_size, comment_size, disk, *rest = values
    _, mode, offset = rest
    name_at = at + _CENTRAL.size
    extra_at = name_at + name_size
    name = view[name_at : name_at + min(name_size, 4 * LONGEST_PATH)].tobytes()
    fields, faults = read_extra(view[extra_at : extra_at + extra_size].tobytes(), name)
    block = fields.get(ZIP64)
    (size, stored, offset), left = widen(block, (size, stored, offset))
    if disk == U16 and block is not None and left >= 4:
        disk, left = struct.unpack_from("<I", block, len(block) - left)[0], left - 4
    if left > 0:
        faults.append(f"its ZIP64 field holds {left} bytes more than its row asks for")
    if needed & 0xFF > _NEWEST_VERSION:
        faults.append(f"asks for version {(needed & 0xFF) / 10} of the format, which installers refuse")
    if disk:
        faults.append("says that it lies in another file of a split archive")
    row = Row(name, name_at, name_size, flags, method, crc, size, stored, offset, mode >> 16, left >= 0, tuple(faults))
    return row, extra_at + extra_size + comment_size


def read_extra(extra: bytes, name: bytes) -> tuple[dict[int, bytes], list[str]]:
    """The extra fields by number, and what is wrong with them; ``name`` is that of the header that they stand in."""
    fields: dict[int, bytes] = {}
    faults: list[str] = []
    at = count = 0
    while at < len(extra):
        count += 1
        if at + _EXTRA.size > len(extra) or count > _MOST_EXTRA:
            faults.append("its extra fields are cut short" if count <= _MOST_EXTRA else "has too many extra fields")
            break
        tag, size = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        if at + size > len(extra):
            faults.append("its extra fields are cut short")
            break
        if tag in fields and tag in (ZIP64, UNICODE_PATH):
            faults.append(f"has two extra fields {tag:#x}, and readers differ in which one they take")
        fields.setdefault(tag, extra[at : at + size])
        at += size
    if UNICODE_PATH in fields and fields[UNICODE_PATH][5:] != name:
        faults.append("has a second, other name in an extra field")
    return fields, faults


def widen(block: bytes | None, short: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """``short`` with the 64-bit values of a ZIP64 field in place of 0xFFFFFFFF, and the bytes of the field left over.

    The number is -1 where a value is not there.
    """
    if U32 not in short:
        return short, len(block or b"")
    values = list(short)
    at = 0
    for index, value in enumerate(values):
        if value == U32:
            if block is None or at + 8 > len(block):
                return short, -1
            values[index] = struct.unpack_from("<Q", block, at)[0]
            at += 8
    return tuple(values), len(block or b"") - at
