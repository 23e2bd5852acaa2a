"""A real git server on loopback: ``git http-backend`` behind Python's own HTTP server.

It can be told to know filters or not, to speak the old protocol, to answer nothing, and it counts what it was asked.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class GitServer:
    """Serves every repository under ``root`` at ``url/<name>``; ``down`` makes it answer 503."""

    root: Path
    url: str = ""
    old_protocol: bool = False  # version 0: no object is given that no branch or tag names
    down: bool = False
    requests: list[str] = field(default_factory=list)

    def address(self, name: str) -> str:
        return f"{self.url}/{name}"

    def configure(self, name: str, **settings: str) -> None:
        """Settings of one repository, ``uploadpack_allowFilter="true"``, say."""
        for setting, value in settings.items():
            subprocess.run(["git", "-C", str(self.root / name), "config", setting.replace("_", "."), value], check=True)


@contextlib.contextmanager
def git_server(root: Path, *, old_protocol: bool = False) -> Iterator[GitServer]:
    """A running server, gone when the block ends."""
    served = GitServer(root, old_protocol=old_protocol)
    handler = type("Served", (_Handler,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: GitServer
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or self._chunks())

    def _chunks(self) -> bytes:
        """A body in chunks, as git sends a large one."""
        found = b""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return found

    def _answer(self, body: bytes) -> None:
        self.served.requests.append(self.path)
        if self.served.down:
            self.send_error(503)
            return
        path, _, query = self.path.partition("?")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_PROJECT_ROOT": str(self.served.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_ADDR": "127.0.0.1",
        }
        if encoding := self.headers.get("Content-Encoding"):
            environment["HTTP_CONTENT_ENCODING"] = encoding
        if not self.served.old_protocol and (version := self.headers.get("Git-Protocol")):
            environment["GIT_PROTOCOL"] = version
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode("latin-1").splitlines() if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's own name
        """Silence: what was asked is in ``GitServer.requests``."""
