"""The crates that a tree's ``Cargo.lock`` names: of a registry by checksum, of git by commit; nothing is fetched."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualify.errors import PreflightError
from qualify.matrix.model import Rust

MAX_BYTES = 16 << 20
MAX_CRATES = 20_000
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")  # a name and a version become names of files
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,127}")
_GIT = re.compile(r"git\+(?P<url>[^?#]+)(?:\?(?P<query>[^#]*))?#(?P<commit>[0-9a-f]{40})")


@dataclass(frozen=True, slots=True)
class Crate:
    """One package of a lock that isn't the tree's own."""

    name: str
    version: str
    checksum: str  # sha256 of the ``.crate`` file; "" for one from git
    registry: str  # "registry+URL" or "sparse+URL" as the lock writes it; "" for one from git
    repository: str = ""  # of one from git
    commit: str = ""
    query: str = ""  # "rev=…", "tag=…" or "branch=…", as the lock writes it


@dataclass(frozen=True, slots=True)
class CrateLock:
    """A ``Cargo.lock``: ``path`` in the tree, sha256 of its bytes, the crates in its order."""

    path: str
    sha256: str
    crates: tuple[Crate, ...]

    @property
    def registry(self) -> tuple[Crate, ...]:
        return tuple(crate for crate in self.crates if crate.registry)

    @property
    def git(self) -> tuple[Crate, ...]:
        return tuple(crate for crate in self.crates if crate.repository)


def read_crate_locks(tree: Path, rust: Rust) -> tuple[CrateLock, ...]:
    """The locks that the matrix names.

    :raises PreflightError: one isn't there, or isn't a lock of version 3 or 4, or names a crate without a checksum.
    """
    return tuple(_read(tree, name) for name in rust.locks)


def _read(tree: Path, name: str) -> CrateLock:
    path = tree / name
    if not path.resolve().is_relative_to(tree.resolve()) or not path.is_file():
        raise PreflightError(
            f"no {name} in the tree",
            where="build.rust.locks",
            expected="the Cargo.lock that names every crate",
            action="name the one that the tree has, or remove build.rust from the matrix",
        )
    if path.stat().st_size > MAX_BYTES:
        raise PreflightError(f"larger than {MAX_BYTES >> 20} MiB", where=name, expected="a Cargo.lock")
    data = path.read_bytes()
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise PreflightError(f"no Cargo.lock: {error}", where=name) from error
    version, packages = document.get("version", 1), document.get("package", [])
    if version not in (3, 4) or not isinstance(packages, list):
        raise PreflightError(
            f"a Cargo.lock of version {version}",
            where=name,
            expected="version 3 or 4",
            action="cargo update writes one",
        )
    if len(packages) > MAX_CRATES:
        raise PreflightError(f"{len(packages)} packages", where=name, expected=f"at most {MAX_CRATES}")
    crates = [crate for package in packages if (crate := _crate(package, name)) is not None]
    return CrateLock(name, hashlib.sha256(data).hexdigest(), tuple(crates))


def _crate(package: Any, where: str) -> Crate | None:
    """One package; None for one of the tree itself, which has no source."""
    try:
        name, version, source = str(package["name"]), str(package["version"]), str(package.get("source", ""))
        checksum = str(package.get("checksum", ""))
    except (KeyError, TypeError, AttributeError) as error:
        raise PreflightError("a package without a name or a version", where=where) from error
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        raise PreflightError(
            f"a package {name[:80]!r} {version[:80]!r}",
            where=where,
            expected="a name and a version as cargo writes them",
        )
    if not source:
        return None
    if found := _GIT.fullmatch(source):
        return Crate(name, version, "", "", found["url"], found["commit"], found["query"] or "")
    if source.startswith(("registry+", "sparse+")) and _CHECKSUM.fullmatch(checksum):
        return Crate(name, version, checksum, source)
    raise PreflightError(
        f"{name} {version} from {source} has no {'commit' if source.startswith('git+') else 'sha256'}",
        where=where,
        expected="a registry with a checksum, or git with a commit",
    )
