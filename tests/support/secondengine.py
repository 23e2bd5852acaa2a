"""A second Docker engine on this host, reached over TLS on loopback, that a test may kill.

It has its own data, its own containerd and its own network namespace, so that its bridge and its packet rules are
none of the first engine's.  The door is a socket of this host's loopback that it inherits (``-H fd://``), so the TLS
is its own.  Its containers reach the outside through a pair of virtual links and one masquerading rule, which go with
it.  Takes root and the programs of :data:`PROGRAMS`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import docker

from builders.engines.docker_client import make_client
from qualify.matrix.local import EngineHost

PROGRAMS = ("dockerd", "containerd", "ip", "nsenter", "iptables", "openssl", "umount")
# What docker names as free for documentation is used by nobody: RFC 5737's third block, one /30 for the pair.
_OUTER, _INNER, _NET = "203.0.113.241", "203.0.113.242", "203.0.113.240/30"


def why_not() -> str:
    """Why no second engine can be started here; "" where one can."""
    if os.geteuid() != 0:
        return "a second engine takes root"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"a second engine takes {', '.join(missing)}" if missing else ""


@dataclass
class SecondEngine:
    folder: Path
    name: str
    port: int
    _door: socket.socket
    _process: subprocess.Popen[bytes] | None = None
    _certificates: Path = field(init=False)

    def __post_init__(self) -> None:
        self._certificates = self.folder / "tls"

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def tls(self) -> Path:
        """The folder with ca.pem, cert.pem and key.pem of a client that it lets in."""
        return self._certificates / "client"

    @property
    def log(self) -> Path:
        return self.folder / "dockerd.log"

    @property
    def address(self) -> EngineHost:
        return EngineHost(url=self.url, tls=str(self.tls))

    @contextlib.contextmanager
    def client(self, timeout: int = 600) -> Iterator[docker.DockerClient]:
        with contextlib.closing(make_client(self.address, timeout=timeout)) as client:
            yield client

    def start(self) -> None:
        """Start it, or start it again on what it left."""
        door = self._door.fileno()
        server = self._certificates / "server"
        command = [
            *("nsenter", f"--net=/run/netns/{self.name}", "dockerd", "-H", "fd://", "--tlsverify"),
            *("--tlscacert", str(server / "ca.pem"), "--tlscert", str(server / "cert.pem")),
            *("--tlskey", str(server / "key.pem"), "--data-root", str(self.folder / "data")),
            *("--exec-root", str(self.folder / "exec"), "--pidfile", str(self.folder / "pid")),
            *("--config-file", str(self.folder / "none.json"), "--bip", "172.29.0.1/24"),
        ]
        # systemd's way to hand on a socket: descriptor 3, and the process that it is meant for.
        shell = f'exec 3<&{door}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        (self.folder / "pid").unlink(missing_ok=True)
        (self.folder / "none.json").write_text("{}", encoding="utf-8")  # not this host's own configuration
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", shell, "dockerd", *command],
                pass_fds=(door,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 30
        while True:
            # Its listening socket lives here, so that connecting proves nothing: only an answer does.
            try:
                with self.client(timeout=5) as client:
                    client.ping()
                return
            except Exception as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
                    self._end()
                    raise RuntimeError(f"the second engine did not start: {error}\n{said}") from error
            time.sleep(0.2)

    def kill(self) -> None:
        """End it as a power cut would: with its containers, and it says goodbye to nobody; its door is closed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._end()

    def again(self) -> None:
        """Start it on the same port after :meth:`kill`, as after a boot: what lay in memory is gone."""
        _unmount(self.folder)
        shutil.rmtree(self.folder / "exec", ignore_errors=True)
        self._door = _door(self.port)
        self.start()

    def stop(self) -> None:
        """Remove what it runs, and end it; one that was killed is started for that."""
        if self._process is None:
            self.again()
        assert self._process is not None
        try:
            with self.client(timeout=60) as client:
                for container in client.containers.list(all=True):
                    with contextlib.suppress(docker.errors.APIError):
                        container.remove(force=True, v=True)
        finally:
            self._process.send_signal(signal.SIGTERM)
            self._end(patience=60)

    def _end(self, patience: float = 5) -> None:
        """Wait for it, then end what is left of it; nothing listens at its door afterwards."""
        self._door.close()
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
            # Its containerd and the keepers of its containers have sessions of their own and outlive it.
            for pid in _family(self.folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait(60)

    def take_images(self, names: list[str]) -> None:
        """Copy images of the first engine into this one, so that nothing is made twice."""
        with contextlib.closing(docker.from_env(timeout=600)) as first, self.client() as client:
            for name in names:
                with tempfile.TemporaryFile() as stream:
                    for chunk in first.images.get(name).save(named=True):
                        stream.write(chunk)
                    stream.seek(0)
                    client.images.load(stream)


@contextlib.contextmanager
def second_engine() -> Iterator[SecondEngine]:
    """A running engine, gone with all that belongs to it when the block ends."""
    # Short, since containerd's sockets lie in it and a socket's path has 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="wa-engine-"))
    name = f"wa{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(_unmount, folder)
        _make_certificates(folder / "tls")
        _own_network(name, stack)
        door = _door()
        engine = SecondEngine(folder, name, door.getsockname()[1], door)
        engine.start()
        stack.callback(engine.stop)
        yield engine


def _door(port: int = 0) -> socket.socket:
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", port))
    door.listen(64)
    return door


def _own_network(name: str, stack: contextlib.ExitStack) -> None:
    """A network namespace whose containers reach the outside through this host."""
    outer, inner = f"{name}o", f"{name}i"
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "del", name)
    _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
    _run("ip", "address", "add", f"{_OUTER}/30", "dev", outer)
    _run("ip", "link", "set", outer, "up")
    for command in (
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "add", f"{_INNER}/30", "dev", inner),
        ("ip", "link", "set", inner, "up"),
        ("ip", "route", "add", "default", "via", _OUTER),
    ):
        _run("nsenter", f"--net=/run/netns/{name}", *command)
    for table, chain, rule in (
        ("nat", "POSTROUTING", ("-s", _NET, "!", "-o", outer, "-j", "MASQUERADE")),
        ("filter", "FORWARD", ("-i", outer, "-j", "ACCEPT")),
        ("filter", "FORWARD", ("-o", outer, "-j", "ACCEPT")),
    ):
        _run("iptables", "-w", "-t", table, "-I", chain, *rule)
        stack.callback(_run, "iptables", "-w", "-t", table, "-D", chain, *rule)


