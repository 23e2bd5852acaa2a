"""Finding the matrix, its hash, the local settings, and the repository's own file."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from qualify.errors import ConfigurationError, UsageError
from qualify.matrix import load
from qualify.matrix.loader import find, load_local
from qualify.matrix.model import Code, Profile
from tests.unit.test_matrix_refusals import GOOD

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WHEEL_ASSAY_MATRIX", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matrix.yaml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def test_a_parent_folder_is_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert load().path == folder / "matrix.yaml"


def test_the_variable_wins_over_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.yaml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("WHEEL_ASSAY_MATRIX", str(folder / "other.yaml"))
    assert load().path == folder / "other.yaml"


def test_the_argument_wins_over_the_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHEEL_ASSAY_MATRIX", "nothing.yaml")
    assert load(folder / "matrix.yaml").path == folder / "matrix.yaml"


def test_a_named_matrix_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHEEL_ASSAY_MATRIX", "nothing.yaml")
    with pytest.raises(ConfigurationError, match=r"nothing\.yaml: no such file; name a matrix with --matrix"):
        load()


def test_no_matrix_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHEEL_ASSAY_MATRIX", raising=False)
    monkeypatch.setattr("qualify.matrix.loader._PACKAGED", tmp_path / "absent.yaml")
    with pytest.raises(ConfigurationError, match=r"no matrix\.yaml in this folder or a parent; name one with --matrix"):
        find(tmp_path)


def test_the_copy_in_the_distribution_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHEEL_ASSAY_MATRIX", raising=False)
    packaged = tmp_path / "data" / "matrix.yaml"
    packaged.parent.mkdir()
    packaged.write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr("qualify.matrix.loader._PACKAGED", packaged)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert find(empty) == packaged


MEASURED = """\
measured:
  x86_64-sm90:
    runtime_version: "1.0"
    distribution_version: "1.0"
    build_mode: unstated
    commit: "0123456"
    sha256: "%s"
    toolkit: "13.0"
    torch: ""
    flashinfer: ""
    how: import
    when: "2026-11-30T00:00:00Z"
""" % ("a" * 64)


@pytest.mark.parametrize(
    "same",
    [
        GOOD + MEASURED,
        GOOD + "measured: {}\n",
        "# a comment\n" + GOOD,
        GOOD.replace("torch: false", "expects_device_code: true"),
    ],
)
def test_what_is_measured_commented_or_a_default_does_not_change_the_asserted_hash(folder: Path, same: str) -> None:
    before = load().asserted_sha256
    (folder / "matrix.yaml").write_text(same, encoding="utf-8")
    assert load().asserted_sha256 == before


def test_an_asserted_value_changes_the_hash(folder: Path) -> None:
    before = load().asserted_sha256
    (folder / "matrix.yaml").write_text(GOOD.replace("axpy.bundle", "other.bundle"), encoding="utf-8")
    assert load().asserted_sha256 != before


def test_local_settings_are_read_and_enter_no_hash(folder: Path) -> None:
    before = load().asserted_sha256
    (folder / "matrix.local.yaml").write_text(
        "folders: {cache: /var/cache/wheels}\nnas_roots: {lab: /mnt/lab}\nexternal_sources: {cutlass: ../cutlass}\n",
        encoding="utf-8",
    )
    loaded = load()
    assert (loaded.local.folders.cache, loaded.local.nas_roots) == ("/var/cache/wheels", {"lab": "/mnt/lab"})
    assert loaded.asserted_sha256 == before
    assert loaded.local.external_sources == {"cutlass": str(folder.parent / "cutlass")}
    assert loaded.folder(loaded.local.external_sources["cutlass"]) == folder.parent / "cutlass"
    assert loaded.place("lab:vllm/nightly") == Path("/mnt/lab/vllm/nightly")
    assert loaded.place("lab:/vllm") == Path("/mnt/lab/vllm")
    assert [loaded.place(text) for text in ("wheels", "./attic:x")] == [Path("wheels"), Path("./attic:x")]
    with pytest.raises(UsageError, match="no NAS root attic") as caught:
        loaded.place("attic:x")
    assert caught.value.expected == "one of lab"
    assert caught.value.action.endswith(" ./attic:x")
    Path("attic:x").mkdir()
    assert loaded.place("attic:x") == Path("attic:x")


def test_the_example_of_local_settings_loads_and_says_every_key() -> None:
    example = ROOT / "docs" / "matrix.local.example.yaml"
    settings = load_local(example)
    assert set(YAML(typ="safe", pure=True).load(example.read_text(encoding="utf-8"))) == set(
        type(settings).model_fields
    )
    assert settings.folders.wheels == str(ROOT / "docs" / "wheels")
    assert settings.mirrors.find_links == (str(Path("~/wheels").expanduser()), "https://wheels.example/links/")


def test_an_empty_local_file_is_as_none(folder: Path) -> None:
    (folder / "matrix.local.yaml").write_text("", encoding="utf-8")
    assert load().local == load().local.__class__()


def test_a_wrong_local_file_is_named(folder: Path) -> None:
    (folder / "matrix.local.yaml").write_text("folder: {cache: a}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load()
    assert str(caught.value) == "matrix.local.yaml:1: folder: the key is unknown; did you mean folders?"


def test_the_repository_s_matrix_loads_with_three_targets() -> None:
    matrix = load(ROOT / "matrix.yaml").matrix
    assert list(matrix.targets) == ["x86_64-sm90", "aarch64-sm110", "aarch64-sm121"]
    for target in matrix.targets:
        fa2 = matrix.expectations(target)["vllm/vllm_flash_attn/_vllm_fa2_C"]
        assert fa2.code_for(Profile.UPSTREAM) is Code.JIT


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/matrix.yaml")), ids=lambda path: path.parent.name)
def test_every_example_s_matrix_loads(path: Path) -> None:
    assert load(path).matrix.targets
