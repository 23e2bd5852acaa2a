"""Crates in the store: vendored by cargo itself, proven against ``Cargo.lock``, and used without a network.

cargo knows how a crate of a workspace in a git repository becomes one of its own, so ``cargo vendor`` does the work;
what it leaves is held against the lock crate by crate and file by file, and lies in the store whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builders.cargo import CARGO_SECONDS, Cargo
from builders.crateindex import make_registry, sha256_of, sort_crates
from builders.crates import Crate, CrateLock
from builders.source_model import Progress, say_nothing
from builders.store.gitrun import shown
from qualify.errors import PreflightError, UnavailableError
from qualify.files import locked, write_atomic

MAX_FILES = 500_000
CRATES_IO = ("registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/")
_COMPLETE = "complete.json"
_PLACE = "@VENDOR@"  # stands in the kept configuration for the folder, which lies elsewhere in each room


@dataclass(frozen=True, slots=True)
class Vendored:
    """The crates of one lock, as they lie in the store."""

    lock: CrateLock
    folder: Path  # of this host: one folder for each crate
    settings: str  # cargo's configuration, with :data:`_PLACE` for the folder

    def configuration(self, inside: str) -> str:
        """cargo's ``config.toml`` where the crates lie in ``inside``, without a network."""
        return self.settings.replace(_PLACE, inside) + "\n[net]\noffline = true\n"


@dataclass(frozen=True, slots=True)
class Lack:
    """Crates that cannot be had, all for one reason: those of the registry, or those of one git repository."""

    crates: tuple[Crate, ...]
    error: PreflightError | UnavailableError


