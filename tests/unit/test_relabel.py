"""A label in the local version: everything that names the version changes, and nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from builders.relabel import labelled, relabel
from qualify.errors import MalformedError, UsageError
from qualify.opening import read_wheel
from tests.support.wheel import wheel_members, write_wheel, zip_bytes


@pytest.mark.parametrize(
    ("version", "label", "expected"),
    [
        ("1.0", "sm110", "1.0+sm110"),
        ("0.1.1.dev2+gd41133a4e", "sm110", "0.1.1.dev2+gd41133a4e.sm110"),
        ("1.0+sm110", "sm110", "1.0+sm110"),
        ("1.0+gabc.sm110", "sm110", "1.0+gabc.sm110"),
        ("1.0+sm110.gabc", "sm110", "1.0+sm110.gabc.sm110"),
    ],
)
def test_the_label_ends_the_local_version(version: str, label: str, expected: str) -> None:
    assert labelled(version, label) == expected


@pytest.mark.parametrize("label", ["", "SM110", "sm.110", "sm-110", "größe", "a b"])
def test_a_label_is_one_plain_part(label: str) -> None:
    with pytest.raises(UsageError):
        labelled("1.0", label)


def test_the_wheel_is_whole_under_its_new_name(tmp_path: Path) -> None:
    old = write_wheel(tmp_path, version="0.1.0+gabc1234")
    before = read_wheel(old)
    new = relabel(old, "sm110")
    assert [path.name for path in tmp_path.iterdir()] == [new.name]
    assert new.name == old.name.replace("+gabc1234", "+gabc1234.sm110")
    after = read_wheel(new)
    assert after.problems == before.problems == ()
    assert after.dist_info is not None
    assert before.dist_info is not None
    assert after.dist_info.folder == "axpy-0.1.0+gabc1234.sm110.dist-info"
    assert after.dist_info.metadata_version == "0.1.0+gabc1234.sm110"
    assert after.tags == before.tags
    rows = {row.path: row for row in after.dist_info.record}
    for row in before.dist_info.record:
        path = row.path.replace("0.1.0+gabc1234.dist-info", after.dist_info.folder.removeprefix("axpy-"))
        if path.endswith(("METADATA", "RECORD")):
            assert path in rows
        else:
            assert (rows[path].hash, rows[path].size) == (row.hash, row.size)
    outside = {m.path: m.sha256 for m in before.members if ".dist-info/" not in m.path}
    assert {m.path: m.sha256 for m in after.members if ".dist-info/" not in m.path} == outside


def test_modes_and_compression_stay(tmp_path: Path) -> None:
    old = write_wheel(tmp_path)
    with zipfile.ZipFile(old) as archive:
        before = [(e.external_attr, e.compress_type, e.date_time) for e in archive.infolist()]
    with zipfile.ZipFile(relabel(old, "x1")) as archive:
        assert [(e.external_attr, e.compress_type, e.date_time) for e in archive.infolist()] == before
        assert archive.testzip() is None


def test_a_description_that_speaks_of_versions_stays(tmp_path: Path) -> None:
    metadata = "Metadata-Version: 2.1\nName: axpy\nVersion: 0.1.0\n\nVersion: 0.1.0 was the first.\n"
    with zipfile.ZipFile(relabel(write_wheel(tmp_path, metadata=metadata), "x1")) as archive:
        text = archive.read("axpy-0.1.0+x1.dist-info/METADATA").decode()
    assert text == metadata.replace("Version: 0.1.0\n\n", "Version: 0.1.0+x1\n\n")


def test_the_data_folder_is_renamed_too(tmp_path: Path) -> None:
    old = write_wheel(tmp_path, files={"axpy-0.1.0.data/scripts/axpy": "#!python\n"})
    facts = read_wheel(relabel(old, "x1"))
    assert "axpy-0.1.0+x1.data/scripts/axpy" in {member.path for member in facts.members}
    assert facts.problems == ()


def test_a_wheel_that_bears_the_label_stays_as_it_is(tmp_path: Path) -> None:
    old = write_wheel(tmp_path, version="0.1.0+x1")
    data = old.read_bytes()
    assert relabel(old, "x1") == old
    assert old.read_bytes() == data


@pytest.mark.parametrize(
    "omitted", ["axpy-0.1.0.dist-info/METADATA", "axpy-0.1.0.dist-info/RECORD"], ids=["METADATA", "RECORD"]
)
def test_a_wheel_without_its_parts_is_refused_and_stays(tmp_path: Path, omitted: str) -> None:
    old = write_wheel(tmp_path, omit=[omitted])
    with pytest.raises(MalformedError, match=omitted.rpartition("/")[2]):
        relabel(old, "x1")
    assert [path.name for path in tmp_path.iterdir()] == [old.name]


def test_two_version_headers_are_refused(tmp_path: Path) -> None:
    old = write_wheel(tmp_path, metadata="Metadata-Version: 2.1\nName: axpy\nVersion: 0.1.0\nVersion: 0.2.0\n\n")
    with pytest.raises(MalformedError, match="2 Version headers"):
        relabel(old, "x1")


def test_a_signed_record_is_refused(tmp_path: Path) -> None:
    old = write_wheel(tmp_path, files={"axpy-0.1.0.dist-info/RECORD.jws": "{}"})
    with pytest.raises(MalformedError, match="signed"):
        relabel(old, "x1")


@pytest.mark.parametrize("content", [b"", b"no archive", zip_bytes(wheel_members())[:200]])
def test_what_is_no_archive_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    old = tmp_path / "axpy-0.1.0-cp311-abi3-linux_x86_64.whl"
    old.write_bytes(content)
    with pytest.raises(MalformedError):
        relabel(old, "x1")
    assert [path.name for path in tmp_path.iterdir()] == [old.name]


def test_a_name_that_is_no_wheels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedError):
        relabel(tmp_path / "axpy.whl", "x1")
