"""The repositories that a tree's CMake files name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.externals import External, read_externals
from builders.externals_copies import copy_fault
from tests.unit.builders_support import git, make_repository, write_tree

DECLARED = "FetchContent_Declare(thing GIT_REPOSITORY https://example.org/thing.git GIT_TAG abc)\n"


def read(folder: Path, files: dict[str, str], globs: list[str] | None = None, **given: Any) -> tuple[Any, Any]:
    write_tree(folder, files)
    options = {"overrides": {}, "variables": {}, "copies": {}, **given}
    return read_externals(folder, globs or ["CMakeLists.txt"], **options)


def only(result: tuple[tuple[External, ...], tuple[str, ...]]) -> External:
    externals, unread = result
    assert unread == ()
    (external,) = externals
    return external


def test_repository_tag_and_place(tmp_path: Path) -> None:
    external = only(read(tmp_path, {"CMakeLists.txt": "\n" + DECLARED}))
    assert (external.name, external.repository, external.tag) == ("thing", "https://example.org/thing.git", "abc")
    assert external.where == "CMakeLists.txt:2"
    assert external.needed
    assert external.variable == ""


@pytest.mark.parametrize("command", ["FetchContent_Populate", "ExternalProject_Add", "fetchcontent_declare"])
def test_the_other_commands(tmp_path: Path, command: str) -> None:
    assert only(read(tmp_path, {"CMakeLists.txt": DECLARED.replace("FetchContent_Declare", command)})).tag == "abc"


def test_an_archive_has_no_tag(tmp_path: Path) -> None:
    text = "FetchContent_Declare(z URL https://example.org/z.tgz URL_HASH SHA256=00)"
    external = only(read(tmp_path, {"CMakeLists.txt": text}))
    assert (external.repository, external.tag) == ("https://example.org/z.tgz", "")


def test_submodules_and_options_after_them(tmp_path: Path) -> None:
    text = 'FetchContent_Declare(a GIT_REPOSITORY u GIT_TAG t GIT_SUBMODULES "x/y" "z" GIT_PROGRESS TRUE)'
    assert only(read(tmp_path, {"CMakeLists.txt": text})).submodules == ("x/y", "z")


def test_local_folders_and_second_populates_are_no_external_source(tmp_path: Path) -> None:
    text = "FetchContent_Declare(a SOURCE_DIR ${A})\nFetchContent_Populate(a)\nFetchContent_MakeAvailable(a)"
    assert read(tmp_path, {"CMakeLists.txt": text}) == ((), ())


def test_variables_set_before_are_followed(tmp_path: Path) -> None:
    text = 'set(BASE "https://example.org")\nset(URL "${BASE}/a.git" CACHE STRING "")\nset(T v1)\nset(T v2)\n'
    external = only(
        read(tmp_path, {"CMakeLists.txt": text + "FetchContent_Declare(a GIT_REPOSITORY ${URL} GIT_TAG ${T})"})
    )
    assert (external.repository, external.tag) == ("https://example.org/a.git", "v2")


def test_each_branch_gives_its_own_row_with_its_own_values(tmp_path: Path) -> None:
    text = """
if(DEVICE STREQUAL "rocm")
  set(URL r.git)
  set(TAG r1)
else()
  set(URL c.git)
  set(TAG c1)
