"""Fetching from an index on this machine: whole or absent, by hash, resumed, cached; and each refusal."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from qualify import fetching
from qualify.errors import MalformedError, UnavailableError, UsageError
from qualify.fetching import Fetcher
from qualify.matrix.local import LocalSettings, Mirrors
from qualify.packageindex import IndexSettings, default_index, pip_settings, platforms, read_pip_settings
from qualify.transfer import TransferLine

WHEEL = "axpy-1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
SDIST = "axpy-1.0.tar.gz"
BODY = bytes(range(256)) * 4096  # one MiB


@dataclass
class Files:
    """What the index serves, and how it misbehaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    announced: dict[str, str] = field(default_factory=dict)  # sha256 in place of the true one; "" for none
    cut_after: int = 0  # bytes of the first answer after which the connection ends
    status: int = 0  # in place of every answer
    ranges: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    served: Files

    def do_GET(self) -> None:
        self.served.asked.append(self.path)
        if self.served.status:
            return self.send_error(self.served.status)
        if self.path == "/simple/axpy/":
            return self.answer(self.page(), "application/vnd.pypi.simple.v1+json")
        body = self.served.files.get(self.path.removeprefix("/files/"))
        if body is None:
            return self.send_error(404)
        return self.answer(body, "application/octet-stream")

    def page(self) -> bytes:
        rows = []
        for name, body in self.served.files.items():
            sha256 = self.served.announced.get(name, hashlib.sha256(body).hexdigest())
            rows.append({"filename": name, "url": f"/files/{name}", "hashes": {"sha256": sha256} if sha256 else {}})
        return json.dumps({"meta": {"api-version": "1.0"}, "name": "axpy", "files": rows}).encode()

    def answer(self, body: bytes, kind: str) -> None:
        wanted = self.headers.get("Range", "")
        if wanted:
            self.served.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-") or 0)
        if start >= len(body):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if self.served.cut_after and kind == "application/octet-stream":
            rest, self.served.cut_after = rest[: self.served.cut_after], 0
            self.close_connection = True
        self.wfile.write(rest)
        return None

    def log_message(self, *_: Any) -> None:
        pass


@dataclass
class Site:
    served: Files
    fetcher: Fetcher
    cache: Path
    progress: list[tuple[str, int, int]]

    def wheel(self, requirement: str = "axpy==1.0", machine: str = "x86_64") -> Path:
        return self.fetcher.fetch_wheel(requirement, machine, "3.12")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    served = Files({WHEEL: BODY, SDIST: BODY[:5000]})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (Handler,), {"served": served}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/simple/"
    monkeypatch.setattr(fetching, "pip_settings", lambda: IndexSettings(index_urls=(url,), timeout=10))
    monkeypatch.setattr("time.sleep", lambda _: None)
    progress: list[tuple[str, int, int]] = []
    fetcher = Fetcher(cache=tmp_path / "cache", progress=lambda *step: progress.append(step))
    yield Site(served, fetcher, tmp_path / "cache", progress)
    server.shutdown()
    server.server_close()
    thread.join()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_wheel_arrives_whole_and_its_progress_is_told(site: Site) -> None:
    path = site.wheel()
    assert (path.name, path.read_bytes()) == (WHEEL, BODY)
    assert site.progress[-1] == (f"fetching {WHEEL}", len(BODY), len(BODY))
    assert list((site.cache / "parts").glob("[!.]*")) == []


def test_the_second_call_asks_nobody(site: Site) -> None:
    first = site.wheel()
    asked = len(site.served.asked)
    assert site.wheel() == first
    assert len(site.served.asked) == asked


def test_a_spoilt_file_in_the_cache_is_fetched_again(site: Site) -> None:
    path = site.wheel()
    path.write_bytes(b"spoilt")
    assert site.wheel().read_bytes() == BODY


def test_a_requirement_that_is_not_exact_asks_again(site: Site) -> None:
    site.wheel("axpy>=1")
    asked = len(site.served.asked)
    assert site.wheel("axpy>=1").name == WHEEL
    assert len(site.served.asked) > asked


def test_a_broken_connection_is_taken_up_where_it_ended(site: Site) -> None:
    site.served.cut_after = 300_000
    assert site.wheel().read_bytes() == BODY
    (wanted,) = site.served.ranges
    assert 0 < int(wanted.removeprefix("bytes=").removesuffix("-")) <= 300_000


def test_what_an_interrupted_run_left_is_taken_up(site: Site) -> None:
    part = site.cache / "parts" / sha256(BODY)
    part.parent.mkdir(parents=True)
    part.write_bytes(BODY[:1000])
    assert site.wheel().read_bytes() == BODY
    assert site.served.ranges == ["bytes=1000-"]