@dataclass(frozen=True, slots=True)
class Vendoring:
    """How crates come into the store.

    ``root`` is the store's folder of crates.  ``registry`` stands for the registry's own: a sparse registry's URL, a
    local registry (a folder with ``index``), or a folder of ``.crate`` files; "" is cargo's own way, with the caller's
    configuration.  ``replaced`` are beginnings of git URLs with what stands for them.
    """

    root: Path
    offline: bool = False
    registry: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    progress: Progress = say_nothing

    def ensure(self, lock: CrateLock, tree: Path) -> Vendored:
        """The crates of a lock, fetched where the store lacks them.

        :param tree: the tree that the lock belongs to, with all its manifests.
        :raises UnavailableError: offline, or no cargo here, or the registry or a repository does not answer.
        :raises PreflightError: what came isn't what the lock says.
        """
        found = self.attempt(lock, tree)
        if isinstance(found, Vendored):
            return found
        raise next((lack.error for lack in found if isinstance(lack.error, PreflightError)), found[0].error)

    def attempt(self, lock: CrateLock, tree: Path) -> Vendored | tuple[Lack, ...]:
        """The same, or everything that it lacks at once; what could be had of it stays in the store."""
        found = self.find(lock)
        if found is not None:
            return found
        if self.offline:
            error = UnavailableError(
                "the store lacks them, and the network is not to be used",
                where=lock.path,
                action="python -m builders fetch TARGET, once, with the network",
            )
            return self._lacks(lock, error)
        if shutil.which("cargo") is None:
            error = UnavailableError(
                "cargo is not on PATH here, and it is what fetches crates", where=lock.path, action="install Rust"
            )
            return self._lacks(lock, error)
        self.root.mkdir(parents=True, exist_ok=True)
        # One at a time in a store: they share what cargo downloads, and clear away what it unpacks.
        with locked(self.root / "home", timeout=CARGO_SECONDS, purpose="vendoring crates"):
            return self.find(lock) or self._fetch(lock, tree)

    def find(self, lock: CrateLock) -> Vendored | None:
        """The crates of a lock, if the store has them."""
        folder = self.root / lock.sha256
        try:
            settings = json.loads((folder / _COMPLETE).read_text(encoding="utf-8"))["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Vendored(lock, folder / "crates", str(settings))

    def _fetch(self, lock: CrateLock, tree: Path) -> Vendored | tuple[Lack, ...]:
        self.progress(f"fetching {len(lock.registry)} crates of a registry and {len(lock.git)} of git ({lock.path})")
        part = self.root / f".{lock.sha256}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            cargo = Cargo(self.root / "home", self.registry, self.replaced)
            lacks: list[Lack] = []
            if self.registry and "://" not in self.registry and not (Path(self.registry) / "index").is_dir():
                lacks += self._lacks_of_folder(lock)
                if not lacks:
                    made = make_registry(Path(self.registry), lock.registry, part / "registry")
                    cargo = Cargo(self.root / "home", str(made), self.replaced)
            unanswered = self._unanswered(lock, cargo)
            if unanswered and not lacks:
                lacks += self._without_git(lock, cargo, part)
            if lacks or unanswered:
                return (*lacks, *unanswered)
            try:
                return self._vendor(lock, tree, cargo, part)
            except (PreflightError, UnavailableError) as error:
                lack = self._blamed(lock, error)
                by_git = any(crate.repository for crate in lack.crates[:1])
                return (*(self._without_git(lock, cargo, part) if by_git else ()), lack)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _vendor(self, lock: CrateLock, tree: Path, cargo: Cargo, part: Path) -> Vendored:
        manifest = (tree / lock.path).with_name("Cargo.toml")
        if not manifest.is_file():
            raise PreflightError("no Cargo.toml beside it", where=lock.path, expected="the manifest of the lock")
        whole = part / "whole"
        crates = whole / "crates"
        whole.mkdir()
        # Without --respect-source-config, vendoring goes to the registry itself, whatever stands in its place here.
        options = ("--locked", "--versioned-dirs", "--respect-source-config", "--manifest-path", str(manifest))
        settings = cargo.run(("vendor", *options, str(crates)), part, lock.path).replace(str(crates), _PLACE)
        crates.mkdir(exist_ok=True)
        prove(lock, crates)
        write_atomic(whole / _COMPLETE, json.dumps({"settings": settings, "crates": len(lock.crates)}) + "\n")
        folder = self.root / lock.sha256
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)
        cargo.forget_unpacked()
        return Vendored(lock, folder / "crates", settings)

    def _lacks(self, lock: CrateLock, error: UnavailableError) -> tuple[Lack, ...]:
        """All of a lock that was not downloaded yet, the registry's crates and each repository apart."""
        lacking = self._not_downloaded(lock)
        return (*((Lack(lacking, error),) if lacking else ()), *(Lack(each, error) for each in _by_repository(lock)))

    def _not_downloaded(self, lock: CrateLock) -> tuple[Crate, ...]:
        cargo = Cargo(self.root / "home")
        return tuple(
            crate
            for crate in lock.registry
            if all(sha256_of(path) != crate.checksum for path in cargo.downloaded(crate.name, crate.version))
        )

    def _lacks_of_folder(self, lock: CrateLock) -> list[Lack]:
        """What a folder of ``.crate`` files doesn't have, or has otherwise."""
        folder = Path(self.registry)
        missing, others = sort_crates(folder, lock.registry)
        lacks = []
        if missing:
            what = f"{len(missing)} of {len(lock.registry)} are not in the folder"
            action = "put the .crate files there, or name a registry: `crates` in matrix.local.yaml"
            lacks.append(Lack(missing, UnavailableError(what, where=str(folder), action=action)))
        if others:
            what = f"{len(others)} are others there than the lock's"
            action = "replace the files by those whose sha256 stands in the lock"
            lacks.append(Lack(others, PreflightError(what, where=str(folder), action=action)))
        return lacks

    def _unanswered(self, lock: CrateLock, cargo: Cargo) -> list[Lack]:
        """The repositories whose servers don't answer; cargo would stop at the first."""
        lacks = []
        for crates in _by_repository(lock):
            try:
                cargo.ask(crates[0].repository)
            except UnavailableError as error:
                lacks.append(Lack(crates, error))
        return lacks

    def _without_git(self, lock: CrateLock, cargo: Cargo, part: Path) -> list[Lack]:
        """Fetch the registry's crates alone; nothing of a registry needs git, so they are a whole of their own."""
        if not self._not_downloaded(lock):
            return []
        folder = part / "registry-alone"
        folder.mkdir()
        (folder / "lib.rs").touch()
        manifest, text = _alone(lock)
        (folder / "Cargo.toml").write_text(manifest, encoding="utf-8")
        (folder / "Cargo.lock").write_text(text, encoding="utf-8")
        try:
            cargo.run(("fetch", "--manifest-path", str(folder / "Cargo.toml")), part, lock.path)
        except (PreflightError, UnavailableError) as error:
            return [Lack(self._not_downloaded(lock) or lock.registry, error)]
        return []

    def _blamed(self, lock: CrateLock, error: PreflightError | UnavailableError) -> Lack:
        """The crates that an error of cargo is about: one repository's where it names that, else the registry's."""
        for crates in _by_repository(lock):
            if shown(crates[0].repository) in error.what:
                return Lack(crates, error)
        return Lack(self._not_downloaded(lock) or lock.crates, error)


