"""Crates in the store: a real cargo, a registry and a git server on loopback, and what was changed behind the lock."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builders.crates import CrateLock, read_crate_locks
from builders.filling import cargo_settings
from builders.vendor import Lack, Vendored, Vendoring, prove
from qualify.errors import PreflightError, UnavailableError
from qualify.matrix.model import Rust
from tests.support.crateregistry import Registry, crate_registry
from tests.support.gitserver import GitServer, git_server
from tests.unit.builders_support import git, write_tree

needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not on PATH")
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
GIT = "https://git.example.org/odd.git"


@dataclass(frozen=True)
class Rusty:
    """A tree with a crate of the registry (and one that it needs), and one of git."""

    tree: Path
    registry: Registry
    server: GitServer
    vendoring: Vendoring

    @property
    def lock(self) -> CrateLock:
        return read_crate_locks(self.tree, Rust())[0]


@pytest.fixture
def rusty(tmp_path: Path) -> Iterator[Rusty]:
    odd = tmp_path / "served" / "odd.git"
    odd.mkdir(parents=True)
    git(odd, "init", "-q", "-b", "main")
    manifest = '[package]\nname = "odd"\nversion = "0.3.0"\nedition = "2021"\n'
    write_tree(odd, {"Cargo.toml": manifest, "src/lib.rs": "pub fn odd() -> u32 { 3 }\n"})
    git(odd, "add", ".")
    git(odd, "commit", "-qm", "first")
    commit = git(odd, "rev-parse", "HEAD")
    with crate_registry() as registry, git_server(tmp_path / "served") as server:
        inner = registry.add("inner", "1.0.0", "pub fn inner() -> u32 { 1 }\n")
        outer = registry.add("outer", "2.0.0", "pub fn outer() -> u32 { 1 + inner::inner() }\n", {"inner": "1"})
        tree = tmp_path / "tree"
        write_tree(
            tree,
            {
                "Cargo.toml": '[package]\nname = "tool"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
                f'outer = "2"\nodd = {{ git = "{GIT}", rev = "{commit}" }}\n',
                "src/main.rs": 'fn main() { println!("{}", outer::outer() + odd::odd()); }\n',
                "Cargo.lock": _lock(inner, outer, commit),
            },
        )
        yield Rusty(
            tree,
            registry,
            server,
            Vendoring(
                tmp_path / "store",
                registry=registry.url,
                replaced={"https://git.example.org/": f"{server.url}/"},
            ),
        )


def _lock(inner: str, outer: str, commit: str) -> str:
    return f"""\
version = 3

[[package]]
name = "inner"
version = "1.0.0"
source = "{REGISTRY}"
checksum = "{inner}"

[[package]]
name = "odd"
version = "0.3.0"
source = "git+{GIT}?rev={commit}#{commit}"

[[package]]
name = "outer"
version = "2.0.0"
source = "{REGISTRY}"
checksum = "{outer}"
dependencies = ["inner"]

