"""The decompressors: exactly the size asked for, or an error that says why."""

from __future__ import annotations

import time
import zlib

import lz4.block
import pytest
import zstandard

from qualify import decompress
from qualify.decompress import Libraries
from qualify.errors import MalformedError, UnavailableError

DATA = b"some text " * 1000


def _raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


FORMS = {
    "deflate": _raw_deflate(DATA),
    "zstd": zstandard.ZstdCompressor().compress(DATA),
    "lz4": lz4.block.compress(DATA, store_size=False),
}


@pytest.fixture(params=["isal", "zlib"])
def libraries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Libraries:
    if request.param == "zlib":
        real = decompress._optional
        monkeypatch.setattr(decompress, "_optional", lambda name: None if name.startswith("isal") else real(name))
    return Libraries()


@pytest.mark.parametrize("form", FORMS)
def test_the_whole_is_returned(libraries: Libraries, form: str) -> None:
    assert getattr(libraries, form)(memoryview(FORMS[form]), len(DATA)) == DATA
    assert libraries.crc32(DATA) == zlib.crc32(DATA)


@pytest.mark.parametrize("size", [0, 1, len(DATA) - 1, len(DATA) + 1, 2 * len(DATA)])
@pytest.mark.parametrize("form", FORMS)
def test_another_size_is_malformed(libraries: Libraries, form: str, size: int) -> None:
    with pytest.raises(MalformedError):
        getattr(libraries, form)(FORMS[form], size)


@pytest.mark.parametrize("form", FORMS)
def test_damage_is_malformed(libraries: Libraries, form: str) -> None:
    stored = FORMS[form]
    for broken in (b"", stored[: len(stored) // 2], stored[:-1], b"\xff" * 40):
        with pytest.raises(MalformedError):
            getattr(libraries, form)(broken, len(DATA))


@pytest.mark.parametrize("form", ["deflate", "zstd"])
def test_foreign_bytes_behind_the_stream_are_malformed(libraries: Libraries, form: str) -> None:
    with pytest.raises(MalformedError):
        getattr(libraries, form)(FORMS[form] + b"more", len(DATA))


def test_an_empty_stream_is_no_error(libraries: Libraries) -> None:
    assert libraries.deflate(_raw_deflate(b""), 0) == b""
    assert libraries.zstd(zstandard.ZstdCompressor().compress(b""), 0) == b""


def test_a_frame_without_its_size_is_bounded(libraries: Libraries) -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(DATA)
    assert libraries.zstd(frame, len(DATA)) == DATA
    with pytest.raises(MalformedError):
        libraries.zstd(frame, 100)


@pytest.mark.parametrize("form", ["deflate", "zstd"])
def test_a_bomb_stops_at_the_size_asked_for(libraries: Libraries, form: str) -> None:
    zeros = bytes(256 << 20)
    bomb = _raw_deflate(zeros) if form == "deflate" else zstandard.ZstdCompressor(level=1).compress(zeros)
    del zeros
    start = time.process_time()
    with pytest.raises(MalformedError):
        getattr(libraries, form)(bomb, 1000)
    assert time.process_time() - start < 0.5


def test_a_library_that_is_not_there_is_the_environments_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "_optional", lambda name: None)
    lacking = Libraries()
    assert lacking.deflate(FORMS["deflate"], len(DATA)) == DATA
    for form in ("zstd", "lz4"):
        with pytest.raises(UnavailableError, match="not installed"):
            getattr(lacking, form)(FORMS[form], len(DATA))
