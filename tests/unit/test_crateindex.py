"""A folder of ``.crate`` files as a registry: what its index says of each crate, and files that are no crates."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from builders.crateindex import index_path, make_registry, sort_crates
from builders.crates import Crate
from qualify.errors import PreflightError

MANIFEST = """\
[package]
name = "Full"
version = "1.2.3"
links = "z"
rust-version = "1.70"
[features]
default = ["fast"]
fast = ["dep:plain", "weak?/std"]
[dependencies]
plain = "1"
[dependencies.other]
version = "^2"
package = "real"
features = ["a"]
default-features = false
[dependencies.weak]
version = "0.3"
optional = true
[build-dependencies]
cc = "1.0"
[dev-dependencies]
never = "9"
[target."cfg(unix)".dependencies]
libc = "0.2"
"""


def pack(folder: Path, name: str, version: str, manifest: str | bytes) -> Crate:
    data = manifest.encode() if isinstance(manifest, str) else manifest
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        entry = tarfile.TarInfo(f"{name}-{version}/Cargo.toml")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return keep(folder, name, version, stream.getvalue())


def keep(folder: Path, name: str, version: str, data: bytes) -> Crate:
    (folder / f"{name}-{version}.crate").write_bytes(data)
    return Crate(name, version, hashlib.sha256(data).hexdigest(), "registry+https://example.org/index")


def lines(registry: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (registry / "index" / index_path(name)).read_text().splitlines()]


def test_an_index_says_what_the_manifest_says(tmp_path: Path) -> None:
    crate = pack(tmp_path, "Full", "1.2.3", MANIFEST)
    registry = make_registry(tmp_path, [crate], tmp_path / "registry")
    (line,) = lines(registry, "Full")
    assert (line["name"], line["vers"], line["cksum"], line["yanked"]) == ("Full", "1.2.3", crate.checksum, False)
    assert (line["links"], line["rust_version"], line["v"]) == ("z", "1.70", 2)
    assert line["features2"] == {"default": ["fast"], "fast": ["dep:plain", "weak?/std"]}
    needs = {each["name"]: each for each in line["deps"]}
    assert list(needs) == ["plain", "other", "weak", "cc", "libc"], "what its own tests need is not asked for"
    assert (needs["plain"]["req"], needs["plain"]["kind"], needs["plain"]["default_features"]) == ("1", "normal", True)
    assert (needs["other"]["package"], needs["other"]["features"]) == ("real", ["a"])
    assert needs["other"]["default_features"] is False
    assert needs["weak"]["optional"] is True
    assert needs["cc"]["kind"] == "build"
    assert (needs["libc"]["target"], needs["plain"]["target"]) == ("cfg(unix)", None)
    assert (registry / "Full-1.2.3.crate").read_bytes() == (tmp_path / "Full-1.2.3.crate").read_bytes()


def test_two_versions_of_one_crate_stand_in_one_file(tmp_path: Path) -> None:
    crates = [pack(tmp_path, "two", version, f'[package]\nversion = "{version}"\n') for version in ("1.0.0", "2.0.0")]
    registry = make_registry(tmp_path, crates, tmp_path / "registry")
    assert [line["vers"] for line in lines(registry, "two")] == ["1.0.0", "2.0.0"]


@pytest.mark.parametrize(
    ("name", "place"),
    [("a", "1/a"), ("ab", "2/ab"), ("abc", "3/a/abc"), ("Abcd", "ab/cd/abcd"), ("serde", "se/rd/serde")],
)
def test_where_an_index_has_a_crate(name: str, place: str) -> None:
    assert index_path(name) == place


def test_crates_are_held_against_the_lock(tmp_path: Path) -> None:
    good, gone, other = (pack(tmp_path, name, "1.0.0", "") for name in ("good", "gone", "other"))
    (tmp_path / "gone-1.0.0.crate").unlink()
    (tmp_path / "other-1.0.0.crate").write_bytes(b"x")
    assert sort_crates(tmp_path, [good, gone, other]) == ((gone,), (other,))
    assert sort_crates(tmp_path / "nowhere", [good]) == ((good,), ())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no gzip at all", id="text"),
        pytest.param(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03cut", id="cut"),
    ],
)
def test_a_file_that_is_no_crate(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(PreflightError, match=r"odd-1\.0\.0\.crate: no crate|no odd-1\.0\.0/Cargo\.toml") as caught:
        make_registry(tmp_path, [keep(tmp_path, "odd", "1.0.0", data)], tmp_path / "registry")
    assert caught.value.where.endswith("odd-1.0.0.crate")


@pytest.mark.parametrize(
    "manifest", [b"\xff", b"[package", b"dependencies = 3\n", b'target = "x"\n', b"[dependencies]\na = 1\n"]
)
def test_a_manifest_that_is_none(tmp_path: Path, manifest: bytes) -> None:
    with pytest.raises(PreflightError, match="no crate"):
        make_registry(tmp_path, [pack(tmp_path, "odd", "1.0.0", manifest)], tmp_path / "registry")