def prove(lock: CrateLock, crates: Path) -> None:
    """Hold vendored crates against the lock: each is there, none besides, and every file is the one that was packed.

    The ``package`` of a crate's ``.cargo-checksum.json`` is the sha256 of the ``.crate`` file, as in the lock.

    :raises PreflightError: something differs; the crate is named.
    """
    expected = {f"{crate.name}-{crate.version}": crate for crate in lock.crates}
    there = {path.name: path for path in crates.iterdir() if path.is_dir()} if crates.is_dir() else {}
    missing, foreign = sorted(expected.keys() - there.keys()), sorted(there.keys() - expected.keys())
    if missing or foreign:
        what = f"{missing[0]} is missing" if missing else f"{foreign[0]} is there, which the lock doesn't name"
        raise PreflightError(f"{what} ({len(missing)} missing, {len(foreign)} foreign)", where=lock.path)
    count = 0
    for name, crate in expected.items():
        count = _prove_crate(crate, there[name], lock.path, count)


def _prove_crate(crate: Crate, folder: Path, where: str, count: int) -> int:
    try:
        document = json.loads((folder / ".cargo-checksum.json").read_text(encoding="utf-8"))
        package, files = document.get("package"), dict(document["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PreflightError(f"{crate.name} {crate.version} has no list of its files: {error}", where=where) from error
    if crate.registry and package != crate.checksum:
        raise PreflightError(
            f"{crate.name} {crate.version} was packed from {package}",
            where=where,
            expected=crate.checksum,
            action="the registry gave another crate than the lock's: look at `crates` of matrix.local.yaml",
        )
    for name, digest in files.items():
        count += 1
        path = folder / name
        inside = path.resolve().is_relative_to(folder.resolve())
        if count > MAX_FILES or not inside or not path.is_file():
            what = "has too many files" if count > MAX_FILES else f"has no {name}"
            raise PreflightError(f"{crate.name} {crate.version} {what}", where=where)
        if sha256_of(path) != digest:
            raise PreflightError(f"{crate.name} {crate.version}: {name} is not the file that was packed", where=where)
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    if extra := sorted(there - files.keys() - {".cargo-checksum.json"}):
        raise PreflightError(f"{crate.name} {crate.version} has {extra[0]}, which was not packed", where=where)
    return count


def _by_repository(lock: CrateLock) -> list[tuple[Crate, ...]]:
    found: dict[str, list[Crate]] = {}
    for crate in lock.git:
        found.setdefault(crate.repository, []).append(crate)
    return [tuple(crates) for crates in found.values()]


def _alone(lock: CrateLock) -> tuple[str, str]:
    """A manifest that asks for the registry's crates of a lock, each in its exact version, and its ``Cargo.lock``."""
    manifest = '[package]\nname = "wheel-assay-crates"\nversion = "0.0.0"\nedition = "2021"\n'
    manifest += '[lib]\npath = "lib.rs"\n[dependencies]\n'
    packages = ["version = 3\n"]
    for number, crate in enumerate(lock.registry):
        version = crate.version.partition("+")[0]  # what stands behind a plus tells no versions apart
        wanted = {"package": crate.name, "version": f"={version}"}
        if crate.registry not in CRATES_IO:
            wanted["registry-index"] = crate.registry.removeprefix("registry+")
        words = ", ".join(f"{key} = {json.dumps(value)}" for key, value in wanted.items())
        manifest += f"c{number} = {{ {words}, default-features = false }}\n"
        packages.append(
            f'[[package]]\nname = "{crate.name}"\nversion = "{crate.version}"\n'
            f'source = {json.dumps(crate.registry)}\nchecksum = "{crate.checksum}"\n'
        )
    return manifest, "\n".join(packages)
