"""torch's exports kept: read once, found again by hash, file or requirement, and never believed unseen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qualify import cli, fetching, torchindex
from qualify.errors import MalformedError, UnavailableError, UsageError
from qualify.fetching import Fetcher
from qualify.packageindex import IndexSettings
from qualify.torchindex import Host, TorchIndexes
from tests.support.elf import host_elf
from tests.support.torchwheel import SHIM, SIZES
from tests.support.wheel import make_wheel, wheel_filename
from tests.unit.judging_support import HOPPER, MATRIX, code, member

HERE = Host("x86_64", "3.12")
TAG = "cp312-cp312-manylinux_2_28_x86_64"
Read = Callable[..., object]


def torch_wheel(folder: Path, version: str = "2.14.0", name: str = "torch", **libraries: bytes) -> Path:
    """A wheel of torch with two small libraries, or those that are given."""
    made = libraries or {
        "libc10": host_elf(soname="libc10.so", defined=[SIZES]),
        "libtorch_cpu": host_elf(soname="libtorch_cpu.so", defined=[SHIM], needed=["libc10.so", "libc.so.6"]),
    }
    files = {f"{name}/lib/{stem}.so": data for stem, data in made.items()}
    folder.mkdir(exist_ok=True)
    path = folder / wheel_filename(name, version, TAG)
    path.write_bytes(make_wheel(name, version, TAG, {}, files=files))
    return path


@pytest.fixture
def indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TorchIndexes:
    settings = IndexSettings(find_links=(str(tmp_path / "index"),), no_index=True)
    monkeypatch.setattr(fetching, "pip_settings", lambda: settings)
    return TorchIndexes(Fetcher(cache=tmp_path / "cache", progress=lambda *_: None))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The wheels that were read, in order."""
    seen: list[Path] = []
    whole = torchindex.read_wheel

    def reading(path: Path, **options: object) -> object:
        seen.append(path)
        return whole(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(torchindex, "read_wheel", reading)
    return seen


def kept(indexes: TorchIndexes, pattern: str) -> list[Path]:
    return sorted((indexes.fetcher.root / "exports").glob(pattern))


def test_a_wheel_is_read_once_and_hashed_once(
    tmp_path: Path, indexes: TorchIndexes, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = torch_wheel(tmp_path)
    first = indexes.load(str(path), HERE)
    assert first.libraries == {"libc10.so": frozenset({SIZES}), "libtorch_cpu.so": frozenset({SHIM})}
    assert read == [path]
    monkeypatch.setattr(torchindex, "sha256_of", lambda path: pytest.fail("it was hashed again"))
    assert indexes.load(str(path), HERE) == first
    assert read == [path]


def test_the_same_bytes_elsewhere_are_hashed_and_not_read(
    tmp_path: Path, indexes: TorchIndexes, read: list[Path]
) -> None:
    path = torch_wheel(tmp_path)
    first = indexes.load(str(path), HERE)
    (tmp_path / "other").mkdir()
    copy = shutil.copy(path, tmp_path / "other" / path.name)
    assert indexes.load(copy, HERE) == first
    assert read == [path]


def test_a_file_that_changed_is_read_again(tmp_path: Path, indexes: TorchIndexes, read: list[Path]) -> None:
    path = torch_wheel(tmp_path)
    first = indexes.load(str(path), HERE)
    times = path.stat()
    torch_wheel(tmp_path, libc10=host_elf(soname="libc10.so", defined=["other"]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = indexes.load(str(path), HERE)
    assert second.libraries == {"libc10.so": frozenset({"other"})}
    assert second.sha256 != first.sha256
    assert len(read) == 2
    assert len(kept(indexes, "*.idx")) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:30],
        lambda data: data[:-5] + b"\0\0\0\0\0",
        lambda data: data.replace(b"exports 1 ", b"exports 2 ", 1),
        lambda data: data.replace(b"exports 1 ", b"exports 1 9", 1),
        lambda data: data.replace(b"exports 1 ", b"exports 1 99999999", 1),
        lambda data: b"\n" + data,
        lambda data: data + b"more",
        lambda data: b"x" * 5000,
    ],
)
def test_a_damaged_index_counts_as_absent(
    tmp_path: Path, indexes: TorchIndexes, read: list[Path], spoil: Callable[[bytes], bytes]
) -> None:
    path = torch_wheel(tmp_path)
    first = indexes.load(str(path), HERE)
    [file] = kept(indexes, "*.idx")
    good = file.read_bytes()
    file.write_bytes(spoil(good))
    assert indexes.load(str(path), HERE) == first
    assert len(read) == 2
    assert file.read_bytes() == good


def test_an_index_of_another_wheel_under_this_ones_name_is_not_taken(
    tmp_path: Path, indexes: TorchIndexes, read: list[Path]
) -> None:
    path, other = torch_wheel(tmp_path), torch_wheel(tmp_path / "b", "2.15.0")
    indexes.load(str(path), HERE)
    [file] = kept(indexes, "*.idx")
    indexes.load(str(other), HERE)
    [wrong] = [each for each in kept(indexes, "*.idx") if each != file]
    file.write_bytes(wrong.read_bytes())
    assert indexes.load(str(path), HERE).version == "2.14.0"
    assert len(read) == 3


def test_notes_that_are_none_are_passed_over(tmp_path: Path, indexes: TorchIndexes, read: list[Path]) -> None:
    path = torch_wheel(tmp_path)
    indexes.load(str(path), HERE)
    [note] = kept(indexes, "file-*")
    for text in (b"", b"../../x", b"f" * 63, b"f" * 65, b"\xff" * 64, b"f" * 64):
        note.write_bytes(text)
        assert indexes.load(str(path), HERE).version == "2.14.0"
    assert len(read) == 1


def test_an_exact_requirement_is_fetched_once_and_needs_no_wheel_after(
    tmp_path: Path, indexes: TorchIndexes, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_wheel(tmp_path / "index")
    first = indexes.load("torch==2.14.0", HERE)
    assert first.version == "2.14.0"
    shutil.rmtree(indexes.fetcher.root / "files")
    monkeypatch.setattr(Fetcher, "fetch_wheel", lambda *_, **__: pytest.fail("it was fetched again"))
    assert indexes.load("torch==2.14.0", HERE) == first
    assert len(read) == 1


def test_an_open_requirement_is_asked_of_the_index_each_time(
    tmp_path: Path, indexes: TorchIndexes, read: list[Path]
) -> None:
    torch_wheel(tmp_path / "index")
    assert indexes.load("torch>=2.10", HERE).version == "2.14.0"
    torch_wheel(tmp_path / "index", "2.15.0")
    assert indexes.load("torch>=2.10", HERE).version == "2.15.0"
    assert indexes.load("torch", HERE).version == "2.15.0"
    assert len(read) == 2


def test_what_is_no_torch_of_this_machine_is_refused(tmp_path: Path, indexes: TorchIndexes) -> None:
    path = torch_wheel(tmp_path)
    with pytest.raises(UsageError, match="libraries for x86_64") as raised:
        indexes.load(str(path), Host("aarch64", "3.12"))
    assert raised.value.expected == "a torch wheel for aarch64"
    with pytest.raises(UsageError, match="a wheel of 'torchy'"):
        indexes.load(str(torch_wheel(tmp_path, name="torchy")), HERE)
    for wrong in ("nowhere/torch-2.14.0.whl", "torchvision==0.29.1", "", "vllm==0.33.0"):
        with pytest.raises(UsageError):
            indexes.load(wrong, HERE)
    torch_wheel(tmp_path / "index")
    with pytest.raises(UsageError):
        indexes.load("torch==9.9.9", HERE)


def test_a_damaged_library_is_said_and_not_kept(tmp_path: Path, indexes: TorchIndexes) -> None:
    good = host_elf(soname="libc10.so", defined=[SIZES])
    path = torch_wheel(tmp_path, libc10=good[:200] + b"\xff" * 200 + good[400:])
    with pytest.raises(MalformedError):
        indexes.load(str(path), HERE)
    assert kept(indexes, "*.idx") == []


def test_without_room_the_answer_is_as_good(
    tmp_path: Path, indexes: TorchIndexes, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise UnavailableError("the disk is full", where=str(path))

    monkeypatch.setattr(torchindex, "write_atomic", full)
    path = torch_wheel(tmp_path)
    assert indexes.load(str(path), HERE).version == "2.14.0"
    assert indexes.load(str(path), HERE).version == "2.14.0"
    assert len(read) == 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "matrix.yaml").write_text(json.dumps(MATRIX))
    binary = member(code("sm_90"), undefined=[SIZES], needed=("libtorch_cpu.so", "libc.so.6"))
    data = make_wheel(extensions={"axpy/_C": binary, "axpy/_host": {}}, requires=["torch==2.14.0"])
    (tmp_path / wheel_filename()).write_bytes(data)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("WHEEL_ASSAY_MATRIX", str(tmp_path / "matrix.yaml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_looks_symbols_up_in_a_given_torch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = torch_wheel(folder)
    other = torch_wheel(folder / "b", libtorch_cpu=host_elf(soname="libtorch_cpu.so", defined=[SHIM]))
    candidate = [str(folder / wheel_filename()), "--target", HOPPER]
    assert cli.main(["check", *candidate, "--torch", str(good)]) == 0
    assert "TOR" not in capsys.readouterr().out
    assert cli.main(["check", *candidate, "--torch", str(other)]) == 1
    assert "c10::TensorImpl::sizes() const" in capsys.readouterr().out
    assert cli.main(["check", *candidate]) == 0
    assert "link-not-judged" in capsys.readouterr().out


def test_check_says_what_is_wrong_with_the_torch_and_nothing_of_the_candidate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidate = [str(folder / wheel_filename()), "--target", HOPPER]
    broken = torch_wheel(folder, libc10=host_elf(soname="libc10.so")[:200])
    for wrong in (str(broken), str(folder / wheel_filename()), "nowhere.whl"):
        assert cli.main(["check", *candidate, "--torch", wrong]) == 2
        seen = capsys.readouterr()
        assert seen.out == ""
        assert wrong.rpartition("/")[2].removesuffix(".whl") in seen.err
    assert cli.main(["check", *candidate, "--torch", wrong, "--evidence"]) == 2
    assert "--torch" in capsys.readouterr().err
