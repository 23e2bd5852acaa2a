"""The target's Python versions against the wheel's tags and Requires-Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check


def tag_serves(tag: str, python: str) -> bool:
    """Whether CPython ``python`` ("3.12") installs a wheel of ``tag``, the platform left aside.

    The rules of the tag specification: its own ABI, the stable ABI from the tag's version on, or none.
    """
    interpreter, abi, _ = tag.split("-", 2)
    match = re.fullmatch(r"(cp|py)([0-9])([0-9]*)", interpreter)
    major, minor = (int(part) for part in python.split(".")[:2])
    if match is None or int(match[2]) != major:
        return False
    tagged = int(match[3]) if match[3] else None
    if match[1] == "py":
        return abi == "none" and (tagged is None or tagged <= minor)
    if abi == "abi3":
        return tagged is None or tagged <= minor
    return tagged == minor and abi in ("none", interpreter)


def _matters(case: Case, lacking: list[str]) -> bool:
    """Whether it matters that these versions are left out: any where the matrix names the project, else all."""
    return bool(lacking) and (case.policy.named or len(lacking) == len(case.policy.python))


@check("PYT001", "python-tags")
def python_tags(case: Case) -> Iterator[Observation]:
    """A Python version of the target cannot install the wheel, going by its tags.

    Why: the target promises these versions, and an installer of one of them finds nothing. Of a wheel that the matrix
    does not name, one version is enough: others have files of their own.

    Mend: build for that version as well, or against the stable ABI; or take the version from the target.
    """
    lacking = [python for python in case.policy.python if not any(tag_serves(tag, python) for tag in case.facts.tags)]
    if _matters(case, lacking):
        tags = ", ".join(sorted({tag.rpartition("-")[0] for tag in case.facts.tags}))
        expected = f"one that CPython {', '.join(lacking)} takes"
        yield Observation("", f"tag {tags}", expected, "build for that version too, or change the target's list")


@check("PYT002", "requires-python")
def requires_python(case: Case) -> Iterator[Observation]:
    """A Python version of the target is excluded by Requires-Python, or that field cannot be parsed.

    Why: an installer of that version passes over the wheel, although its tags fit.

    Mend: correct `requires-python` in the project, or take the version from the target.
    """
    info = case.facts.dist_info
    if info is None or not info.requires_python:
        return
    path = f"{info.folder}/METADATA"
    try:
        specifiers = SpecifierSet(info.requires_python)
    except (InvalidSpecifier, ValueError):  # ValueError: a number of thousands of digits
        found = f"Requires-Python {info.requires_python!r}"
        yield Observation(path, found, "a version specifier", "correct requires-python in the project")
        return
    # "3.12" means the series: one release of it is enough.
    lacking = [python for python in case.policy.python if not _allows(specifiers, python)]
    if _matters(case, lacking):
        found = f"Requires-Python {info.requires_python}"
        yield Observation(path, found, f"Python {', '.join(lacking)} allowed", "correct requires-python, or the target")


def _allows(specifiers: SpecifierSet, python: str) -> bool:
    return any(specifiers.contains(f"{python}{patch}", prereleases=True) for patch in ("", ".99"))