endif()
FetchContent_Declare(a GIT_REPOSITORY ${URL} GIT_TAG ${TAG})
"""
    externals, unread = read(tmp_path, {"CMakeLists.txt": text}, variables={"DEVICE": "cuda"})
    assert unread == ()
    assert {(e.repository, e.tag, e.needed) for e in externals} == {("c.git", "c1", True), ("r.git", "r1", False)}


def test_without_knowing_the_device_both_are_needed(tmp_path: Path) -> None:
    text = (
        'if(DEVICE STREQUAL "rocm")\nset(U r)\nelse()\nset(U c)\nendif()\nFetchContent_Declare(a GIT_REPOSITORY ${U})'
    )
    externals, _ = read(tmp_path, {"CMakeLists.txt": text})
    assert {(e.repository, e.needed) for e in externals} == {("c", True), ("r", True)}
    assert {e.condition for e in externals} == {'DEVICE STREQUAL "rocm"', 'NOT (DEVICE STREQUAL "rocm")'}


def test_what_is_not_resolved_is_named(tmp_path: Path) -> None:
    externals, unread = read(
        tmp_path, {"CMakeLists.txt": "FetchContent_Declare(a GIT_REPOSITORY ${NOWHERE} GIT_TAG x)"}
    )
    assert externals == ()
    assert unread == ("CMakeLists.txt:1: a is fetched from ${NOWHERE} x, which is not resolved",)


def test_branches_that_multiply_are_bounded(tmp_path: Path) -> None:
    sets = "".join(f"if(X{n})\nset(V{n} a{n})\nelse()\nset(V{n} b{n})\nendif()\n" for n in range(24))
    url = "".join(f"${{V{n}}}" for n in range(24))
    externals, unread = read(tmp_path, {"CMakeLists.txt": f"{sets}FetchContent_Declare(a GIT_REPOSITORY {url})"})
    assert len(externals) == 64
    assert unread == ("CMakeLists.txt:121: a may be fetched from more than 64 places",)


def test_values_with_spaces(tmp_path: Path) -> None:
    text = 'set(U "a b.git")\nFetchContent_Declare(n GIT_REPOSITORY ${U} GIT_TAG t)'
    external = only(read(tmp_path, {"CMakeLists.txt": text}))
    assert (external.name, external.repository, external.tag) == ("n", "a b.git", "t")


def test_a_variable_that_is_set_from_itself_ends(tmp_path: Path) -> None:
    text = "set(A ${B})\nset(B ${A})\nset(A ${B}${A})\nFetchContent_Declare(a GIT_REPOSITORY ${A})"
    _, unread = read(tmp_path, {"CMakeLists.txt": text})
    assert len(unread) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"if(DEFINED ENV{{X_DIR}})\nelse()\n{DECLARED}endif()",
        f'if(DEFINED ENV{{X_DIR}} AND IS_DIRECTORY "$ENV{{X_DIR}}")\nelse()\n{DECLARED}endif()',
        f"if(DEFINED ENV{{X_DIR}})\nset(L $ENV{{X_DIR}})\nendif()\nif(L)\nelse()\n{DECLARED}endif()",
        f'set(L "$ENV{{X_DIR}}" CACHE PATH "")\nif(L)\nelse()\nif(EXISTS a)\nelse()\n{DECLARED}endif()\nendif()',
        f"set(L $ENV{{X_DIR}})\nif(L)\nset(L ${{_abs}})\nelse()\n{DECLARED}endif()",
    ],
)
def test_the_variable_of_a_local_copy_is_read_from_the_branch(tmp_path: Path, text: str) -> None:
    assert only(read(tmp_path, {"CMakeLists.txt": text})).variable == "X_DIR"


def test_an_override_fills_in_and_a_contradiction_is_named(tmp_path: Path) -> None:
    assert only(read(tmp_path, {"CMakeLists.txt": DECLARED}, overrides={"thing": "T_DIR"})).variable == "T_DIR"
    text = f"if(DEFINED ENV{{X_DIR}})\nelse()\n{DECLARED}endif()"
    _, unread = read(tmp_path, {"CMakeLists.txt": text}, overrides={"thing": "T_DIR"})
    assert unread == ("CMakeLists.txt:3: the tree reads X_DIR for thing, the matrix says T_DIR",)


def test_includes_carry_their_conditions(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": 'if(DEVICE STREQUAL "cpu")\ninclude(${CMAKE_CURRENT_LIST_DIR}/cmake/cpu.cmake)\nendif()\n'
        "add_subdirectory(sub)\ninclude(FetchContent)\n",
        "cmake/cpu.cmake": DECLARED,
        "sub/CMakeLists.txt": DECLARED.replace("thing", "other"),
    }
    externals, unread = read(tmp_path, files, variables={"DEVICE": "cuda"})
    assert unread == ()
    assert [(e.name, e.needed, e.where) for e in externals] == [
        ("thing", False, "cmake/cpu.cmake:1"),
        ("other", True, "sub/CMakeLists.txt:1"),
    ]


def test_included_twice_it_is_needed_where_one_of_the_two_is_walked(tmp_path: Path) -> None:
    include = "include(a.cmake)\n"
    files = {"CMakeLists.txt": f'if(D STREQUAL "x")\n{include}endif()\nif(E)\n{include}endif()', "a.cmake": DECLARED}
    assert only(read(tmp_path, files, variables={"D": "y"})).needed


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    files = {"CMakeLists.txt": "include(a.cmake)\n", "a.cmake": f"include(CMakeLists.txt)\n{DECLARED}include(a.cmake)"}
    assert only(read(tmp_path, files)).name == "thing"


def test_includes_that_double_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builders.externals.MAX_COMMANDS", 3000)
    files = {"CMakeLists.txt": "include(0.cmake)\n", "40.cmake": ""}
    files |= {f"{n}.cmake": f"include({n + 1}.cmake)\n" * 2 for n in range(40)}
    _, unread = read(tmp_path, files)
    assert any("more than 3000 commands" in text for text in unread)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.cmake").write_bytes(b"set(A \xff)")
    files = {"CMakeLists.txt": "set(A", "ok.cmake": DECLARED}
    externals, unread = read(tmp_path, files, ["CMakeLists.txt", "*.cmake", "gone/*.cmake"])
    assert [external.name for external in externals] == ["thing"]
    assert unread[0] == "CMakeLists.txt:1: the parenthesis that opens here never closes"
    assert unread[1].startswith("latin.cmake: 'utf-8' codec")
    assert unread[2].startswith("gone/*.cmake: no such CMake file")


def test_a_link_out_of_the_tree_is_not_followed(tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"x.cmake": DECLARED})
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "x.cmake").symlink_to(outside / "x.cmake")
    assert read(tree, {}, ["*.cmake"]) == ((), ("x.cmake: leads out of the tree",))


def test_a_copy_of_nothing_is_named(tmp_path: Path) -> None:
    _, unread = read(tmp_path, {"CMakeLists.txt": DECLARED}, copies={"thnig": "/x", "thing": "/y"})
    assert unread == ("external_sources.thnig: no such external source in the tree",)


def test_a_build_that_needs_none_still_lists_them(tmp_path: Path) -> None:
    assert not only(read(tmp_path, {"CMakeLists.txt": DECLARED}, needed=False)).needed


def external(copy: Path | str, *, tag: str = "v1.0", variable: str = "X", submodules: tuple[str, ...] = ()) -> External:
    return External("thing", "u", tag, submodules, variable, "f:1", "", True, str(copy))


def test_a_copy_must_be_there_whole_and_at_the_commit(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "repository")
    first = git(tmp_path / "repository", "rev-parse", "v1.0^{commit}")
    plain = write_tree(tmp_path / "plain", {"a.txt": "a"})
    empty = tmp_path / "empty"
    empty.mkdir()
    assert copy_fault(external("")) == ""
    assert copy_fault(external(plain)) == ""
    assert copy_fault(external(tmp_path / "repository", tag=head)) == ""
    assert "is at commit" in copy_fault(external(tmp_path / "repository", tag=first))
    assert "is at commit" in copy_fault(external(tmp_path / "repository", tag="v1.0"))
    assert "no folder" in copy_fault(external(empty))
    assert "no folder" in copy_fault(external(tmp_path / "gone"))
    assert "no variable" in copy_fault(replace(external(plain, variable=""), kind="ExternalProject"))
    assert copy_fault(external(plain, variable="")) == "", "FetchContent has a variable of its own for every source"
    assert "update --init sub" in copy_fault(external(plain, submodules=("sub",)))
