"""Parts of a build that may fail without an error: which a tree declares, and what the output says of them.

setuptools goes on where an extension that is ``optional`` fails, and CMake may define its target empty; the wheel then
lacks it, and the exit code is 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from qualify.errors import UnverifiedError

MAX_SETUP = 8 << 20  # bytes of a setup.py

# setuptools, and setuptools-rust, of an extension that is optional: they warn and go on.
_FAILED = (
    re.compile(r"building extension ['\"]?(?P<name>[\w.\-]+)['\"]? failed"),
    re.compile(r"optional Rust extension ['\"]?(?P<name>[\w.\-]+)['\"]? failed"),
)
NO_RUST = "can't find Rust compiler"


def declared_optional(tree: Path) -> tuple[str, ...]:
    """Members, as paths without a suffix, of the extensions that a tree's ``setup.py`` declares optional.

    Read, not run: calls with ``optional=True`` whose name is written out.

    :raises UnverifiedError: there is a ``setup.py``, and it can't be read.
    """
    path = tree / "setup.py"
    if not path.is_file():
        return ()
    try:
        if path.stat().st_size > MAX_SETUP:
            raise UnverifiedError("too large to be read", where="setup.py", expected=f"at most {MAX_SETUP >> 20} MiB")
        module = ast.parse(path.read_bytes(), "setup.py")
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
        raise UnverifiedError(
            f"can't be read: {error}", where="setup.py", expected="Python", action="mend it, or take another commit"
        ) from error
    found: dict[str, None] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _says_optional(node) and (name := _name_of(node)):
            found[name.replace(".", "/")] = None
    return tuple(found)


def failed_optional(output: Iterable[str]) -> tuple[str, ...]:
    """Members that the output says failed without an error; :data:`NO_RUST` where no Rust could be built at all."""
    found: dict[str, None] = {}
    for line in output:
        for pattern in _FAILED:
            if match := pattern.search(line):
                found[match["name"].strip(".").replace(".", "/")] = None
        if NO_RUST in line:
            found[NO_RUST] = None
    return tuple(found)


def _says_optional(call: ast.Call) -> bool:
    return any(
        keyword.arg == "optional" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )


def _name_of(call: ast.Call) -> str:
    """The name of an extension: its keyword ``name``, or the first argument."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "name"] or call.args[:1]
    value = values[0] if values else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
