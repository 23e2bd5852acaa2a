"""The oldest compiler that a tree takes, in the forms in which CMake files say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.compilerfloor import compiler_floor
from tests.unit.builders_support import write_tree

GNU = 'CMAKE_CXX_COMPILER_ID STREQUAL "GNU"'
VERSION = "CMAKE_CXX_COMPILER_VERSION"


def floor_of(tmp_path: Path, text: str, **variables: str) -> tuple[str, str] | None:
    write_tree(tmp_path, {"CMakeLists.txt": text})
    floor = compiler_floor(tmp_path, ["CMakeLists.txt"], variables)
    return (floor.version, floor.where) if floor else None


def refusing(condition: str, kind: str = "FATAL_ERROR") -> str:
    return f'if({condition})\n  message({kind} "too old")\nendif()\n'


@pytest.mark.parametrize(
    ("condition", "version"),
    [
        (f'{GNU} AND {VERSION} VERSION_LESS "13"', "13"),
        (f"{VERSION} VERSION_LESS 12.3", "12.3"),
        (f'"${{{VERSION}}}" VERSION_LESS "12.3.0"', "12.3.0"),
        (f"${{{VERSION}}} LESS 9", "9"),
        (f"NOT ({GNU} AND {VERSION} VERSION_GREATER_EQUAL 12.3)", "12.3"),
        (f"NOT {VERSION} VERSION_GREATER 11", "11.0.1"),
        (f"{VERSION} VERSION_LESS_EQUAL 11", "11.0.1"),
        (f"{VERSION} VERSION_LESS 10 OR {VERSION} VERSION_LESS 12", "12"),
        (f'CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND {VERSION} VERSION_LESS 10', "10"),
        (f"CMAKE_COMPILER_IS_GNUCXX AND {VERSION} VERSION_LESS 10", "10"),
        (f"SOMETHING AND {VERSION} VERSION_LESS 10", "10"),
    ],
)
def test_forms_of_one_floor(tmp_path: Path, condition: str, version: str) -> None:
    assert floor_of(tmp_path, refusing(condition)) == (version, "CMakeLists.txt:2")


@pytest.mark.parametrize(
    "condition",
    [
        f'CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND {VERSION} VERSION_LESS 16',
        f'"${{CMAKE_CXX_COMPILER_ID}}" STREQUAL "AppleClang" AND {VERSION} VERSION_LESS 16',
        f"CMAKE_CXX_COMPILER_ID MATCHES Clang AND {VERSION} VERSION_LESS 16",
        f"MSVC AND {VERSION} VERSION_LESS 19.30",
        f"{VERSION} VERSION_GREATER 15",
        f"{VERSION} VERSION_EQUAL 12.1 AND FALSE",
        f"{VERSION} VERSION_LESS ${{UNKNOWN}}",
        f'DEVICE STREQUAL "cpu" AND {VERSION} VERSION_LESS 16',
        "CMAKE_C_COMPILER_VERSION VERSION_LESS 98",
        "TRUE",
    ],
)
def test_what_is_no_floor_of_gcc_here(tmp_path: Path, condition: str) -> None:
    assert floor_of(tmp_path, refusing(condition), DEVICE="cuda") is None


def test_the_highest_counts_and_warnings_do_not(tmp_path: Path) -> None:
    text = (
        refusing(f"{VERSION} VERSION_LESS 11.3")
        + refusing(f"{VERSION} VERSION_LESS 9", "SEND_ERROR")
        + refusing(f"{VERSION} VERSION_LESS 14", "WARNING")
    )
    assert floor_of(tmp_path, text) == ("11.3", "CMakeLists.txt:2")


def test_a_floor_that_a_variable_names(tmp_path: Path) -> None:
    text = f"set(OLDEST 12.1)\nset(FLOOR ${{OLDEST}})\n{refusing(f'{VERSION} VERSION_LESS ${{FLOOR}}')}"
    assert floor_of(tmp_path, text) == ("12.1", "CMakeLists.txt:4")


def test_a_test_of_the_compiler_s_name_around_that_of_its_version(tmp_path: Path) -> None:
    inner = refusing(f"{VERSION} VERSION_LESS 16")
    other = refusing(f"{VERSION} VERSION_LESS 10")
    by_name = f'if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")\n{inner}elseif({GNU})\n{other}endif()\n'
    assert floor_of(tmp_path, by_name) == ("10", "CMakeLists.txt:7")


def test_a_floor_in_a_file_that_is_included_after_a_branch_returned(tmp_path: Path) -> None:
    write_tree(tmp_path, {"cmake/cuda.cmake": refusing(f"{VERSION} VERSION_LESS 13")})
    text = 'if(DEVICE STREQUAL "cpu")\n  return()\nendif()\ninclude(cmake/cuda.cmake)\n'
    assert floor_of(tmp_path, text, DEVICE="cuda") == ("13", "cmake/cuda.cmake:2")
    assert floor_of(tmp_path, text, DEVICE="cpu") is None


def test_conditions_that_never_end_are_read_in_bounded_time(tmp_path: Path) -> None:
    many = " OR ".join(f"{VERSION} VERSION_LESS {number}" for number in range(1, 2000))
    assert floor_of(tmp_path, refusing(many)) == ("1999", "CMakeLists.txt:2")
    assert floor_of(tmp_path, refusing("(" * 5000 + f"{VERSION} VERSION_LESS 3")) is None
