"""Record what pip says of an index that doesn't answer, and of one that does: tests/data/pip/NAME.txt, pip's own words.

    python tools/record_pip.py PYTHON…

runs the pip of each interpreter against servers on loopback that fail in one way each.  A file holds what was printed,
and, behind a line of dashes, what ``--log`` wrote: of an index that isn't to be tried again pip speaks there alone.
Names that begin with ``answers-`` are of an index that answers, and of requirements that can't be had.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "pip"
MARK = "-" * 20
Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def server(serve: Serve) -> Iterator[int]:
    """A server on loopback that treats each connection so; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def answering(status: str, body: str = "") -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        connection.sendall((head + body).encode())

    return serve


def resets(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hangs(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def encrypted(folder: Path) -> Serve:
    """TLS with a certificate that nobody trusts."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as wrapped:
            answering("404 Not Found")(wrapped)

    return serve


def record(python: str, name: str, url: str, *arguments: str, proxy: str = "") -> None:
    """One run, with this machine's paths, ports and times taken out."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
        variables |= {"PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "" if proxy else "*"}
        log = Path(folder, "pip.log")
        command = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--timeout", "1"]
        command += ["--index-url", url, "--target", folder, "--log", str(log), *(["--proxy", proxy] if proxy else [])]
        done = subprocess.run(
            [*command, *arguments],
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        version = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, text=True, check=True)
        pip = version.stdout.split()[1]
        assert done.returncode != 0, (name, done.stdout)
        said = f"{done.stdout}{done.stderr}\n{MARK}\n{log.read_text(encoding='utf-8', errors='replace')}"
    said = said.replace(folder, "/tmp/place")
    said = re.sub(r"(?m)^\d{4}-\d\d-\d\dT[\d:,]+ ?", "", said)
    said = re.sub(r"(?ms)^Exception information:.*?(?=^Removed|\Z)", "", said)  # pip's own traceback
    said = re.sub(r"(?m)^(Created|Removed|Entered|Initialized|Using pip) .*\n", "", said)  # places of this machine
    said = re.sub(r"(127\.0\.0\.1|localhost)(:|', port=)\d+", r"\g<1>\g<2>8080", said)
    said = re.sub(r"0x[0-9a-f]{6,}", "0x7f0000000000", said)
    (DATA / f"{name}-{pip}.txt").write_text(said, encoding="utf-8")
    print(f"{name}-{pip}", flush=True)


def main() -> int:
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        serves: dict[str, tuple[str, Serve]] = {
            "reset": ("http", resets),
            "silent": ("http", hangs),
            "error-502": ("http", answering("502 Bad Gateway")),
            "untrusted": ("https", encrypted(Path(folder))),
            "answers-nothing-there": ("http", answering("404 Not Found")),
            "answers-none-fits": ("http", answering("200 OK", '<a href="a-1.0-cp27-cp27m-win32.whl">a</a>')),
        }
        for python in sys.argv[1:]:
            for name, (scheme, serve) in serves.items():
                with server(serve) as port:
                    url = f"{scheme}://{'localhost' if scheme == 'https' else '127.0.0.1'}:{port}/simple"
                    record(python, name, url, "--retries", "1", "a==2.0")
                    if not name.startswith("answers"):
                        record(python, f"{name}-once", url, "--retries", "0", "a==2.0")
            for name, retries in (("refused", "1"), ("refused-once", "0")):
                record(python, name, "http://127.0.0.1:9/simple", "--retries", retries, "a")
            for name, retries in (("no-name", "1"), ("no-name-once", "0")):
                record(python, name, "https://index.invalid/simple", "--retries", retries, "a")
            record(python, "proxy", "https://index.invalid/simple", "--retries", "1", "a", proxy="http://127.0.0.1:9")
            with server(answering("404 Not Found")) as port:
                url = f"http://127.0.0.1:{port}/simple"
                record(python, "answers-and-they-conflict", url, "--retries", "1", "a==1", "a==2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
