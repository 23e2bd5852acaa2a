"""Any bytes at all, and good files with faults in them: the readers answer with facts, problems or our own errors."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qualify.errors import AssayError, MalformedError
from qualify.facts import Member, Problem
from qualify.factsjson import from_json, to_json
from qualify.opening import read_wheel
from qualify.readers.archive import read_archive
from qualify.readers.binary import Problems
from qualify.readers.cubin import read_cubin
from qualify.readers.distinfo import expand_tag, read_dist_info, read_path_file, read_version_module
from qualify.readers.ptx import read_ptx
from tests.support.context import LIBRARIES, code, read
from tests.support.cubin import cubin
from tests.support.elf import host_elf
from tests.support.fatbin import containers, device_code, fatbin, ptx
from tests.support.fatbin import entry as fatbin_entry
from tests.support.wheel import make_wheel, wheel_filename

SECOND = settings(deadline=5000, max_examples=300)
CODE = containers(
    fatbin(
        fatbin_entry("sm_90a", ["k1", "k2"], functions=["f"], compression="none"),
        fatbin_entry("compute_80", ["k1"], compression="none"),
    ),
    device_code({"sm_120f": ["k1"], "compute_90": ["k2"]}),
    gap=16,
)
GOOD: dict[str, bytes] = {
    "library": host_elf(
        soname="libx.so",
        runpath="$ORIGIN",
        version_needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"]},
        defined=["PyInit__C"],
        undefined=["memcpy@GLIBC_2.17"],
        sections={".nv_fatbin": CODE, "__nv_relfatbin": device_code({"sm_90": ["r"]})},
    ),
    "fatbin": CODE,
    "cubin": cubin(90, ["k1", "k2"], functions=["f"], helpers=["$h"]),
    "old cubin": cubin(90, ["k1"], abi=7),
    "archive": b"!<arch>\n" + f"{'a.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(CODE):<10}`\n".encode() + CODE,
    "wheel": make_wheel(extensions={"axpy/_C": {"sm_90": ["k"], "compute_80": ["k"]}}),
}
EXTREMES = [0, 1, 2, 7, 0x7F, 0xFF, 0xFFFF, 1 << 31, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """A good file with up to four faults: bytes changed, numbers made extreme, parts cut, doubled or moved."""
    data = bytearray(GOOD[name])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        fault = draw(st.sampled_from(["byte", "number", "cut", "double", "zero"]))
        if fault == "byte" and data:
            data[at] = draw(st.integers(0, 255))
        elif fault == "number":
            layout = draw(st.sampled_from(["<B", "<H", "<I", "<Q"]))
            size = struct.calcsize(layout)
            if at + size <= len(data):
                limit = (1 << (8 * size)) - 1
                struct.pack_into(layout, data, at, min(limit, draw(st.sampled_from(EXTREMES))))
        elif fault == "cut":
            del data[at : at + draw(st.integers(1, 64))]
        elif fault == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 64))]
        else:
            length = draw(st.integers(1, 64))
            data[at : at + length] = bytes(len(data[at : at + length]))
    return bytes(data)


def sound(member: Member, problems: tuple[Problem, ...]) -> None:
    """What holds for the facts of any bytes: what is not readable is said, and indices point at names."""
    entries = [entry for container in member.containers for entry in container.entries]
    assert list(member.symbols) == sorted(set(member.symbols))
    for entry in entries:
        assert list(entry.kernels) == sorted(set(entry.kernels))
        assert all(0 <= index < len(member.symbols) for index in entry.kernels + entry.functions)
        assert entry.readable or problems
    assert len(problems) <= 51


@pytest.mark.parametrize("name", [name for name in GOOD if name != "wheel"])
@settings(SECOND)
@given(data=st.data())
def test_a_damaged_member_gives_facts_and_problems(name: str, data: st.DataObject) -> None:
    sound(*read(data.draw(damaged(name))))


@pytest.mark.parametrize("name", GOOD)
def test_a_file_cut_anywhere(name: str) -> None:
    good = GOOD[name]
    step = max(1, len(good) // 400)
    for length in range(0, len(good), step):
        if name == "wheel":
            with pytest.raises(MalformedError):
                read_archive(good[:length])
        else:
            sound(*read(good[:length]))


MAGICS = [b"", b"\x7fELF", b"\x7fELF\2\1\1", b"\x50\xed\x55\xba\1\0\x10\0", b"!<arch>\n", b"PK\3\4", b"PK\5\6"]


@SECOND
@given(magic=st.sampled_from(MAGICS), rest=st.binary(max_size=2000))
def test_any_bytes_as_a_member(magic: bytes, rest: bytes) -> None:
    sound(*read(magic + rest))


@SECOND
@given(magic=st.sampled_from(MAGICS), rest=st.binary(max_size=2000))
@example(magic=b"PK\5\6", rest=bytes(18))
def test_any_bytes_as_an_archive(magic: bytes, rest: bytes) -> None:
    for data in (magic + rest, rest + magic + bytes(18)):
        try:
            archive = read_archive(data)
        except MalformedError:
            continue
        for member in archive.members:
            assert 0 <= member.data_offset + member.stored_size <= len(data) or member.data_offset == -1


@SECOND
@given(broken=damaged("wheel"))
def test_a_damaged_wheel(broken: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / wheel_filename()
        path.write_bytes(broken)
        try:
            facts = read_wheel(path, workers=1)
        except AssayError:
            return
    assert from_json(json.loads(json.dumps(to_json(facts)))) == facts
    if facts.problems == ():
        # Whatever changed is covered by no digest of the archive: dates, attributes, comments.
        assert {member.path for member in facts.members} == {m.path for m in read_archive(GOOD["wheel"]).members}


@pytest.mark.parametrize("form", [LIBRARIES.deflate, LIBRARIES.zstd, LIBRARIES.lz4])
@SECOND
@given(data=st.binary(max_size=300), size=st.integers(0, 5000))
def test_any_bytes_to_a_decompressor(form: Callable[[bytes, int], bytes], data: bytes, size: int) -> None:
    try:
        inflated = form(data, size)
    except MalformedError:
        return
    assert len(inflated) == size


@SECOND
@given(data=st.one_of(st.binary(max_size=500), st.text(alphabet='.entry version target{}();\n "/*', max_size=300)))
def test_any_text_as_ptx(data: bytes | str) -> None:
    body = data.encode() if isinstance(data, str) else data
    for source in (body, ptx("compute_80", ["k"]).rstrip(b"\0") + body):
        try:
            kernels = read_ptx(source).kernels
        except MalformedError:
            continue
        assert len(kernels) == len(set(kernels))


@SECOND
@given(source=st.binary(max_size=500))
def test_any_bytes_as_text_files(source: bytes) -> None:
    problems = Problems("")
    texts = {f"x-1.dist-info/{name}": source for name in ("METADATA", "WHEEL", "RECORD")}
    info = read_dist_info("x-1.dist-info", list(texts), texts, problems)
    json.dumps([info.metadata_name, *info.wheel_tags]).encode()
    assert read_version_module("_version.py", source).path == "_version.py"
    assert read_path_file("x.pth", source)
    assert expand_tag("a-b-c") == ("a-b-c",)


NAMES = st.lists(st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,40}", fullmatch=True), unique=True, max_size=6)
ARCHITECTURES = st.sampled_from(
    ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120", "sm_121a", "compute_80", "compute_90a"]
)


@settings(deadline=10000, max_examples=100)
@given(
    fatbins=st.lists(st.dictionaries(ARCHITECTURES, NAMES, min_size=1, max_size=4), min_size=1, max_size=4),
    compression=st.sampled_from(["none", "lz4", "zstd"]),
    gap=st.sampled_from([0, 8, 4096]),
)
def test_what_was_put_in_is_read(fatbins: list[dict[str, list[str]]], compression: str, gap: int) -> None:
    blobs = [device_code(each, compression=compression) for each in fatbins]
    member, problems = read(host_elf(sections={".nv_fatbin": containers(*blobs, gap=gap)}))
    assert problems == ()
    expected: dict[str, set[str]] = {}
    for each in fatbins:
        for architecture, names in each.items():
            expected.setdefault(architecture, set()).update(names)
    assert {architecture: kernels for architecture, (_, kernels, _) in code(member).items()} == expected
    assert len(member.containers) == len(fatbins)


@SECOND
@given(broken=damaged("cubin"))
def test_a_damaged_cubin_raises_only_our_errors(broken: bytes) -> None:
    try:
        found = read_cubin(broken)
    except AssayError:
        return
    assert all(isinstance(name, bytes) for name in found.kernels)
