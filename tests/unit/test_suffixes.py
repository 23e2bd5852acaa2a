"""File names of extensions against the interpreter's own rules, and tags against packaging's."""

from __future__ import annotations

import importlib.machinery
import platform
import sys
import sysconfig
from itertools import product

import pytest
from packaging.tags import cpython_tags, parse_tag

from qualify.checks.python import tag_serves
from qualify.checks.suffixes import Suffix, modules_of, suffix_of
from qualify.readers.binary import Problems
from qualify.readers.hostelf import read_host_elf
from tests.support.elf import host_elf

RELEASE = not sysconfig.get_config_var("Py_DEBUG") and not sysconfig.get_config_var("Py_GIL_DISABLED")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/_C.cpython-312-x86_64-linux-gnu.so", Suffix("_C", "cpython", (3, 12), "", "x86_64-linux-gnu")),
        ("a/_C.cpython-313t-aarch64-linux-gnu.so", Suffix("_C", "cpython", (3, 13), "t", "aarch64-linux-gnu")),
        ("a/_C.cpython-314td-x86_64-linux-gnu.so", Suffix("_C", "cpython", (3, 14), "td", "x86_64-linux-gnu")),
        ("a/_C.cpython-37m.so", Suffix("_C", "cpython", (3, 7), "m", "")),
        ("a/_C.pypy310-pp73-x86_64-linux-gnu.so", Suffix("_C", "pypy", (3, 10), "", "pp73-x86_64-linux-gnu")),
        ("a/_C.abi3.so", Suffix("_C", "abi3", None, "", "")),
        ("a/_C.abi3-x86_64-linux-gnu.so", Suffix("_C", "abi3", None, "", "x86_64-linux-gnu")),
        ("a/_C.abi3t.so", Suffix("_C", "abi3t", None, "", "")),
        ("a/_C.so", Suffix("_C", "", None, "", "")),
        ("x-1.data/platlib/a/_C.abi3.so", Suffix("_C", "abi3", None, "", "")),
        ("a/libx.so.1", None),
        ("a/lib.x.so", None),
        ("a/_C.abi4.so", None),
        ("a/_C.py", None),
        ("a/tool", None),
    ],
)
def test_what_a_name_says(path: str, expected: Suffix | None) -> None:
    assert suffix_of(path) == expected


@pytest.mark.skipif(sys.platform != "linux" or not RELEASE, reason="the rules are those of release builds on Linux")
@pytest.mark.parametrize("suffix", importlib.machinery.EXTENSION_SUFFIXES)
def test_this_interpreter_takes_its_own_suffixes(suffix: str) -> None:
    seen = suffix_of(f"a/_C{suffix}")
    assert seen is not None
    assert seen.imported_by(sys.version_info[:2], platform.machine())


@pytest.mark.skipif(sys.platform != "linux" or not RELEASE, reason="the rules are those of release builds on Linux")
def test_this_interpreter_takes_no_others() -> None:
    number = "".join(map(str, sys.version_info[:2]))
    machine = platform.machine()
    others = [
        f".cpython-{number}t-{machine}-linux-gnu.so",
        f".cpython-{number}d-{machine}-linux-gnu.so",
        f".cpython-310-{machine}-linux-gnu.so",
        f".cpython-{number}-{machine}-linux-musl.so",
        f".cpython-{number}-riscv64-linux-gnu.so",
        f".pypy{number}-pp73-{machine}-linux-gnu.so",
    ]
    if sys.version_info < (3, 15):
        others += [".abi3t.so", f".abi3-{machine}-linux-gnu.so"]
    for suffix in others:
        assert suffix not in importlib.machinery.EXTENSION_SUFFIXES
        seen = suffix_of(f"a/_C{suffix}")
        assert seen is not None
        assert not seen.imported_by(sys.version_info[:2], machine)


@pytest.mark.parametrize(
    ("path", "version", "expected"),
    [
        ("_C.abi3-x86_64-linux-gnu.so", (3, 14), False),
        ("_C.abi3-x86_64-linux-gnu.so", (3, 15), True),
        ("_C.abi3-aarch64-linux-gnu.so", (3, 15), False),
        ("_C.abi3t.so", (3, 14), False),
        ("_C.abi3t.so", (3, 15), True),
        ("_C.abi3.so", (3, 1), False),
        ("_C.cpython-37m-x86_64-linux-gnu.so", (3, 7), True),
        ("_C.cpython-37-x86_64-linux-gnu.so", (3, 7), False),
    ],
)
def test_versions_that_are_not_here(path: str, version: tuple[int, int], expected: bool) -> None:
    seen = suffix_of(path)
    assert seen is not None
    assert seen.imported_by(version, "x86_64") is expected


def test_a_tag_serves_a_python_as_packaging_says() -> None:
    interpreters = ["cp3", "cp30", "cp32", "cp37", "cp38", "cp311", "cp312", "cp313", "pp310", "ip3"]
    abis = ["abi3", "abi3t", "none", "cp37m", "cp37", "cp311", "cp312", "cp313", "cp313t", "cp312d", "pypy310_pp73"]
    for python in ("3.7", "3.8", "3.11", "3.12", "3.13", "3.20"):
        numbers = tuple(map(int, python.split(".")))
        own = f"cp{numbers[0]}{numbers[1]}" + ("m" if numbers < (3, 8) else "")
        theirs = set(cpython_tags(numbers, [own], ["linux_x86_64"]))
        for interpreter, abi in product(interpreters, abis):
            tag = f"{interpreter}-{abi}-linux_x86_64"
            assert tag_serves(tag, python) == bool(parse_tag(tag) & theirs), (tag, python)


def test_modules_by_either_entry_point() -> None:
    data = host_elf(defined=["PyInit__C", "PyModExport__C", "PyModExport__D", "PyList_New"])
    assert modules_of(read_host_elf(data, Problems("x.so")).facts) == ("_C", "_D")
