"""Extension modules as the interpreter looks for them: files that stand in for one another, or for nobody."""

from __future__ import annotations

from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.python import extension_modules, tag_serves
from qualify.checks.registry import Observation, check
from qualify.checks.suffixes import VERSIONS, Suffix, modules_of, suffix_of
from qualify.facts import Member
from qualify.report import Severity


def _named(members: list[Member]) -> list[tuple[Member, Suffix]]:
    """Files with what their names say, those that no interpreter takes for an extension left out."""
    both = ((member, suffix_of(member.path)) for member in members)
    return [(member, suffix) for member, suffix in both if suffix is not None]


@check("MET015", "module-twice", upstream=Severity.NOTE)
def module_twice(case: Case) -> Iterator[Observation]:
    """Two files of the wheel are the same extension module to one Python version.

    Why: the interpreter takes the one with its own suffix, then `.abi3.so`, then `.so`; the other is dead weight,
    and as a rule of another build: a stale file that was lying in the build folder.

    Mend: build from a clean tree, and pack one of them.
    """
    for path, members in extension_modules(case).items():
        files = _named(members)
        if len(files) < 2:
            continue
        for version in VERSIONS:
            there = [member for member, suffix in files if suffix.imported_by(version, case.policy.machine)]
            if len(there) > 1 and any(tag_serves(tag, f"3.{version[1]}") for tag in case.facts.tags):
                names = " and ".join(member.path.rpartition("/")[2] for member in there[:3])
                found = f"{names} are both {path} to CPython 3.{version[1]}"
                yield Observation(there[-1].path, found, "one file", "find out which build left the other")
                break


@check("MET016", "extension-of-nobody", upstream=Severity.NOTE)
def extension_of_nobody(case: Case) -> Iterator[Observation]:
    """No interpreter that the wheel is installed on imports an extension by the name that its file has.

    Why: a file of another interpreter, of a free-threaded or debug build, or of another machine stands beside the right
    one. The module works; the stray came out of another build, and nobody knows of which sources.

    Mend: build from a clean tree; or tag the wheel for that interpreter as well (`cp313-cp313t`).
    """
    for path, members in extension_modules(case).items():
        files = _named(members)
        found_by_any = [member for member, suffix in files if _found(case, suffix)]
        if not found_by_any:
            continue  # PYT003 speaks of a module that nobody imports
        for member, _ in files:
            if member not in found_by_any:
                name = member.path.rpartition("/")[2]
                there = found_by_any[0].path.rpartition("/")[2]
                expected = f"a name that an interpreter of {_tags(case)} looks for, as {there} for {path}"
                yield Observation(member.path, f"the name {name}", expected, "build from a clean tree")


def _found(case: Case, suffix: Suffix) -> bool:
    """Whether an interpreter that one of the tags names looks for such a file."""
    if any(suffix.imported_by(v, case.policy.machine) and _served(case, v) for v in VERSIONS):
        return True
    free_threaded = {tag.split("-", 2)[1] for tag in case.facts.tags}
    if suffix.interpreter == "cpython" and suffix.flags == "t" and suffix.version is not None:
        wanted = f"cp{suffix.version[0]}{suffix.version[1]}t"
        return _host(case, suffix) and bool(free_threaded & {wanted, "none"})
    if suffix.interpreter == "abi3t":
        return _host(case, suffix) and "abi3t" in free_threaded
    tags = [tag.partition("-")[0] for tag in case.facts.tags]
    return suffix.interpreter in ("pypy", "graalpy") and _host(case, suffix) and any(t[:2] in _OTHERS for t in tags)


_OTHERS = frozenset({"pp", "gr", "py"})  # interpreter tags that PyPy or GraalPy install


def _host(case: Case, suffix: Suffix) -> bool:
    return not suffix.host or suffix.host.endswith(f"{case.policy.machine}-linux-gnu")


def _served(case: Case, version: tuple[int, int]) -> bool:
    return any(tag_serves(tag, f"{version[0]}.{version[1]}") for tag in case.facts.tags)


def _tags(case: Case) -> str:
    return ", ".join(sorted({tag.rpartition("-")[0] for tag in case.facts.tags}))


@check("MET017", "module-name-differs", upstream=Severity.NOTE)
def module_name_differs(case: Case) -> Iterator[Observation]:
    """A file has the name of one extension module and defines another.

    Why: the interpreter looks for `PyInit_` with the file's own name, and the import ends in `dynamic module does not
    define module export function`. Looked at are files with the suffix of an interpreter or of the stable ABI: a bare
    `.so` may be loaded by its path, under any name.

    Mend: name module and file alike (`TORCH_EXTENSION_NAME`, `NAME` in CMake's `Python_add_library`).
    """
    for members in extension_modules(case).values():
        for member, suffix in _named(members):
            modules = modules_of(member.elf) if member.elf is not None else ()
            named = bool(suffix.interpreter) and suffix.module.isascii()  # other letters are spelled in punycode
            if named and suffix.module not in modules:
                found = f"PyInit_{modules[0][:80]} in {member.path.rpartition('/')[2]}"
                yield Observation(member.path, found, f"PyInit_{suffix.module}", "name module and file alike")
