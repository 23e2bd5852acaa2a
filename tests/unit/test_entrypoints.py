"""entry_points.txt against importlib.metadata, and line by line."""

from __future__ import annotations

from importlib.metadata import EntryPoints

import pytest

from qualify.checks.entrypoints import EntryPoint, Fault, read_entry_points

GOOD = """\
# programs
[console_scripts]
axpy = axpy.cli:main
axpy-extra = axpy.cli : Main.run [extra, more]

# plugins
[axpy.plugins]
one = axpy.plugins.one
t-w.o = axpy:two
a:b = axpy:three
"""


def test_what_is_right_reads_as_importlib_reads_it() -> None:
    entries, faults = read_entry_points(GOOD)
    assert faults == ()
    theirs = list(EntryPoints._from_text(GOOD))  # type: ignore[attr-defined]
    assert {(e.group, e.name, e.module, e.attribute) for e in entries} == {
        (e.group, e.name, e.module, e.attr or "") for e in theirs
    }
    assert entries[1] == EntryPoint("console_scripts", "axpy-extra", "axpy.cli", "Main.run")


@pytest.mark.parametrize(
    ("text", "line", "refused"),
    [
        ("a = axpy:main", 1, True),  # before any group
        ("[g]\nnonsense", 2, True),
        ("[g]\n; a comment", 2, True),
        ("[g]\n= axpy", 2, True),
        ("[g]\nx = axpy\n  continued", 3, True),
        ("[g", 1, True),
        ("[g]\nx = a\n[g]", 3, True),
        ("[g]\nx = a\nx = b", 3, True),
        ("[console_scripts]\nx = axpy", 2, True),
        ("[console_scripts]\nx = axpy:main()", 2, True),
        ("[console_scripts]\n../x = axpy:main", 2, True),
        ("[gui_scripts]\na\\b = axpy:main", 2, True),
        ("[gui_scripts]\n.. = axpy:main", 2, True),
        ("[a b]\nx = axpy", 1, False),
        ("[]\nx = axpy", 1, False),
        ("[g]\nx = not an object", 2, False),
        ("[g]\nx = axpy.:main", 2, False),
        ("[g]\nx = 1axpy:main", 2, False),
        ("[g]\nx = axpy:main:again", 2, False),
        ("[g]\nx = axpy:main [open", 2, False),
        ("[g]\nx = ", 2, False),
    ],
)
def test_a_line_that_is_none_is_named(text: str, line: int, refused: bool) -> None:
    _, (fault,) = read_entry_points(text)
    assert isinstance(fault, Fault)
    assert (fault.line, fault.refused) == (line, refused)
    assert fault.text == text.splitlines()[line - 1].strip()


def test_an_empty_file_is_right() -> None:
    assert read_entry_points("") == read_entry_points("\n# nothing\n\n") == ((), ())
