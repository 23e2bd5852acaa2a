"""Crates in the store: vendored by cargo itself, proven against ``Cargo.lock``, and used without a network.

cargo knows how a crate of a workspace in a git repository becomes one of its own, so ``cargo vendor`` does the work;
what it leaves is held against the lock crate by crate and file by file, and lies in the store whole or not at all.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builders.crates import Crate, CrateLock
from builders.source_model import Progress, say_nothing
from qualify.errors import ConfigurationError, PreflightError, UnavailableError
from qualify.files import locked, write_atomic

CARGO_SECONDS = 3600
MAX_FILES = 500_000
_COMPLETE = "complete.json"
_PLACE = "@VENDOR@"  # stands in the kept configuration for the folder, which lies elsewhere in each room
_NETWORK = re.compile(
    r"Could(?:n't| not) resolve host|spurious network error|failed to connect|Connection refused|timed? ?out|"
    r"failed to download|Could not connect|unable to access|download of \S+ failed|network failure|error: 50\d"
)


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
class Vendoring:
    """How crates come into the store.

    ``root`` is the store's folder of crates.  ``registry`` stands for the registry's own: a sparse registry's URL, a
    local registry (a folder with ``index``), or a folder of vendored crates.  ``replaced`` are beginnings of git URLs
    with what stands for them.
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
        found = self.find(lock)
        if found is not None:
            return found
        if self.offline:
            raise UnavailableError(
                "the store lacks them, and the network is not to be used",
                where=lock.path,
                action="python -m builders fetch TARGET, once, with the network",
            )
        cargo = shutil.which("cargo")
        if cargo is None:
            raise UnavailableError(
                "cargo is not on PATH here, and it is what fetches crates", where=lock.path, action="install Rust"
            )
        self.root.mkdir(parents=True, exist_ok=True)
        with locked(self.root / lock.sha256, timeout=CARGO_SECONDS, purpose="vendoring crates"):
            return self.find(lock) or self._fetch(cargo, lock, tree)

    def find(self, lock: CrateLock) -> Vendored | None:
        """The crates of a lock, if the store has them."""
        folder = self.root / lock.sha256
        try:
            settings = json.loads((folder / _COMPLETE).read_text(encoding="utf-8"))["settings"]
        except (OSError, ValueError, KeyError):
            return None
        return Vendored(lock, folder / "crates", str(settings))

    def _fetch(self, cargo: str, lock: CrateLock, tree: Path) -> Vendored:
        self.progress(f"fetching {len(lock.registry)} crates of a registry and {len(lock.git)} of git ({lock.path})")
        part = self.root / f".{lock.sha256}.part"
        shutil.rmtree(part, ignore_errors=True)
        crates = part / "crates"
        (part / "home").mkdir(parents=True)
        (part / "home" / "config.toml").write_text(self._source_settings(), encoding="utf-8")
        manifest = (tree / lock.path).with_name("Cargo.toml")
        if not manifest.is_file():
            raise PreflightError("no Cargo.toml beside it", where=lock.path, expected="the manifest of the lock")
        command = [cargo, "vendor", "--locked", "--versioned-dirs", "--manifest-path", str(manifest)]
        # Without this, vendoring goes to the registry itself, whatever the configuration puts in its place.
        command += ["--respect-source-config"] if self.registry else []
        command.append(str(crates))
        try:
            done = subprocess.run(
                command,
                cwd=part,
                env=self._environment(part / "home"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CARGO_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            shutil.rmtree(part, ignore_errors=True)
            raise UnavailableError(f"cargo did not end within {CARGO_SECONDS} s", where=lock.path) from error
        if done.returncode != 0:
            shutil.rmtree(part, ignore_errors=True)
            raise _failed(done.stderr, lock)
        if not lock.crates:
            crates.mkdir(exist_ok=True)
        prove(lock, crates)
        shutil.rmtree(part / "home")
        settings = done.stdout.replace(str(crates), _PLACE)
        write_atomic(part / _COMPLETE, json.dumps({"settings": settings, "crates": len(lock.crates)}) + "\n")
        folder = self.root / lock.sha256
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
        return Vendored(lock, folder / "crates", settings)

    def _source_settings(self) -> str:
        """cargo's configuration for fetching: the registry of this site, and git as git does it."""
        lines = ["[net]", "git-fetch-with-cli = true", "retry = 2"]
        if self.registry:
            lines += ["[source.crates-io]", 'replace-with = "site"', "[source.site]"]
            if "://" in self.registry:
                url = self.registry if self.registry.startswith("sparse+") else f"sparse+{self.registry}"
                lines.append(f"registry = {json.dumps(url if url.endswith('/') else url + '/')}")
            elif (Path(self.registry) / "index").is_dir():
                lines.append(f"local-registry = {json.dumps(self.registry)}")
            elif Path(self.registry).is_dir():
                lines.append(f"directory = {json.dumps(self.registry)}")
            else:
                raise ConfigurationError(
                    f"no folder {self.registry}",
                    where="matrix.local.yaml: crates",
                    expected="a sparse registry's URL, a local registry, or a folder of vendored crates",
                )
        return "\n".join(lines) + "\n"

    def _environment(self, home: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_", "GIT_CONFIG"))}
        pairs = [(f"url.{target}.insteadOf", prefix) for prefix, target in self.replaced.items()]
        git = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(pairs))}
        for number, (key, value) in enumerate(pairs):
            git[f"GIT_CONFIG_KEY_{number}"], git[f"GIT_CONFIG_VALUE_{number}"] = key, value
        bundle = os.environ.get("SSL_CERT_FILE", "")
        authorities = {"CARGO_HTTP_CAINFO": bundle} if bundle else {}
        return {**kept, **git, **authorities, "CARGO_HOME": str(home), "RUSTUP_HOME": _rustup_home()}


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
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise PreflightError(f"{crate.name} {crate.version}: {name} is not the file that was packed", where=where)
    return count


def _failed(stderr: str, lock: CrateLock) -> UnavailableError | PreflightError:
    """What cargo said, told apart: the network, or the lock."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    # cargo says what it was doing, and last, below the last "Caused by:", why that failed.
    causes = [after for before, after in itertools.pairwise(lines) if before == "Caused by:"]
    said = (causes[-1:] or errors or lines or ["no word"])[0].removeprefix("error: ")
    if _NETWORK.search(stderr):
        return UnavailableError(
            f"cargo can't fetch them: {said}",
            where=lock.path,
            action="mend the network, or name a registry that answers: `crates` in matrix.local.yaml",
        )
    return PreflightError(f"cargo vendor failed: {said}", where=lock.path, action="see what the tree's lock asks for")


def _rustup_home() -> str:
    """rustup finds its toolchains from CARGO_HOME's neighbour, unless it is told."""
    return os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
