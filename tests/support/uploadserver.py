"""Servers with the legacy upload API on loopback: pypiserver as a program, and one that fails on demand."""

from __future__ import annotations

import contextlib
import email
import email.policy
import hashlib
import http.server
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

KILL_HALF, KILL_STORED = "kill the client half way", "kill the client after storing"
DROP_HALF, DROP_STORED, STORED_503, LATE = "drop half way", "drop after storing", "503 after storing", "listed late"


@contextlib.contextmanager
def pypiserver(folder: Path, *arguments: str) -> Iterator[str]:
    """A real server over ``folder``; yields the address that takes uploads."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    accounts = arguments or ("-P", ".", "-a", ".")
    command = [sys.executable, "-m", "pypiserver", "run", "-i", "127.0.0.1", "-p", str(port), *accounts]
    command += ["--disable-fallback", "--server", "wsgiref", str(folder)]
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as sink, subprocess.Popen(command, stdout=sink, stderr=sink) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/simple/"):
                    break
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


class Server(http.server.ThreadingHTTPServer):
    """Stores uploads; ``faults`` are taken one for each upload: a status, or one of the words above."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.faults, self.uploads = folder, list[int | str](), list[str]()
        self.hidden_reads = 0  # reads of the index for which what is stored isn't listed yet
        self.limit = 1 << 40
        self.hashes = True  # whether the index states them
        self.words = "because"
        self.expects: list[int] = []
        self.authorizations: set[tuple[str, str]] = set()
        self.read_status = 200
        self.kill: Callable[[], None] = lambda: None  # the client
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/legacy/"


@contextlib.contextmanager
def faulty(folder: Path) -> Iterator[Server]:
    with Server(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass

    def handle_expect_100(self) -> bool:
        length = int(self.headers["Content-Length"])
        self.server.expects.append(length)
        self.close_connection = True
        if length > self.server.limit:
            self._answer(413)
        else:
            self.send_response_only(100)
            self.end_headers()
        return False

    def do_POST(self) -> None:
        self.server.authorizations.add(("POST", self.headers.get("Authorization", "")))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        length = int(self.headers["Content-Length"])
        if fault in (DROP_HALF, KILL_HALF):
            self.rfile.read(length // 2)
            if fault == KILL_HALF:
                self.server.kill()
            self._drop()
            return
        body = self.rfile.read(length)
        if isinstance(fault, int):
            self._answer(fault, self.server.words)
            return
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
        part = next(each for each in message.iter_parts() if each.get_filename())  # type: ignore[attr-defined]
        name = str(part.get_filename())
        self.server.uploads.append(name)
        place = self.server.folder / name
        if place.exists():
            self._answer(409, "File already exists")
            return
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        place.write_bytes(data)
        if fault == LATE:
            self.server.hidden_reads = 3
        if fault in (DROP_STORED, KILL_STORED):
            if fault == KILL_STORED:
                self.server.kill()
            self._drop()
        else:
            self._answer(503 if fault == STORED_503 else 200)

    def do_GET(self) -> None:
        self.server.authorizations.add(("GET", self.headers.get("Authorization", "")))
        if self.path.startswith("/files/"):
            with (self.server.folder / self.path.rpartition("/")[2].replace("%2B", "+")).open("rb") as stream:
                self.send_response(200)
                self.send_header("Content-Length", str(stream.seek(0, 2)))
                self.end_headers()
                stream.seek(0)
                shutil.copyfileobj(stream, self.wfile)
            return
        wheels = sorted(self.server.folder.glob("*.whl"))
        project = self.path.removeprefix("/simple/").strip("/")
        if project:
            if self.server.hidden_reads:
                self.server.hidden_reads -= 1
                wheels = []
            wheels = [wheel for wheel in wheels if wheel.name.startswith(f"{project}-")]
        if self.server.read_status != 200 or (project and not wheels):
            self._answer(self.server.read_status if self.server.read_status != 200 else 404)
            return
        rows = []
        for wheel in wheels:
            digest = f"#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}" if self.server.hashes else ""
            rows.append(f'<a href="/files/{wheel.name.replace("+", "%2B")}{digest}">{wheel.name}</a>')
        self._answer(200, f"<!DOCTYPE html><html><body>{''.join(rows)}</body></html>", "text/html")

    def _answer(self, status: int, text: str = "", kind: str = "text/plain") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