def _make_certificates(folder: Path) -> None:
    """An authority, and what it signed for a server on loopback and for a client; of elliptic curves, so quickly."""
    authority = folder / "authority"
    authority.mkdir(parents=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    ca = (str(authority / "ca.pem"), str(authority / "ca.key"))
    may_sign = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # asked for by Python 3.13's strict checks
    _run("openssl", "req", "-x509", *key, *may_sign, "-subj", "/CN=test", "-out", ca[0], "-keyout", ca[1])
    for who, use in (("server", "serverAuth"), ("client", "clientAuth")):
        own = folder / who
        own.mkdir()
        shutil.copy(ca[0], own / "ca.pem")
        lines = (f"extendedKeyUsage={use}", "subjectAltName=IP:127.0.0.1", "authorityKeyIdentifier=keyid")
        (own / "extensions").write_text("\n".join(lines) + "\n", encoding="utf-8")
        request = str(own / "request.pem")
        _run("openssl", "req", "-new", *key[:-2], "-subj", f"/CN={who}", "-out", request, "-keyout", f"{own}/key.pem")
        _run(
            *("openssl", "x509", "-req", "-in", request, "-CA", ca[0], "-CAkey", ca[1], "-CAcreateserial"),
            *("-days", "2", "-extfile", f"{own}/extensions", "-out", f"{own}/cert.pem"),
        )


def _family(folder: Path) -> list[int]:
    """The processes whose command line names the folder, which nobody else's does, and all that descend from them."""
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if f"{folder}/".encode() in (entry / "cmdline").read_bytes():
                    found.add(int(entry.name))
    found.discard(os.getpid())
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _unmount(folder: Path) -> None:
    """What a killed engine leaves mounted, the innermost first."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for place in sorted((m for m in mounted if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
