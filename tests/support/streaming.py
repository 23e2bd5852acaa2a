"""A reader of zip archives that knows no central directory: local headers from the front, as streaming tools go."""

from __future__ import annotations

import struct
import zlib


class ConfusedError(Exception):
    """The archive cannot be read from the front."""


def unpack(data: bytes) -> list[tuple[bytes, bytes]]:
    """Names and contents, in order, up to the first record that is no local header."""
    found: list[tuple[bytes, bytes]] = []
    at = 0
    while data[at : at + 4] == b"PK\3\4":
        if at + 30 > len(data):
            raise ConfusedError("a local header is cut short")
        _, _, flags, method, _, _, crc, stored, size, name_size, extra_size = struct.unpack_from("<4s5H3I2H", data, at)
        start = at + 30 + name_size + extra_size
        name = data[at + 30 : at + 30 + name_size]
        wide = _zip64(data[at + 30 + name_size : start])
        if size == 0xFFFFFFFF and wide:
            size = wide.pop(0)
        if stored == 0xFFFFFFFF and wide:
            stored = wide.pop(0)
        if method == 8:
            stream = zlib.decompressobj(-15)
            try:
                content = stream.decompress(data[start:])
            except zlib.error as error:
                raise ConfusedError(str(error)) from error
            end = len(data) - len(stream.unused_data)
        elif flags & 8:
            end = data.find(b"PK\7\x08", start)
            if end < 0:
                raise ConfusedError("a stored member has no end")
            content = data[start:end]
        else:
            end = start + stored
            content = data[start:end]
        found.append((name, content))
        at = end
        if flags & 8:
            at = _after_descriptor(data, end, zlib.crc32(content), len(content))
        elif (zlib.crc32(content), len(content), end - start) != (crc, size, stored):
            raise ConfusedError("a local header lies")
    return found


def _zip64(extra: bytes) -> list[int]:
    at = 0
    while at + 4 <= len(extra):
        tag, size = struct.unpack_from("<2H", extra, at)
        if tag == 1:
            block = extra[at + 4 : at + 4 + size]
            return list(struct.unpack(f"<{len(block) // 8}Q", block[: len(block) // 8 * 8]))
        at += 4 + size
    return []


def _after_descriptor(data: bytes, at: int, crc: int, size: int) -> int:
    """Past the data descriptor, in the one of its forms that the content and what follows bear out."""
    for signature in (4, 0):
        for width in (8, 16):
            end = at + signature + 4 + width
            said = struct.unpack_from("<I", data, at + signature)[0] if end <= len(data) else -1
            if said == crc and data[end : end + 2] == b"PK" and (not signature or data[at : at + 4] == b"PK\7\x08"):
                length = struct.unpack_from("<I" if width == 8 else "<Q", data, at + signature + 4 + width // 2)[0]
                if length == size:
                    return end
    raise ConfusedError("a data descriptor lies")
