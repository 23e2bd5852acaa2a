"""Where a line ends: at a line feed, in every file and every program's output, unless its own reader says otherwise.

``str.splitlines`` also ends lines at vertical tab, form feed, FS, GS, RS, NEL and U+2028/2029, which may stand inside a
line of JSON, a field, a path or the name of a tag: whoever writes such a name would write lines.  It is not used here
(``tests/unit/test_lines.py``).
"""

from __future__ import annotations

import re

_PYTHON = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their line feeds; one at its end begins no further line."""
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def last_line(text: str) -> str:
    """The last line that says something, without white space around it; "" where none does."""
    return text.strip().rpartition("\n")[2].strip()


def first_line(text: str) -> str:
    """The first line that says something, likewise."""
    return text.strip().partition("\n")[0].strip()


def lines_of_python(text: str) -> list[str]:
    """Lines as ``str.splitlines`` ends them: for the files whose readers in the standard library and in pip do so.

    Those are ``.pth`` files (site.py since Python 3.13), entry_points.txt (importlib.metadata) and requirements files
    (pip).
    """
    lines = _PYTHON.split(text)
    return lines[:-1] if not lines[-1] else lines