[[package]]
name = "tool"
version = "0.1.0"
dependencies = ["odd", "outer"]
"""


def test_a_lock_names_its_crates(rusty: Rusty) -> None:
    lock = rusty.lock
    assert [(crate.name, crate.version) for crate in lock.registry] == [("inner", "1.0.0"), ("outer", "2.0.0")]
    (odd,) = lock.git
    assert (odd.repository, odd.query) == (GIT, f"rev={odd.commit}")
    assert lock.sha256 == hashlib.sha256((rusty.tree / "Cargo.lock").read_bytes()).hexdigest()


@needs_cargo
def test_vendored_crates_compile_without_a_network(rusty: Rusty, tmp_path: Path) -> None:
    vendored = rusty.vendoring.ensure(rusty.lock, rusty.tree)
    assert sorted(path.name for path in vendored.folder.iterdir()) == ["inner-1.0.0", "odd-0.3.0", "outer-2.0.0"]
    rusty.registry.files.clear()
    offline = replace(rusty.vendoring, offline=True, registry="", replaced={})
    again = offline.ensure(rusty.lock, rusty.tree)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(cargo_settings([again], str(again.folder)))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CARGO_")},
        "CARGO_HOME": str(home),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup"),
        "CARGO_NET_OFFLINE": "true",
    }
    command = ["cargo", "run", "--quiet", "--locked", "--manifest-path", str(rusty.tree / "Cargo.toml")]
    said = subprocess.run(
        [*command, "--target-dir", str(tmp_path / "target")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stdout.strip()) == (0, "5"), said.stderr


@needs_cargo
def test_a_registry_that_gives_another_crate_is_refused(rusty: Rusty) -> None:
    lock = rusty.lock
    rusty.registry.add("inner", "1.0.0", "pub fn inner() -> u32 { 666 }\n")
    with pytest.raises(PreflightError, match=r"cargo vendor failed: checksum for `inner v1\.0\.0` changed"):
        rusty.vendoring.ensure(lock, rusty.tree)
    assert rusty.vendoring.find(lock) is None


@needs_cargo
def test_a_registry_that_is_gone_is_told_from_a_wrong_lock(rusty: Rusty) -> None:
    gone = replace(rusty.vendoring, registry="http://127.0.0.1:9/")
    with pytest.raises(UnavailableError, match="cargo can't fetch them"):
        gone.ensure(rusty.lock, rusty.tree)
    manifest = rusty.tree / "Cargo.toml"
    manifest.write_text(manifest.read_text() + 'another = "1"\n')
    with pytest.raises(PreflightError, match="cargo vendor failed"):
        rusty.vendoring.ensure(rusty.lock, rusty.tree)


def names(lacks: object) -> list[list[str]]:
    assert isinstance(lacks, tuple)
    assert all(isinstance(lack, Lack) for lack in lacks)
    return [[crate.name for crate in lack.crates] for lack in lacks]


@needs_cargo
def test_a_git_server_that_is_gone_hides_no_registry_that_is_gone(rusty: Rusty) -> None:
    gone = replace(rusty.vendoring, registry="http://127.0.0.1:9/")
    rusty.server.down = True
    lacks = gone.attempt(rusty.lock, rusty.tree)
    assert names(lacks) == [["inner", "outer"], ["odd"]]
    assert isinstance(lacks, tuple)
    assert all(isinstance(lack.error, UnavailableError) for lack in lacks)
    assert "the server does not answer" in lacks[1].error.what
    assert lacks[1].error.where == GIT


@needs_cargo
def test_what_could_be_had_stays_had(rusty: Rusty) -> None:
    """With git gone the registry's crates are fetched all the same, and not asked for again."""
    rusty.server.down = True
    assert names(rusty.vendoring.attempt(rusty.lock, rusty.tree)) == [["odd"]]
    assert names(replace(rusty.vendoring, offline=True).attempt(rusty.lock, rusty.tree)) == [["odd"]]
    rusty.server.down = False
    for path in [path for path in rusty.registry.files if path.endswith(".crate")]:
        del rusty.registry.files[path]
    assert isinstance(rusty.vendoring.attempt(rusty.lock, rusty.tree), Vendored)
    assert not list(rusty.vendoring.root.glob(".*.part"))
    assert not (rusty.vendoring.root / "home" / "registry" / "src").exists()


@needs_cargo
def test_a_commit_that_its_repository_lacks_is_laid_to_it(rusty: Rusty) -> None:
    lost = "0" * 39 + "1"
    commit = rusty.lock.git[0].commit
    for path in (rusty.tree / "Cargo.toml", rusty.tree / "Cargo.lock"):
        path.write_text(path.read_text().replace(commit, lost))
    (lack,) = rusty.vendoring.attempt(rusty.lock, rusty.tree)  # type: ignore[misc]
    assert [crate.name for crate in lack.crates] == ["odd"]
    assert isinstance(lack.error, PreflightError)
    assert GIT in lack.error.what
    rusty.registry.files.clear()
    shutil.rmtree(rusty.vendoring.root)
    assert names(rusty.vendoring.attempt(rusty.lock, rusty.tree)) == [["inner", "outer"], ["odd"]]


def crate_files(rusty: Rusty, folder: Path) -> Path:
    folder.mkdir()
    for path, data in rusty.registry.files.items():
        if path.endswith(".crate"):
            (folder / Path(path).name).write_bytes(data)
    return folder


@needs_cargo
def test_a_folder_of_crate_files_stands_for_the_registry(rusty: Rusty, tmp_path: Path) -> None:
    folder = crate_files(rusty, tmp_path / "files")
    rusty.registry.files.clear()
    vendored = replace(rusty.vendoring, registry=str(folder)).ensure(rusty.lock, rusty.tree)
    assert sorted(path.name for path in vendored.folder.iterdir()) == ["inner-1.0.0", "odd-0.3.0", "outer-2.0.0"]
    assert str(tmp_path) not in vendored.settings


@needs_cargo
def test_a_folder_that_lacks_crates_says_which(rusty: Rusty, tmp_path: Path) -> None:
    folder = crate_files(rusty, tmp_path / "files")
    site = replace(rusty.vendoring, registry=str(folder))
    (folder / "inner-1.0.0.crate").unlink()
    (folder / "outer-2.0.0.crate").write_bytes(b"another")
    rusty.server.down = True
    lacks = site.attempt(rusty.lock, rusty.tree)
    assert names(lacks) == [["inner"], ["outer"], ["odd"]]
    assert isinstance(lacks, tuple)
    assert [type(lack.error) for lack in lacks] == [UnavailableError, PreflightError, UnavailableError]
    assert lacks[0].error.what == "1 of 2 are not in the folder"
    with pytest.raises(PreflightError, match="1 are others there than the lock's"):
        site.ensure(rusty.lock, rusty.tree)


