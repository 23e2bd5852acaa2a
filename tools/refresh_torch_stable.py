"""Write qualify/data/torch_stable.json anew from the headers of torch's own wheels.

    python tools/refresh_torch_stable.py                # the releases of the table, and the minors that came since
    python tools/refresh_torch_stable.py 2.9.0 2.10.0   # these

torch's stable C interface is what `AOTI_TORCH_EXPORT` marks in `torch/csrc/stable/c/shim.h` and in the headers below
`torch/csrc/inductor/aoti_torch/`.  A function belongs to the first release whose headers declare it; where the newest
headers guard it (`#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0`), the guard is the promise and wins.  The first
release given is the oldest that promises anything (2.9.0, the first with `torch/csrc/stable/`): what it declares is
listed under it.

Headers are the same in the wheels of every platform.  Of each wheel, the directory of the archive and these headers
alone are fetched from the package index that pip uses: a few hundred KB of 100 MB.
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from qualify.errors import UsageError
from qualify.packageindex import Index, pip_settings

TARGET = Path(__file__).resolve().parents[1] / "qualify" / "data" / "torch_stable.json"
HEADERS = re.compile(r"torch/include/torch/csrc/(stable/c/|inductor/aoti_torch/(c|generated)/)[^/]+\.h")
GUARD = re.compile(r"\s*#\s*if\s+TORCH_FEATURE_VERSION\s*>=\s*TORCH_VERSION_([0-9]+)_([0-9]+)_([0-9]+)")
DECLARED = re.compile(r"\bAOTI_TORCH_EXPORT\b[^;{}()]*?\b((?:aoti_torch_|torch_)[A-Za-z0-9_]+)\s*\(")
CHUNK = 1 << 18


class RemoteFile(io.RawIOBase):
    """A file of the index, read by ranges."""

    def __init__(self, client: Any, url: str, size: int) -> None:
        self._client, self._url, self._size, self._at = client, url, size, 0
        self.fetched = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        headers = {"Range": f"bytes={self._at}-{end - 1}", "Accept-Encoding": "identity"}
        answer = self._client.get(self._url, headers=headers)
        if answer.status_code != 206:
            raise SystemExit(f"the index answers {answer.status_code} where a range was asked for: {self._url}")
        data = answer.content
        buffer[: len(data)] = data
        self._at += len(data)
        self.fetched += len(data)
        return len(data)


def declarations(text: str) -> dict[str, str]:
    """Functions that a header declares -> the release that its guard asks for; "" outside of every guard."""
    found: dict[str, str] = {}
    stack: list[str] = []
    guarded: list[tuple[str, list[str]]] = [("", [])]
    for line in re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).split("\n"):
        if re.match(r"\s*#\s*if", line):
            match = GUARD.match(line)
            stack.append(".".join(match.groups()) if match else "")
        elif re.match(r"\s*#\s*endif", line) and stack:
            stack.pop()
        elif not re.match(r"\s*#", line):
            guarded[-1][1].append(line)
            continue
        guarded.append((max((each for each in stack if each), key=Version, default=""), []))
    for release, lines in guarded:
        for name in DECLARED.findall("\n".join(lines)):
            found[name] = release
    return found


def read(client: Any, release: str, index: Index) -> tuple[str, dict[str, str]]:
    """The file that was read for a release, and what its headers declare."""
    link = index.wheel(Requirement(f"torch=={release}"), "aarch64", "3.12", "2.39")
    answer = client.get(link.url_without_fragment, headers={"Range": "bytes=0-0", "Accept-Encoding": "identity"})
    size = int(answer.headers["Content-Range"].rpartition("/")[2])
    remote = RemoteFile(client, link.url_without_fragment, size)
    found: dict[str, str] = {}
    with zipfile.ZipFile(io.BufferedReader(remote, CHUNK)) as archive:
        for name in sorted(archive.namelist()):
            if HEADERS.fullmatch(name):
                found |= declarations(archive.read(name).decode())
    sys.stderr.write(f"{link.filename}: {len(found)} functions, {remote.fetched >> 10} KiB read\n")
    return link.filename, found


def combine(releases: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Function -> the release it belongs to, from what each release's headers declare."""
    ordered = sorted(releases, key=Version)
    first: dict[str, str] = {}
    for release in ordered:
        for name in releases[release]:
            first.setdefault(name, release)
    return first | {name: guard for name, guard in releases[ordered[-1]].items() if guard}


def later(index: Index, release: str) -> list[str]:
    """The first releases of the minors that follow ``release``, as far as the index has them."""
    found: list[str] = []
    version = Version(release)
    while True:
        following = f"{version.major}.{version.minor + 1}.0"
        try:
            index.wheel(Requirement(f"torch=={following}"), "aarch64", "3.12", "2.39")
        except UsageError:
            return found
        found.append(following)
        version = Version(following)


def main(arguments: list[str]) -> None:
    sources: dict[str, str] = {}
    releases: dict[str, Mapping[str, str]] = {}
    with Index(pip_settings()) as index:
        wanted = arguments or list(json.loads(TARGET.read_text(encoding="utf-8"))["sources"])
        for release in sorted(wanted, key=Version):
            sources[release], releases[release] = read(index.client, release, index)
        for release in [] if arguments else later(index, max(wanted, key=Version)):
            sources[release], releases[release] = read(index.client, release, index)
    first = combine(releases)
    by_release: dict[str, list[str]] = {}
    for name, release in sorted(first.items()):
        by_release.setdefault(release, []).append(name)
    rows = [f"  {json.dumps(key)}: {json.dumps(' '.join(by_release[key]))}" for key in sorted(by_release, key=Version)]
    text = f'{{"sources": {json.dumps(sources)}, "functions": {{\n' + ",\n".join(rows) + "\n}}\n"
    TARGET.write_text(text, encoding="utf-8")
    counts = ", ".join(f"{release} {len(by_release[release])}" for release in sorted(by_release, key=Version))
    sys.stderr.write(f"{TARGET.name}: {len(first)} functions: {counts}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
