"""The target's Python versions against the wheel's tags and Requires-Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from qualify.checks.case import Case, module_path
from qualify.checks.needs import importable
from qualify.checks.registry import Observation, check
from qualify.facts import Member


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
    if case.has_wheel_name and _matters(case, lacking):
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


@check("PYT003", "suffix-not-imported")
def suffix_not_imported(case: Case) -> Iterator[Observation]:
    """No file of an extension module has a suffix that a Python version of the target imports.

    Why: the interpreter looks for `_C.cpython-312-aarch64-linux-gnu.so`, `_C.abi3.so` or `_C.so`, and for nothing else.
    A cross build that names its file after the building machine, or after the building Python under an abi3 tag,
    installs and ends in `ModuleNotFoundError`. Of a wheel that the matrix does not name, one module that can be
    imported is enough.

    Mend: build for that version and machine as well, or give the file the suffix of the stable ABI if it keeps to it.
    """
    modules: dict[str, list[Member]] = {}
    for member in case.compiled:
        if member.elf is not None and member.elf.python_inits:
            modules.setdefault(module_path(member.path), []).append(member)
    lacking = {path: _without_a_file(case, files) for path, files in modules.items()}
    if not case.policy.named:
        # Others have files of their own for other versions: all versions have to lack it, and all modules.
        lacking = {path: pythons for path, pythons in lacking.items() if len(pythons) == max(1, len(case.pythons))}
        none_left = len(lacking) == len(modules)
        lacking = {path: p for path, p in lacking.items() if none_left or case.demand(modules[path][0].path).code}
    for path, pythons in lacking.items():
        if pythons:
            files = [member.path for member in modules[path]]
            names = ", ".join(sorted(file.rpartition("/")[2] for file in files)[:3])
            who = f"CPython {', '.join(filter(None, pythons)) or 'of any version'} on {case.policy.machine}"
            yield Observation(files[0], f"the name {names}", f"one that {who} imports", "name it for both of them")


def _without_a_file(case: Case, files: list[Member]) -> list[str]:
    """The Python versions ("" for any) that import none of ``files``."""
    machine = case.policy.machine
    wanted = case.pythons or ("",)
    return [each for each in wanted if not any(importable(file, machine, (each,) if each else ()) for file in files)]
