"""What passes between this host and a container."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from builders.engines import archives


def test_a_folder_arrives_with_its_parents_and_one_owner(tmp_path: Path) -> None:
    (tmp_path / "from" / "deep").mkdir(parents=True)
    (tmp_path / "from" / "deep" / "a.txt").write_text("a")
    stream = io.BytesIO()
    archives.pack_folder(stream, tmp_path / "from", PurePosixPath("tools/here"), 1000)
    with tarfile.open(fileobj=stream) as archive:
        entries = {entry.name: entry for entry in archive}
    assert list(entries)[:2] == ["tools", "tools/here"]
    assert "tools/here/deep/a.txt" in entries
    assert {(entry.uid, entry.gid, entry.uname) for entry in entries.values()} == {(1000, 1000, "")}


def test_what_comes_back_is_plain_files_below_the_folder(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in ("out/a.whl", "out/../../b.whl", "out/sub/c.log"):
            entry = tarfile.TarInfo(name)
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"x"))
        link = tarfile.TarInfo("out/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    stream.seek(0)
    archives.unpack_folder(stream, tmp_path / "to")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert found == {"to/a.whl", "to/sub/c.log"}


def test_files_made_in_memory_are_packed_whole() -> None:
    with archives.packed({"etc/pip.conf": b"[global]\n"}) as stream, tarfile.open(fileobj=stream) as archive:
        member = archive.extractfile("etc/pip.conf")
        assert member is not None
        assert member.read() == b"[global]\n"


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb"], ["a", "b"]),
        ([b"[1/2]\r[2/", b"2]\r\ndone\n"], ["[1/2]", "[2/2]", "done"]),
        ([b"\xff\n"], ["\ufffd"]),
        ([], []),
    ],
)
def test_lines_end_where_a_terminal_ends_them(chunks: list[bytes], expected: list[str]) -> None:
    assert list(archives.lines(chunks)) == expected


def test_digests_are_of_plain_files_and_pass_through_sha256sum_whatever_their_names(tmp_path: Path) -> None:
    import subprocess

    names = ["a.c", "deep/b c.h", "new\nline", "back\\slash", "\u00e4"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("a.c")
    found = archives.digests(tmp_path)
    assert sorted(found) == sorted(names)
    check = ["sha256sum", "--check", "--quiet", "--strict", "-"]
    done = subprocess.run(check, input=archives.render_digests(found), cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")
    (tmp_path / "new\nline").write_text("other")
    done = subprocess.run(check, input=archives.render_digests(found), cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == 1
    (tmp_path / "new\nline").write_text("new\nline")
    said = subprocess.run(
        ["find", ".", "-type", "f", "-exec", "sha256sum", "--binary", "{}", "+"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert archives.parse_digests([*said.stdout.splitlines(), "a word"]) == found


def test_a_line_without_an_end_is_passed_on_in_parts() -> None:
    chunks = (b"x" * (1 << 16) for _ in range(40))
    whole = list(archives.lines(chunks))
    assert sum(map(len, whole)) == 40 << 16
    assert max(map(len, whole)) <= archives.LONGEST_LINE + (1 << 16)
    assert len(whole) == 3
