"""Small files that ask for a lot: each is refused by name, in a process whose memory is measured."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.block
import pytest
import zstandard

from tests.support.elf import Section, host_elf
from tests.support.fatbin import Entry, containers, device_code, fatbin
from tests.support.wheel import ZipMember, make_wheel, wheel_filename, wheel_members, zip_bytes

MOST_MEMORY = 256  # MiB; the interpreter with this project's modules takes about 60
MOST_SECONDS = 120  # a bound on work, with room for a busy machine
BIG = 512 << 20

_READ = """
import json, sys
from pathlib import Path
from qualify.opening import read_wheel
problems = read_wheel(Path(sys.argv[1]), workers=2).problems
# Not ru_maxrss: a process inherits that of the one that started it, here a test run of any size.
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
print(json.dumps({"peak": peak, "problems": [[p.kind, p.member, p.where, p.detail] for p in problems[:100]]}))
"""


def _deflated_zeros() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(BIG >> 20)) + packer.flush()


def _zstd_zeros() -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(BIG >> 20)) + packer.flush()


def _entry(stored: bytes, flag: int, size: int) -> bytes:
    lies = {"flags": 0x11 | flag, "stored": len(stored), "inflated": size}
    return fatbin(Entry("cubin", 90, stored, overrides=lies))


def _with_member(data: bytes, path: str = "axpy/_C") -> bytes:
    return make_wheel(extensions={path: data})


def _sections(count: int) -> bytes:
    blob = containers(device_code({"sm_90": ["k"]}, compression="none"))
    first = Section(".nv_fatbin", blob)
    data = host_elf(defined=["PyInit__C"], sections=[first])
    place = data.index(blob)
    again = [Section(".nv_fatbin", b"", size=len(blob), offset=place) for _ in range(count)]
    return host_elf(defined=["PyInit__C"], sections=[first, *again])


def _lying_section_count() -> bytes:
    data = bytearray(host_elf(defined=["PyInit__C"]))
    table = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<H", data, 60, 0)  # the count stands in section 0
    struct.pack_into("<Q", data, table + 32, 0xFFFFFFFF)
    return bytes(data)


def _lying_payload() -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 4 << 30) + device_code({"sm_90": ["k"]})


def _archive_of_ten_million() -> bytes:
    return zip_bytes(wheel_members(), count=10_000_000, zip64=True)


def _many_entries() -> bytes:
    # 220,000 empty entries: more than are looked at, and each as small as an entry can be
    header = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x0101, 64, 0, 0, 0, 0, 9, 80, 0, 0, 0x11, 0, 0)
    payload = header * 220_000
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(payload)) + payload


CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "deflate: half a gigabyte under a size of 1 KiB": (
        lambda: zip_bytes([*wheel_members(), ZipMember("axpy/b.bin", raw=_deflated_zeros(), size=1024, crc=0)]),
        "axpy/b.bin",
    ),
    "zstd: half a gigabyte under a size of 1000": (
        lambda: _with_member(_entry(_zstd_zeros(), 0x8000, 1000), "axpy/b.bin.so"),
        "axpy/b.bin.so",
    ),
    "LZ4: 64 MiB under a size of 1000": (
        lambda: _with_member(_entry(lz4.block.compress(bytes(64 << 20), store_size=False), 0x2000, 1000), "axpy/b.so"),
        "axpy/b.so",
    ),
    "zstd: an entry that says four gigabytes": (
        lambda: _with_member(_entry(_zstd_zeros(), 0x8000, 4 << 30), "axpy/b.so"),
        "axpy/b.so",
    ),
    "ELF: four billion sections": (lambda: _with_member(_lying_section_count()), "axpy/_C.abi3.so"),
    "fat binary: a payload of four gigabytes": (lambda: _with_member(_lying_payload(), "axpy/b.so"), "axpy/b.so"),
    "fat binary: 220,000 entries": (lambda: _with_member(_many_entries(), "axpy/b.so"), "axpy/b.so"),
    "zip: a directory that says ten million members": (_archive_of_ten_million, ""),
    "ELF: a section of device code that overlaps itself 5,000 times": (
        lambda: _with_member(_sections(5000)),
        "axpy/_C.abi3.so",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bomb_is_refused_within_bounds(name: str, tmp_path: Path) -> None:
    make, member = CASES[name]
    path = tmp_path / wheel_filename()
    path.write_bytes(make())
    command = [sys.executable, "-c", _READ, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["peak"] < MOST_MEMORY + path.stat().st_size // (1 << 20)
    kinds = {kind for kind, where, *_ in answer["problems"] if where == member}
    assert kinds & {"malformed", "unreadable"}, answer["problems"]
