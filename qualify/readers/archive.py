"""A zip archive read strictly: what the central directory says, held against every local header.

Installers trust the central directory, streaming tools the local headers, and some take the first of two members of
one name where others take the last.  Where these readings could differ, the archive is malformed.  Nothing is read
into memory but the directory; each member's stored bytes are a slice of the buffer.

Two names that differ in case or in Unicode normalization alone are two files on Linux, which the targets run, and no
installer there takes them for one: they are no fault.

Format: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5; names by the binary distribution format (UTF-8).
"""

from __future__ import annotations

import re
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from mmap import mmap

from qualify.errors import MalformedError
from qualify.facts import Problem, installed_path
from qualify.readers.binary import Limits, Problems, text
from qualify.readers.zipdirectory import LONGEST_PATH, ZIP64, Row, find_end, read_extra, read_rows, widen

STORED, DEFLATED = 0, 8
_LOCAL = struct.Struct("<4s5H3I2H")
_ENCRYPTED, _DESCRIPTOR, _PATCHED, _STRONG, _UTF8, _MASKED = 0x1, 0x8, 0x20, 0x40, 0x800, 0x2000
# Deflate cannot do better than 258 bytes out of two bits, 1032 to 1 (zlib's own technical notes).
_BEST_RATIO = 1032
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RECORD = re.compile(rb"PK(?:\x03\x04|\x07\x08)")
_DEEPEST_PATH, _LONGEST_PART = 64, 255  # the second in bytes: NAME_MAX of Linux
# What nearly every name is, and no more need be asked of: short ASCII parts, none of which begins with a dot.
_PLAIN = re.compile(rb"(?:[A-Za-z0-9_+@-][A-Za-z0-9_.+@-]{0,99}/){0,9}(?:[A-Za-z0-9_+@-][A-Za-z0-9_.+@-]{0,99})?")


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


def read_archive(buffer: bytes | mmap, limits: Limits | None = None) -> Archive:
    """The members of a zip archive and all that is wrong with it.

    :raises MalformedError: where no central directory can be found, so that nothing at all can be read.
    """
    with memoryview(buffer) as view:
        return _read(view, limits or Limits())


def _read(view: memoryview, limits: Limits) -> Archive:
    whole = Problems("")
    end = find_end(view, whole)
    shift = end.start - end.directory_size - end.directory_offset
    if shift < 0:
        raise MalformedError(
            "the central directory does not fit before its end record",
            expected="a whole zip archive",
            action="fetch the file again",
        )
    if shift:
        whole.malformed("central directory", f"{shift} foreign bytes stand before the first member")
    if end.record_offset not in (-1, end.start - shift):
        whole.malformed("end of central directory", "the ZIP64 locator points elsewhere than at the ZIP64 record")
    first = end.directory_offset + shift
    rows, complete = read_rows(view, first, end, limits, whole)
    collectors = [Problems(text(row.name)) for row in rows]
    members: list[ArchiveMember] = []
    spans: list[tuple[int, int, int]] = []
    for index, (row, problems) in enumerate(zip(rows, collectors, strict=True)):
        member, stop = _read_member(view, row, shift, first, problems)
        members.append(member)
        if stop >= 0:
            spans.append((row.offset + shift, stop, index))
    _check_names(members, collectors)
    overlapping, unowned = _check_spans(spans, shift, first, collectors)
    if unowned and complete and len(spans) == len(rows):
        whole.malformed("archive", f"{unowned} bytes between the members belong to none of them")
    for index in (*overlapping, *_bombs(members, len(view), limits, whole)):
        members[index] = replace(members[index], data_offset=-1)
    return Archive(tuple(members), _bounded(whole, collectors, limits.problems))


def _bounded(whole: Problems, collectors: Sequence[Problems], most: int) -> tuple[Problem, ...]:
    """All problems; of each member the first alone where there are too many of them."""
    found = list(whole.finish())
    for problems in collectors:
        found += problems.finish() if len(found) < most else problems.items[:1]
    return tuple(found)


