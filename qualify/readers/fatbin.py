"""Fat binaries: containers and the headers of their entries.  No payload is inflated here.

Format: measured on nvcc 13.0's output and vLLM 0.33.0's wheels, held against ``cuobjdump``.  A container is
``u32 magic, u16 version, u16 header size, u64 payload size``, then entries of 64 bytes and more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from qualify.errors import MalformedError
from qualify.facts import Compression, EntryKind
from qualify.readers.binary import Problems, command_line, first_nonzero

MAGIC = b"\x50\xed\x55\xba"
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_ENTRY_MARK = 0x0101
_KINDS = {1: EntryKind.PTX, 2: EntryKind.CUBIN, 8: EntryKind.LTO_IR}
_DEBUG, _LZ4, _ZSTD, _SPECIFIC, _FAMILY = 0x2, 0x2000, 0x8000, 0x100000, 0x200000
_BITS_64 = 0x1
# 0x10 host Linux, 0x10000 a link-time payload, 0x1000000 an extended header
_KNOWN_FLAGS = _BITS_64 | _DEBUG | _LZ4 | _ZSTD | _SPECIFIC | _FAMILY | 0x10 | 0x10000 | 0x1000000
# Behind the header of a PTX entry: where in the entry the options lie that the driver compiles it with, and how long.
_OPTIONS = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """The header of one entry; ``start`` and ``stored_size`` give the payload in the file."""

    offset: int
    raw_kind: int
    kind: EntryKind
    sm: int
    suffix: str  # "a", "f" or ""
    isa: str  # PTX alone
    compression: Compression
    bits: int  # 64, or 32
    debug: bool
    options: str | None  # of PTX: what it is to be compiled with, "-v -O2", or ""; None where it lies past the header
    unknown_flags: int
    start: int
    stored_size: int
    size: int  # once inflated

    @property
    def architecture(self) -> str:
        """``sm_120f``, ``compute_80``; "" where kind, number or suffix do not tell it."""
        if self.kind is EntryKind.UNKNOWN or not self.sm or self.suffix == "?":
            return ""
        return f"{'sm_' if self.kind is EntryKind.CUBIN else 'compute_'}{self.sm}{self.suffix}"


@dataclass(frozen=True, slots=True)
class RawContainer:
    offset: int  # in the file
    entries: tuple[EntryHeader, ...]


def read_containers(
    data: bytes, start: int, end: int, where: str, problems: Problems, most: int
) -> Iterator[RawContainer]:
    """The fat binaries that lie back to back in ``start .. end``; zero bytes between them are skipped.

    Damage ends the walk, since nothing tells where the next one begins, and is reported.

    :param where: the section's name, for problems.
    :param most: the largest number of entries that are read.
    """
    at = first_nonzero(data, start, end)
    while at < end:
        label = f"{where}+{at - start:#x}"
        try:
            stop = _container_end(data, at, end)
            entries, damage = _entries(data, at, stop, most)
        except MalformedError as error:
            problems.malformed(label, str(error))
            return
        if damage:
            problems.malformed(label, damage)
        yield RawContainer(at, tuple(entries))
        most -= 1 + len(entries)  # empty ones count too
        if most <= 0:
            problems.unreadable(label, "there are more entries than are looked at")
            return
        at = first_nonzero(data, stop, end)


def container_end(data: bytes, at: int, end: int) -> int:
    """Where the fat binary that seems to begin at ``at`` ends; 0 where its header or first entry is none."""
    try:
        stop = _container_end(data, at, end)
        entries, damage = _entries(data, at, stop, 1)
    except MalformedError:
        return 0
    return stop if entries and not damage else 0


def _container_end(data: bytes, at: int, end: int) -> int:
    if at + _CONTAINER.size > end or data[at : at + 4] != MAGIC:
        raise MalformedError(f"no fat binary begins here (found {data[at : at + 4].hex()})")
    _, version, header_size, payload_size = _CONTAINER.unpack_from(data, at)
    if version != 1 or header_size != _CONTAINER.size:
        raise MalformedError(f"the fat binary says version {version} and a header of {header_size} bytes")
    if at + header_size + payload_size > end:
        raise MalformedError(f"the fat binary says {payload_size} bytes and reaches past the end of its section")
    return int(at + header_size + payload_size)


def _entries(data: bytes, container: int, stop: int, most: int) -> tuple[list[EntryHeader], str]:
    """The entries of one container up to the first damaged one, and what is wrong with that one."""
    entries: list[EntryHeader] = []
    at = container + _CONTAINER.size
    while at < stop and len(entries) < most:
        if at + _ENTRY.size > stop:
            return entries, f"entry {len(entries)} is cut short"
        values = _ENTRY.unpack_from(data, at)
        raw_kind, mark, header_size, size, stored, extension, minor, major, sm, _, _, flags, _, inflated = values
        start = at + header_size
        if mark != _ENTRY_MARK or header_size < _ENTRY.size or start + size > stop:
            return entries, f"entry {len(entries)} has a damaged header (mark {mark:#x}, {header_size} + {size} bytes)"
        if stored > size:
            return entries, f"entry {len(entries)} says {stored} compressed bytes out of {size}"
        kind = _KINDS.get(raw_kind, EntryKind.UNKNOWN)
        compression = _compression(flags, stored, inflated)
        plain = compression is Compression.NONE
        entries.append(
            EntryHeader(
                offset=at,
                raw_kind=raw_kind,
                kind=kind,
                sm=sm,
                suffix={0: "", _SPECIFIC: "a", _FAMILY: "f"}.get(flags & (_SPECIFIC | _FAMILY), "?"),
                isa=f"{major}.{minor}" if kind is EntryKind.PTX else "",
                compression=compression,
                bits=64 if flags & _BITS_64 else 32,
                debug=bool(flags & _DEBUG),
                options=_options(data, at, extension, header_size) if kind is EntryKind.PTX else "",
                unknown_flags=flags & ~_KNOWN_FLAGS,
                start=start,
                stored_size=stored or size,
                size=size if plain else inflated,
            )
        )
        at = start + size
    return entries, ""


def _options(data: bytes, entry: int, extension: int, header_size: int) -> str | None:
    """The options of one PTX entry; None where they do not lie inside its header."""
    if extension == 0:
        return ""
    if extension + _OPTIONS.size > header_size:
        return None
    offset, length = _OPTIONS.unpack_from(data, entry + extension)
    if length == 0:
        return ""
    return command_line(data[entry + offset : entry + offset + length]) if offset + length <= header_size else None


def _compression(flags: int, stored: int, inflated: int) -> Compression:
    named = {0: Compression.NONE, _LZ4: Compression.LZ4, _ZSTD: Compression.ZSTD}.get(flags & (_LZ4 | _ZSTD))
    if named is None or (named is Compression.NONE and (stored or inflated)):
        return Compression.UNKNOWN
    return named
