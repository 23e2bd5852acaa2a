"""The floor: every member of a wheel inflated and hashed, by as many processes as there are cores, and nothing else.

    python benchmarks/floor.py WHEEL PROCESSES {whole|streamed}

``whole`` inflates a member into memory and hashes it then, as whoever wants to look at it does; ``streamed`` hashes it
piece by piece and keeps nothing.  Prints the seconds that the work took, without starting the processes, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import multiprocessing
import sys
import time
import zipfile
from pathlib import Path

from isal import isal_zlib

PIECE = 1 << 20
_mapped: mmap.mmap


def main() -> None:
    wheel, processes, manner = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with zipfile.ZipFile(wheel) as archive:
        members = sorted(archive.infolist(), key=lambda member: -member.compress_size)
    jobs = [(member.header_offset, member.compress_size, member.file_size, member.compress_type) for member in members]
    big, small = jobs[:50], jobs[50:]
    work = whole if manner == "whole" else streamed
    with multiprocessing.get_context("fork").Pool(processes, start, (str(wheel),)) as pool:
        pool.map(abs, range(processes), chunksize=1)  # every process is there before the clock starts
        begin = time.perf_counter()
        first = pool.imap_unordered(work, big, chunksize=1)
        second = pool.imap_unordered(work, small, chunksize=64)
        total = sum(first) + sum(second)
        seconds = time.perf_counter() - begin
    expected = sum(member.file_size for member in members)
    if total != expected:
        raise SystemExit(f"the floor inflated {total} bytes instead of {expected}")
    print(json.dumps({"seconds": seconds}))


def start(path: str) -> None:
    global _mapped
    with open(path, "rb") as file:  # noqa: PTH123 - the fastest way for the baseline
        _mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def whole(job: tuple[int, int, int, int]) -> int:
    with raw(job) as stored:
        data = isal_zlib.decompress(stored, -15, job[2] + 1) if job[3] == 8 else bytes(stored)
    hashlib.sha256(data).digest()
    return len(data)


def streamed(job: tuple[int, int, int, int]) -> int:
    digest, stream, total = hashlib.sha256(), isal_zlib.decompressobj(-15), 0
    with raw(job) as stored:
        for at in range(0, len(stored), PIECE):
            with stored[at : at + PIECE] as piece:
                data = stream.decompress(piece) if job[3] == 8 else piece
                digest.update(data)
                total += len(data)
    digest.digest()
    return total


def raw(job: tuple[int, int, int, int]) -> memoryview:
    """The stored bytes of a member."""
    at, size = job[0], job[1]
    lengths = _mapped[at + 26 : at + 30]
    at += 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    return memoryview(_mapped)[at : at + size]


if __name__ == "__main__":
    main()
