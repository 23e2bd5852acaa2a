"""A source distribution as the source: fetched by sha256, unpacked within bounds, its stated commit read untouched."""

from __future__ import annotations

import ast
import re
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from builders.source_model import Progress, Source, commits_agree
from builders.source_patches import check_patches, read_patches
from builders.source_unpack import unpack
from qualify.errors import PreflightError, UnavailableError
from qualify.files import sha256_of
from qualify.lines import lines_of
from qualify.matrix.model import Build, SdistSource

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

MAX_STATEMENT = 1 << 20  # bytes of a file that states a commit

_HEX = re.compile(r"g?([0-9a-f]{7,40})")
_LOCAL_COMMIT = re.compile(r"\+(?:[a-z0-9]+\.)*g([0-9a-f]{7,40})(?:\.|$)")
_COMMIT_NAMES = ("__commit_id__", "commit_id", "__commit__", "git_commit", "__git_version__", "git_version")


# What a plan reads, besides the files that state the commit; CMake files may lie anywhere.
PLAN_READS = ("pyproject.toml", "setup.py", "setup.cfg", "PKG-INFO")


def open_sdist(
    matrix: LoadedMatrix,
    source: SdistSource,
    work: Path,
    *,
    progress: Progress,
    whole: bool = True,
    offline: bool = False,
) -> Source:
    """Fetch, unpack and read one sdist; see :func:`builders.source.open_source` for what is raised."""
    from qualify.fetching import Fetcher

    named: str | Path = source.sdist
    if source.sdist.endswith((".tar.gz", ".tgz", ".zip")) or "/" in source.sdist:
        named = matrix.path.parent / source.sdist
    fetcher = Fetcher(local=matrix.local)
    if offline and isinstance(named, str) and not _is_kept(fetcher.root, source.sha256):
        raise UnavailableError(
            f"offline, and the cache lacks the sdist {source.sdist}",
            where=f"sha256 {source.sha256}",
            action="run once with the network (python -m builders plan TARGET), or without --offline",
        )
    progress(f"fetching {source.sdist}")
    archive = fetcher.fetch_sdist(named, source.sha256)
    progress(f"unpacking {archive.name}" if whole else f"reading {archive.name}")
    read = _plan_reads(matrix.matrix.build)
    tree = unpack(archive, work, None if whole else lambda name: _read_by_a_plan(name, read))
    commit, commit_from = stated_commit(tree, matrix.matrix.build.commit_files)
    pinned = matrix.matrix.pin.commit
    if commit and pinned and not commits_agree(commit, pinned):
        raise PreflightError(
            f"the sdist was made from commit {commit}, which is not the pin's",
            where=f"{archive.name}: {commit_from}",
            expected=pinned,
            action="pin the sdist of the commit, or the commit of the sdist",
        )
    if not commit and matrix.matrix.build.commit_files:
        raise PreflightError(
            "the sdist states no commit, so it cannot be held against the pin",
            where=archive.name,
            expected=f"{pinned} in one of {', '.join(matrix.matrix.build.commit_files)}",
            action="name the files that state the commit in build.commit_files, or use a git source",
        )
    if matrix.matrix.pin.upstream is not None:
        raise PreflightError(
            "an sdist has no history, so pin.upstream cannot be proven",
            where=f"{matrix.path.name}: pin.upstream",
            expected="a git source for a fork",
            action="pin the fork's repository by commit, or remove pin.upstream",
        )
    patches = read_patches(matrix)
    if whole:
        check_patches(tree, patches)
    version = package_version(tree)
    environment = {"SETUPTOOLS_SCM_PRETEND_METADATA": f'{{node="g{commit}", dirty=false}}'} if commit else {}
    return Source(
        kind="sdist",
        tree=tree,
        commit=commit,
        commit_from=commit_from,
        version=version,
        version_from="PKG-INFO" if version else "",
        origin=archive.name,
        sha256=source.sha256,
        environment=environment,
        whole=whole,
        patches=patches,
    )


def _is_kept(cache: Path, sha256: str) -> bool:
    """Whether the cache has these bytes (:mod:`qualify.fetching` says where); else the package index is asked."""
    kept = (cache / "files" / sha256[:2] / sha256).glob("*")
    return any(not path.name.startswith(".") and sha256_of(path).sha256 == sha256 for path in kept)


def _plan_reads(build: Build) -> tuple[str, ...]:
    """fnmatch patterns of what a plan reads; a list of requirements may lead to others, which lie anywhere."""
    rust = (*build.rust.locks, build.rust.toolchain) if build.rust else ()
    lists = ("*.txt", "*.in", *build.requirements_files) if build.requirements_files else ()
    return (*PLAN_READS, *build.commit_files, *build.external_sources, *rust, *lists)


def _read_by_a_plan(name: str, patterns: tuple[str, ...]) -> bool:
    inside = name.partition("/")[2]
    if inside.endswith(("CMakeLists.txt", ".cmake")):
        return True
    return any(fnmatchcase(inside, pattern) for pattern in patterns)


def stated_commit(tree: Path, names: tuple[str, ...]) -> tuple[str, str]:
    """The commit that the files ``names`` of an untouched tree state, and which file said so; ``("", "")`` if none.

    A ``.py`` file is parsed and never run; ``.git_archival.txt`` has a ``node`` line; of ``PKG-INFO`` the local part of
    the version counts.  Two files that disagree are refused.
    """
    found: list[tuple[str, str]] = []
    for name in names:
        path = tree / name
        if not path.is_file() or not path.resolve().is_relative_to(tree.resolve()):
            continue
        if path.stat().st_size > MAX_STATEMENT:
            raise PreflightError("the file that states the commit is too large to be one", where=name)
        text = path.read_text(encoding="utf-8", errors="replace")
        if commit := _commit_in(name, text):
            found.append((commit, name))
    for commit, name in found[1:]:
        if not commits_agree(commit, found[0][0]):
            raise PreflightError(
                f"the sdist states two commits: {found[0][0]} in {found[0][1]} and {commit} in {name}", where=name
            )
    return max(found, key=lambda item: len(item[0]), default=("", ""))


def _commit_in(name: str, text: str) -> str:
    if name.endswith(".py"):
        return _commit_in_python(name, text)
    if name.rsplit("/", 1)[-1] == "PKG-INFO":
        match = _LOCAL_COMMIT.search(HeaderParser().parsestr(text).get("Version", ""))
        return match[1] if match else ""
    for line in lines_of(text):
        key, _, value = line.partition(":")
        if key.strip() == "node" and (match := _HEX.fullmatch(value.strip())):
            return match[1]
    return ""


def _commit_in_python(name: str, text: str) -> str:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PreflightError(f"the file that states the commit cannot be parsed: {error}", where=name) from error
    for node in module.body:
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=str(value))):
                names = {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.Constant(value=str(value))):
                names = {target}
            case _:
                continue
        if names & set(_COMMIT_NAMES) and (match := _HEX.fullmatch(value)):
            return match[1]
    return ""


def package_version(tree: Path) -> str:
    """The version in the sdist's PKG-INFO, which setuptools-scm falls back to without git; "" where there is none."""
    path = tree / "PKG-INFO"
    if not path.is_file() or path.stat().st_size > MAX_STATEMENT:
        return ""
    return str(HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace")).get("Version", ""))
