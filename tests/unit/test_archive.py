"""The zip reader: each fault of an archive is one problem that names the member."""

from __future__ import annotations

import io
import struct
import time
import zipfile

import pytest

from qualify.errors import MalformedError
from qualify.facts import ProblemKind
from qualify.readers.archive import Archive, read_archive
from qualify.readers.binary import Limits
from tests.support.wheel import ZipMember, make_wheel, wheel_members, zip_bytes


def said(archive: Archive) -> list[tuple[str, str, str]]:
    return [(problem.kind.value, problem.member, problem.detail) for problem in archive.problems]


def only(archive: Archive) -> tuple[str, str, str]:
    found = said(archive)
    assert len(found) == 1, found
    return found[0]


GOOD = [ZipMember("a/x.txt", b"text " * 50), ZipMember("a/y.bin", b"\0" * 9, method=0)]


@pytest.mark.parametrize(
    "data",
    [
        zip_bytes(GOOD),
        zip_bytes(GOOD, zip64=True),
        zip_bytes(GOOD, comment=b"a comment"),
        zip_bytes([ZipMember("a/", mode=0o40755, method=0), *GOOD]),
        zip_bytes([ZipMember("a", b"1" * 99, zip64=True), ZipMember("b", b"2", flags=8)]),
        zip_bytes([ZipMember("a", b"1" * 99, zip64=True, flags=8)], zip64=True),
        zip_bytes([]),
        make_wheel(),
    ],
)
def test_good_archives_have_no_problem(data: bytes) -> None:
    archive = read_archive(data)
    assert archive.problems == ()
    assert [member.path for member in archive.members] == zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert all(member.data_offset >= 0 for member in archive.members)


def test_what_zipfile_and_other_tools_write_is_good() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("ü/é.txt", "text")
        with writer.open("big", "w", force_zip64=True) as big:
            big.write(b"x" * 1000)
        writer.mkdir("folder")
    streamed = io.BytesIO()
    streamed.seekable = lambda: False  # type: ignore[method-assign]
    with zipfile.ZipFile(streamed, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("streamed", "text" * 99)
    for data in (out.getvalue(), streamed.getvalue()):
        assert read_archive(data).problems == ()


@pytest.mark.parametrize("cut", [0, 1, 21, 22, 100])
def test_what_is_no_archive_raises(cut: int) -> None:
    with pytest.raises(MalformedError):
        read_archive(zip_bytes(GOOD)[:-1][:cut] if cut else b"PK" + b"\0" * 50)


def test_a_truncated_wheel_raises() -> None:
    data = make_wheel()
    with pytest.raises(MalformedError, match="no end of central directory"):
        read_archive(data[: len(data) // 2])


@pytest.mark.parametrize(
    ("member", "kind", "fragment"),
    [
        (ZipMember("../up", b"x"), "malformed", "leads out"),
        (ZipMember("a/../../up", b"x"), "malformed", "leads out"),
        (ZipMember("/etc/passwd", b"x"), "malformed", "absolute"),
        (ZipMember("C:/x", b"x"), "malformed", "absolute"),
        (ZipMember("a\\b", b"x"), "malformed", "different ways"),
        (ZipMember("a//b", b"x"), "malformed", "different ways"),
        (ZipMember("./b", b"x"), "malformed", "different ways"),
        (ZipMember("a\0b", b"x"), "malformed", "different ways"),
        (ZipMember("x" * 2000, b"x"), "malformed", "2000 letters"),
        (ZipMember("link", b"/etc/passwd", mode=0o120777), "malformed", "symbolic link"),
        (ZipMember("pipe", b"", mode=0o010644), "malformed", "special file"),
        (ZipMember("secret", b"x", flags=1), "malformed", "encrypted"),
        (ZipMember("strong", b"x", flags=0x40), "malformed", "encrypted"),
        (ZipMember("bz2", b"x", method=12, raw=b"BZh"), "unreadable", "method 12"),
        (ZipMember("big", b"x", size=1 << 31), "malformed", "more than"),
        (ZipMember("stored", b"xyz", method=0, size=2), "malformed", "is stored, yet"),
        (ZipMember("moved", b"x", local_offset=1), "malformed", "is not at"),
        (ZipMember("renamed", b"x", local_name="other"), "malformed", "differ from the central"),
        (ZipMember("method", b"x", local_method=0), "malformed", "differ from the central"),
        (ZipMember("crc", b"x", local_crc=7), "malformed", "differ from the central"),
        (ZipMember("size", b"x", local_size=7), "malformed", "differ from the central"),
        (ZipMember("streamed", b"x", flags=8, local_size=7), "malformed", "behind its bytes differ from the central"),
        (ZipMember("long", b"x", stored_size=4000), "malformed", "central directory or past the end"),
        (ZipMember("a/x.txt", b"again"), "malformed", "twice"),
        (ZipMember("a/x.txt/below", b"x"), "malformed", "below a/x.txt"),
        (ZipMember("folder/", b"content", mode=0o40755), "malformed", "folder with content"),
        (ZipMember("path", b"x", extra=struct.pack("<HHBI", 0x7075, 9, 1, 0) + b"else"), "malformed", "second, other"),
    ],
)
def test_each_fault_of_a_member_is_named(member: ZipMember, kind: str, fragment: str) -> None:
    found = only(read_archive(zip_bytes([*GOOD, member])))
    assert found[0] == kind
    assert found[1] == member.name
    assert fragment in found[2]


def test_a_name_that_says_utf8_and_is_none() -> None:
    good = zip_bytes([ZipMember("aé", b"x")])
    broken = good.replace("aé".encode(), b"a\xff\xfe")
    assert "no UTF-8" in only(read_archive(broken))[2]


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"prefix": b"#!/bin/sh\n"}, "stand before the first member"),
        ({"suffix": b"more"}, "after the end of the archive"),
        ({"gap": b"hidden"}, "belong to none"),
        ({"comment": b"PK\5\6" + bytes(18)}, "stand before the first member"),
        ({"comment": b"PK\5\6 with a signature in it"}, "two of them"),
        ({"count": 1}, "holds 2 members where its end record says 1"),
    ],
)
def test_faults_of_the_archive_as_a_whole(options: dict[str, bytes | int], fragment: str) -> None:
    data = zip_bytes(GOOD, **options)  # type: ignore[arg-type]
    if "prefix" in options:
        # Offsets written by hand already count the prefix; a self-extracting stub moves them.
        data = options["prefix"] + zip_bytes(GOOD)  # type: ignore[operator]
    found = only(read_archive(data))
    assert found[:2] == ("malformed", "")
    assert fragment in found[2]