def _read_member(view: memoryview, row: Row, shift: int, limit: int, problems: Problems) -> tuple[ArchiveMember, int]:
    """The member and the end of its bytes, or -1 where its local header is not to be trusted."""
    where = "central directory"
    path = _path(row, problems)
    is_directory = path.endswith("/")
    start, stop = _local_header(view, row, row.offset + shift, limit, problems)
    for fault in row.faults:
        problems.malformed(where, fault)
    _check_mode(row.mode, is_directory, problems)
    readable = False
    if not row.whole:
        problems.malformed(where, "its ZIP64 sizes are not there")
    elif row.flags & (_ENCRYPTED | _MASKED | _STRONG):
        problems.malformed(where, "is encrypted; no installer can read it")
    elif row.flags & _PATCHED or row.method not in (STORED, DEFLATED):
        problems.unreadable(where, f"is compressed by method {row.method}, which is not known here")
    elif row.method == STORED and row.size != row.stored_size:
        problems.malformed(where, f"is stored, yet says {row.size} bytes out of {row.stored_size}")
    elif row.size > _BEST_RATIO * row.stored_size + 64:
        problems.malformed(where, f"says {row.size} bytes, more than {row.stored_size} can inflate to")
    else:
        readable = True
    if is_directory and (row.size or row.crc or row.stored_size > 2):
        problems.malformed(where, "is a folder with content")
    member = ArchiveMember(
        path, row.method, row.crc, row.size, row.stored_size, start if readable else -1, is_directory
    )
    return member, stop


def _check_mode(mode: int, is_directory: bool, problems: Problems) -> None:
    """The type of file that the mode says, on whatever system the archive was made: tools look at no other field."""
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        problems.malformed("central directory", "is a symbolic link; a wheel holds files alone")
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        problems.malformed("central directory", f"is a special file (mode {mode:o}); a wheel holds files alone")
    elif kind == stat.S_IFDIR and not is_directory:
        problems.malformed("central directory", "is a file by its name and a folder by its mode")


def _path(row: Row, problems: Problems) -> str:
    where = "central directory"
    if row.name and _PLAIN.fullmatch(row.name) and row.name_size == len(row.name):
        problems.member = path = row.name.decode("ascii")
        return path
    if row.name_size > len(row.name):
        problems.malformed(where, f"has a name of {row.name_size} bytes")
        return text(row.name)
    if not row.flags & _UTF8 and not row.name.isascii():
        # Python's zipfile reads code page 437, others UTF-8: two names for one file.
        problems.malformed(where, "its name is neither ASCII nor said to be UTF-8, so that readers differ in it")
        return text(row.name)
    try:
        path = row.name.decode("utf-8")
    except UnicodeDecodeError:
        problems.malformed(where, "its name is no UTF-8, though it says so")
        return text(row.name)
    problems.member = path
    parts = path.removesuffix("/").split("/")
    if len(path) > LONGEST_PATH or len(parts) > _DEEPEST_PATH:
        problems.malformed(where, f"has a name of {len(path)} letters, {len(parts)} folders deep")
    elif any(len(part.encode()) > _LONGEST_PART for part in parts):
        problems.malformed(where, f"has a part of its name that is longer than {_LONGEST_PART} bytes")
    if path.startswith("/") or path[1:2] == ":":
        problems.malformed(where, "is an absolute path")
    elif ".." in parts:
        problems.malformed(where, "leads out of the folder that it is unpacked into")
    elif "" in parts or "." in parts or "\\" in path or _CONTROL.search(path):
        problems.malformed(where, "has a name that installers read in different ways")
    return path


def _local_header(view: memoryview, row: Row, at: int, limit: int, problems: Problems) -> tuple[int, int]:
    """Start and end of the stored bytes (the end with its data descriptor); (-1, -1) where they are not trusted."""
    where = "local header"
    if at + _LOCAL.size > limit or view[at : at + 4].tobytes() != b"PK\3\4":
        problems.malformed(where, f"is not at {at:#x}, where the central directory says")
        return -1, -1
    _, _, flags, method, _, _, crc, stored, size, name_size, extra_size = _LOCAL.unpack_from(view, at)
    name_at = at + _LOCAL.size
    extra_at = name_at + name_size
    start = extra_at + extra_size
    if start + row.stored_size > limit:
        problems.malformed(where, "its bytes reach into the central directory or past the end")
        return -1, -1
    same_name = name_size == row.name_size and (
        view[name_at:extra_at].tobytes() == view[row.name_at : row.name_at + name_size].tobytes()
    )
    fields, faults = read_extra(view[extra_at:start].tobytes(), row.name)
    block = fields.get(ZIP64)
    (size, stored), left = widen(block, (size, stored))
    # Both sizes stand there by the letter of the format (4.5.3), the wanted one alone in what some tools write.
    if left > 0 and not (block is not None and len(block) == 16 and _both(block) == (row.size, row.stored_size)):
        faults.append("its ZIP64 field says something else than its sizes")
    for fault in faults:
        if fault not in row.faults:
            problems.malformed(where, fault)
    stop = start + row.stored_size
    same = (crc, stored, size) == (row.crc, row.stored_size, row.size)
    if row.flags & flags & _DESCRIPTOR:
        # Sizes may be zero here: they stand behind the bytes, with or without a signature, in 32 or 64 bits.
        same = same or not any((crc, stored, size))
        length = _descriptor(view, stop, limit, row, wide_first=block is not None)
        if length == 0:
            problems.malformed(where, "sizes or CRC behind its bytes differ from the central directory's")
            return -1, -1
        if row.method == STORED and _RECORD.search(view[start:stop]):
            problems.malformed(where, "is stored without its size in front, and holds what ends it for some readers")
        stop += length
    if not same_name or method != row.method or (flags ^ row.flags) & (_ENCRYPTED | _DESCRIPTOR | _UTF8):
        problems.malformed(where, "name, flags or method differ from the central directory's")
        return -1, stop
    if not same:
        problems.malformed(where, "sizes or CRC differ from the central directory's")
        return -1, stop
    return start, stop


