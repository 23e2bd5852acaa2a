"""Parsers of every kind agree on each archive that is found good: by directory, by local headers, and ours."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from qualify.errors import MalformedError
from qualify.facts import Import, ProblemKind
from qualify.readers.archive import STORED, Archive, read_archive
from qualify.readers.binary import Problems
from qualify.readers.hostelf import read_host_elf
from tests.support.elf import Symbol, host_elf
from tests.support.streaming import unpack
from tests.support.wheel import ZipMember, zip_bytes

OFTEN = settings(deadline=5000, max_examples=500)
NAMES = st.sampled_from(["a", "b", "a/b", "a/c.py", "ü", "x-1.data/purelib/a", "x-1.dist-info/RECORD", "d/"])
CONTENTS = st.one_of(st.binary(max_size=60), st.sampled_from([b"", b"PK\3\4" * 9, b"PK\7\x08" + bytes(12), bytes(500)]))
NUMBERS = st.sampled_from([0, 1, 2, 5, 8, 0x800, 0xFFFF, 0xFFFFFFFE, 0xFFFFFFFF])


def field(tag: int, content: bytes) -> bytes:
    return struct.pack("<HH", tag, len(content)) + content


EXTRAS = st.one_of(
    st.just(b""),
    st.binary(max_size=6),
    st.builds(field, st.sampled_from([1, 0x7075, 0x5455]), st.binary(max_size=24)),
)
LIES: dict[str, st.SearchStrategy[Any]] = {
    "flags": st.sampled_from([0, 8, 0x800, 0x808, 1]),
    "method": st.sampled_from([0, 8]),
    "local_method": st.sampled_from([None, 0, 8]),
    "local_name": st.sampled_from([None, "a", "evil"]),
    "crc": st.one_of(st.none(), NUMBERS),
    "size": st.one_of(st.none(), NUMBERS),
    "stored_size": st.one_of(st.none(), NUMBERS),
    "local_crc": st.one_of(st.none(), NUMBERS),
    "local_size": st.one_of(st.none(), NUMBERS),
    "local_flags": st.sampled_from([None, 0, 8]),
    "local_offset": st.one_of(st.none(), st.integers(0, 200)),
    "zip64": st.booleans(),
    "extra": EXTRAS,
    "local_extra": st.one_of(st.none(), EXTRAS),
    "descriptor": st.one_of(st.none(), st.binary(max_size=24)),
    "disk": st.sampled_from([0, 0, 0xFFFF]),
    "comment": st.sampled_from([b"", b"PK\1\2", b"note"]),
    "mode": st.sampled_from([0o100644, 0o040755, 0o120777, 0]),
}


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """Archives with up to three lies in their members' fields, and up to one in what is around them."""
    members = [
        ZipMember(name, draw(CONTENTS) if not name.endswith("/") else b"", method=draw(st.sampled_from([0, 8])))
        for name in draw(st.lists(NAMES, min_size=1, max_size=4))
    ]
    for _ in range(draw(st.integers(0, 3))):
        place, lie = draw(st.integers(0, len(members) - 1)), draw(st.sampled_from(sorted(LIES)))
        members[place] = replace(members[place], **{lie: draw(LIES[lie])})
    around = draw(
        st.sampled_from(
            [{}, {}, {}, {"zip64": True}, {"gap": b"PK\3\4"}, {"prefix": b"#!"}, {"suffix": b"x"}, {"count": 9}]
        )
    )
    if draw(st.booleans()):
        around = around | {"comment": draw(st.sampled_from([b"", b"note", b"PK\5\6" + bytes(18)]))}
    data = bytearray(zip_bytes(members, **around))
    for _ in range(draw(st.integers(0, 2))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def inflated(data: bytes, archive: Archive) -> list[tuple[str, bytes]] | None:
    """Names and contents by our reader; None where a content is not what its row says."""
    found = []
    for member in archive.members:
        raw = data[member.data_offset : member.data_offset + member.stored_size]
        if member.method != STORED:
            stream = zlib.decompressobj(-15)
            try:
                raw = stream.decompress(raw)
            except zlib.error:
                return None
            if not stream.eof or stream.unused_data:
                return None
        if len(raw) != member.size or zlib.crc32(raw) != member.crc:
            return None
        found.append((member.path, raw))
    return found


@OFTEN
@given(data=archives())
def test_whoever_reads_an_archive_that_is_found_good_reads_the_same(data: bytes) -> None:
    try:
        archive = read_archive(data)
    except MalformedError:
        return
    contents = inflated(data, archive) if archive.problems == () else None
    if contents is None:
        return
    listing = zipfile.ZipFile(io.BytesIO(data))
    assert [(info.filename, listing.read(info)) for info in listing.infolist()] == contents
    assert sorted(unpack(data)) == sorted((path.encode(), content) for path, content in contents)


@OFTEN
@given(
    names=st.lists(NAMES, unique_by=lambda name: name.split("/")[0], max_size=4),
    contents=st.lists(CONTENTS, min_size=4, max_size=4),
    zip64=st.booleans(),
    flags=st.sampled_from([0, 8]),
)
def test_what_was_packed_is_found_good(names: list[str], contents: list[bytes], zip64: bool, flags: int) -> None:
    members = [
        ZipMember(name, b"" if name.endswith("/") else content, zip64=zip64, flags=flags)
        for name, content in zip(names, contents, strict=False)
        if not name.startswith("x-1.data")
    ]
    data = zip_bytes(members, zip64=zip64)
    archive = read_archive(data)
    assert archive.problems == ()
    assert inflated(data, archive) == [(member.name, member.data) for member in members]


SYMBOLS = st.builds(
    Symbol,
    name=st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,30}", fullmatch=True),
    defined=st.booleans(),
    binding=st.sampled_from(["global", "weak", "unique", "local"]),
    visibility=st.sampled_from(["default", "hidden", "internal", "protected"]),
    version=st.sampled_from(["", "GLIBC_2.17:libc.so.6", "GLIBC_2.17:libm.so.6", "GLIBC_2.34:libc.so.6"]),
)
NEEDS = {"libc.so.6": ["GLIBC_2.17", "GLIBC_2.34"], "libm.so.6": ["GLIBC_2.17"]}


