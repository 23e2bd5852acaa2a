"""Editable wheels: decided before anything is counted, since they hold nothing that could be counted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check

_ACTION = "build a wheel of its own (`pip wheel .` or `python -m build`), not an editable install"


@check("EDI001", "editable")
def editable(case: Case) -> Iterator[Observation]:
    """The wheel is an editable install (PEP 660): it points at a source tree instead of holding the files.

    Why: it is a few kilobytes without one compiled extension and runs only on the machine that has the tree. One was
    once recorded as the pin, and then no build that could run a kernel matched.

    Mend: build a wheel of its own (`pip wheel .`, `python -m build`), without `--editable` and without a
    precompiled-binaries switch.
    """
    for member in case.facts.members:
        if member.path.rpartition("/")[2].startswith("__editable__"):
            yield Observation(member.path, "a hook of an editable install", "a wheel that holds its files", _ACTION)


@check("EDI002", "path-to-source-tree")
def path_to_source_tree(case: Case) -> Iterator[Observation]:
    """A `.pth` file adds a folder outside the wheel to the interpreter's path.

    Why: that is how setuptools' older editable installs, and hand-made ones, point at a source tree. What runs is
    then not what the wheel holds.

    Mend: build a wheel of its own. A `.pth` that names a folder inside the wheel, or starts a hook that the wheel
    itself holds, is no finding.
    """
    for row in case.facts.path_files:
        path, _, line = row.partition(": ")
        line = line.strip()
        outside = line.startswith(("/", "~", "..")) or "/../" in line or re.match(r"[A-Za-z]:[\\/]|file:", line)
        # A hook's line starts the finder that meson-python, scikit-build-core and setuptools write beside it.
        if outside or (line.startswith("import") and "editable" in line.lower()):
            yield Observation(path, f"the line {line[:120]!r}", "no path out of the wheel", _ACTION)
