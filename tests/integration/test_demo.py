"""The whole line on the example, and the same line killed at random moments.

Needs the package index (the toolkit comes from there); takes the Docker engine where one answers, this host otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from builders.demo import EXAMPLE
from qualify.matrix import load

pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
MOMENTS = 10


@dataclass(frozen=True, slots=True)
class Walked:
    work: Path
    output: str
    seconds: float  # of a second walk that takes the wheels of the first


def start(work: Path, log: Path, *extra: str) -> subprocess.Popen[bytes]:
    """The demo in a process group of its own, so that all of it can be killed at once."""
    command = [sys.executable, "-m", "builders", "demo", "--work", str(work), *extra]
    with log.open("wb") as stream:
        return subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)


def walk(work: Path, *extra: str) -> str:
    """Walk the line to its end; its output."""
    log = work.with_suffix(".log")
    code = start(work, log, *extra).wait(600)
    output = log.read_text(encoding="utf-8", errors="replace")
    assert code == 0, output[-6000:]
    return output


def kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        assert process.poll() is not None
    process.wait(60)


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def assert_whole(work: Path) -> None:
    """The matrix loads and asserts what the example does; every file that the index names is there, with its hash."""
    loaded = load(work / "matrix.yaml")
    assert loaded.asserted_sha256 == load(EXAMPLE / "matrix.yaml").asserted_sha256
    for measured in loaded.matrix.measured.values():
        assert measured.sha256 in {hashlib.sha256(path.read_bytes()).hexdigest() for path in built(work)}
    for page in (work / "index").rglob("index.json"):
        for file in json.loads(page.read_bytes()).get("files", []):
            named = page.parent / unquote(file["url"])
            assert hashlib.sha256(named.read_bytes()).hexdigest() == file["hashes"]["sha256"]
            metadata = named.with_name(f"{named.name}.metadata")
            assert hashlib.sha256(metadata.read_bytes()).hexdigest() == file["core-metadata"]["sha256"]
    for page in (work / "index").rglob("index.html"):
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        for link in links.found:
            path, fragment = urldefrag(link)
            named = page.parent / unquote(path)
            assert named.exists(), link
            if fragment:
                assert fragment == f"sha256={hashlib.sha256(named.read_bytes()).hexdigest()}"


def built(work: Path) -> list[Path]:
    return sorted((work / "wheels" / "good").glob("*.whl"))


def published(work: Path) -> set[str]:
    return {path.name for path in (work / "index").rglob("*.whl")}


def start_over(work: Path) -> None:
    """As before the first record and the first publish, with the wheels that were built."""
    (work / "matrix.yaml").write_bytes((EXAMPLE / "matrix.yaml").read_bytes())
    shutil.rmtree(work / "index", ignore_errors=True)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    work = tmp_path_factory.mktemp("demo") / "work"
    output = walk(work)
    began = time.monotonic()
    walk(work, "--resume")
    return Walked(work, output, time.monotonic() - began)


def test_the_line_is_walked_from_source_to_installed_wheel(walked: Walked) -> None:
    matrix = load(walked.work / "matrix.yaml").matrix
    (measured,) = matrix.measured.values()
    (wheel,) = (walked.work / "wheels" / "good").glob("*.whl")
    assert measured.sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert measured.distribution_version == measured.runtime_version == wheel.name.split("-")[1]
    assert matrix.pin.commit.startswith(measured.commit.removeprefix("g"))
    assert published(walked.work) == {wheel.name}
    assert_whole(walked.work)
    installed = list((walked.work / "venv").glob("lib/python*/site-packages/axpy/_C.abi3.so"))
    assert len(installed) == 1


def test_each_broken_sibling_is_rejected_for_its_own_reason(walked: Walked) -> None:
    for reason in ("no-compiled-extension", "no-code-for-target", "hash-differs"):
        assert walked.output.count(f"rejected, as it should be: {reason}") == 1


def test_killed_at_ten_random_moments_matrix_and_index_are_whole(walked: Walked) -> None:
    """SIGKILL to the whole process group, anywhere between the start and the end of the line.

    Every other run goes on from what the killed one before it left; two of them are walked to the end.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    killed = 0
    for number in range(MOMENTS):
        if number % 2 == 0:
            start_over(walked.work)
        process = start(walked.work, walked.work.with_suffix(".killed.log"), "--resume")
        moment = moments.uniform(0.1, walked.seconds)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            killed += 1
        kill(process)
        print(f"seed {seed}: killed at {moment:.2f} s of {walked.seconds:.2f} s")  # shown where an assertion fails
        assert_whole(walked.work)
        if number in (MOMENTS // 2 - 1, MOMENTS - 1):
            walk(walked.work, "--resume")
            assert len(published(walked.work)) == 1
            assert_whole(walked.work)
    # A line that was quicker this time ends before its kill: that is no kill, and most must be.
    assert killed > MOMENTS // 2


def test_killed_while_it_builds_the_next_run_completes(walked: Walked, tmp_path: Path) -> None:
    work = tmp_path / "work"
    process = start(work, tmp_path / "killed.log")
    deadline = time.monotonic() + 120
    while "builders build" not in (tmp_path / "killed.log").read_text(encoding="utf-8", errors="replace"):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(random.SystemRandom().uniform(0.5, 5))
    kill(process)
    assert_whole(work)
    # The siblings were built once already; this run is about the wheel that was not.
    for name in ("empty", "elsewhere"):
        shutil.copytree(walked.work / "wheels" / name, work / "wheels" / name)
    walk(work, "--resume")
    assert len(published(work)) == 1
    assert_whole(work)
