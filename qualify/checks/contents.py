"""What lies in the archive beside compiled code and metadata: folders, stray files, size."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.checks.tags import HOST_BINARIES
from qualify.facts import installed_path
from qualify.report import Severity

_MIB = 1 << 20
#: Keys of the installation schemes that a `.data` folder may have (`sysconfig`, as pip takes them).
_SCHEMES = frozenset({"purelib", "platlib", "headers", "scripts", "data"})


@check("MET010", "purelib-differs", upstream=Severity.NOTE)
def purelib_differs(case: Case) -> Iterator[Observation]:
    """`Root-Is-Purelib` says that the wheel holds no binaries, and it does; or it says neither yes nor no.

    Why: it decides between the folders for pure and for platform-specific packages, which some systems keep apart, and
    repair tools refuse binaries in the one for pure packages.

    Mend: let the backend know of the extensions; WHEEL is theirs to write.
    """
    info = case.facts.dist_info
    if info is None or "WHEEL" not in info.files or not info.wheel_version:
        return
    path, said = f"{info.folder}/WHEEL", info.root_is_purelib.lower()
    if said not in ("true", "false"):
        found = f"Root-Is-Purelib {info.root_is_purelib[:40]!r}" if info.root_is_purelib else "no Root-Is-Purelib"
        yield Observation(path, found, "true or false", "build the wheel again")
        return
    binaries = [member.path for member in case.facts.members if member.kind in HOST_BINARIES]
    if said == "true" and any(".data/platlib/" not in path for path in binaries):
        found = f"Root-Is-Purelib true, and {len(binaries)} binaries such as {binaries[0]}"
        yield Observation(path, found, "false", "let the backend know of the extensions")


@check("MET011", "data-scheme-unknown")
def data_scheme_unknown(case: Case) -> Iterator[Observation]:
    """A folder at the top that ends in `.data` holds something that belongs to no installation scheme.

    Why: pip refuses the wheel, whichever project the folder is named after; uv does so for the project's own.

    Mend: put it under `purelib`, `platlib`, `headers`, `scripts` or `data`, or call the folder something else.
    """
    said: set[str] = set()
    for member in case.facts.members:
        top, _, rest = member.path.partition("/")
        scheme, slash, _ = rest.partition("/")
        if top.endswith(".data") and not (slash and scheme in _SCHEMES) and f"{top}/{scheme}" not in said:
            said.add(f"{top}/{scheme}")
            expected = f"one of {', '.join(sorted(_SCHEMES))}"
            yield Observation(member.path, f"{top}/{scheme}", expected, "move it, or rename the folder")


@check("MET012", "data-folder-foreign", upstream=Severity.NOTE)
def data_folder_foreign(case: Case) -> Iterator[Observation]:
    """A `.data` folder at the top is named after another project or version than the `.dist-info` folder.

    Why: installers differ. pip spreads its contents over the installation; uv leaves the folder where it is, so that
    nothing in it is found.

    Mend: build the wheel again, or relabel the folder together with `.dist-info`.
    """
    info = case.facts.dist_info
    if info is None:
        return
    own = f"{info.folder.removesuffix('.dist-info')}.data"
    parts = (member.path.split("/", 2) for member in case.facts.members)
    for top in sorted(
        {top for top, scheme, *rest in (each for each in parts if len(each) > 1) if _scheme(scheme, rest)}
    ):
        if top.endswith(".data") and top != own:
            yield Observation(top, f"the folder {top}", own, "relabel it, or build the wheel again")


def _scheme(name: str, rest: list[str]) -> bool:
    """Whether a folder below `.data` is one that installers spread; MET011 speaks of the others."""
    return name in _SCHEMES and bool(rest)


#: Names at the top of site-packages that more than one project brings by mistake: check-wheel-contents' W005, and what
#: lies beside a project's sources.
_COMMON = frozenset(
    {
        "app",
        "benchmark",
        "benchmarks",
        "bin",
        "build",
        "cli",
        "cmake",
        "conf",
        "contrib",
        "csrc",
        "data",
        "dist",
        "doc",
        "docs",
        "etc",
        "example",
        "examples",
        "include",
        "lib",
        "notebooks",
        "scripts",
        "share",
        "src",
        "test",
        "testing",
        "tests",
        "tools",
        "venv",
    }
)
_FILES = frozenset(
    {
        "__init__.py",
        "build_backend.py",
        "build_utils.py",
        "conftest.py",
        "noxfile.py",
        "setup.cfg",
        "setup.py",
        "tasks.py",
        "pyproject.toml",
    }
)


@check("MET013", "top-level-stray", upstream=Severity.NOTE)
def top_level_stray(case: Case) -> Iterator[Observation]:
    """A name at the top of site-packages is one that many projects have, and none should install.

    Why: `tests`, `build` or `src` of two distributions overwrite each other, and an uninstall of one takes the other's
    files. A build that finds packages by itself picks such folders up.

    Mend: name the packages to pack in the project (`packages`, `include`).
    """
    said: set[str] = set()
    for member in case.facts.members:
        path = installed_path(member.path)
        top, slash, _ = path.partition("/")
        stray = top in _COMMON if slash else top in _FILES or top.removesuffix(".py") in _COMMON
        if stray and top not in said and canonicalize_name(top) != case.facts.name:
            said.add(top)
            yield Observation(
                member.path, f"{top} at the top", "names of the project's own", "name what is to be packed"
            )


# What a build or a checkout leaves behind.  `.gitignore` and `.gitkeep` are left aside: they keep folders in a tree.
_STRAY = re.compile(
    r"(?:.*/)?(?:"
    r"(?:\.git|\.hg|\.svn|\.tox|\.nox|\.venv|\.eggs|\.pytest_cache|\.mypy_cache|\.ruff_cache|CMakeFiles|__MACOSX)/.*"
    r"|(?:\.DS_Store|CMakeCache\.txt|cmake_install\.cmake|build\.ninja|\.ninja_(?:log|deps)|compile_commands\.json)"
    r"|[^/]*\.(?:pyc|pyo|o|obj|gcda|gcno|gch|ii|cubin\.tmp|rej|orig|swp|swo)|[^/]*~|core\.[0-9]+"
    r")",
    re.DOTALL,
)


@check("MET014", "stray-file", upstream=Severity.NOTE)
def stray_file(case: Case) -> Iterator[Observation]:
    """A file is one that a build, an editor or a checkout left behind.

    Why: byte code of the building interpreter, object files and caches are of no use to anybody, name folders of the
    build host, and were packed because nobody said what to pack.

    Mend: exclude it (`exclude`, MANIFEST.in), and build from a clean tree.
    """
    stray = [member.path for member in case.facts.members if _STRAY.fullmatch(member.path)]
    folders: dict[str, list[str]] = {}
    for path in stray:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    for folder, paths in folders.items():
        more = f" and {len(paths) - 1} more in {folder or 'the top'}" if len(paths) > 1 else ""
        yield Observation(paths[0], f"{paths[0].rpartition('/')[2]}{more}", "no leftovers", "build from a clean tree")


@check("MET018", "wheel-too-large", upstream=Severity.NOTE)
def wheel_too_large(case: Case) -> Iterator[Observation]:
    """The file is larger than the target's ceiling.

    Why: an index or a store refuses it, as a rule at the end of a long upload. The largest members are named, by what
    they take in the archive.

    Mend: build for fewer architectures, leave debug information out, or raise `ceilings: wheel_size` with the store's.
    """
    ceiling = case.policy.ceilings.wheel_size if case.policy.ceilings is not None else None
    if ceiling is None or case.facts.size <= ceiling * _MIB:
        return
    largest = sorted(case.facts.members, key=lambda member: (-member.stored_size, member.path))[:3]
    names = ", ".join(f"{member.path} {member.stored_size / _MIB:.1f}" for member in largest)
    # Rounded up, so that no size above the ceiling is printed as the ceiling.
    size = -(-case.facts.size * 10 // _MIB) / 10
    found = f"{size:.1f} MiB; the largest, in MiB: {names}"
    yield Observation("", found, f"at most {ceiling} MiB", "build for fewer architectures, or raise the ceiling")