@pytest.mark.parametrize("left", [b"x" * 1000, b"x" * (len(BODY) + 1)])
def test_a_stale_part_is_thrown_away(site: Site, left: bytes) -> None:
    part = site.cache / "parts" / sha256(BODY)
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    assert site.wheel().read_bytes() == BODY


def test_other_bytes_than_announced_are_not_kept(site: Site) -> None:
    site.served.announced[WHEEL] = "0" * 64
    with pytest.raises(UnavailableError) as caught:
        site.wheel()
    assert str(caught.value) == (
        f"{WHEEL}: the download has sha256 {sha256(BODY)}, and the index announced {'0' * 64}; "
        "a proxy or a mirror changes the bytes; run again through another one"
    )
    assert not (site.cache / "files").exists()


def test_without_an_announced_hash_the_file_is_kept_by_its_own(site: Site) -> None:
    site.served.announced[WHEEL] = ""
    assert site.wheel().parent.name == sha256(BODY)


@pytest.mark.parametrize(
    ("requirement", "machine", "message"),
    [
        ("axpy==2.0", "x86_64", "axpy==2.0: the index has no such release; expected one like 1.0"),
        ("apxy==1.0", "x86_64", "apxy==1.0: the index has no such project; check the name"),
        (
            "axpy==1.0",
            "aarch64",
            "axpy==1.0: no wheel of it runs on aarch64 with glibc 2.39 and Python 3.12; "
            "name a file, or another release",
        ),
        (
            "axpy==1.0",
            "riscv64",
            'no wheels are known for machine "riscv64" with glibc 2.39; expected one of x86_64, aarch64 and glibc 2.N',
        ),
        (
            "axpy @ https://example.org/axpy.whl",
            "x86_64",
            "axpy @ https://example.org/axpy.whl: a requirement with an address isn't fetched; "
            "download it and name the file",
        ),
    ],
)
def test_what_is_not_there(site: Site, requirement: str, machine: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        site.wheel(requirement, machine)
    assert str(caught.value) == message


def test_text_that_is_no_requirement(site: Site) -> None:
    with pytest.raises(UsageError, match=r'^axpy==: .*; expected a requirement \("vllm==0\.33\.0"\)$'):
        site.wheel("axpy==")


@pytest.mark.parametrize(("status", "words"), [(503, "503 Service Unavailable"), (401, "401 Unauthorized")])
def test_an_index_that_fails_is_not_an_index_without_the_project(site: Site, status: int, words: str) -> None:
    site.served.status = status
    with pytest.raises(UnavailableError, match=f"the package index answers {words}"):
        site.wheel()


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = IndexSettings(index_urls=("http://127.0.0.1:9/simple/",))
    monkeypatch.setattr(fetching, "pip_settings", lambda: settings)
    with pytest.raises(UnavailableError, match=r"the package index can't be reached: .*; check the network"):
        Fetcher(cache=tmp_path).fetch_wheel("axpy==1.0", "x86_64", "3.12")


def test_an_sdist_by_its_hash_from_the_index_and_then_from_the_cache(site: Site) -> None:
    wanted = sha256(BODY[:5000])
    path = site.fetcher.fetch_sdist("axpy==1.0", wanted)
    assert (path.name, path.read_bytes()) == (SDIST, BODY[:5000])
    asked = len(site.served.asked)
    assert site.fetcher.fetch_sdist("axpy==1.0", wanted) == path
    assert len(site.served.asked) == asked


def test_an_sdist_of_another_hash_is_not_even_fetched(site: Site) -> None:
    with pytest.raises(MalformedError) as caught:
        site.fetcher.fetch_sdist("axpy==1.0", "0" * 64)
    assert str(caught.value).startswith(
        f"axpy==1.0 ({SDIST}): has sha256 {sha256(BODY[:5000])}; expected sha256 {'0' * 64}, as the matrix pins it"
    )
    assert not any(path.startswith("/files/") for path in site.served.asked)


def test_an_sdist_from_a_file(site: Site, tmp_path: Path) -> None:
    path = tmp_path / SDIST
    path.write_bytes(b"abc")
    assert site.fetcher.fetch_sdist(path, sha256(b"abc")) == path
    with pytest.raises(MalformedError, match=f"{SDIST}: has sha256 {sha256(b'abc')}"):
        site.fetcher.fetch_sdist(str(path), "0" * 64)
    with pytest.raises(UsageError, match=r"other\.tar\.gz: no such file; expected a source distribution"):
        site.fetcher.fetch_sdist("other.tar.gz", "0" * 64)


def test_the_cache_lies_where_the_user_s_caches_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Fetcher().root == tmp_path / "wheel-assay"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Fetcher().root == Path.home() / ".cache" / "wheel-assay"
    local = LocalSettings.model_validate({"folders": {"cache": str(tmp_path / "mine")}})
    assert Fetcher(local).root == tmp_path / "mine"


PIP_LINES = [
    ":env:.timeout='30'",
    "download.index-url='https://download.example/simple'",
    "global.cert='ca.pem'",
    "global.extra-index-url='https://a.example/simple\\nhttps://b.example/simple'",
    "global.index-url='https://global.example/simple'",
    "list.format='json'",
    "nonsense",
    "global.proxy=not a literal",
]


def test_pip_s_settings_are_read_and_later_sections_win() -> None:
    settings = read_pip_settings(PIP_LINES, {"PIP_TRUSTED_HOST": "a.example b.example", "PIP_NO_INDEX": "0"})
    assert settings == IndexSettings(
        index_urls=("https://download.example/simple", "https://a.example/simple", "https://b.example/simple"),
        trusted_hosts=("a.example", "b.example"),
        certificates="ca.pem",
        timeout=30.0,
    )


def test_extra_indexes_alone_stand_beside_the_default_one() -> None:
    settings = read_pip_settings([], {"PIP_EXTRA_INDEX_URL": "https://a.example/simple", "PIP_TIMEOUT": "soon"})
    assert settings.index_urls == (default_index(), "https://a.example/simple")


def test_pip_itself_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://mirror.example/simple\n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    assert pip_settings().index_urls[0] == "https://mirror.example/simple"


def test_the_local_mirrors_come_before_pip_s_settings() -> None:
    mirrors = Mirrors(index_url="https://m.example/simple", extra_index_urls=("https://n.example/simple",))
    settings = IndexSettings(index_urls=("https://pip.example/simple",), no_index=True).with_mirrors(mirrors, "ca.pem")
    assert settings.index_urls == ("https://m.example/simple", "https://n.example/simple")
    assert (settings.no_index, settings.certificates) == (False, "ca.pem")


def test_no_index_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "pip_settings", lambda: IndexSettings(no_index=True, find_links=("absent",)))
    with pytest.raises(UnavailableError, match="pip is told to use no index, and no folder of wheels is there"):
        Fetcher(cache=tmp_path).fetch_wheel("axpy==1.0", "x86_64", "3.12")


