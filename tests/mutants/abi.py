"""Wheels with one fault that the checks ABI are for, and those whose claims are true."""

from __future__ import annotations

from collections.abc import Mapping

from qualify.facts import WheelFacts
from qualify.matrix.model import Profile
from tests.mutants.case import Case
from tests.mutants.making import metadata
from tests.support.elf import host_elf
from tests.support.wheel import TAG
from tests.unit.judging_support import HOPPER, MATRIX, member, wheel

_PLATFORM = "manylinux_2_28_x86_64"
_C: Mapping[str, object] = {"axpy/_C": {"sm_90": ["axpy_kernel"]}}
_FUTURE: Mapping[str, object] = {"targets": {HOPPER: {**MATRIX["targets"][HOPPER], "python": ["3.40"]}}}


def _taking(*symbols: str, tag: str = TAG, requires: str = ">=3.11", weak: tuple[str, ...] = ()) -> WheelFacts:
    """The good wheel whose extension of the host takes ``symbols`` of the interpreter."""
    extensions = {**_C, "axpy/_host": member(undefined=symbols, weak=weak)}
    return wheel(extensions, tag=tag, metadata=metadata("Name: axpy", "Version: 0.1.0", f"Requires-Python: {requires}"))


def _side_by_side(flags: str = "") -> Mapping[str, object]:
    private = member(undefined=["_PyUnicode_Ready"])
    numbers = ("311", "312", "313", *([f"313{flags}"] if flags else []))
    return {f"axpy/_any.cpython-{number}-x86_64-linux-gnu.so": private for number in numbers}


MUTANTS = (
    Case("a private function of the interpreter", lambda: _taking("_PyUnicode_Ready"), "ABI001"),
    Case("a function outside the stable ABI", lambda: _taking("PyUnicode_New"), "ABI001"),
    Case(
        "a function outside the stable ABI, of someone else",
        lambda: _taking("PyUnicode_New"),
        "ABI001",
        profile=Profile.UPSTREAM,
    ),
    Case("a function that only Windows has", lambda: _taking("PyErr_SetFromWindowsErr"), "ABI001"),
    Case("a function that only debug builds have", lambda: _taking("_Py_NegativeRefcount"), "ABI001"),
    Case(
        "a private function under a tag without an ABI",
        lambda: _taking("_PyUnicode_Ready", tag=f"py3-none-{_PLATFORM}"),
        "ABI001",
    ),
    Case(
        "a function of 3.10 under cp38, and nothing that keeps 3.8 away",
        lambda: _taking("PyObject_CallNoArgs", tag=f"cp38-abi3-{_PLATFORM}", requires=">=3.8"),
        "ABI002",
    ),
    Case(
        "a function of 3.10 under two tags, of which the lower counts",
        lambda: _taking("PyObject_CallNoArgs", tag=f"cp39.cp310-abi3-{_PLATFORM}", requires=">=3.9"),
        "ABI002",
    ),
    Case("a function of 3.13 where the target has 3.11", lambda: _taking("PyType_GetModuleName"), "ABI003"),
    Case(
        "a function of 3.13 where the target has 3.11, of someone else",
        lambda: _taking("PyType_GetModuleName", tag=f"cp38-abi3-{_PLATFORM}", requires=">=3.8"),
        "ABI003",
        profile=Profile.UPSTREAM,
    ),
    Case(
        "functions of 3.11 under cp38, and a Requires-Python of 3.11",
        lambda: _taking("PyBuffer_Release", "PyObject_GetBuffer", tag=f"cp38-abi3-{_PLATFORM}"),
        "ABI004",
    ),
    Case(
        "a symbol that no list names, under a tag that is newer than the list",
        lambda: _taking("PyThing_OfTomorrow", tag=f"cp340-abi3-{_PLATFORM}"),
        "ABI005",
        matrix=_FUTURE,
    ),
    Case(
        "files of the stable ABI under tags of single Pythons",
        lambda: wheel(tag=f"cp311.cp312.cp313-cp311.cp312.cp313-{_PLATFORM}"),
        "ABI006",
    ),
    Case(
        "a tag for free-threaded builds, and no file that they import",
        lambda: wheel(tag=f"cp311-abi3.abi3t-{_PLATFORM}"),
        "ABI007",
    ),
    Case(
        "a file for free-threaded builds with the entry point of the others",
        lambda: wheel(
            {"axpy/_C.abi3t.so": {"sm_90": ["k"]}, "axpy/_host.abi3t.so": {}}, tag=f"cp315-abi3.abi3t-{_PLATFORM}"
        ),
        "ABI007",
        matrix=_FUTURE,
    ),
)

NEAR_MISSES = (
    Case(
        "functions and data of the claimed stable ABI",
        lambda: _taking("PyModule_Create2", "PyBuffer_Release", "PyExc_ValueError", "_Py_Dealloc"),
    ),
    Case("a private function without which the file loads", lambda: _taking(weak=("_PyUnicode_Ready",))),
    Case(
        "a function with a name like the interpreter's, which the wheel brings along",
        lambda: wheel(
            {**_C, "axpy/_host": member(undefined=["PyAxpy_Register"])},
            files={"axpy/libaxpy.so": host_elf(defined=["PyAxpy_Register"])},
        ),
        extensions={"axpy/libaxpy": {"code": "host"}},
    ),
    Case(
        "private functions in builds side by side, under a tag of the stable ABI",
        lambda: wheel({**_C, "axpy/_host": {}, **_side_by_side()}),
    ),
    Case(
        "a build for the free-threaded interpreter beside them",
        lambda: wheel({**_C, "axpy/_host": {}, **_side_by_side("t")}, tag=f"cp311.cp312.cp313-abi3.cp313t-{_PLATFORM}"),
    ),
    Case(
        "private functions under tags of single Pythons",
        lambda: wheel(
            {
                "axpy/_C.so": {"sm_90": ["k"]},
                "axpy/_host.so": host_elf(defined=["PyInit__host"], undefined=["_PyUnicode_Ready"]),
            },
            tag=f"cp311.cp312.cp313-cp311.cp312.cp313-{_PLATFORM}",
        ),
    ),
    Case(
        "files for both kinds of interpreter",
        lambda: wheel(
            {f"axpy/{name}.abi3t.so": host_elf(defined=[f"PyModExport_{name}"]) for name in ("_C", "_host")},
            tag=f"cp315-abi3.abi3t-{_PLATFORM}",
        ),
        extensions={"axpy/_C": {"code": "host"}},
        matrix=_FUTURE,
    ),
)
