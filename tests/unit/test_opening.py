"""A whole wheel in one pass."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from qualify import opening
from qualify.errors import MalformedError, UsageError
from qualify.facts import MemberKind, ProblemKind, WheelFacts
from qualify.opening import read_wheel
from qualify.readers.archive import ArchiveMember
from qualify.readers.binary import Limits
from qualify.readers.device import Context
from tests.support.wheel import (
    TAG,
    ZipMember,
    extension,
    make_wheel,
    record_hash,
    replaced,
    wheel_filename,
    wheel_members,
    write_wheel,
    zip_bytes,
)


def _open(folder: Path, members: list[ZipMember], **options: object) -> WheelFacts:
    path = folder / wheel_filename()
    path.write_bytes(zip_bytes(members))
    return read_wheel(path, **options)  # type: ignore[arg-type]


def test_a_good_wheel(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, requires=["torch==2.11"])
    facts = read_wheel(path)
    assert facts.problems == ()
    assert (facts.filename, facts.size) == (path.name, path.stat().st_size)
    assert facts.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (facts.name, facts.wheel_version, facts.build_tag, facts.tags) == ("axpy", "0.1.0", "", (TAG,))
    assert facts.dist_info is not None
    assert facts.dist_info.requires_dist == ("torch==2.11",)
    assert facts.dist_info.wheel_tags == (TAG,)
    assert facts.version_modules[0].commit_id.startswith("g0123456")
    kinds = {member.path: member.kind for member in facts.members}
    assert kinds["axpy/_C.abi3.so"] is MemberKind.EXTENSION
    assert kinds["axpy/__init__.py"] is MemberKind.DATA
    member = next(member for member in facts.members if member.path == "axpy/_C.abi3.so")
    assert member.symbols == ("axpy_kernel",)
    assert member.elf is not None
    assert member.elf.python_inits == ("_C",)


def test_digests_are_those_of_record(tmp_path: Path) -> None:
    facts = read_wheel(write_wheel(tmp_path))
    assert facts.dist_info is not None
    rows = {row.path: row.hash for row in facts.dist_info.record if row.hash}
    contents = {member.name: member.data for member in wheel_members()}
    assert rows == {path: record_hash(contents[path]) for path in rows}
    assert all(member.sha256 == hashlib.sha256(contents[member.path]).hexdigest() for member in facts.members)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_number_of_workers_changes_nothing(tmp_path: Path, workers: int) -> None:
    code = [{"sm_90": [f"k{index}"], "compute_80": ["k"]} for index in range(9)]
    path = write_wheel(tmp_path, extensions={f"axpy/_{index}": code for index in range(9)})
    seen: list[tuple[str, int, int]] = []
    facts = read_wheel(path, workers=workers, progress=lambda *step: seen.append(step))
    assert facts == read_wheel(path)
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)
    assert seen[-1][1] == seen[-1][2]


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"crc": 7, "local_crc": 7}, "do not match their CRC"),
        ({"size": 1 << 15}, "inflates to"),
        ({"size": 20}, "inflates to more than the 20"),
        ({"raw": b"\xff" * 64}, "deflate stream is damaged"),
        ({"raw": b""}, "more than 0 can inflate to"),
        ({"method": 12, "raw": b"x"}, "method 12"),
        ({"flags": 1}, "encrypted"),
    ],
)
def test_a_damaged_member_is_named(tmp_path: Path, changes: dict[str, object], detail: str) -> None:
    facts = _open(tmp_path, replaced(wheel_members(), "axpy/_C.abi3.so", **changes))
    assert [problem.member for problem in facts.problems] == ["axpy/_C.abi3.so"]
    assert detail in facts.problems[0].detail
    assert facts.members[2].path == "axpy/_C.abi3.so"


def test_a_member_that_could_not_be_inflated_has_no_digest(tmp_path: Path) -> None:
    facts = _open(tmp_path, replaced(wheel_members(), "axpy/_C.abi3.so", raw=b"\xff" * 64))
    member = facts.members[2]
    assert (member.sha256, member.kind, member.elf) == ("", MemberKind.DATA, None)


def test_bounds_leave_a_problem(tmp_path: Path) -> None:
    facts = _open(tmp_path, wheel_members(), limits=Limits(member_size=1000))
    assert {problem.kind for problem in facts.problems} == {ProblemKind.UNREADABLE}
    facts = _open(tmp_path, wheel_members(), limits=Limits(text_size=10))
    assert ("file", ProblemKind.UNREADABLE) in {(problem.where, problem.kind) for problem in facts.problems}
    facts = _open(tmp_path, wheel_members(), limits=Limits(total_size=1000))
    assert {problem.kind for problem in facts.problems} == {ProblemKind.UNREADABLE}


def test_a_second_dist_info_and_none(tmp_path: Path) -> None:
    facts = _open(tmp_path, [*wheel_members(), ZipMember("other-1.dist-info/METADATA", b"Name: other\n")])
    assert [problem.kind for problem in facts.problems] == [ProblemKind.MALFORMED]
    assert facts.dist_info is not None
    assert facts.dist_info.folder == "axpy-0.1.0.dist-info"
    facts = _open(tmp_path, [ZipMember("axpy/__init__.py")])
    assert (facts.dist_info, facts.problems) == (None, ())


def test_editable_marks_are_kept(tmp_path: Path) -> None:
    facts = _open(tmp_path, wheel_members(files={"__editable__.axpy.pth": "/home/me/axpy\n"}))
    assert facts.path_files == ("__editable__.axpy.pth: /home/me/axpy",)


def test_folders_are_no_members(tmp_path: Path) -> None:
    facts = _open(tmp_path, [ZipMember("axpy/", method=0, mode=0o40755), *wheel_members()])
    assert "axpy/" not in [member.path for member in facts.members]


def test_a_name_that_is_no_wheels_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "axpy.whl"
    path.write_bytes(make_wheel())
    facts = read_wheel(path)
    assert (facts.name, facts.tags) == ("", ())
    assert [(problem.where, problem.kind) for problem in facts.problems] == [("file name", ProblemKind.MALFORMED)]


def test_a_build_tag(tmp_path: Path) -> None:
    path = tmp_path / f"axpy-0.1.0-1abc-{TAG}.whl"
    path.write_bytes(make_wheel())
    assert read_wheel(path).build_tag == "1abc"


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_wheel(tmp_path / wheel_filename())
    (tmp_path / "folder.whl").mkdir()
    with pytest.raises(UsageError, match="no such file"):
        read_wheel(tmp_path / "folder.whl")
    with pytest.raises(UsageError, match="not named as a wheel"):
        read_wheel(tmp_path / "axpy.zip")
    path = tmp_path / wheel_filename()
    for content, fragment in (
        (b"", "is empty"),
        (b"no zip at all", "no end of central"),
        (make_wheel()[:900], "no end"),
    ):
        path.write_bytes(content)
        with pytest.raises(MalformedError, match=fragment):
            read_wheel(path)


def test_a_wheel_of_many_members_keeps_their_order(tmp_path: Path) -> None:
    files = {f"axpy/data/{index}.txt": os.urandom(index % 50) for index in range(2000)}
    facts = read_wheel(write_wheel(tmp_path, files=files))
    assert [member.path for member in facts.members] == [member.name for member in wheel_members(files=files)]


def test_a_zip_bomb_is_stopped(tmp_path: Path) -> None:
    bomb = ZipMember("axpy/bomb.bin", bytes(64 << 20), size=1 << 20)
    facts = _open(tmp_path, [*wheel_members(), bomb])
    assert [(problem.member, problem.kind) for problem in facts.problems] == [("axpy/bomb.bin", ProblemKind.MALFORMED)]


def test_extension_members_of_another_machine(tmp_path: Path) -> None:
    facts = read_wheel(write_wheel(tmp_path, extensions={"axpy/_C": extension({}, machine="aarch64")}))
    assert [member.elf.machine for member in facts.members if member.elf] == ["aarch64"]
    assert replace(facts, filename="x").filename == "x"


def test_texts_modules_and_problems_are_bounded(tmp_path: Path) -> None:
    files = {f"axpy/{index}/_version.py": "__version__ = '1'\n" for index in range(5)}
    facts = _open(tmp_path, wheel_members(files=files), limits=Limits(version_modules=2))
    assert len(facts.version_modules) == 2
    assert [(problem.where, problem.kind) for problem in facts.problems] == [
        ("version modules", ProblemKind.UNREADABLE)
    ]
    facts = _open(tmp_path, wheel_members(files=files), limits=Limits(texts_size=10))
    assert {problem.where for problem in facts.problems} == {"file"}
    assert facts.dist_info is not None
    assert facts.dist_info.record == ()
    members = [ZipMember(f"{index}.so", b"\x7fELF", method=0) for index in range(5)]
    assert len(_open(tmp_path, members, limits=Limits(problems=2)).problems) == 5


def test_what_is_in_memory_at_one_time_is_the_largest_member_and_little_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [900, 700, 500, 400, 300, 200, *([20] * 30)]
    files = {f"axpy/{index}.bin": os.urandom(size << 10) for index, size in enumerate(sizes)}
    path = write_wheel(tmp_path, files=files)
    monkeypatch.setattr(opening, "_BATCH", 100 << 10)
    monkeypatch.setattr(opening, "_BESIDE_LARGEST", 450 << 10)
    lock, held, most, together = threading.Lock(), [0], [0], [0]
    running = [0]
    really = opening._read_batch

    def read_batch(mapped: mmap.mmap, batch: list[tuple[int, ArchiveMember]], context: Context) -> list[opening._Read]:
        amount = sum(member.size for _, member in batch)
        with lock:
            held[0] += amount
            running[0] += 1
            most[0], together[0] = max(most[0], held[0]), max(together[0], running[0])
        time.sleep(0.002)
        try:
            return really(mapped, batch, context)
        finally:
            with lock:
                held[0] -= amount
                running[0] -= 1

    monkeypatch.setattr(opening, "_read_batch", read_batch)
    facts = read_wheel(path, workers=4)
    assert most[0] <= (900 + 450) << 10
    assert together[0] > 1
    assert [member.size for member in facts.members if member.path.endswith(".bin")] == [size << 10 for size in sizes]


def test_small_members_come_right_behind_the_first_big_ones() -> None:
    sizes = [60 << 20, 5 << 20, 50 << 20, 1, 3 << 20, 2 << 20, 40 << 20]
    members = [(index, ArchiveMember(str(index), 0, 0, size, size, 0, False)) for index, size in enumerate(sizes)]

    def order(workers: int) -> list[list[int]]:
        return [[index for index, _ in batch] for batch in opening._batches(members, workers)]

    assert order(1) == order(2) == [[0], [4], [5, 3], [2], [6], [1]]
    assert order(4) == [[0], [2], [6], [4], [5, 3], [1]]


def test_texts_are_read_in_the_archives_order(tmp_path: Path) -> None:
    """Small members go to threads by size; what the facts say does not follow that."""
    files = {
        f"axpy/{name}/_version.py": f"__version__ = '{name}'\n" + "#" * size
        for name, size in zip("abcd", (9, 4000, 2, 800), strict=True)
    }
    files |= {"a.pth": "/x\n", "b.pth": "/y\n" * 200}
    facts = read_wheel(write_wheel(tmp_path, files=files), workers=3)
    assert [module.version for module in facts.version_modules] == ["0.1.0", "a", "b", "c", "d"]
    assert facts.path_files[:2] == ("a.pth: /x", "b.pth: /y")