def test_an_index_that_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "pip_settings", lambda: IndexSettings(index_urls=("absent",)))
    with pytest.raises(UsageError, match="absent: is no address of a package index"):
        Fetcher(cache=tmp_path).fetch_wheel("axpy==1.0", "x86_64", "3.12")


def test_a_folder_of_wheels_without_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / WHEEL).write_bytes(BODY)
    settings = IndexSettings(no_index=True, find_links=(str(tmp_path / "links"),))
    monkeypatch.setattr(fetching, "pip_settings", lambda: settings)
    fetcher = Fetcher(cache=tmp_path / "cache", progress=lambda *_: None)
    assert fetcher.fetch_wheel("axpy==1.0", "x86_64", "3.12").read_bytes() == BODY


def test_certificates_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = IndexSettings(certificates=str(tmp_path / "ca.pem"))
    monkeypatch.setattr(fetching, "pip_settings", lambda: settings)
    with pytest.raises(UnavailableError, match="the certificates can't be read: No such file or directory"):
        Fetcher(cache=tmp_path).fetch_wheel("axpy==1.0", "x86_64", "3.12")


def test_platform_tags_go_from_the_newest_to_the_oldest() -> None:
    tags = platforms("aarch64", "2.19")
    assert tags == [
        "manylinux_2_19_aarch64",
        "manylinux_2_18_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
        "linux_aarch64",
    ]
    assert "manylinux1_x86_64" in platforms("x86_64", "2.39")


def test_progress_elsewhere_than_on_a_terminal_is_a_line_each_tenth() -> None:
    stream = io.StringIO()
    line = TransferLine(stream)
    for done in range(101):
        line("fetching a", done * 1_000_000, 100_000_000)
    lines = stream.getvalue().split("\n")[:-1]
    assert len(lines) == 11
    assert lines[-1] == "fetching a: 100.0 of 100.0 MB"


def test_progress_on_a_terminal_is_one_line_that_is_drawn_again() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream, times = Terminal(), iter([0.0, 0.1, 1.0, 1.1])
    line = TransferLine(stream, clock=lambda: next(times))
    for done in (1, 2, 3, 4):
        line("fetching a", done * 1_000_000, 4_000_000)
    assert stream.getvalue() == "\rfetching a: 1.0 of 4.0 MB\rfetching a: 3.0 of 4.0 MB\rfetching a: 4.0 of 4.0 MB\n"