@settings(deadline=5000, max_examples=200)
@given(
    symbols=st.lists(SYMBOLS, max_size=12),
    machine=st.sampled_from(["x86_64", "aarch64", "i386", "ppc", "s390x"]),
    hash_style=st.sampled_from(["sysv", "gnu", "both"]),
    section_headers=st.booleans(),
)
def test_the_symbols_that_were_put_in_are_read(
    symbols: list[Symbol], machine: str, hash_style: str, section_headers: bool
) -> None:
    data = host_elf(
        machine,
        symbols=symbols,
        version_needs=NEEDS,
        hash_style=hash_style,
        section_headers=section_headers,
        relocations=True,
    )
    problems = Problems("x")
    facts = read_host_elf(data, problems).facts
    assert problems.items == []
    bound = [symbol for symbol in symbols if symbol.binding != "local"]
    assert set(facts.imports) == {
        Import(symbol.name, *symbol.version.partition(":")[::2], symbol.binding == "weak")
        for symbol in bound
        if not symbol.defined
    }
    assert facts.exports == tuple(
        sorted({s.name for s in bound if s.defined and s.visibility in ("default", "protected")})
    )
    assert list(facts.imports) == sorted(facts.imports, key=lambda each: (each.name, each.version, each.library))


@settings(deadline=5000, max_examples=300)
@given(data=st.data(), hash_style=st.sampled_from(["sysv", "gnu", "both", "none"]), section_headers=st.booleans())
def test_a_damaged_host_file_gives_facts_or_problems(
    data: st.DataObject, hash_style: str, section_headers: bool
) -> None:
    good = host_elf(
        undefined=["memcpy@GLIBC_2.17:libc.so.6", "a"],
        defined=["PyInit__C", "run"],
        version_needs=NEEDS,
        hash_style=hash_style,
        section_headers=section_headers,
        relocations=True,
    )
    broken = bytearray(good)
    for _ in range(data.draw(st.integers(1, 5))):
        layout = data.draw(st.sampled_from(["<B", "<H", "<I", "<Q"]))
        size = struct.calcsize(layout)
        at = data.draw(st.integers(0, len(broken) - size))
        value = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0xFF, 0xFFFF, 1 << 31, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1]))
        struct.pack_into(layout, broken, at, value & ((1 << 8 * size) - 1))
    problems = Problems("x")
    try:
        facts = read_host_elf(bytes(broken), problems).facts
    except MalformedError:
        return
    assert list(facts.exports) == sorted(set(facts.exports))
    assert all(problem.kind in (ProblemKind.MALFORMED, ProblemKind.UNREADABLE) for problem in problems.items)