def test_bytes_before_the_first_member_that_the_offsets_count() -> None:
    assert "belong to none" in only(read_archive(zip_bytes(GOOD, prefix=b"#!/bin/sh\n")))[2]


def test_overlapping_members() -> None:
    first = ZipMember("a", b"x" * 40, method=0)
    inner = ZipMember("b", b"y" * 40, method=0, local_offset=0, local_name="b")
    details = [detail for _, _, detail in said(read_archive(zip_bytes([first, inner])))]
    assert any("differ" in detail or "overlap" in detail for detail in details)
    # A quine-like bomb: many rows of the directory share one local header.
    shared = [ZipMember("a", b"x" * 4000)] + [ZipMember("a", b"x" * 4000, local_offset=0) for _ in range(5)]
    details = [detail for _, _, detail in said(read_archive(zip_bytes(shared)))]
    assert sum("overlap" in detail for detail in details) == 5


def test_members_of_a_damaged_directory() -> None:
    data = bytearray(zip_bytes(GOOD))
    second = data.rindex(b"PK\1\2")
    data[second] = 0
    archive = read_archive(bytes(data))
    assert [member.path for member in archive.members] == ["a/x.txt"]
    assert any("row 1 is damaged" in detail for _, _, detail in said(archive))


def test_zip64_records_that_disagree_or_are_missing() -> None:
    data = zip_bytes(GOOD, zip64=True)
    end = data.rindex(b"PK\5\6")
    disagreeing = data[: end + 8] + struct.pack("<2H", 7, 7) + data[end + 12 :]
    assert "disagree" in only(read_archive(disagreeing))[2]
    record = data.rindex(b"PK\6\6")
    with pytest.raises(MalformedError, match="ZIP64"):
        read_archive(data[:record] + b"XX" + data[record + 2 :])
    with pytest.raises(MalformedError, match="ZIP64"):
        read_archive(data[:record] + data[end:])
    split = data[: end + 4] + struct.pack("<2H", 1, 1) + data[end + 8 :]
    assert "split" in only(read_archive(split))[2]


def test_a_member_without_its_zip64_sizes() -> None:
    member = ZipMember("big", b"x", size=0xFFFFFFFF, stored_size=0xFFFFFFFF)
    details = [detail for _, member_name, detail in said(read_archive(zip_bytes([member]))) if member_name == "big"]
    assert any("ZIP64 sizes are not there" in detail for detail in details)


def test_more_members_than_are_looked_at() -> None:
    archive = read_archive(zip_bytes(GOOD), Limits(members=1))
    assert any(problem.kind is ProblemKind.UNREADABLE for problem in archive.problems)
    assert len(archive.members) == 1


def test_many_members_with_deep_names_take_no_long_time() -> None:
    members = [ZipMember("/".join(["d"] * 500) + f"/{index}", b"", method=0) for index in range(2000)]
    start = time.process_time()
    archive = read_archive(zip_bytes(members))
    assert time.process_time() - start < 5
    assert len(archive.problems) == len(members)


def test_a_made_wheel_reads_as_zipfile_reads_it() -> None:
    data = make_wheel()
    archive = read_archive(data)
    for info, member in zip(zipfile.ZipFile(io.BytesIO(data)).infolist(), archive.members, strict=True):
        shown = (member.path, member.size, member.stored_size, member.crc)
        assert shown == (info.filename, info.file_size, info.compress_size, info.CRC)
    assert len(archive.members) == len(wheel_members())
