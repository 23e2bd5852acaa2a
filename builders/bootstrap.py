"""A base image from Debian's own packages, where no image registry answers.

``debootstrap`` fills a folder; what differs from run to run (logs, caches, times) is left out, so that the same
packages give the same bytes, and the image's id is a digest of its content.  The archive is one that
``docker load`` takes: ``docker import`` of 20.10 would store a foreign machine's image as amd64.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from qualify.errors import UnavailableError
from qualify.lines import lines_of
from qualify.scratch import scratch_folder

SUITES = {"debian-12": "bookworm", "debian-13": "trixie"}
_DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_OCI_PLATFORMS = {"x86_64": {"architecture": "amd64"}, "aarch64": {"architecture": "arm64", "variant": "v8"}}
_EPOCH = 315532800  # 1980-01-01, the first time that a zip can hold
_EMPTIED = ("dev", "proc", "sys", "run", "tmp", "var/cache", "var/log", "var/lib/apt/lists", "var/tmp")
_DROPPED = ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/passwd-", "etc/group-", "etc/shadow-")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BINFMT = Path("/proc/sys/fs/binfmt_misc")

Say = Callable[[str], None]


def image_name(bootstrap: str, machine: str) -> str:
    """The tag of a bootstrapped base: ``wheel-assay/base:debian-12-x86_64``."""
    return f"wheel-assay/base:{bootstrap}-{machine}"


@contextlib.contextmanager
def bootstrapped(bootstrap: str, machine: str, say: Say, mirror: str = "") -> Iterator[IO[bytes]]:
    """The archive of a fresh Debian base, for as long as the context lasts.

    :param bootstrap: a name of :data:`SUITES`.
    :param mirror: of Debian's packages; "" takes apt's own, else the tool's default.
    :raises UnavailableError: debootstrap, root or the emulation is not there, or the mirror did not answer.
    """
    _demand(machine)
    with scratch_folder("base") as folder, tempfile.TemporaryFile() as layer:
        root = folder / "root"
        _debootstrap(SUITES[bootstrap], machine, root, say, mirror or _apt_mirror())
        digest = write_layer(root, layer)
        with tempfile.TemporaryFile() as archive:
            write_image(layer, digest, image_name(bootstrap, machine), machine, archive)
            archive.seek(0)
            yield archive


def write_layer(root: Path, sink: IO[bytes]) -> str:
    """Write a folder as one tar, the same bytes for the same content; returns its sha256."""
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _walk(root):
            name = str(path.relative_to(root))
            entry = archive.gettarinfo(str(path), name)
            entry.mtime, entry.uname, entry.gname, entry.pax_headers = _EPOCH, "", "", {}
            if entry.isreg():
                with path.open("rb") as source:
                    archive.addfile(entry, source)
            else:
                archive.addfile(entry)
    sink.seek(0)
    return hashlib.file_digest(sink, "sha256").hexdigest()  # type: ignore[arg-type]


def write_image(layer: IO[bytes], layer_sha256: str, tag: str, machine: str, sink: IO[bytes]) -> str:
    """Write what ``docker load`` takes: one layer, its configuration, a manifest; returns the image id."""
    configuration = json.dumps(
        {
            **_OCI_PLATFORMS[machine],
            "os": "linux",
            "created": "1980-01-01T00:00:00Z",
            "config": {
                "Cmd": ["/bin/sh"],
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_sha256}"]},
            "history": [{"created": "1980-01-01T00:00:00Z", "created_by": "debootstrap"}],
        },
        sort_keys=True,
    ).encode()
    image = hashlib.sha256(configuration).hexdigest()
    manifest = json.dumps(
        [{"Config": f"{image}.json", "RepoTags": [tag], "Layers": [f"{layer_sha256}/layer.tar"]}]
    ).encode()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, content in ((f"{image}.json", configuration), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo(f"{layer_sha256}/layer.tar")
        entry.size = layer.seek(0, os.SEEK_END)
        layer.seek(0)
        archive.addfile(entry, layer)
    return f"sha256:{image}"


def emulation_of(machine: str) -> str:
    """The interpreter that this kernel runs foreign programs of ``machine`` with; "" where there is none.

    Only one that is opened when it is registered (flag F) works inside a container.
    """
    try:
        rows = lines_of((_BINFMT / f"qemu-{machine}").read_text(encoding="utf-8"))
    except OSError:
        return ""
    interpreter = next((row.removeprefix("interpreter ") for row in rows if row.startswith("interpreter ")), "")
    fixed = any(row.startswith("flags:") and "F" in row for row in rows)
    return interpreter if "enabled" in rows and fixed else ""


def mirror_of_apt(listing: str) -> str:
    """The mirror of Debian's packages out of apt's index listing; "" where apt names none.

    :param listing: lines of ``URI ORIGIN LABEL`` from ``apt-get indextargets``.
    """
    for line in lines_of(listing):
        uri, _, rest = line.partition(" ")
        if rest == "Debian Debian" and uri.startswith(("http://", "https://")):
            return uri
    return ""


def _demand(machine: str) -> None:
    if shutil.which("debootstrap") is None and not Path("/usr/sbin/debootstrap").exists():
        raise UnavailableError("debootstrap is not installed", where="base", action="apt-get install debootstrap")
    if os.geteuid() != 0:
        raise UnavailableError(
            "debootstrap needs root", where="base", action="run `python -m builders base` once as root"
        )
    if machine != os.uname().machine and not emulation_of(machine):
        raise UnavailableError(
            f"this kernel runs no {machine} programs",
            where="base",
            expected=f"{_BINFMT}/qemu-{machine}, enabled, with flag F",
            action="apt-get install qemu-user-static binfmt-support; mount -t binfmt_misc binfmt_misc "
            f"{_BINFMT}; update-binfmts --enable qemu-{machine}",
        )


def _debootstrap(suite: str, machine: str, root: Path, say: Say, mirror: str) -> None:
    command = [
        # In a mount namespace of its own: whatever happens, no /proc or /sys stays mounted below the folder.
        *("unshare", "--mount", "--propagation", "private"),
        *("debootstrap", f"--arch={_DEBIAN_ARCHITECTURES[machine]}", "--variant=minbase"),
        *("--include=ca-certificates", suite, str(root)),
    ]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SOURCE_DATE_EPOCH": str(_EPOCH)}
    environment.update({name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")})
    process = subprocess.Popen(
        [*command, *([mirror] if mirror else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )
    last = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            last = line.strip() or last
            say(last)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code != 0:
        raise UnavailableError(
            f"debootstrap ended with {code}: {last}", where=f"base {suite} {machine}", action="see the lines above"
        )


def _apt_mirror() -> str:
    try:
        done = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return mirror_of_apt(done.stdout)


def _walk(root: Path) -> Iterator[Path]:
    """Everything below ``root`` in a fixed order, less what no base needs or what differs from run to run."""
    for folder, names, files in os.walk(root):
        names.sort()
        here = Path(folder)
        relative = str(here.relative_to(root))
        if relative in _EMPTIED:
            # The folder itself stays.
            names.clear()
            continue
        for name in sorted([*files, *names]):
            path = here / name
            if str(path.relative_to(root)) in _DROPPED or stat.S_ISSOCK(path.lstat().st_mode):
                continue
            yield path
        names[:] = [name for name in names if not (here / name).is_symlink()]
