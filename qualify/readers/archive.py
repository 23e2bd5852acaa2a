"""A zip archive read strictly: what the central directory says, held against every local header.

Installers trust the central directory, streaming tools the local headers, and some take the first of two members of
one name where others take the last.  Where these readings could differ, the archive is malformed.  Nothing is read
into memory but the directory; each member's stored bytes are a slice of the buffer.

Format: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5.
"""

from __future__ import annotations

import re
import stat
import struct
from dataclasses import dataclass
from mmap import mmap

from qualify.errors import MalformedError
from qualify.facts import Problem
from qualify.readers.binary import Limits, Problems, text

STORED, DEFLATED = 0, 8
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_EXTRA = struct.Struct("<2H")
_U32, _U16 = 0xFFFFFFFF, 0xFFFF
_ENCRYPTED, _DESCRIPTOR, _PATCHED, _UTF8, _MASKED = 0x1, 0x8, 0x20, 0x800, 0x2000
_UNICODE_PATH = 0x7075
# Deflate cannot do better than 258 bytes out of two bits, 1032 to 1 (zlib's own technical notes).
_BEST_RATIO = 1032
_CONTROL = re.compile(r"[\x00-\x1f]")
_LONGEST_PATH, _DEEPEST_PATH = 1024, 64


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One member of the central directory.  ``data_offset`` is -1 where the stored bytes cannot be trusted."""

    path: str
    method: int
    crc: int
    size: int
    stored_size: int
    data_offset: int
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Archive:
    members: tuple[ArchiveMember, ...]  # in the order of the central directory, directories included
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _End:
    start: int  # where the end records begin: the central directory must end here
    count: int
    directory_size: int
    directory_offset: int


@dataclass(frozen=True, slots=True)
class _Row:
    name: bytes
    extra: bytes
    flags: int
    method: int
    crc: int
    size: int
    stored_size: int
    offset: int
    system: int
    mode: int
    whole: bool  # False: a 64-bit value that the row points at is not there


def read_archive(buffer: bytes | mmap, limits: Limits | None = None) -> Archive:
    """The members of a zip archive and all that is wrong with it.

    :raises MalformedError: where no central directory can be found, so that nothing at all can be read.
    """
    with memoryview(buffer) as view:
        return _read(view, limits or Limits())


def _read(view: memoryview, limits: Limits) -> Archive:
    whole = Problems("")
    end = _find_end(view, whole)
    shift = end.start - end.directory_size - end.directory_offset
    if shift < 0:
        raise MalformedError(
            "the central directory does not fit before its end record",
            expected="a whole zip archive",
            action="fetch the file again",
        )
    if shift:
        whole.malformed("central directory", f"{shift} foreign bytes stand before the first member")
    first = end.directory_offset + shift
    rows = _read_rows(view, first, end, limits, whole)
    collectors = [Problems(text(row.name)) for row in rows]
    members: list[ArchiveMember] = []
    spans: list[tuple[int, int, int]] = []
    for index, (row, problems) in enumerate(zip(rows, collectors, strict=True)):
        member, stop = _read_member(view, row, shift, first, problems)
        members.append(member)
        if stop >= 0:
            spans.append((row.offset + shift, stop, index))
    _check_names(members, collectors)
    _check_spans(spans, shift, first, collectors, whole)
    found = [*whole.finish(), *(problem for collector in collectors for problem in collector.finish())]
    return Archive(tuple(members), tuple(found))


def _find_end(view: memoryview, whole: Problems) -> _End:
    tail_start = max(0, len(view) - _END.size - _U16)
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
    if disk or directory_disk or count_here != count:
        whole.malformed("end of central directory", "the archive says that it is split over several files")
    locator = start - _LOCATOR64.size
    if locator >= 0 and view[locator : locator + 4].tobytes() == b"PK\6\7":
        return _end64(view, locator, (count, size, offset), whole)
    if count == _U16 or _U32 in (size, offset):
        raise MalformedError("the ZIP64 end record is not there", expected="a whole zip archive")
    return _End(start, count, size, offset)


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


def _end64(view: memoryview, locator: int, short: tuple[int, int, int], whole: Problems) -> _End:
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
    for value, wide, sentinel in zip(short, (count, size, offset), (_U16, _U32, _U32), strict=True):
        if value not in (sentinel, wide):
            whole.malformed("end of central directory", "its ZIP64 record and its short record disagree")
            break
    return _End(start, count, size, offset)


def _read_rows(view: memoryview, first: int, end: _End, limits: Limits, whole: Problems) -> list[_Row]:
    directory = bytes(view[first : end.start])
    rows: list[_Row] = []
    at = 0
    while at < len(directory):
        if len(rows) == limits.members:
            whole.unreadable("central directory", f"more than {limits.members} members; the rest was not looked at")
            return rows
        if at + _CENTRAL.size > len(directory) or directory[at : at + 4] != b"PK\1\2":
            whole.malformed("central directory", f"row {len(rows)} is damaged; what follows could not be read")
            return rows
        values = _CENTRAL.unpack_from(directory, at)
        _, made, _, flags, method, _, _, crc, stored, size, name_size, extra_size, comment_size, _, _, mode, offset = (
            values
        )
        name_at = at + _CENTRAL.size
        after = name_at + name_size + extra_size + comment_size
        if after > len(directory):
            whole.malformed("central directory", f"row {len(rows)} reaches past the end of the directory")
            return rows
        name = directory[name_at : name_at + name_size]
        extra = directory[name_at + name_size : name_at + name_size + extra_size]
        (size, stored, offset), complete = _wide(extra, (size, stored, offset))
        rows.append(_Row(name, extra, flags, method, crc, size, stored, offset, made >> 8, mode >> 16, complete))
        at = after
    if len(rows) != end.count:
        whole.malformed("central directory", f"holds {len(rows)} members where its end record says {end.count}")
    return rows


def _wide(extra: bytes, short: tuple[int, int, int]) -> tuple[tuple[int, int, int], bool]:
    """Sizes and offset with the 64-bit values of extra field 1 in place of 0xFFFFFFFF, and whether all were there."""
    block = dict(_extra_fields(extra)).get(1, b"")
    values = list(short)
    at = 0
    for index, value in enumerate(values):
        if value == _U32:
            if at + 8 > len(block):
                return short, False
            values[index] = struct.unpack_from("<Q", block, at)[0]
            at += 8
    return (values[0], values[1], values[2]), True


def _extra_fields(extra: bytes) -> list[tuple[int, bytes]]:
    fields: list[tuple[int, bytes]] = []
    at = 0
    while at + _EXTRA.size <= len(extra):
        tag, size = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        fields.append((tag, extra[at : at + size]))
        at += size
    return fields


def _read_member(view: memoryview, row: _Row, shift: int, limit: int, problems: Problems) -> tuple[ArchiveMember, int]:
    """The member and the end of its bytes, or -1 where its local header is not to be trusted."""
    path = _path(row, problems)
    is_directory = path.endswith("/")
    start, stop = _local_header(view, row, row.offset + shift, limit, problems)
    kind = stat.S_IFMT(row.mode) if row.system == 3 else 0
    if kind == stat.S_IFLNK:
        problems.malformed("central directory", "is a symbolic link; a wheel holds files alone")
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        problems.malformed("central directory", f"is a special file (mode {row.mode:o}); a wheel holds files alone")
    if not row.whole:
        problems.malformed("central directory", "its ZIP64 sizes are not there")
        start = -1
    if row.flags & (_ENCRYPTED | _MASKED | 0x40):
        problems.malformed("central directory", "is encrypted; no installer can read it")
        start = -1
    elif row.flags & _PATCHED or row.method not in (STORED, DEFLATED):
        problems.unreadable("central directory", f"is compressed by method {row.method}, which is not known here")
        start = -1
    elif row.method == STORED and row.size != row.stored_size:
        problems.malformed("central directory", f"is stored, yet says {row.size} bytes out of {row.stored_size}")
        start = -1
    elif row.size > _BEST_RATIO * row.stored_size + 64:
        problems.malformed("central directory", f"says {row.size} bytes, more than {row.stored_size} can inflate to")
        start = -1
    if is_directory and (row.size or row.stored_size > 2):
        problems.malformed("central directory", "is a folder with content")
    member = ArchiveMember(path, row.method, row.crc, row.size, row.stored_size, start, is_directory)
    return member, stop


def _path(row: _Row, problems: Problems) -> str:
    try:
        path = row.name.decode("utf-8" if row.flags & _UTF8 else "cp437")
    except UnicodeDecodeError:
        problems.malformed("central directory", "its name is no UTF-8, though it says so")
        return text(row.name)
    problems.member = path
    for tag, block in _extra_fields(row.extra):
        if tag == _UNICODE_PATH and block[5:] != row.name:
            problems.malformed("central directory", "has a second, other name in an extra field")
    parts = path.removesuffix("/").split("/")
    if len(path) > _LONGEST_PATH or len(parts) > _DEEPEST_PATH:
        problems.malformed("central directory", f"has a name of {len(path)} letters, {len(parts)} folders deep")
    if path.startswith("/") or path[1:2] == ":":
        problems.malformed("central directory", "is an absolute path")
    elif ".." in parts:
        problems.malformed("central directory", "leads out of the folder that it is unpacked into")
    elif "" in parts or "." in parts or "\\" in path or _CONTROL.search(path):
        problems.malformed("central directory", "has a name that installers read in different ways")
    return path


def _local_header(view: memoryview, row: _Row, at: int, limit: int, problems: Problems) -> tuple[int, int]:
    """Start and end of the stored bytes (the end with its data descriptor); (-1, -1) where they are not trusted."""
    where = "local header"
    if at + _LOCAL.size > limit or view[at : at + 4].tobytes() != b"PK\3\4":
        problems.malformed(where, f"is not at {at:#x}, where the central directory says")
        return -1, -1
    _, _, flags, method, _, _, crc, stored, size, name_size, extra_size = _LOCAL.unpack_from(view, at)
    start = at + _LOCAL.size + name_size + extra_size
    if start + row.stored_size > limit:
        problems.malformed(where, "its bytes reach into the central directory or past the end")
        return -1, -1
    name = bytes(view[at + _LOCAL.size : at + _LOCAL.size + name_size])
    extra = bytes(view[at + _LOCAL.size + name_size : start])
    wide = dict(_extra_fields(extra)).get(1, b"")
    if _U32 in (size, stored) and len(wide) >= 16:
        size, stored = struct.unpack_from("<2Q", wide)
    stop = start + row.stored_size
    same = (crc, stored, size) == (row.crc, row.stored_size, row.size)
    if row.flags & flags & _DESCRIPTOR:
        # Sizes may be zero here: they stand behind the bytes, with or without a signature, in 32 or 64 bits.
        same = same or not any((crc, stored, size))
        length = _descriptor(view, stop, limit, row)
        if length == 0:
            problems.malformed(where, "sizes or CRC behind its bytes differ from the central directory's")
            return -1, -1
        stop += length
    if name != row.name or method != row.method or (flags ^ row.flags) & (_ENCRYPTED | _DESCRIPTOR | _UTF8):
        problems.malformed(where, "name, flags or method differ from the central directory's")
        return -1, stop
    if not same:
        problems.malformed(where, "sizes or CRC differ from the central directory's")
        return -1, stop
    return start, stop


def _descriptor(view: memoryview, at: int, limit: int, row: _Row) -> int:
    narrow = struct.pack("<3I", row.crc, row.stored_size & _U32, row.size & _U32)
    wide = struct.pack("<I2Q", row.crc, row.stored_size, row.size)
    for form in (b"PK\7\x08" + narrow, b"PK\7\x08" + wide, narrow, wide):
        if at + len(form) <= limit and view[at : at + len(form)] == form:
            return len(form)
    return 0


def _check_names(members: list[ArchiveMember], collectors: list[Problems]) -> None:
    seen: dict[str, int] = {}
    for index, member in enumerate(members):
        key = member.path.removesuffix("/")
        if key in seen:
            collectors[index].malformed("central directory", "stands in the archive twice")
        seen[key] = index
    files = {member.path for member in members if not member.is_directory}
    for index, member in enumerate(members):
        parent = member.path.removesuffix("/").rpartition("/")[0]
        if len(parent) > _LONGEST_PATH or parent.count("/") > _DEEPEST_PATH:
            continue  # reported already; walking up from it could take long
        while parent:
            if parent in files:
                collectors[index].malformed("central directory", f"lies below {parent}, which is a file")
                break
            parent = parent.rpartition("/")[0]


def _check_spans(
    spans: list[tuple[int, int, int]], start: int, limit: int, collectors: list[Problems], whole: Problems
) -> None:
    """No member's bytes may overlap another's, and none may lie between two members unowned."""
    unowned = 0
    reached = start
    for begin, stop, index in sorted(spans):
        if begin < reached:
            collectors[index].malformed("local header", "its bytes overlap another member's")
        unowned += max(0, begin - reached)
        reached = max(reached, stop)
    unowned += max(0, limit - reached)
    if unowned and len(spans) == len(collectors):
        whole.malformed("archive", f"{unowned} bytes between the members belong to none of them")