def _both(block: bytes) -> tuple[int, int]:
    size, stored = struct.unpack("<2Q", block)
    return size, stored


def _descriptor(view: memoryview, at: int, limit: int, row: Row, *, wide_first: bool) -> int:
    """The length of the data descriptor at ``at``; 0 where there is none that says what the row says."""
    narrow = struct.pack("<3I", row.crc, row.stored_size & 0xFFFFFFFF, row.size & 0xFFFFFFFF)
    wide = struct.pack("<I2Q", row.crc, row.stored_size, row.size)
    # The narrow form of an empty member is the beginning of its wide form: the ZIP64 field says which is meant.
    forms = (wide, narrow) if wide_first else (narrow, wide)
    for form in (b"PK\7\x08" + forms[0], b"PK\7\x08" + forms[1], *forms):
        if at + len(form) <= limit and view[at : at + len(form)] == form:
            return len(form)
    return 0


def _check_names(members: Sequence[ArchiveMember], collectors: Sequence[Problems]) -> None:
    """No two members may come to lie at one place, nor one below another that is a file (PEP 427: `.data` folders)."""
    places = [installed_path(member.path).removesuffix("/") for member in members]
    seen: dict[str, ArchiveMember] = {}
    for place, member, problems in zip(places, members, collectors, strict=True):
        other = seen.setdefault(place, member)
        if other is member:
            continue
        if other.path.removesuffix("/") == member.path.removesuffix("/"):
            problems.malformed("central directory", "stands in the archive twice")
        elif not (other.is_directory and member.is_directory):
            problems.malformed("central directory", f"is installed to the same place as {other.path}")
    files = {place: member.path for place, member in zip(places, members, strict=True) if not member.is_directory}
    below: dict[str, str] = {"": ""}  # folder -> the file that it or a folder above it is, "" where there is none
    for place, problems in zip(places, collectors, strict=True):
        parent = place.rpartition("/")[0]
        if len(parent) > LONGEST_PATH or parent.count("/") > _DEEPEST_PATH:
            continue  # reported already; walking up from it could take long
        walked = []
        while parent not in below:
            walked.append(parent)
            parent = parent.rpartition("/")[0]
        for folder in reversed(walked):
            below[folder] = below[parent] or files.get(folder, "")
            parent = folder
        if below[parent]:
            problems.malformed("central directory", f"lies below {below[parent]}, which is a file")


def _check_spans(
    spans: Sequence[tuple[int, int, int]], start: int, limit: int, collectors: Sequence[Problems]
) -> tuple[list[int], int]:
    """The members whose bytes overlap those of one that begins before them, and how many bytes no member owns.

    A bomb whose members share their bytes would else be inflated once for each of them.
    """
    overlapping = []
    unowned = 0
    reached = start
    for begin, stop, index in sorted(spans):
        if begin < reached:
            collectors[index].malformed("local header", "its bytes overlap another member's")
            overlapping.append(index)
        unowned += max(0, begin - reached)
        reached = max(reached, stop)
    return overlapping, unowned + max(0, limit - reached)


def _bombs(members: Sequence[ArchiveMember], size: int, limits: Limits, whole: Problems) -> list[int]:
    """The members that are not inflated, where all of them would come to far more than any wheel's do."""
    total = sum(member.size for member in members if member.data_offset >= 0)
    if total <= max(limits.inflation_free, limits.inflation * size):
        return []
    found = [index for index, each in enumerate(members) if each.size > limits.inflation * max(1, each.stored_size)]
    detail = f"inflates to {total} bytes, more than {limits.inflation} times its size; {len(found)} members of it"
    whole.unreadable("archive", f"{detail}, which inflate to the most, were not looked at")
    return found
