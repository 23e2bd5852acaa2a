"""Base images: by digest, from Debian's packages where no registry answers, and the images of a role on them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from builders import bases, bootstrap
from builders.bases import (
    BaseWish,
    build_image,
    dockerfiles,
    ensure_base,
    read_lock,
    renew_lock,
    role_for,
    wish_for,
)
from builders.bootstrap import image_name, mirror_of_apt, write_image, write_layer
from qualify.errors import ConfigurationError, UnavailableError, UsageError
from qualify.matrix.local import LocalSettings
from qualify.matrix.model import Base
from tests.support.engines import Heard

IMAGE = "registry.example/builder:13.0"
DIGEST = "sha256:" + "a" * 64


class Store:
    """Images in memory; ``registry`` is None where none answers."""

    def __init__(self, registry: Mapping[str, str] | None = None) -> None:
        self.registry = registry
        self.tags: dict[str, str] = {}
        self.built: list[tuple[str, str, str]] = []
        self.loaded: list[str] = []

    def find(self, tag: str) -> str:
        return self.tags.get(tag, "")

    def load(self, archive: IO[bytes], tag: str) -> str:
        self.loaded.append(tag)
        self.tags[tag] = "sha256:" + hashlib.sha256(archive.read()).hexdigest()
        return self.tags[tag]

    def pull(self, image: str, digest: str, machine: str) -> str:
        self.digest(image, machine)
        return f"pulled {digest}"

    def digest(self, image: str, machine: str) -> str:
        if self.registry is None:
            raise UnavailableError("its registry does not answer", where=image)
        return self.registry[f"{image}@{machine}"]

    def build(
        self, context: Mapping[str, bytes], dockerfile: str, tag: str, base: str, machine: str, detail: object
    ) -> str:
        assert "install-packages.sh" in context
        self.built.append((dockerfile, base, machine))
        self.tags[tag] = f"id of {tag}"
        return self.tags[tag]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "bases.lock.yaml"
    path.write_text(f'# kept\nversion: 1\nimages:\n  "{IMAGE}@x86_64": {DIGEST}  # this too\n')
    return path


@pytest.fixture(autouse=True)
def no_debootstrap(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    @contextmanager
    def fake(name: str, machine: str, say: object, mirror: str) -> Iterator[IO[bytes]]:
        made.append(f"{name} {machine} {mirror}".strip())
        yield io.BytesIO(b"an archive")

    monkeypatch.setattr(bases, "bootstrapped", fake)
    return made


def test_a_locked_image_is_pulled_by_its_digest(lock: Path) -> None:
    store = Store({f"{IMAGE}@x86_64": DIGEST})
    assert ensure_base(store, BaseWish(image=IMAGE), "x86_64", Heard(), lock=lock) == (f"pulled {DIGEST}", "registry")


def test_an_image_without_a_digest_is_refused_where_its_registry_answers(lock: Path) -> None:
    store = Store({f"{IMAGE}@aarch64": DIGEST})
    with pytest.raises(ConfigurationError) as caught:
        ensure_base(store, BaseWish(image=IMAGE, bootstrap="debian-13"), "aarch64", Heard(), lock=lock)
    assert caught.value.expected == DIGEST
    assert "--renew-lock" in caught.value.action


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"], ids=["locked", "not locked"])
def test_where_no_registry_answers_it_is_bootstrapped_and_said_so(lock: Path, machine: str) -> None:
    heard = Heard()
    image, origin = ensure_base(Store(), BaseWish(image=IMAGE, bootstrap="debian-13"), machine, heard, lock=lock)
    assert (image[:7], origin) == ("sha256:", "bootstrap")
    assert "does not answer" in heard.said[0]
    assert "debian-13" in heard.said[0]


def test_without_a_bootstrap_a_registry_that_does_not_answer_is_exit_4(lock: Path) -> None:
    with pytest.raises(UnavailableError):
        ensure_base(Store(), BaseWish(image=IMAGE), "x86_64", Heard(), lock=lock)


def test_a_bootstrapped_base_is_found_again_unless_it_is_to_be_fresh(no_debootstrap: list[str]) -> None:
    store, base = Store(), BaseWish(bootstrap="debian-12")
    first = ensure_base(store, base, "x86_64", Heard())
    assert ensure_base(store, base, "x86_64", Heard()) == first
    assert no_debootstrap == ["debian-12 x86_64"]
    ensure_base(store, base, "x86_64", Heard(), refresh=True)
    assert len(no_debootstrap) == 2
    assert store.loaded == [image_name("debian-12", "x86_64")] * 2


def test_a_base_of_nothing_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError):
        ensure_base(Store(), BaseWish(), "x86_64", Heard())


def test_the_cross_image_stands_on_the_build_image_and_both_are_reused() -> None:
    store, base = Store(), BaseWish(bootstrap="debian-12")
    image, origin = build_image(store, base, "x86_64", "cross", Heard())
    assert origin == "bootstrap"
    assert [row[0] for row in store.built] == ["build.Dockerfile", "cross.Dockerfile"]
    assert store.built[1][1].startswith("id of wheel-assay/build:")
    assert build_image(store, base, "x86_64", "cross", Heard())[0] == image
    build_image(store, base, "x86_64", "build", Heard())
    assert len(store.built) == 2


def test_another_base_or_machine_is_another_image() -> None:
    store = Store()
    images = {
        build_image(store, BaseWish(bootstrap=name), machine, "build", Heard())[0]
        for name in ("debian-12", "debian-13")
        for machine in ("x86_64", "aarch64")
    }
    # The bases of this test hold the same bytes, so the two Debians share an image; the machines never do.
    assert len(images) == 2


def test_renewing_writes_what_the_registries_say_and_keeps_comments(lock: Path) -> None:
    fresh = "sha256:" + "b" * 64
    store = Store({f"{IMAGE}@x86_64": fresh, f"{IMAGE}@aarch64": DIGEST})
    changed = renew_lock(store, [(IMAGE, "x86_64"), (IMAGE, "aarch64")], lock)
    assert changed == {f"{IMAGE}@x86_64": fresh, f"{IMAGE}@aarch64": DIGEST}
    assert read_lock(lock)[0] == changed
    assert lock.read_text().startswith("# kept\n")
    assert renew_lock(store, [(IMAGE, "x86_64")], lock) == {}


def test_a_registry_that_does_not_answer_leaves_the_lock_as_it_is(lock: Path) -> None:
    before = lock.read_bytes()
    with pytest.raises(UnavailableError):
        renew_lock(Store(), [(IMAGE, "x86_64")], lock)
    assert lock.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    ["", "version: 2\nimages: {}\n", "version: 1\nimages: {x: latest}\n", "version: 1\nimages: 3\n", "{", "- 1\n"],
)
def test_a_lock_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lock.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_lock(path)
    assert caught.value.where == str(path)


def test_the_lock_of_the_repository_is_right() -> None:
    assert read_lock()[2] == dockerfiles() / "bases.lock.yaml"


def test_a_sites_own_image_needs_no_lock() -> None:
    own = Store({"site.example/spark:1@aarch64": DIGEST})
    local = LocalSettings.model_validate({"bases": {"aarch64-sm121": {"image": "site.example/spark:1"}}})
    wish = wish_for("aarch64-sm121", Base(bootstrap="debian-12"), local)
    assert ensure_base(own, wish, "aarch64", Heard()) == (f"pulled {DIGEST}", "site")
    own.tags["site.example/spark:1"] = "what the name means here"
    assert ensure_base(own, wish, "aarch64", Heard()) == ("what the name means here", "site")
    by_digest = replace(wish, digest="sha256:" + "c" * 64)
    assert ensure_base(own, by_digest, "aarch64", Heard())[0] == "pulled sha256:" + "c" * 64
    assert wish_for("aarch64-sm110", Base(bootstrap="debian-12"), local) == BaseWish(bootstrap="debian-12")


def test_mirrors_of_the_site_are_asked(lock: Path, no_debootstrap: list[str]) -> None:
    mirrors = {"registry": "mirror.example/x/", "debian": "http://debian.example/debian"}
    wish = wish_for("t", Base(image=IMAGE, bootstrap="debian-13"), LocalSettings.model_validate({"mirrors": mirrors}))
    answering = Store({f"mirror.example/x/{IMAGE}@x86_64": DIGEST})
    assert ensure_base(answering, wish, "x86_64", Heard(), lock=lock)[1] == "registry"
    ensure_base(Store(), wish, "x86_64", Heard(), lock=lock)
    assert no_debootstrap == ["debian-13 x86_64 http://debian.example/debian"]


def test_an_unknown_way_is_a_usage_error() -> None:
    assert (role_for("native"), role_for("emulate"), role_for("cross")) == ("build", "build", "cross")
    with pytest.raises(UsageError):
        role_for("telepathy")


# What debootstrap fills, as an image.


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in ("etc", "dev", "proc", "var/cache/apt", "usr/bin"):
        (root / folder).mkdir(parents=True)
    (root / "usr/bin/tool").write_text("x")
    (root / "usr/bin/tool").chmod(0o4755)
    (root / "bin").symlink_to("usr/bin")
    (root / "usr/bin/hard").hardlink_to(root / "usr/bin/tool")
    for dropped in ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/cache/apt/x.deb", "proc/1"):
        (root / dropped).write_text("of this run")
    return root


def layer_of(root: Path) -> tuple[bytes, str]:
    sink = io.BytesIO()
    digest = write_layer(root, sink)
    return sink.getvalue(), digest


def test_a_layer_holds_the_content_and_nothing_of_the_run(root: Path) -> None:
    data, digest = layer_of(root)
    assert hashlib.sha256(data).hexdigest() == digest
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        entries = {entry.name: entry for entry in archive}
    assert set(entries) == {
        *("etc", "dev", "proc", "var", "var/cache", "usr", "usr/bin", "usr/bin/tool", "usr/bin/hard", "bin")
    }
    assert entries["usr/bin/tool"].mode | entries["usr/bin/hard"].mode == 0o4755
    assert entries["bin"].linkname == "usr/bin"
    assert {entries["usr/bin/tool"].islnk(), entries["usr/bin/hard"].islnk()} == {True, False}


def test_the_same_content_gives_the_same_bytes(root: Path) -> None:
    first = layer_of(root)
    (root / "proc/1").write_text("another run")
    (root / "usr/bin/tool").touch()
    assert layer_of(root) == first


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_an_image_is_what_an_engine_loads(root: Path, machine: str, architecture: str) -> None:
    layer = io.BytesIO()
    digest = write_layer(root, layer)
    sink = io.BytesIO()
    image = write_image(layer, digest, "wheel-assay/base:x", machine, sink)
    with tarfile.open(fileobj=io.BytesIO(sink.getvalue())) as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    (manifest,) = json.loads(content["manifest.json"])
    configuration = content[manifest["Config"]]
    assert image == "sha256:" + hashlib.sha256(configuration).hexdigest()
    assert json.loads(configuration)["architecture"] == architecture
    assert json.loads(configuration)["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert hashlib.sha256(content[manifest["Layers"][0]]).hexdigest() == digest
    assert manifest["RepoTags"] == ["wheel-assay/base:x"]


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("", ""),
        ("https://a/security/ Debian Debian-Security\nhttps://b/debian/ Debian Debian\n", "https://b/debian/"),
        ("https://c/ Other Other\n", ""),
        ("cdrom:[x] Debian Debian\nhttp://d/debian Debian Debian\n", "http://d/debian"),
    ],
)
def test_the_mirror_is_apts_own(listing: str, expected: str) -> None:
    assert mirror_of_apt(listing) == expected


def test_a_machine_that_the_kernel_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bootstrap, "_BINFMT", tmp_path)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(bootstrap.os, "geteuid", lambda: 0)
    with pytest.raises(UnavailableError) as caught, bootstrap.bootstrapped("debian-12", "riscv64", print):
        raise AssertionError("bootstrapped")
    assert "riscv64" in caught.value.what
    assert "update-binfmts --enable qemu-riscv64" in caught.value.action


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("enabled\ninterpreter /usr/bin/qemu\nflags: PF\n", "/usr/bin/qemu"),
        ("disabled\ninterpreter /usr/bin/qemu\nflags: PF\n", ""),
        ("enabled\ninterpreter /usr/bin/qemu\nflags: P\n", ""),
    ],
)
def test_emulation_counts_when_it_works_in_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, expected: str
) -> None:
    monkeypatch.setattr(bootstrap, "_BINFMT", tmp_path)
    (tmp_path / "qemu-aarch64").write_text(text)
    assert bootstrap.emulation_of("aarch64") == expected


def test_without_root_or_debootstrap_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: f"/usr/sbin/{name}")
    with pytest.raises(UnavailableError, match="root"), bootstrap.bootstrapped("debian-12", "x86_64", print):
        raise AssertionError("bootstrapped")
