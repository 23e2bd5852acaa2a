"""The documented install commands, run in a fresh environment against an index, have to give our bytes.

pip reports the sha256 of the archive that it takes.  uv reports none, so it runs twice: by name and version, whose
installed files are compared with the wheel's members one by one, and by name, version and sha256.  Nothing of the
caller's configuration takes part, nothing is taken from a cache, and no code of the wheel runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

from qualify.errors import UnavailableError, UnverifiedError
from qualify.publishers.destination import Account, Destination
from qualify.publishers.uploadrules import Candidate

_SECONDS = 3600
_CHUNK = 1 << 20
_UV_GLIBC = (17, 28, *range(31, 41))  # minor versions of glibc that uv has a platform for
_DROPPED = ("PIP_", "UV_", "PYTHON", "TWINE_", "VIRTUAL_ENV", "NETRC", "ACTIONS_ID_TOKEN")


def require_installers() -> str:
    """The path of uv; pip comes with this tool.

    :raises UnavailableError: uv isn't installed.
    """
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        raise UnavailableError(
            "uv isn't installed here", expected="pip and uv", action="pip install 'wheel-assay[upload]'"
        ) from None


def require_same_bytes(candidate: Candidate, destination: Destination, account: Account) -> None:
    """Install one file with pip and with uv.

    :raises UnverifiedError: one of them fails, or installs other bytes.
    """
    index = account.of_index(destination)
    with tempfile.TemporaryDirectory(prefix="wheel-assay-") as folder:
        room = _Room(Path(folder), index, destination.settings.cacert or "", account, candidate)
        room.with_pip()
        room.with_uv()


class _Room:
    """A fresh folder and a fresh environment; the index's address travels in variables, since it may hold a token."""

    def __init__(self, folder: Path, index: str, certificates: str, account: Account, candidate: Candidate) -> None:
        self._folder, self._account, self._candidate = folder, account, candidate
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
        own = {
            "HOME": str(folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": index,
            "UV_DEFAULT_INDEX": index,
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_CACHE_DIR": str(folder / "uv"),
        }
        if certificates:
            own |= {"PIP_CERT": certificates, "SSL_CERT_FILE": certificates}
        self._environment: Mapping[str, str] = kept | own
        self._uv = require_installers()

    def with_pip(self) -> None:
        report = self._folder / "report.json"
        command = [sys.executable, "-P", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", "--report", str(report)]
        command += ["--target", str(self._folder / "pip"), *pip_platform(self._candidate)]
        self._run("pip", [*command, self._requirement])
        try:
            (entry,) = json.loads(report.read_bytes())["install"]
            found = entry["download_info"]["archive_info"]["hashes"]["sha256"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnverifiedError(f"pip's report can't be read: {error}", where=self._candidate.filename) from None
        if found != self._candidate.sha256:
            raise self._other("pip", f"sha256 {found}")

    def with_uv(self) -> None:
        base = [self._uv, "pip", "install", "--no-deps", "--only-binary=:all:", "--python", sys.executable]
        base += uv_platform(self._candidate)
        target = self._folder / "uv-target"
        self._run("uv", [*base, "--target", str(target), self._requirement])
        if different := differing(self._candidate.path, target):
            raise self._other("uv", f"another {different}")
        hashed = self._folder / "requirements.txt"
        hashed.write_text(f"{self._requirement} --hash=sha256:{self._candidate.sha256}\n", encoding="utf-8")
        again = [*base, "--target", str(self._folder / "uv-hashed"), "--require-hashes", "-r", str(hashed)]
        self._run("uv", again)

    @property
    def _requirement(self) -> str:
        return f"{self._candidate.project}=={self._candidate.version}"

    def _run(self, name: str, command: Sequence[str]) -> None:
        try:
            done = subprocess.run(
                command,
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            kind = "doesn't end" if isinstance(error, subprocess.TimeoutExpired) else "can't be run"
            raise UnavailableError(f"{name} {kind}", where=self._candidate.filename, action="run again") from None
        if done.returncode:
            words = self._account.hide(done.stderr.decode("utf-8", "replace")[-2000:])
            raise UnverifiedError(
                f"it was uploaded, and {name} can't install it from there: {words}",
                where=self._candidate.filename,
                expected=f"sha256 {self._candidate.sha256}",
                action="run the same command again: what is there is not sent again",
            )

    def _other(self, name: str, what: str) -> UnverifiedError:
        return UnverifiedError(
            f"it was uploaded, and {name} installs {what}",
            where=self._candidate.filename,
            expected=f"sha256 {self._candidate.sha256}",
            action="find out what changes files on the way, and tell nobody to install it",
        )


def differing(wheel: Path, installed: Path) -> str:
    """The first member of a wheel that isn't installed as it stands in it; "" where all are.

    What installers rewrite by rule is left out: ``RECORD``, and what lies in ``.data``.
    """
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            top, _, rest = member.filename.partition("/")
            if member.is_dir() or top.endswith(".data") or (top.endswith(".dist-info") and rest.startswith("RECORD")):
                continue
            place = installed / member.filename
            if not place.is_file():
                return member.filename
            with archive.open(member) as ours, place.open("rb") as theirs:
                hashes = [hashlib.sha256(), hashlib.sha256()]
                for stream, hasher in zip((ours, theirs), hashes, strict=True):
                    while chunk := stream.read(_CHUNK):
                        hasher.update(chunk)
                if hashes[0].digest() != hashes[1].digest():
                    return member.filename
    return ""


def pip_platform(candidate: Candidate) -> list[str]:
    """The options by which pip takes this file on any host, whatever machine it is for."""
    interpreter, abi, platform = _tag(candidate.filename)
    options = ["--python-version", _python(candidate), "--abi", abi, "--platform", platform]
    return [*options, "--implementation", "cp" if interpreter.startswith("cp") else "py"]


def uv_platform(candidate: Candidate) -> list[str]:
    """The same for uv."""
    _, _, platform = _tag(candidate.filename)
    options = ["--python-version", _python(candidate)]
    if platform == "any":
        return options
    machine = next((each for each in ("x86_64", "aarch64") if platform.endswith(each)), "")
    words = platform.split("_")
    minor = int(words[2]) if platform.startswith("manylinux_2_") and words[2].isdigit() else 17
    known = next((each for each in _UV_GLIBC if each >= minor), _UV_GLIBC[-1])
    return [*options, "--python-platform", f"{machine}-manylinux_2_{known}"] if machine else options


def _tag(filename: str) -> tuple[str, str, str]:
    _, _, _, tags = parse_wheel_filename(filename)
    tag = min(tags, key=str)
    return tag.interpreter, tag.abi, tag.platform


def _python(candidate: Candidate) -> str:
    """A Python that the file is for: this one where it is, else the least that its tag and its metadata allow."""
    interpreter, abi, _ = _tag(candidate.filename)
    wanted = SpecifierSet(candidate.requires_python)
    digits = interpreter.removeprefix("cp")
    exact = interpreter.startswith("cp") and abi not in ("abi3", "none")
    least = int(digits[1:]) if interpreter.startswith("cp") and digits[1:].isdigit() else 0
    if exact:
        return f"3.{least}"
    fitting = [f"3.{minor}" for minor in (sys.version_info.minor, *range(max(least, 8), 30)) if minor >= least]
    return next((each for each in fitting if wanted.contains(f"{each}.99")), fitting[0])
