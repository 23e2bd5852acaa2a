"""Archives that parsers read in different ways, and bombs: the forms that indexes and installers refuse since 2025.

Most follow the collection of ambiguous archives that installers test themselves with (``accept``, ``iffy``, ``reject``,
``malicious``), and PyPI's rules of 2025 for uploads.
"""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zipfile
import zlib

import pytest

from qualify.errors import MalformedError
from qualify.readers.archive import read_archive
from qualify.readers.binary import Limits
from tests.support.wheel import ZipMember, zip_bytes

HELLO = b"hello"
_compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
RAW = _compressor.compress(HELLO) + _compressor.flush()
CRC = zlib.crc32(HELLO)
FULL = 0xFFFFFFFF


def details(data: bytes, limits: Limits | None = None) -> list[str]:
    archive = read_archive(data, limits)
    assert all(problem.kind.value in ("malformed", "unreadable") for problem in archive.problems)
    return [f"{problem.member}: {problem.detail}" for problem in archive.problems]


def field(tag: int, content: bytes) -> bytes:
    return struct.pack("<HH", tag, len(content)) + content


def unicode_path(name: bytes, of: bytes = b"fixme") -> bytes:
    return field(0x7075, struct.pack("<BI", 1, zlib.crc32(of)) + name)


def quads(*values: int) -> bytes:
    return field(1, struct.pack(f"<{len(values)}Q", *values))


STORED_SIZE = quads(len(RAW))
SIZE = quads(len(HELLO))
WIDE_DESCRIPTOR = struct.pack("<4sI2Q", b"PK\7\x08", CRC, len(RAW), len(HELLO))
EMPTY = ZipMember("empty", b"", flags=8)


def one(**options: object) -> bytes:
    return zip_bytes([ZipMember("fixme", HELLO, **options)])  # type: ignore[arg-type]


def with_local(data: bytes, size: int | None, stored: int | None) -> bytes:
    """The archive with the sizes of its first local header changed."""
    changed = bytearray(data)
    for at, value in ((18, stored), (22, size)):
        if value is not None:
            struct.pack_into("<I", changed, at, value)
    return bytes(changed)


@pytest.mark.parametrize(
    "data",
    [
        one(),
        one(method=0),
        one(comment=b"a comment of the member"),
        zip_bytes([ZipMember("fixme", HELLO)], comment=b"a comment"),
        one(flags=8),
        one(flags=8, descriptor=struct.pack("<3I", CRC, len(RAW), len(HELLO))),
        one(flags=8, local_extra=field(1, b""), descriptor=WIDE_DESCRIPTOR),
        zip_bytes(
            [
                ZipMember(
                    "empty", flags=8, local_extra=field(1, b""), descriptor=struct.pack("<4sI2Q", b"PK\7\x08", 0, 2, 0)
                )
            ]
        ),
        with_local(one(stored_size=FULL, extra=STORED_SIZE), None, FULL),
        with_local(one(size=FULL, extra=SIZE), FULL, None),
        with_local(one(size=FULL, extra=SIZE, local_extra=quads(len(HELLO), len(RAW))), FULL, len(RAW)),
        one(extra=unicode_path(b"fixme")),
        zip_bytes([ZipMember("a/b", HELLO), ZipMember("A/b", HELLO), ZipMember("a/B", HELLO)]),
        zip_bytes([ZipMember("x-1.data/purelib/", method=0), ZipMember("x-1.data/platlib/", method=0)]),
    ],
)
def test_what_every_parser_reads_alike(data: bytes) -> None:
    assert details(data) == []
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (one(extra=b"\0\0\0"), "fixme: its extra fields are cut short"),
        (one(extra=struct.pack("<HH", 0x7075, 9) + b"abc"), "fixme: its extra fields are cut short"),
        (one(local_extra=struct.pack("<HH", 0x5455, 9)), "fixme: its extra fields are cut short"),
        (one(extra=field(9, b"") * 65), "fixme: has too many extra fields"),
        (one(extra=unicode_path(b"fixme") * 2), "fixme: has two extra fields 0x7075"),
        (one(extra=unicode_path(b"fixme") + unicode_path(b"other")), "fixme: has two extra fields 0x7075"),
        (one(extra=unicode_path(b"other")), "fixme: has a second, other name"),
        (one(local_extra=unicode_path(b"other")), "fixme: has a second, other name"),
        (one(extra=field(0x7075, b"\1")), "fixme: has a second, other name"),
        (one(extra=SIZE), "fixme: its ZIP64 field holds 8 bytes more"),
        (one(local_extra=SIZE), "fixme: its ZIP64 field says something else"),
        (one(local_extra=quads(len(HELLO) + 1, len(RAW))), "fixme: its ZIP64 field says something else"),
        (one(extra=SIZE * 2), "fixme: has two extra fields 0x1"),
        (with_local(one(size=FULL, extra=field(1, SIZE[4:] + b"\0\0")), FULL, None), "fixme: its ZIP64 field holds 2"),
        (with_local(one(size=FULL, stored_size=FULL, extra=SIZE), FULL, FULL), "fixme: its ZIP64 sizes are not there"),
        (one(needed=64), "fixme: asks for version 6.4 of the format"),
        (one(disk=1), "fixme: says that it lies in another file"),
        (one(disk=0xFFFF, extra=field(1, b"\1\0\0\0")), "fixme: says that it lies in another file"),
        (zip_bytes([ZipMember("\xe9", b"x")]).replace(b"\xc3\xa9", b"\xe9!"), "no UTF-8"),
        (one(flags=8, local_flags=0), "fixme: name, flags or method differ"),
        (one(mode=0o040755), "fixme: is a file by its name and a folder by its mode"),
        (one(flags=8, descriptor=WIDE_DESCRIPTOR[:-8]), "fixme: sizes or CRC behind its bytes differ"),
        (one(flags=8, descriptor=struct.pack("<4s3I", b"PK\7\x08", 0, len(RAW), 5)), "fixme: sizes or CRC behind"),
        (one(flags=8, descriptor=struct.pack("<3I", CRC, len(RAW), 6)), "fixme: sizes or CRC behind"),
        (one(flags=8, descriptor=struct.pack("<4sI2Q", b"PK\7\x08", CRC, len(RAW), 6)), "fixme: sizes or CRC behind"),
        (zip_bytes([ZipMember("d/", method=0, crc=7)]), "d/: is a folder with content"),
        (zip_bytes([ZipMember("fix\x7fme")]), "has a name that installers read in different ways"),
        (zip_bytes([ZipMember("a/" + "x" * 256)]), "has a part of its name that is longer than 255 bytes"),
        (zip_bytes([ZipMember("a/" + "ü" * 128)]), "has a part of its name that is longer than 255 bytes"),
        (zip_bytes([ZipMember("x" * 5000)]), "has a name of 5000 bytes"),
        (zip_bytes([ZipMember("")]), "has a name that installers read in different ways"),
        (
            zip_bytes([ZipMember("x/a.py"), ZipMember("x-1.data/purelib/x/a.py")]),
            "x-1.data/purelib/x/a.py: is installed to the same place as x/a.py",
        ),
        (
            zip_bytes([ZipMember("x-1.data/platlib/x"), ZipMember("x/a.py")]),
            "x/a.py: lies below x-1.data/platlib/x, which is a file",
        ),
    ],
)  # fmt: skip
def test_what_some_parser_reads_in_another_way(data: bytes, fragment: str) -> None:
    found = details(data)
    assert any(fragment in each for each in found), found


