"""The decompressors that the readers are handed: isal (or zlib), zstandard and lz4, each bounded by the size asked for.

All of them release the interpreter's lock while they work, so that threads inflate members side by side.
"""

from __future__ import annotations

import importlib
import threading
import zlib
from types import ModuleType
from typing import Any

from qualify.errors import MalformedError, UnavailableError


class Libraries:
    """Decompression by the libraries of this environment; one value serves any number of threads."""

    def __init__(self) -> None:
        self._deflate = _optional("isal.isal_zlib") or zlib
        self._zstandard = _optional("zstandard")
        self._lz4 = _optional("lz4.block")
        self._local = threading.local()

    def deflate(self, data: bytes | memoryview, size: int) -> bytes:
        """Inflate a raw deflate stream that holds exactly ``size`` bytes and ends with ``data``."""
        stream = self._deflate.decompressobj(-15)
        try:
            # One byte more than asked for tells a stream that goes on from one that ends.
            inflated: bytes = stream.decompress(data, size + 1)
            if len(inflated) <= size and not stream.eof:
                inflated += stream.flush() if not stream.unconsumed_tail else b""
        except (zlib.error, self._deflate.error) as error:
            raise MalformedError(f"its deflate stream is damaged ({error})") from error
        if len(inflated) > size:
            raise MalformedError(f"inflates to more than the {size} bytes that it says")
        if not stream.eof:
            raise MalformedError("its deflate stream has no end")
        if len(inflated) != size:
            raise MalformedError(f"inflates to {len(inflated)} bytes where it says {size}")
        if stream.unused_data:
            raise MalformedError(f"{len(stream.unused_data)} foreign bytes stand behind its deflate stream")
        return inflated

    def zstd(self, data: bytes | memoryview, size: int) -> bytes:
        """Inflate one zstd frame of exactly ``size`` bytes."""
        library = self._need(self._zstandard, "zstandard")
        if not hasattr(self._local, "zstd"):
            self._local.zstd = library.ZstdDecompressor()
        try:
            # The library allocates what the frame says, not what we allow: look first.
            stated = library.frame_content_size(data)
            if stated >= 0 and stated != size:
                raise MalformedError(f"its zstd frame says {stated} bytes where the entry says {size}")
            inflated: bytes = self._local.zstd.decompress(data, max_output_size=size, allow_extra_data=False)
        except library.ZstdError as error:
            raise MalformedError(f"its zstd frame is damaged ({error})") from error
        if len(inflated) != size:
            raise MalformedError(f"inflates to {len(inflated)} bytes where it says {size}")
        return inflated

    def lz4(self, data: bytes | memoryview, size: int) -> bytes:
        """Inflate one LZ4 block (no frame) of exactly ``size`` bytes."""
        library = self._need(self._lz4, "lz4")
        if size > 255 * len(data) + 64:
            raise MalformedError(f"says {size} bytes, more than {len(data)} can inflate to")
        try:
            inflated: bytes = library.decompress(data, uncompressed_size=size)
        except (library.LZ4BlockError, ValueError) as error:
            raise MalformedError(f"its LZ4 block is damaged ({error})") from error
        if len(inflated) != size:
            raise MalformedError(f"inflates to {len(inflated)} bytes where it says {size}")
        return inflated

    def crc32(self, data: bytes | memoryview) -> int:
        """CRC-32 as zip archives use it."""
        return int(self._deflate.crc32(data))

    @staticmethod
    def _need(library: ModuleType | None, name: str) -> Any:
        if library is None:
            raise UnavailableError(f"the Python package {name} is not installed", action=f"pip install {name}")
        return library


def _optional(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
