"""The true platform tag: from floors, under the policies that wheels are judged by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builders.tagging import retag, true_tag
from qualify import floors
from qualify.errors import BuildError
from qualify.facts import MemberKind, VersionNeed, WheelFacts
from qualify.opening import read_wheel
from tests.support.wheel import write_wheel


def facts_with(
    tmp_path: Path, needs: list[tuple[str, str]], needed: tuple[str, ...] = ("libc.so.6",), machine: str = "x86_64"
) -> WheelFacts:
    facts = read_wheel(write_wheel(tmp_path, extensions={"axpy/_C": {}}))
    versions = tuple(VersionNeed(library, version) for library, version in needs)
    members = tuple(
        replace(m, elf=replace(m.elf, version_needs=versions, needed=needed, machine=machine)) if m.elf else m
        for m in facts.members
    )
    return replace(facts, members=members)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ([("libc.so.6", "GLIBC_2.2.5")], "manylinux_2_5_x86_64"),
        ([("libc.so.6", "GLIBC_2.17"), ("libc.so.6", "GLIBC_2.28")], "manylinux_2_28_x86_64"),
        ([("libc.so.6", "GLIBC_2.33")], "manylinux_2_34_x86_64"),
        ([("libc.so.6", "GLIBC_2.38")], "manylinux_2_38_x86_64"),
        ([("libc.so.6", "GLIBC_2.17"), ("libstdc++.so.6", "GLIBCXX_3.4.29")], "manylinux_2_34_x86_64"),
        ([("libstdc++.so.6", "CXXABI_1.3.13")], "manylinux_2_34_x86_64"),
        ([("libgcc_s.so.1", "GCC_12.0.0")], "manylinux_2_35_x86_64"),
        ([("libc.so.6", "GLIBC_ABI_DT_RELR")], "manylinux_2_36_x86_64"),
        ([("libstdc++.so.6", "GLIBCXX_3.4.31")], "manylinux_2_39_x86_64"),
    ],
)
def test_the_oldest_policy_that_holds(tmp_path: Path, needs: list[tuple[str, str]], expected: str) -> None:
    assert true_tag(facts_with(tmp_path, needs), "x86_64").tag == expected


def test_a_floor_above_every_policy_gives_none(tmp_path: Path) -> None:
    tagging = true_tag(facts_with(tmp_path, [("libc.so.6", "GLIBC_2.99")]), "x86_64")
    assert tagging.tag == ""
    assert tagging.floors == {"GLIBC": "2.99"}


@pytest.mark.parametrize("version", ["GLIBC_PRIVATE", "CXXABI_SOMEDAY", "OTHER_1.0"])
def test_a_version_that_no_policy_knows_gives_none(tmp_path: Path, version: str) -> None:
    tagging = true_tag(facts_with(tmp_path, [("libc.so.6", version)]), "x86_64")
    assert tagging.tag == ""
    assert version in tagging.reason


def test_another_library_gives_none_unless_a_dependency_brings_it(tmp_path: Path) -> None:
    facts = facts_with(tmp_path, [("libc.so.6", "GLIBC_2.17")], ("libc.so.6", "libtorch.so", "libcudart.so.13"))
    tagging = true_tag(facts, "x86_64")
    assert tagging.tag == ""
    assert "libcudart.so.13, libtorch.so" in tagging.reason
    assert true_tag(facts, "x86_64", ("libtorch*.so", "libcudart.so.13")).tag == "manylinux_2_17_x86_64"


def test_a_library_of_the_wheel_itself_is_no_foreign_one(tmp_path: Path) -> None:
    facts = facts_with(tmp_path, [("libc.so.6", "GLIBC_2.17")], ("libc.so.6", "_C.abi3.so"))
    assert true_tag(facts, "x86_64").tag == "manylinux_2_17_x86_64"


def test_versions_of_other_libraries_are_not_the_systems(tmp_path: Path) -> None:
    facts = facts_with(tmp_path, [("libc.so.6", "GLIBC_2.17"), ("libcudart.so.13", "libcudart.so.13")])
    assert true_tag(facts, "x86_64").tag == "manylinux_2_17_x86_64"


def test_a_binary_of_another_machine_gives_none(tmp_path: Path) -> None:
    tagging = true_tag(facts_with(tmp_path, [], machine="aarch64"), "x86_64")
    assert (tagging.tag, "aarch64" in tagging.reason) == ("", True)


def test_a_wheel_without_binaries_gives_none(tmp_path: Path) -> None:
    facts = read_wheel(write_wheel(tmp_path, extensions={}))
    assert not [member for member in facts.members if member.kind is MemberKind.EXTENSION]
    assert true_tag(facts, "x86_64").reason == "nothing in it is compiled"


def test_retag_changes_name_and_wheel_together(tmp_path: Path) -> None:
    old = write_wheel(tmp_path, tag="cp311-abi3-linux_x86_64")
    new = retag(old, "manylinux_2_28_x86_64")
    assert [path.name for path in tmp_path.iterdir()] == ["axpy-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl"]
    facts = read_wheel(new)
    assert facts.problems == ()
    assert facts.dist_info is not None
    assert facts.dist_info.wheel_tags == facts.tags == ("cp311-abi3-manylinux_2_28_x86_64",)


def test_what_wheel_tags_cannot_read_is_a_build_error(tmp_path: Path) -> None:
    old = tmp_path / "axpy-0.1.0-cp311-abi3-linux_x86_64.whl"
    old.write_bytes(b"no archive")
    with pytest.raises(BuildError, match="wheel tags failed"):
        retag(old, "manylinux_2_28_x86_64")
    assert old.exists()


def test_the_tag_is_true_for_the_judge(tmp_path: Path) -> None:
    facts = facts_with(tmp_path, [("libc.so.6", "GLIBC_2.33"), ("libstdc++.so.6", "GLIBCXX_3.4.31")])
    tagging = true_tag(facts, "x86_64")
    assert tagging.tag == floors.true_tag(facts, "x86_64") == "manylinux_2_39_x86_64"
    assert tagging.floors == {"GLIBC": "2.33", "GLIBCXX": "3.4.31"}


def test_a_library_that_newer_systems_alone_have_needs_a_newer_tag(tmp_path: Path) -> None:
    oldest, newest = floors.policies("x86_64")[0], floors.policies("x86_64")[-1]
    (name, *_) = sorted(newest.libraries - oldest.libraries)
    first = next(policy for policy in floors.policies("x86_64") if name in policy.libraries)
    facts = facts_with(tmp_path, [("libc.so.6", "GLIBC_2.2.5")], ("libc.so.6", name))
    assert true_tag(facts, "x86_64").tag == first.tag != oldest.tag
