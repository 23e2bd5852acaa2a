"""The target's Python versions against the wheel's tags and Requires-Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from qualify.checks.case import Case, module_path
from qualify.checks.needs import importable
from qualify.checks.registry import Observation, check
from qualify.checks.suffixes import Suffix, modules_of, suffix_of
from qualify.facts import Member
from qualify.report import Severity


def tag_serves(tag: str, python: str) -> bool:
    """Whether CPython ``python`` ("3.12") installs a wheel of ``tag``, the platform left aside.

    The rules of the tag specification: its own ABI, the stable ABI from the tag's version on (``cp3-abi3`` names
    none), or none.  ``cp313t`` and ``abi3t`` are for free-threaded builds, which a version alone does not mean.
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
        return tagged is not None and 2 <= tagged <= minor
    return tagged == minor and abi in ("none", f"{interpreter}m" if minor < 8 else interpreter)


def installing(case: Case, python: str) -> bool:
    """Whether an installer of CPython ``python`` takes the wheel, going by tags and Requires-Python.

    A Requires-Python that cannot be parsed keeps nobody away, as with pip; PYT002 rejects it.
    """
    if not any(tag_serves(tag, python) for tag in case.facts.tags):
        return False
    info = case.facts.dist_info
    specifiers = parse_specifiers(info.requires_python) if info is not None else None
    return specifiers is None or _allows(specifiers, python)


@lru_cache(maxsize=64)
def parse_specifiers(text: str) -> SpecifierSet | None:
    """The specifiers that ``text`` spells; None where it spells none."""
    try:
        return SpecifierSet(text)
    except (InvalidSpecifier, ValueError):  # ValueError: a number of thousands of digits
        return None


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
    specifiers = parse_specifiers(info.requires_python)
    if specifiers is None:
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
    modules = extension_modules(case)
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


def extension_modules(case: Case) -> dict[str, list[Member]]:
    """Module path -> the files that define it.  A file without an entry point is loaded by its path, if at all."""
    modules: dict[str, list[Member]] = {}
    for member in case.compiled:
        if member.elf is not None and modules_of(member.elf):
            modules.setdefault(module_path(member.path), []).append(member)
    return modules


def _without_a_file(case: Case, files: list[Member]) -> list[str]:
    """The Python versions ("" for any) that import none of ``files``."""
    machine = case.policy.machine
    wanted = case.pythons or ("",)
    return [each for each in wanted if not any(importable(file, machine, (each,) if each else ()) for file in files)]


@check("PYT004", "claimed-without-a-file", upstream=Severity.NOTE)
def claimed_without_a_file(case: Case) -> Iterator[Observation]:
    """Tags and Requires-Python let a Python version install the wheel for which a side-by-side extension has no file.

    Why: builds for several interpreters may stand side by side (`_C.cpython-311-…so`, `_C.cpython-312-…so`); one that
    the wheel is installed on and that none of them is for ends in `ModuleNotFoundError`. Looked at are the versions up
    to the highest that a file is for: later ones are nobody's promise. The target's own are PYT003's.

    Mend: build the missing one, or narrow the tag or Requires-Python to what is there.
    """
    for path, files in extension_modules(case).items():
        suffixes = [suffix_of(member.path) for member in files]
        built = [each.version for each in suffixes if each is not None and _own_version(each)]
        if len(built) != len(files) or not built:
            continue  # one file serves more than one version
        claimed = [(3, number) for number in range(2, max(each for each in built if each is not None)[1] + 1)]
        lacking = [f"3.{each[1]}" for each in claimed if not _imported(suffixes, each, case.policy.machine)]
        lacking = [each for each in lacking if each not in case.pythons and installing(case, each)]
        if lacking:
            there = ", ".join(sorted({member.path.rpartition("/")[2] for member in files})[:3])
            expected = f"one for CPython {', '.join(lacking)}, which installs the wheel"
            action = "build it for that version too, or narrow tags and Requires-Python"
            yield Observation(files[0].path, f"{path} as {there} alone", expected, action)


def _own_version(suffix: Suffix) -> bool:
    return suffix.interpreter == "cpython" and suffix.version is not None and suffix.version[0] == 3


def _imported(suffixes: list[Suffix | None], version: tuple[int, int], machine: str) -> bool:
    return any(each is not None and each.imported_by(version, machine) for each in suffixes)
