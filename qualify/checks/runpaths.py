"""Where a binary looks for its libraries, and what else its dynamic section asks of the loader.

The rules are those of glibc's loader (ld.so(8), elf/dl-load.c): DT_RPATH and DT_RUNPATH are lists of folders, separated
by colons; an empty entry is the current folder, ``$ORIGIN`` is the folder of the file itself, and a name with a slash
is a path and is not searched for.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from qualify import floors, sonames
from qualify.checks.case import Case, examples
from qualify.checks.floors import judged
from qualify.checks.registry import Observation, check
from qualify.checks.tags import HOST_BINARIES
from qualify.facts import Elf, Member, MemberKind, installed_path
from qualify.report import Severity

_ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})(?=/|$)")
_SHARED_OBJECT = re.compile(r"[^/]+\.so(?:\.[0-9]+)*")
_ELSEWHERE = re.compile(r"[^/]+\.data/")  # scripts, data and headers: installed outside site-packages


def inside(member: Member, entry: str) -> str | None:
    """The folder below site-packages that an entry names, ``"pkg.libs"``; None where it names none there.

    "" is site-packages itself.  The folder of a script is not known beforehand, so nothing follows from its entries.
    """
    origin = _ORIGIN.match(entry)
    path = installed_path(member.path)
    if origin is None or _ELSEWHERE.match(path):
        return None
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry[origin.end() :].lstrip("/")))
    if folder == ".." or folder.startswith("../"):
        return None
    return "" if folder == "." else folder


def _binaries(case: Case) -> Iterator[tuple[Member, Elf]]:
    for member in case.facts.members:
        if member.elf is not None and member.kind in HOST_BINARIES:
            yield member, member.elf


def _entries(elf: Elf) -> Iterator[str]:
    """The distinct entries of both kinds.  A list that is empty as a whole is no entry: loaders ignore it."""
    lists = [entries for entries in (elf.rpath, elf.runpath) if entries not in ((), ("",))]
    yield from dict.fromkeys(entry for entries in lists for entry in entries)


def _shown(entry: str) -> str:
    return examples((entry,), 1, 200)


def _file(entry: str) -> bool:
    return _SHARED_OBJECT.fullmatch(entry.rpartition("/")[2]) is not None


@check("LIB010", "version-need-without-library")
def version_need_without_library(case: Case) -> Iterator[Observation]:
    """A binary asks for symbol versions of a library that it does not load.

    Why: the table of versions (.gnu.version_r) and the list of libraries (DT_NEEDED) name different files where a
    library was renamed in one of them alone. glibc's loader stops the process with a failed assertion.

    Mend: repair the wheel again with a patchelf that renames both, or exclude the library from the repair.
    """
    for member, elf in _binaries(case):
        loaded = {name.rpartition("/")[2] for name in elf.needed}
        asked = dict.fromkeys(need.library for need in elf.version_needs)
        # libc and the loader are in every process, asked for or not.
        strays = [n for n in asked if n not in loaded and n != "libc.so.6" and not floors.is_loader(n)]
        if strays:
            found = f"versions of {examples(tuple(strays), 8)}, which it does not load"
            yield Observation(member.path, found, "each of them in DT_NEEDED", "repair the wheel again")


@check("LIB011", "absolute-run-path", upstream=Severity.NOTE)
def absolute_run_path(case: Case) -> Iterator[Observation]:
    """A binary looks for its libraries in a folder of the machine that built it.

    Why: on the target that folder is not there, or holds other libraries: whoever can write to it decides what runs.

    Mend: link with an $ORIGIN-relative path, or repair the wheel.
    """
    stubs = _stubs(case)
    for member, elf in _binaries(case):
        for entry in _entries(elf):
            if entry.startswith("/") and not _file(entry) and (member.path, entry) not in stubs:
                yield Observation(
                    member.path, f"run path {_shown(entry)}", "$ORIGIN or none", "link it relative, or repair it"
                )


def _stubs(case: Case) -> frozenset[tuple[str, str]]:
    """Members that have to load and need the driver, with each entry that leads to the toolkit's stubs."""
    return frozenset(
        (member.path, entry)
        for member in judged(case)
        if (elf := member.elf) is not None and any(sonames.provided_as(n) is sonames.Owner.DRIVER for n in elf.needed)
        for entry in _entries(elf)
        if "stubs" in entry.split("/")
    )


@check("LIB012", "stub-driver-in-run-path", upstream=Severity.NOTE)
def stub_driver_in_run_path(case: Case) -> Iterator[Observation]:
    """A binary that needs the driver looks for it in the toolkit's folder of stubs first.

    Why: build images often link the stub there as libcuda.so.1. On such a machine it is loaded in place of the driver,
    and every call says that there is none (CUDA_ERROR_STUB_LIBRARY). A toolkit as NVIDIA packs it has libcuda.so alone
    there, which nothing finds under that name. CMake copies the folders of linked libraries into the run path.

    Mend: set CMAKE_SKIP_RPATH or CMAKE_INSTALL_RPATH, or repair the wheel. Linking with a stub is right; looking for it
    at run time is not.
    """
    stubs = _stubs(case)
    for member, elf in _binaries(case):
        for entry in _entries(elf):
            if (member.path, entry) in stubs:
                yield Observation(
                    member.path, f"run path {_shown(entry)}", "no folder of stubs", "take it out of the run path"
                )


