"""Wheels with one fault in METADATA, entry points or licences, and those that only look like it."""

from __future__ import annotations

from qualify.facts import WheelFacts
from tests.mutants.case import Case
from tests.mutants.making import metadata
from tests.unit.judging_support import wheel

INFO = "axpy-0.1.0.dist-info"
_NAMED = ("Name: axpy", "Version: 0.1.0")


def _of(version: str, *lines: str) -> str:
    return "\n".join([f"Metadata-Version: {version}", *_NAMED, *lines, "", ""])


def _entries(text: str, **options: object) -> WheelFacts:
    return wheel(files={f"{INFO}/entry_points.txt": text}, **options)


MUTANTS = (
    Case("a field that nobody knows", lambda: wheel(metadata=metadata(*_NAMED, "Colour: red")), "MET001"),
    Case("a field given twice", lambda: wheel(metadata=metadata(*_NAMED, "Name: axpi")), "MET001"),
    Case("a Metadata-Version that nobody knows", lambda: wheel(metadata=_of("9.0")), "MET001"),
    Case("no Metadata-Version", lambda: wheel(metadata="\n".join([*_NAMED, "", ""])), "MET001"),
    Case("a licence that is no expression", lambda: wheel(metadata=_of("2.4", "License-Expression: Mine")), "MET001"),
    Case("a field before its version", lambda: wheel(metadata=_of("2.1", "License-Expression: MIT")), "MET001"),
    Case("an extra whose name is none", lambda: wheel(metadata=_of("2.1", "Provides-Extra: a b!")), "MET001"),
    Case("a requirement that is none", lambda: wheel(requires=["torch=2.14.0"]), "MET002"),
    Case("a marker that is none", lambda: wheel(requires=["torch; pyhton_version > '3'"]), "MET002"),
    Case("a marker of brackets in brackets", lambda: wheel(requires=["torch; " + "(" * 5000]), "MET002"),
    Case(
        "headers that end before they are over",
        lambda: wheel(metadata=metadata(*_NAMED, "no header", "Requires-Dist: torch==2.14.0")),
        "MET002",
    ),
    Case("a field that was replaced", lambda: wheel(metadata=metadata(*_NAMED, "Home-page: https://x.org")), "MET003"),
    Case("a wheel made from an installed package", lambda: wheel(files={f"{INFO}/direct_url.json": "{}"}), "MET004"),
    Case("a script without a callable", lambda: _entries("[console_scripts]\naxpy = axpy\n"), "MET005"),
    Case("a line that is no entry point", lambda: _entries("[axpy.plugins]\nnonsense\n"), "MET005"),
    Case("a script outside its folder", lambda: _entries("[console_scripts]\n../axpy = axpy:main\n"), "MET005"),
    Case("a script given twice", lambda: _entries("[gui_scripts]\na = axpy:main\na = axpy:main\n"), "MET005"),
    Case("a group given twice", lambda: _entries("[a]\nx = axpy\n[a]\ny = axpy\n"), "MET005"),
    Case("a script whose module was left out", lambda: _entries("[console_scripts]\na = axpy.cli:main\n"), "MET006"),
    Case("a script whose module nobody brings", lambda: _entries("[console_scripts]\na = axpi:main\n"), "MET006"),
    Case("a licence file that was left out", lambda: wheel(metadata=_of("2.4", "License-File: COPYING")), "MET007"),
    Case("no licence file", lambda: wheel(omit=[f"{INFO}/licenses/LICENSE"]), "MET008"),
    Case("a plugin that is no object", lambda: _entries("[axpy.plugins]\na = axpy:main()\n"), "MET009"),
    Case("a group of another name than groups have", lambda: _entries("[a b]\na = axpy\n"), "MET009"),
)

NEAR_MISSES = (
    Case("a licence as the newer metadata has it", lambda: wheel(metadata=_of("2.4", "License-File: LICENSE"))),
    Case(
        "a licence file as older backends packed it",
        lambda: wheel(
            metadata=_of("2.1", "License-File: LICENSE"),
            files={f"{INFO}/LICENSE": "text"},
            omit=[f"{INFO}/licenses/LICENSE"],
        ),
    ),
    Case(
        "a requirement of every form",
        lambda: wheel(
            requires=[
                "torch==2.14.0",
                "a[b,c] >=1,<2; python_version>'3.8' and (extra == 'x' or os_name == 'posix')",
                "d @ https://example.org/d-1.0-py3-none-any.whl",
                "e===1.0+local",
            ]
        ),
    ),
    Case(
        "a script of the package itself, and plugins",
        lambda: _entries("# scripts\n[console_scripts]\naxpy = axpy:main\n\n[a.b]\nx = axpy\ny = axpy : C.d [e]\n"),
    ),
    Case(
        "a script whose module another distribution brings",
        lambda: _entries("[console_scripts]\naxpy = torch.main:main\n", requires=["torch==2.14.0"]),
    ),
    Case("a script of the standard library", lambda: _entries("[console_scripts]\naxpy = json.tool:main\n")),
)
