"""A wheel of 2 GB out of the members of another: real device code, one member of a GB, the rest as they are, copied."""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

from isal import isal_zlib

SIZE, LARGEST = 2_000_000_000, 1_000_000_000
_LEVEL = 1


def make(wheel: Path, folder: Path) -> Path:
    """Write the wheel into ``folder``: the members of ``wheel`` again and again, until the file has 2 GB.

    The largest member of the first copy is a library with the device code of the largest one several times over.
    """
    target = folder / f"big-0-{'-'.join(wheel.stem.split('-')[-3:])}.whl"
    with zipfile.ZipFile(wheel) as source, wheel.open("rb") as stream, target.open("wb") as out:
        directory = bytearray()
        count = 0
        members = [member for member in source.infolist() if not member.is_dir()]
        largest = max(members, key=lambda member: member.file_size)
        content = repeated(source.read(largest))
        directory += _write(out, "big/largest.so", _deflated(content), isal_zlib.crc32(content), len(content), 8)
        count += 1
        del content
        number = 0
        while out.tell() < SIZE:
            for member in members:
                name = f"big/{number}/{member.filename}"
                raw = _raw(stream, member)
                directory += _write(out, name, raw, member.CRC, member.file_size, member.compress_type)
                count += 1
            number += 1
        start, size = out.tell(), len(directory)
        out.write(directory)
        # The archive stays below 4 GB, so that the end record alone needs the 64-bit form: for the number of members.
        end = out.tell()
        out.write(struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start))
        out.write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        short = min(count, 0xFFFF)
        out.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, short, short, size, start, 0))
    return target


def amount(wheel: Path) -> int:
    """Bytes of all members once inflated."""
    with zipfile.ZipFile(wheel) as archive:
        return sum(member.file_size for member in archive.infolist())


def repeated(library: bytes) -> bytes:
    """A 64-bit library whose ``.nv_fatbin`` holds its containers as often as fit into a GB.

    The section is moved to the end of the file, which has no address of its own: no loader is to take it.
    """
    table, count, names = (*struct.unpack_from("<Q", library, 40), *struct.unpack_from("<HH", library, 60))
    rows = [list(struct.unpack_from("<IIQQQQIIQQ", library, table + 64 * index)) for index in range(count)]
    strings = rows[names][4]
    for index, row in enumerate(rows):  # noqa: B007 - what it ends with is used below
        start = strings + row[0]
        if library[start : library.index(b"\0", start)] == b".nv_fatbin":
            break
    else:
        raise SystemExit("the largest member has no device code")
    section = library[row[4] : row[4] + row[5]]
    section += bytes(-len(section) % 8)
    times = max(1, (LARGEST - len(library)) // len(section))
    # The code where it was is blotted out, else it would count as lying outside any section.
    head = bytearray(library)
    head[row[4] : row[4] + row[5]] = bytes(row[5])
    head += bytes(-len(head) % 8)
    struct.pack_into("<QQ", head, table + 64 * index + 24, len(head), len(section) * times)
    return bytes(head) + section * times


def _deflated(data: bytes) -> bytes:
    compressor = isal_zlib.compressobj(_LEVEL, 8, -15)
    return bytes(compressor.compress(data) + compressor.flush())


def _raw(stream, member: zipfile.ZipInfo) -> bytes:  # type: ignore[no-untyped-def]
    stream.seek(member.header_offset + 26)
    name, extra = struct.unpack("<HH", stream.read(4))
    stream.seek(name + extra, 1)
    return bytes(stream.read(member.compress_size))


def _write(out, name: str, raw: bytes, crc: int, size: int, method: int) -> bytes:  # type: ignore[no-untyped-def]
    """Write a member; its row of the directory."""
    encoded = name.encode()
    flags = 0 if name.isascii() else 0x800
    offset = out.tell()
    fields = (flags, method, 0, 0x2100, crc, len(raw), size, len(encoded), 0)
    out.write(struct.pack("<4s5H3I2H", b"PK\3\4", 20, *fields) + encoded + raw)
    return struct.pack("<4s6H3I5H2I", b"PK\1\2", 0x0314, 20, *fields, 0, 0, 0, 0o100644 << 16, offset) + encoded


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), Path(sys.argv[2])))