@needs_cargo
def test_the_caller_s_own_configuration_says_where_the_registry_is(
    rusty: Rusty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "near"\n[source.near]\nregistry = "sparse+{rusty.registry.url}"\n'
    )
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "mine"))
    vendored = replace(rusty.vendoring, registry="").ensure(rusty.lock, rusty.tree)
    assert len(list(vendored.folder.iterdir())) == 3
    assert list((tmp_path / "mine").iterdir()) == [tmp_path / "mine" / "config.toml"]


@needs_cargo
def test_a_folder_that_is_no_registry_is_refused(rusty: Rusty, tmp_path: Path) -> None:
    lacks = replace(rusty.vendoring, registry=str(tmp_path / "nowhere")).attempt(rusty.lock, rusty.tree)
    assert names(lacks) == [["inner", "outer"]]


def test_offline_and_not_there(rusty: Rusty) -> None:
    with pytest.raises(UnavailableError, match="the store lacks them, and the network is not to be used"):
        replace(rusty.vendoring, offline=True).ensure(rusty.lock, rusty.tree)
    assert names(replace(rusty.vendoring, offline=True).attempt(rusty.lock, rusty.tree)) == [
        ["inner", "outer"],
        ["odd"],
    ]


def test_no_cargo_is_not_no_crates(rusty: Rusty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnavailableError, match="cargo is not on PATH here") as caught:
        rusty.vendoring.ensure(rusty.lock, rusty.tree)
    assert caught.value.action == "install Rust"


def crate(folder: Path, name: str, files: dict[str, str], package: str | None) -> None:
    write_tree(folder / name, files)
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}
    (folder / name / ".cargo-checksum.json").write_text(json.dumps({"files": digests, "package": package}))


def whole(rusty: Rusty, folder: Path) -> Path:
    for each in rusty.lock.crates:
        crate(folder, f"{each.name}-{each.version}", {"src/lib.rs": "x\n"}, each.checksum or None)
    return folder


def test_what_lies_in_the_store_is_held_against_the_lock(rusty: Rusty, tmp_path: Path) -> None:
    folder = whole(rusty, tmp_path / "crates")
    prove(rusty.lock, folder)
    (folder / "inner-1.0.0" / "src" / "lib.rs").write_text("changed\n")
    with pytest.raises(PreflightError, match=r"inner 1\.0\.0: src/lib\.rs is not the file that was packed"):
        prove(rusty.lock, folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: shutil.rmtree(folder / "outer-2.0.0"), r"outer-2\.0\.0 is missing"),
        (lambda folder: crate(folder, "evil-1.0.0", {"a": "b"}, None), r"evil-1\.0\.0 is there"),
        (lambda folder: crate(folder, "inner-1.0.0", {"a": "b"}, "0" * 64), r"inner 1\.0\.0 was packed from 0000"),
        (lambda folder: (folder / "odd-0.3.0" / "src" / "lib.rs").unlink(), r"odd 0\.3\.0 has no src/lib\.rs"),
        (
            lambda folder: (folder / "odd-0.3.0" / "build.rs").touch(),
            r"odd 0\.3\.0 has build\.rs, which was not",
        ),
        (lambda folder: (folder / "odd-0.3.0" / "src" / "l").symlink_to("/etc"), r"odd 0\.3\.0 has src/l, which"),
    ],
)
def test_what_is_missing_foreign_or_another(rusty: Rusty, tmp_path: Path, change: object, said: str) -> None:
    folder = whole(rusty, tmp_path / "crates")
    change(folder)  # type: ignore[operator]
    with pytest.raises(PreflightError, match=said):
        prove(rusty.lock, folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 2\n", "a Cargo.lock of version 2"),
        ("not toml", "no Cargo.lock"),
        ('version = 3\n[[package]]\nversion = "1"\n', "without a name"),
        ('version = 3\n[[package]]\nname = "../a"\nversion = "1"\n', r"a package '\.\./a' '1'"),
        ('version = 3\n[[package]]\nname = "a"\nversion = "*"\n', r"a package 'a' '\*'"),
        (f'version = 3\n[[package]]\nname = "a"\nversion = "1"\nsource = "{REGISTRY}"\n', "has no sha256"),
        ('version = 3\n[[package]]\nname = "a"\nversion = "1"\nsource = "git+https://x/y"\n', "has no commit"),
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "Cargo.lock").write_text(text)
    with pytest.raises(PreflightError, match=said):
        read_crate_locks(tmp_path, Rust())


def test_a_lock_that_the_tree_lacks(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"no rust/Cargo\.lock in the tree"):
        read_crate_locks(tmp_path, Rust(locks=("rust/Cargo.lock",)))