def test_a_name_of_no_stated_encoding() -> None:
    data = bytearray(zip_bytes([ZipMember("é", b"x")]))
    for signature, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        struct.pack_into("<H", data, data.index(signature) + at, 0)
    (found,) = details(bytes(data))
    assert "neither ASCII nor said to be UTF-8" in found


@pytest.mark.parametrize("signature", [b"PK\1\2", b"PK\3\4", b"PK\6\6", b"PK\6\7"])
def test_records_in_the_comment(signature: bytes) -> None:
    (found,) = details(zip_bytes([ZipMember("a")], comment=b"see " + signature))
    assert "records of an archive stand in its comment" in found


def test_an_archive_in_the_comment_of_another() -> None:
    inner = zip_bytes([ZipMember("evil", b"x")])
    assert details(zip_bytes([ZipMember("good", b"x")], comment=inner))
    # The other way round: the first archive ends in a comment that is the second one, whose offsets count the first.
    outer = zip_bytes([ZipMember("good", b"x")])
    start = len(outer)
    second = zip_bytes([ZipMember("evil", b"x")], prefix=bytes(start))[start:]
    both = outer[:-2] + struct.pack("<H", len(second)) + second
    assert zipfile.ZipFile(io.BytesIO(both)).namelist() == ["evil"]
    assert any("belong to none of them" in each for each in details(both))


def test_members_that_only_one_kind_of_parser_sees() -> None:
    # A local header that the directory does not know: streaming tools unpack it.
    hidden = zip_bytes([ZipMember("evil", b"x")])
    hidden = hidden[: hidden.index(b"PK\1\2")]
    for where in ("prefix", "gap"):
        (found,) = details(zip_bytes([ZipMember("good", b"x")], **{where: hidden}))  # type: ignore[arg-type]
        assert "belong to none of them" in found
    # A directory of size 0: zipfile lists nothing, streaming tools unpack everything.
    for count in (0, 1):
        data = bytearray(zip_bytes([ZipMember("good", b"x")]))
        end = data.rindex(b"PK\5\6")
        struct.pack_into("<2H2I", data, end + 8, count, count, 0, end)
        assert any("belong to none of them" in each for each in details(bytes(data)))


def test_a_stored_member_that_ends_twice_for_streaming_tools() -> None:
    inner = zip_bytes([ZipMember("evil", b"x")])
    (found,) = details(zip_bytes([ZipMember("a.bin", inner, method=0, flags=8)]))
    assert "holds what ends it for some readers" in found
    assert details(zip_bytes([ZipMember("a.bin", inner, method=0)])) == []
    assert details(zip_bytes([ZipMember("a.bin", inner, flags=8)])) == []


