"""A folder of ``.crate`` files as a registry that cargo can read: cargo's own kind, with an index made from the files.

The files are held against the lock first, so that what the index says comes from crates that the lock names.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
import tomllib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from builders.crates import Crate
from qualify.errors import PreflightError, UnavailableError

MAX_MANIFEST = 4 << 20  # bytes of one crate's Cargo.toml
_KINDS = (("dependencies", "normal"), ("build-dependencies", "build"))


def sort_crates(folder: Path, crates: Sequence[Crate]) -> tuple[tuple[Crate, ...], tuple[Crate, ...]]:
    """The crates that a folder lacks, and those that are others than the lock's there."""
    missing, others = [], []
    for crate in crates:
        path = folder / _file(crate)
        if not path.is_file():
            missing.append(crate)
        elif sha256_of(path) != crate.checksum:
            others.append(crate)
    return tuple(missing), tuple(others)


def make_registry(folder: Path, crates: Sequence[Crate], into: Path) -> Path:
    """A local registry in ``into`` (new) of the crates that lie in ``folder``.

    :raises PreflightError: a file is no crate.
    :raises UnavailableError: a file cannot be read.
    """
    lines: dict[Path, list[str]] = {}
    for crate in crates:
        path = (folder / _file(crate)).resolve()
        manifest = _manifest(path, crate)
        try:
            entry = _entry(crate, manifest)
        except (AttributeError, TypeError, ValueError) as error:  # a table that is none
            raise PreflightError(f"no crate: its Cargo.toml is not right: {error}", where=str(path)) from error
        lines.setdefault(into / "index" / index_path(crate.name), []).append(json.dumps(entry))
        into.mkdir(parents=True, exist_ok=True)
        (into / path.name).symlink_to(path)
    (into / "index").mkdir(parents=True, exist_ok=True)
    for place, entries in lines.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(entries) + "\n", encoding="utf-8")
    return into


def index_path(name: str) -> str:
    """Where an index has a crate: by the first letters of its name, all of them small."""
    name = name.lower()
    if len(name) <= 3:
        return f"{len(name)}/{name}" if len(name) < 3 else f"3/{name[0]}/{name}"
    return f"{name[:2]}/{name[2:4]}/{name}"


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _file(crate: Crate) -> str:
    return f"{crate.name}-{crate.version}.crate"


def _manifest(path: Path, crate: Crate) -> dict[str, Any]:
    """The ``Cargo.toml`` of a packed crate.  cargo writes it plain there: nothing of a workspace is left to inherit."""
    wanted = f"{crate.name}-{crate.version}/Cargo.toml"
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.name == wanted and member.isfile() and member.size <= MAX_MANIFEST:
                    stream = archive.extractfile(member)
                    return tomllib.loads((stream.read() if stream else b"").decode("utf-8"))
    except OSError as error:
        if not isinstance(error, gzip.BadGzipFile):
            raise UnavailableError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
        raise PreflightError(f"no crate: {error}", where=str(path)) from error
    except (tarfile.TarError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise PreflightError(f"no crate: {error}", where=str(path)) from error
    raise PreflightError(f"no {wanted} in it", where=str(path), expected="a crate as cargo package makes it")


def _entry(crate: Crate, manifest: dict[str, Any]) -> dict[str, Any]:
    """One line of an index, as cargo's reference describes it."""
    package = manifest.get("package", {})
    return {
        "name": crate.name,
        "vers": crate.version,
        "deps": list(_dependencies(manifest)),
        "cksum": crate.checksum,
        "features": {},
        "features2": manifest.get("features", {}),
        "v": 2,
        "yanked": False,
        "links": package.get("links"),
        "rust_version": package.get("rust-version"),
    }


def _dependencies(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All that the crate needs; what its own tests need is not asked for by those who use it."""
    tables = [("", manifest), *dict(manifest.get("target", {})).items()]
    for target, table in tables:
        for key, kind in _KINDS:
            # "build_dependencies" is how manifests of old write it.
            for name, given in {**table.get(key.replace("-", "_"), {}), **table.get(key, {})}.items():
                said = {"version": given} if isinstance(given, str) else given
                renamed = said.get("package")
                yield {
                    "name": name,
                    "req": said.get("version", "*"),
                    "features": said.get("features", []),
                    "optional": said.get("optional", False),
                    "default_features": said.get("default-features", said.get("default_features", True)),
                    "target": target or None,
                    "kind": kind,
                    "registry": said.get("registry-index"),
                    "package": renamed,
                }
