"""The crates that a tree's Cargo.lock names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from builders.crates import MAX_BYTES, read_crate_locks
from builders.planning import make_plan
from builders.toolsearch import Host
from qualify.errors import PreflightError
from qualify.matrix import load
from qualify.matrix.model import Rust
from tests.unit.builders_support import FILES, sdist_matrix

SUM = "ab" * 32
COMMIT = "cd" * 20
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
LOCK = f"""\
version = 4

[[package]]
name = "own"
version = "0.1.0"
dependencies = ["serde"]

[[package]]
name = "serde"
version = "1.0.1"
source = "{REGISTRY}"
checksum = "{SUM}"

[[package]]
name = "forked"
version = "0.2.0"
source = "git+https://example.org/forked.git?branch=main#{COMMIT}"

[[package]]
name = "sparse"
version = "3.0.0"
source = "sparse+https://example.org/index/"
checksum = "{SUM}"
"""


def read(folder: Path, text: str, name: str = "Cargo.lock") -> tuple[str, ...]:
    (folder / name).write_text(text, encoding="utf-8")
    (lock,) = read_crate_locks(folder, Rust(locks=(name,)))
    return tuple(f"{crate.name} {crate.version}" for crate in lock.crates)


def test_crates_of_registries_and_of_git(tmp_path: Path) -> None:
    assert read(tmp_path, LOCK) == ("serde 1.0.1", "forked 0.2.0", "sparse 3.0.0")
    (lock,) = read_crate_locks(tmp_path, Rust())
    assert (lock.path, lock.sha256) == ("Cargo.lock", hashlib.sha256(LOCK.encode()).hexdigest())
    assert [crate.name for crate in lock.registry] == ["serde", "sparse"]
    (forked,) = lock.git
    assert (forked.repository, forked.commit, forked.query, forked.checksum) == (
        "https://example.org/forked.git",
        COMMIT,
        "branch=main",
        "",
    )
    assert read(tmp_path, LOCK.replace("version = 4", "version = 3", 1)) == (
        "serde 1.0.1",
        "forked 0.2.0",
        "sparse 3.0.0",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 4\n[[package]", "no Cargo.lock"),
        ("version = 5\n", "a Cargo.lock of version 5"),
        ("", "a Cargo.lock of version 1"),
        ("version = 4\npackage = 3\n", "a Cargo.lock of version 4"),
        ("version = 4\n[[package]]\nname = 'x'\n", "a package without a name or a version"),
        ("version = 4\npackage = [3]\n", "a package without a name or a version"),
        (LOCK.replace(f'checksum = "{SUM}"', ""), "serde 1.0.1 from registry.* has no sha256"),
        (LOCK.replace(SUM, "short"), "has no sha256"),
        (LOCK.replace(f"#{COMMIT}", ""), "forked 0.2.0 from git.* has no commit"),
        (LOCK.replace(COMMIT, "main"), "has no commit"),
        ("#" * (MAX_BYTES + 1), "larger than 16 MiB"),
        ("version = 4\na = " + "[" * 5000, "no Cargo.lock"),
    ],
)
def test_what_is_no_lock_is_refused_with_its_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PreflightError, match=said) as caught:
        read(tmp_path, text)
    assert caught.value.where == "Cargo.lock"


@pytest.mark.parametrize("name", ["gone/Cargo.lock", "../Cargo.lock"])
def test_a_lock_that_is_not_in_the_tree_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "Cargo.lock").write_text(LOCK)
    (tmp_path / "tree").mkdir()
    with pytest.raises(PreflightError, match=f"no {name} in the tree") as caught:
        read_crate_locks(tmp_path / "tree", Rust(locks=(name,)))
    assert "build.rust" in caught.value.where


def test_the_plan_counts_them_and_its_key_follows_the_lock(tmp_path: Path) -> None:
    host = Host("x86_64", 8, 64 * 10**9)
    keys = set()
    for number, text in enumerate((LOCK, LOCK.replace("1.0.1", "1.0.2"))):
        (tmp_path / str(number)).mkdir()
        loaded = sdist_matrix(tmp_path / str(number), {**FILES, "rust/Cargo.lock": text})
        changed = loaded.path.read_text().replace(
            "  torch: true\n", "  torch: true\n  rust: {locks: [rust/Cargo.lock]}\n"
        )
        loaded.path.write_text(changed)
        plan = make_plan(load(loaded.path), "x86_64-sm90", host=host)
        (crates,) = plan.crates
        assert (crates.lock, crates.registry, crates.git) == ("rust/Cargo.lock", 2, 1)
        keys.add(plan.key())
        # The empty shape compiles no Rust.
        assert make_plan(load(loaded.path), "x86_64-sm90", host=host, overrides={"TINY_DEVICE": "empty"}).crates == ()
    assert len(keys) == 2