@check("LIB013", "current-folder-in-run-path", upstream=Severity.NOTE)
def current_folder_in_run_path(case: Case) -> Iterator[Observation]:
    """A binary looks for its libraries in the folder from which the program was started.

    Why: an empty entry (`a::b`, a colon at the end) or one without $ORIGIN is relative to the current folder. Whoever
    can write there decides what runs.

    Mend: repair the wheel, or take the entry out (`patchelf --set-rpath`).
    """
    for member, elf in _binaries(case):
        for entry in _entries(elf):
            if not entry.startswith("/") and _ORIGIN.match(entry) is None and not _file(entry):
                found = f"run path {_shown(entry)}" if entry else "an empty entry in its run path"
                yield Observation(member.path, found, "folders by $ORIGIN", "take it out of the run path")


@check("LIB014", "run-path-leaves-site-packages", upstream=Severity.NOTE)
def run_path_leaves_site_packages(case: Case) -> Iterator[Observation]:
    """A binary looks for its libraries above the folder that wheels are installed into.

    Why: what lies there differs from one environment to the next, so the wheel works in the one that built it.

    Mend: count the folders again; libraries of other wheels are at `$ORIGIN/../<package>/lib` and the like.
    """
    for member, elf in _binaries(case):
        if _ELSEWHERE.match(installed_path(member.path)):
            continue
        for entry in _entries(elf):
            if _ORIGIN.match(entry) and inside(member, entry) is None and not _file(entry):
                yield Observation(
                    member.path, f"run path {_shown(entry)}", "a folder in site-packages", "count the folders again"
                )


@check("LIB015", "file-in-run-path", upstream=Severity.NOTE)
def file_in_run_path(case: Case) -> Iterator[Observation]:
    """A binary's run path names a file where a folder belongs.

    Why: an old patchelf under a newer repair tool writes the library's name into the run path. Nothing is found there,
    and a library that is to be found by it is not.

    Mend: repair the wheel again with a newer patchelf.
    """
    for member, elf in _binaries(case):
        for entry in _entries(elf):
            if _file(entry):
                yield Observation(
                    member.path, f"run path {_shown(entry)}", "a folder", "repair it with a newer patchelf"
                )


@check("LIB016", "library-by-path")
def library_by_path(case: Case) -> Iterator[Observation]:
    """A binary needs a library by its path.

    Why: a name with a slash is opened as it stands, and on the target that path is not there. A linker writes it where
    the library has no soname.

    Mend: give the library a soname (`-Wl,-soname`), or link it by `-L` and `-l`.
    """
    for member in judged(case):
        for name in member.elf.needed if member.elf is not None and member.kind in HOST_BINARIES else ():
            folder = inside(member, name.rpartition("/")[0])
            if "/" in name and (
                folder is None or posixpath.join(folder, name.rpartition("/")[2]) not in _installed(case)
            ):
                yield Observation(member.path, f"needs {name}", "a name without a folder", "give the library a soname")


def _installed(case: Case) -> frozenset[str]:
    return frozenset(installed_path(member.path) for member in case.facts.members)


@check("LIB017", "executable-stack", upstream=Severity.NOTE)
def executable_stack(case: Case) -> Iterator[Observation]:
    """A binary asks for a stack whose contents can be run.

    Why: glibc 2.41 and later refuse to load such a library into a running process, and SELinux does where it is strict.
    One assembler file without a `.note.GNU-stack` section is enough.

    Mend: link with `-Wl,-z,noexecstack`, or add the section to that file.
    """
    for member, elf in _binaries(case):
        if elf.executable_stack:
            yield Observation(member.path, "an executable stack", "none", "link with -Wl,-z,noexecstack")


@check("LIB018", "text-relocations", upstream=Severity.NOTE)
def text_relocations(case: Case) -> Iterator[Observation]:
    """A binary's code has to be changed when it is loaded.

    Why: its pages become writable, so they are shared by no two processes, and SELinux refuses it where it is strict.

    Mend: compile every part with -fPIC; `-Wl,-z,text` makes the linker name the part that was not.
    """
    for member, elf in _binaries(case):
        if elf.text_relocations:
            yield Observation(member.path, "relocations in code", "none", "compile with -fPIC")


@check("LIB019", "linked-with-libpython", upstream=Severity.NOTE)
def linked_with_libpython(case: Case) -> Iterator[Observation]:
    """An extension module needs Python's own library.

    Why: an interpreter that is linked statically (Debian's, conda's, uv's) has none, and the import fails. The symbols
    come from the interpreter in any case (PEP 513).

    Mend: leave out `-lpython3.x`: CMake's `Python_add_library(… MODULE …)` or `Python::Module`, not `Python::Python`.
    """
    for member, elf in _binaries(case):
        if member.kind is MemberKind.EXTENSION:
            for name in elf.needed:
                if sonames.is_libpython(name):
                    yield Observation(member.path, f"needs {name}", "no libpython", "leave out -lpython")
