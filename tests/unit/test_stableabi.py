"""The list of the stable ABI is abi3info's, and what a binary takes of the interpreter is told from the rest."""

from __future__ import annotations

import ctypes
import json
import sys
import sysconfig
import time

import pytest

from qualify.errors import MalformedError
from qualify.readers.binary import Problems
from qualify.readers.hostelf import read_host_elf
from qualify.stableabi import Use, is_interpreters, minor, parse, stable_abi, use_of
from tests.support.elf import host_elf
from tools import refresh_abi3


def used(*undefined: str, weak: tuple[str, ...] = (), own: tuple[str, ...] = (), **options: object) -> Use:
    data = host_elf(undefined=undefined, weak=weak, **options)  # type: ignore[arg-type]
    return use_of(read_host_elf(data, Problems("x.so")).facts, own)


def test_the_list_is_that_of_the_installed_abi3info() -> None:
    assert refresh_abi3.TARGET.read_text(encoding="utf-8") == refresh_abi3.render(*refresh_abi3.installed())


def test_the_list_says_of_each_symbol_what_abi3info_says() -> None:
    from abi3info import DATAS, FUNCTIONS

    listed = stable_abi()
    for symbol, entry in [*FUNCTIONS.items(), *DATAS.items()]:
        if symbol.name in listed.elsewhere:
            assert entry.ifdef is not None
            assert listed.elsewhere[symbol.name] == entry.ifdef.name
        else:
            assert listed.added[symbol.name] == (entry.added.major, entry.added.minor)
    assert len(listed.added) + len(listed.elsewhere) == len(FUNCTIONS) + len(DATAS)


def test_functions_data_and_conditions_are_told_apart() -> None:
    listed = stable_abi()
    assert listed.added["PyBuffer_Release"] == (3, 11)
    assert listed.added["PyExc_ValueError"] == (3, 2)  # data
    assert listed.added["PyOS_AfterFork_Child"] == (3, 7)  # where there is fork()
    assert listed.elsewhere["PyErr_SetFromWindowsErr"] == "MS_WINDOWS"
    assert listed.elsewhere["PyOS_CheckStack"] == "USE_STACKCHECK"
    assert listed.elsewhere["_Py_RefTotal"] == "Py_REF_DEBUG"
    assert listed.newest >= (3, 15)
    assert listed.newest == max([*listed.added.values()])


@pytest.mark.skipif(
    sys.platform != "linux"
    or bool(sysconfig.get_config_var("Py_DEBUG") or sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="the list is that of release builds with the GIL on Linux",
)
def test_this_interpreter_has_what_the_list_says_and_nothing_of_elsewhere() -> None:
    listed, here = stable_abi(), sys.version_info[:2]
    own = {name for name, added in listed.added.items() if added <= here}
    assert len(own) > 700
    assert {name for name in own if not hasattr(ctypes.pythonapi, name)} == set()
    assert {name for name in listed.elsewhere if hasattr(ctypes.pythonapi, name)} == set()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"abi3info": "1", "symbols": {}}', '{"abi3info": "1"}'])
@pytest.mark.parametrize("row", [None, ["3.2", "function"], ["three", "function", ""], [3.2, "data", ""], 7])
def test_a_list_that_is_none_is_malformed(text: str, row: object) -> None:
    with pytest.raises(MalformedError):
        parse(text if row is None else json.dumps({"abi3info": "1", "symbols": {"PyX": row}}))


@pytest.mark.parametrize("text", ["3", "3.", ".3", "3.x", "3.1.2", "3.-1", "³.1", "3.111111111111"])
def test_a_version_that_is_none_is_malformed(text: str) -> None:
    with pytest.raises(MalformedError):
        minor(text)


def test_what_libpython_provides() -> None:
    use = used("PyBuffer_Release", "PyUnicode_New", "_PyUnicode_Ready", "memcpy", "PyErr_SetFromWindowsErr")
    assert dict(use.needs) == {"PyBuffer_Release": (3, 11)}
    assert use.outside == ("PyErr_SetFromWindowsErr", "PyUnicode_New", "_PyUnicode_Ready")
    assert use.lowest == (3, 11)


def test_what_libpython_does_not_provide() -> None:
    use = used(
        "PyInit__other",
        "PyModExport__other",
        "PyAxpy_Register",
        "PyThing@PY_1.0",
        "Python_function",
        "pyfunction",
        "_Pyx",
        weak=("_PyUnicode_Ready",),
        own=("PyAxpy_Register",),
        version_needs={"libpy.so.1": ["PY_1.0"]},
    )
    assert (dict(use.needs), use.outside, use.lowest) == ({}, (), (3, 2))


def test_what_is_above_a_floor_comes_newest_first() -> None:
    use = used("PyBuffer_Release", "PyObject_GetBuffer", "PyUnicode_AsUTF8AndSize", "PyObject_CallNoArgs", "PyList_New")
    assert list(use.above((3, 8))) == [
        "PyBuffer_Release",
        "PyObject_GetBuffer",
        "PyObject_CallNoArgs",
        "PyUnicode_AsUTF8AndSize",
    ]
    assert list(use.above((3, 10))) == ["PyBuffer_Release", "PyObject_GetBuffer"]
    assert use.above((3, 11)) == {}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PyList_New", True),
        ("_PyList_Extend", True),
        ("_Py_Dealloc", True),
        ("Py_IncRef", True),
        ("PyInit_x", False),
        ("PyInitU_x", False),
        ("PyModExport_x", False),
        ("PyModExportU_x", False),
        ("Python", False),
        ("Py", False),
        ("_Py", False),
        ("_ZN2PyE", False),
        ("", False),
    ],
)
def test_names_that_cpython_keeps_for_itself(name: str, expected: bool) -> None:
    assert is_interpreters(name) is expected


def test_a_hundred_thousand_imports_take_no_time() -> None:
    elf = read_host_elf(host_elf(undefined=[f"symbol_{n}" for n in range(100_000)]), Problems("x.so")).facts
    start = time.perf_counter()
    assert use_of(elf).outside == ()
    assert time.perf_counter() - start < 2