def test_zip64_records_that_lie() -> None:
    members = [ZipMember("a", b"x")]
    (found,) = details(zip_bytes(members, zip64=True, locator=3))
    assert "locator points elsewhere" in found
    good = zip_bytes(members, zip64=True)
    record = good.rindex(b"PK\6\6")
    extended = bytearray(good[: record + 56] + b"\0\0\x10\0" + bytes(16) + good[record + 56 :])
    struct.pack_into("<Q", extended, record + 4, 44 + 20)
    with pytest.raises(MalformedError, match="not where its locator says"):
        read_archive(bytes(extended))
    with pytest.raises(MalformedError, match="ZIP64"):
        read_archive(zip_bytes(members, directory_offset=FULL))


def test_as_many_members_as_sixteen_bits_say_and_no_zip64() -> None:
    members = [ZipMember(f"{index}", b"", method=0) for index in range(65535)]
    archive = read_archive(zip_bytes(members))
    assert (len(archive.members), archive.problems) == (65535, ())


def test_a_bomb_of_members_that_share_their_bytes_is_read_once() -> None:
    data = zip_bytes(
        [ZipMember("a", bytes(1 << 20)), *(ZipMember("a", bytes(1 << 20), local_offset=0) for _ in range(50))]
    )
    archive = read_archive(data)
    assert sum(member.data_offset >= 0 for member in archive.members) == 1
    # Members that are quoted in one another (the bomb of 2019): each begins inside the bytes of the one before.
    inner = zip_bytes([ZipMember("kernel", bytes(1 << 20), method=0)])
    kernel = inner[: inner.index(b"PK\1\2")]
    outer = ZipMember("outer", kernel, method=0)
    header = 30 + len("outer")
    quoted = zip_bytes(
        [
            outer,
            ZipMember(
                "kernel", bytes(1 << 20), method=0, raw=b"", local_offset=header, size=1 << 20, stored_size=1 << 20
            ),
        ]
    )
    offsets = {member.path: member.data_offset for member in read_archive(quoted).members}
    assert offsets["kernel"] == -1
    assert any("overlap" in each for each in details(quoted))


def _rows(count: int, row: bytes) -> bytes:
    directory = row * count
    tail = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), 0)
    tail += struct.pack("<4sIQI", b"PK\6\7", 0, len(directory), 1)
    return directory + tail + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, FULL, FULL, 0)


def test_ten_million_rows_take_no_more_than_those_that_are_looked_at() -> None:
    row = struct.pack("<4s6H3I5HII", b"PK\1\2", 0x0314, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    data = _rows(10_000_000, row)
    tracemalloc.start()
    start = time.process_time()
    archive = read_archive(data, Limits(members=2000))
    took, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took < 5
    assert peak < 50 << 20
    assert len(archive.members) == 2000
    assert archive.problems[0].detail.startswith("more than 2000 members")


def test_long_names_and_many_fields_take_bounded_memory() -> None:
    extra = field(9, b"") * 16_000
    head = struct.pack(
        "<4s6H3I5HII", b"PK\1\2", 0x0314, 20, 0, 0, 0, 0, 0, 0, 0, 65_000, len(extra), 60_000, 0, 0, 0, 0
    )
    data = _rows(500, head + b"a" * 65_000 + extra + bytes(60_000))
    tracemalloc.start()
    start = time.process_time()
    archive = read_archive(data)
    took, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took < 5
    assert peak < 20 << 20
    assert len(archive.members) == 500


def test_problems_are_bounded_to_one_of_each_member() -> None:
    members = [ZipMember(f"../{index}", b"x", disk=1, crc=1, local_crc=2) for index in range(50)]
    assert len(details(zip_bytes(members))) == 150
    assert 58 <= len(details(zip_bytes(members), Limits(problems=10))) <= 62


def test_a_wheel_that_inflates_far_beyond_its_size_is_not_inflated() -> None:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = b"".join(compressor.compress(bytes(1 << 20)) for _ in range(64)) + compressor.flush()
    bomb = ZipMember("zeros.bin", raw=raw, crc=1, size=64 << 20)
    (found,) = details(zip_bytes([ZipMember("a", b"x"), bomb]))
    assert found == (
        ": inflates to 67108865 bytes, more than 50 times its size; 1 members of it, which inflate to the most, were "
        "not looked at"
    )
    offsets = {m.path: m.data_offset for m in read_archive(zip_bytes([ZipMember("a", b"x"), bomb])).members}
    assert offsets["a"] > 0
    assert offsets["zeros.bin"] == -1
    assert details(zip_bytes([bomb])) == []  # 64 MiB are no bomb
    real = ZipMember("code.bin", bytes(2 << 20), method=0)
    assert details(zip_bytes([bomb, real])) == []  # nor is a part of a wheel that is as large as it should be


def test_a_count_of_four_billion_members() -> None:
    data = bytearray(zip_bytes([ZipMember("a", b"x")], zip64=True))
    struct.pack_into("<2Q", data, data.rindex(b"PK\6\6") + 24, 1 << 32, 1 << 32)
    (found,) = details(bytes(data))
    assert "holds 1 members where its end record says 4294967296" in found
