"""A sparse registry of crates on loopback, as cargo asks one: an index by name, and ``.crate`` files by sha256."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Registry:
    """``url`` is what cargo is given after ``sparse+``."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, version: str, source: str, dependencies: Mapping[str, str] | None = None) -> str:
        """Put a library crate into the registry; its checksum."""
        manifest = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n'
        if dependencies:
            manifest += "[dependencies]\n" + "".join(f'{key} = "{value}"\n' for key, value in dependencies.items())
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for path, text in {"Cargo.toml": manifest, "src/lib.rs": source}.items():
                entry = tarfile.TarInfo(f"{name}-{version}/{path}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        data = stream.getvalue()
        checksum = hashlib.sha256(data).hexdigest()
        self.files[f"/crates/{name}-{version}.crate"] = data
        line = {
            "name": name,
            "vers": version,
            "deps": [
                {
                    "name": key,
                    "req": value,
                    "features": [],
                    "optional": False,
                    "default_features": True,
                    "target": None,
                    "kind": "normal",
                }
                for key, value in (dependencies or {}).items()
            ],
            "cksum": checksum,
            "features": {},
            "yanked": False,
        }
        self.files[f"/index/{_index_path(name)}"] = (json.dumps(line) + "\n").encode()
        return checksum


@contextlib.contextmanager
def crate_registry() -> Iterator[Registry]:
    """A running registry, gone when the block ends."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = registry.files.get(self.path)
            self.send_response(200 if data is not None else 404)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's own name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    registry.url = f"{address}/index/"
    registry.files["/index/config.json"] = json.dumps({"dl": f"{address}/crates/{{crate}}-{{version}}.crate"}).encode()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _index_path(name: str) -> str:
    if len(name) <= 3:
        return f"{len(name)}/{name}" if len(name) < 3 else f"3/{name[0]}/{name}"
    return f"{name[:2]}/{name[2:4]}/{name}"
