"""METADATA, WHEEL, RECORD, version modules and path files as they are written."""

from __future__ import annotations

from email import message_from_string

import pytest

from qualify.facts import RecordRow, VersionModule
from qualify.readers.binary import Problems
from qualify.readers.distinfo import (
    dist_info_folders,
    expand_tag,
    is_text_member,
    read_dist_info,
    read_path_file,
    read_version_module,
)

FOLDER = "x-1.dist-info"


def test_the_three_files() -> None:
    texts = {
        f"{FOLDER}/METADATA": b"Metadata-Version: 2.1\nName: X\nVersion: 1\nRequires-Python: >=3.11\n"
        b"Requires-Dist: torch==2.11\nRequires-Dist: numpy\n\nName: not this\n",
        f"{FOLDER}/WHEEL": b"Wheel-Version: 1.0\nGenerator: g (1)\nRoot-Is-Purelib: false\nTag: cp38-abi3-a.b\n",
        f"{FOLDER}/RECORD": b'a.py,sha256=abc,3\n"a,b.py",,\nx-1.dist-info/RECORD,,\n',
    }
    problems = Problems("")
    info = read_dist_info(FOLDER, [*texts, "a.py"], texts, problems)
    assert problems.items == []
    assert (info.metadata_name, info.metadata_version, info.requires_python) == ("X", "1", ">=3.11")
    assert info.requires_dist == ("torch==2.11", "numpy")
    assert info.wheel_tags == ("cp38-abi3-a", "cp38-abi3-b")
    assert (info.wheel_version, info.root_is_purelib, info.generator) == ("1.0", "false", "g (1)")
    assert info.record[:2] == (RecordRow("a.py", "sha256=abc", "3"), RecordRow("a,b.py", "", ""))
    assert info.files == ("METADATA", "WHEEL", "RECORD")


def test_what_is_not_there_stays_empty() -> None:
    info = read_dist_info(FOLDER, [], {}, Problems(""))
    assert (info.metadata_name, info.wheel_tags, info.record, info.files) == ("", (), (), ())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("METADATA", b"Name: \xff\n"),
        ("RECORD", b"a,b\n"),
        ("RECORD", b"\xff,,\n"),
        ("RECORD", b'a,"' + b"x" * 200_000 + b'",\n'),
    ],
)
def test_what_is_broken_is_a_problem(name: str, content: bytes) -> None:
    problems = Problems("")
    read_dist_info(FOLDER, [], {f"{FOLDER}/{name}": content}, problems)
    assert [(problem.kind.value, problem.where) for problem in problems.items] == [("malformed", f"{FOLDER}/{name}")]


@pytest.mark.parametrize(
    ("tag", "expanded"),
    [
        ("py2.py3-none-any", ("py2-none-any", "py3-none-any")),
        ("cp38-abi3-linux_x86_64", ("cp38-abi3-linux_x86_64",)),
        ("nonsense", ("nonsense",)),
        ("-".join([".".join("abcdefghijklmnop")] * 3), ("-".join([".".join("abcdefghijklmnop")] * 3),)),
    ],
)
def test_tags_expand(tag: str, expanded: tuple[str, ...]) -> None:
    assert expand_tag(tag) == expanded


def test_which_members_are_read_as_text() -> None:
    paths = ["x-1.dist-info/RECORD", "a/_version.py", "_version.py", "x.pth", "x-1.data/purelib/y.pth"]
    assert all(is_text_member(path) for path in paths)
    assert not any(map(is_text_member, ["a/RECORD", "a/x-1.dist-info/RECORD", "my_version.py", "x.pth.txt"]))
    assert not any(map(is_text_member, ["a/weights.pth", "x-1.data/purelib/a/weights.pth", "x-1.data/data/y.pth"]))
    assert dist_info_folders(["b.dist-info/x", "a.dist-info/x", "c/d.dist-info/x"]) == ("a.dist-info", "b.dist-info")


@pytest.mark.parametrize(
    ("source", "version", "commit"),
    [
        (b"__version__ = version = '1+gabc'\n__commit_id__ = commit_id = 'gabc'\n", "1+gabc", "gabc"),
        (b"__version__: str = '1'\n__commit_id__ = commit_id = None\n", "1", ""),
        (b"version = '1'\ncommit_id = 'gabc'\n", "1", "gabc"),
        (b"__version__ = get()\n", "", ""),
        (b"if True:\n    __version__ = '1'\n", "", ""),
        (b"def broken(:\n", "", ""),
        (b"\0", "", ""),
        (b"x = '\\d'\n__version__ = '2'\n", "2", ""),
        (b"(" * 5000, "", ""),
    ],
)
def test_version_modules_are_parsed_and_never_run(source: bytes, version: str, commit: str) -> None:
    assert read_version_module("a/_version.py", source) == VersionModule("a/_version.py", version, commit)


def test_path_files() -> None:
    source = b"# a comment\n\nimport os; os.system('x')\n/home/me/src\n"
    assert read_path_file("x.pth", source) == ("x.pth: import os; os.system('x')", "x.pth: /home/me/src")
    assert read_path_file("x.pth", b"") == ("x.pth: ",)


def test_tags_and_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qualify.readers.distinfo._MOST_ROWS", 3)
    wide = ".".join("abcdefghij")
    texts = {
        f"{FOLDER}/WHEEL": f"Tag: {wide}-{wide}-{wide}\n".encode() * 20,
        f"{FOLDER}/RECORD": b"a,,\n" * 9,
    }
    problems = Problems("")
    info = read_dist_info(FOLDER, [], texts, problems)
    assert len(info.wheel_tags) == 11_000
    assert len(info.record) == 4
    assert sorted(problem.kind.value for problem in problems.items) == ["malformed", "unreadable"]


def test_metadata_without_its_description_and_entry_points() -> None:
    texts = {
        f"{FOLDER}/METADATA": "Metadata-Version: 2.1\r\nName: X\nDescription: one\n  two\n\tthree\nSummary: é\n"
        "License: a\n  b\n\nBody: no field\n".encode(),
        f"{FOLDER}/entry_points.txt": b"[console_scripts]\nx = x:main\n",
    }
    problems = Problems("")
    info = read_dist_info(FOLDER, list(texts), texts, problems)
    assert info.metadata == "Metadata-Version: 2.1\r\nName: X\nSummary: é\nLicense: a\n  b\n"
    assert info.entry_points == "[console_scripts]\nx = x:main\n"
    assert problems.items == []
    broken = {f"{FOLDER}/METADATA": b"Name: \xff\n", f"{FOLDER}/entry_points.txt": b"\xff"}
    info = read_dist_info(FOLDER, list(broken), broken, problems)
    assert (info.metadata, info.entry_points) == ("", "")
    assert [problem.where for problem in problems.items] == [f"{FOLDER}/METADATA", f"{FOLDER}/entry_points.txt"]
    assert is_text_member(f"{FOLDER}/entry_points.txt")


def test_headers_end_where_a_parser_of_mail_ends_them() -> None:
    source = "Name: X\nSummary: a\x0cb\rLicense: MIT\r\nDescription: one\u2028Requires-Dist: evil\n more\r\n\r\nBody\n"
    info = read_dist_info(FOLDER, [], {f"{FOLDER}/METADATA": source.encode()}, Problems(""))
    assert info.metadata == "Name: X\nSummary: a\x0cb\rLicense: MIT\r\n"
    kept = message_from_string(info.metadata)
    whole = message_from_string(source)
    assert [field for field in whole.items() if field[0] != "Description"] == kept.items()
    assert info.requires_dist == ()
