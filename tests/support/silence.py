"""A way to a Docker engine that can fall silent, as a machine does that lost its power: no end, no answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


class Way:
    """Passes bytes between a socket of its own and the engine's, until :meth:`fall_silent`."""

    def __init__(self, path: Path, engine: str) -> None:
        self.url = f"unix://{path}"
        self._engine = engine
        self._silent = threading.Event()
        self._ends: list[socket.socket] = []
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(path))
        self._door.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def fall_silent(self) -> None:
        self._silent.set()

    def break_off(self) -> None:
        """Break every connection that there is now; new ones are let through."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.break_off()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._engine)
                self._ends += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self._silent.is_set():
                    return
                sink.sendall(data)
            if not self._silent.is_set():
                sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def way_to(engine: str, folder: Path) -> Iterator[Way]:
    way = Way(folder / "way.sock", engine)
    try:
        yield way
    finally:
        way.close()
