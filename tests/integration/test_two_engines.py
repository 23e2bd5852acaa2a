"""Targets of the example over two engines at once, the second reached over TLS on loopback; and killed half way."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import docker
import pytest

from builders.engines import engine_named
from builders.host import process_is_alive, process_mark
from qualify.errors import UnavailableError
from qualify.matrix.local import EngineHost
from qualify.opening import read_wheel
from tests.support.secondengine import SecondEngine, second_engine, why_not

pytestmark = [pytest.mark.docker, pytest.mark.network]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "axpy"
HERE, THERE = "aarch64-sm110", "x86_64-sm90"  # the target that each engine builds: cross-compiled, and natively


@dataclass
class Site:
    """A copy of the example whose one target is bound to the second engine."""

    folder: Path
    engine: SecondEngine

    @property
    def out(self) -> Path:
        return self.folder / "wheels"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "builders", *arguments, "--matrix", str(self.folder / "matrix.yaml")]

    def start(self, *targets: str, options: tuple[str, ...] = ("--rebuild",)) -> subprocess.Popen[str]:
        command = self.command("build-all", *targets, "--out", str(self.out), "--json", *options)
        return subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A background job of a shell ignores Ctrl-C; a person's build doesn't.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def build_all(self, *targets: str) -> tuple[int, dict[str, Any], str]:
        return finished(self.start(*targets))


def finished(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, said = process.communicate(timeout=900)
    return process.returncode, json.loads(out or "{}"), said


def of(document: dict[str, Any], target: str) -> dict[str, Any]:
    (found,) = [entry for entry in document["targets"] if entry["target"] == target]
    return dict(found)


def receipt(entry: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{entry['wheel']}.receipt.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if reason := why_not():
        if os.environ.get("WHEEL_ASSAY_REQUIRE_DOCKER"):
            pytest.fail(f"WHEEL_ASSAY_REQUIRE_DOCKER is set, and {reason}", pytrace=False)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("site")
    for name in ("matrix.yaml", "axpy.bundle"):
        shutil.copy(EXAMPLE / name, folder)
    with second_engine() as engine:
        settings = {
            "version": 1,
            "engines": {"second": {"url": engine.url, "tls": str(engine.tls)}},
            "engine_hosts": {THERE: "second"},
        }
        (folder / "matrix.local.yaml").write_text(json.dumps(settings), encoding="utf-8")
        made = Site(folder, engine)
        # The images exist on the first engine or are made there; the second one takes what its target needs.
        done = subprocess.run(
            [*made.command("base", THERE, "--json")], cwd=ROOT, check=True, capture_output=True, text=True
        )
        (image,) = json.loads(done.stdout)["images"]
        first = docker.from_env()
        engine.take_images(
            [
                next(tag for tag in first.images.get(image["image"]).tags if "wheel-assay/build" in tag),
                "wheel-assay/base:debian-12-x86_64",
            ]
        )
        first.close()
        yield made


def test_two_targets_are_built_at_once_over_two_engines(site: Site) -> None:
    code, document, said = site.build_all(THERE, HERE)
    assert code == 0, said
    assert {host["name"]: host["fault"] for host in document["hosts"]} == {"here": "", "second": ""}
    there, here = of(document, THERE), of(document, HERE)
    assert (there["host"], there["how"], here["host"], here["how"]) == ("second", "native", "here", "cross")
    for entry in (there, here):
        facts = read_wheel(Path(entry["wheel"]))
        assert facts.problems == ()
        assert facts.sha256 == entry["sha256"] == receipt(entry)["wheel"]["sha256"]
        assert Path(entry["log"]).stat().st_size > 0
    times = [
        (datetime.fromisoformat(found["began"]), datetime.fromisoformat(found["ended"]))
        for found in (receipt(there), receipt(here))
    ]
    assert max(began for began, _ in times) < min(ended for _, ended in times), "one after the other"
    with site.engine.client() as client:
        assert client.containers.list(all=True) == []
        kept = [volume.name for volume in client.volumes.list() if volume.name.startswith("wheel-assay-work-")]
        assert kept == []


def test_an_engine_that_is_killed_takes_its_own_target_alone(site: Site) -> None:
    process = site.start(THERE, HERE)
    killer = threading.Thread(target=kill_in_the_compile, args=(site.engine,))
    killer.start()
    code, document, said = finished(process)
    killer.join()
    assert code == 4, said
    there, here = of(document, THERE), of(document, HERE)
    assert (here["code"], here["built"]) == (0, True), said
    assert read_wheel(Path(here["wheel"])).sha256 == here["sha256"]
    assert there["code"] == 4
    assert there["wheel"] == ""
    assert there["host_gone"]
    assert "its engine host second went away while it was built" in there["fault"]
    assert {host["name"]: bool(host["fault"]) for host in document["hosts"]} == {"here": False, "second": True}
    assert "host second: went away" in said
    assert "Traceback" not in said

    # While it is away its target is named as not built, and nothing else is tried in its place.
    code, document, said = site.build_all(THERE)
    assert code == 4
    assert "its engine host second is not there" in of(document, THERE)["fault"]
    assert of(document, THERE)["host"] == ""

    # Once it is back, the next build removes what was left there, and goes on in the kept folder.
    site.engine.again()
    shutil.rmtree(site.out / THERE)
    code, document, said = finished(site.start(THERE, options=()))
    assert code == 0, said
    assert receipt(of(document, THERE))["resumed"] is True
    assert receipt(of(document, THERE))["wheel"]["sha256"] == of(document, THERE)["sha256"]
    with site.engine.client() as client:
        assert client.containers.list(all=True) == []


def kill_in_the_compile(engine: SecondEngine) -> None:
    if wait_for_the_compile(engine):
        engine.kill()


def wait_for_the_compile(engine: SecondEngine) -> bool:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        with engine.client() as client:
            for container in client.containers.list():
                if "wheel" in container.attrs["Args"] and "--no-build-isolation" in container.attrs["Args"]:
                    return True
        time.sleep(0.1)
    return False


def test_ctrl_c_ends_the_builds_of_every_engine(site: Site) -> None:
    process = site.start(THERE, HERE)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    assert wait_for_the_compile(site.engine)
    builds = [process_mark(int(pid)) for pid in children.read_text().split()]
    assert len(builds) == 2
    process.send_signal(signal.SIGINT)
    code, document, said = finished(process)
    assert (code, document) == (130, {})
    assert "Traceback" not in said
    assert not any(process_is_alive(mark) for mark in builds)
    with site.engine.client() as there, contextlib.closing(docker.from_env()) as here:
        for client in (there, here):
            owners = [container.labels.get("wheel-assay.owner") for container in client.containers.list(all=True)]
            assert not set(owners) & set(builds)


def test_an_engine_asks_for_a_certificate_and_is_asked_for_one(site: Site, tmp_path: Path) -> None:
    """One with a certificate of its own making isn't let in, and one with another authority isn't believed."""
    with_own = tmp_path / "own"
    shutil.copytree(site.engine.tls, with_own)
    for name in ("key.pem", "cert.pem"):
        shutil.copy(ROOT / "tests" / "support" / "secondengine.py", with_own / name)
    with pytest.raises(UnavailableError) as caught:
        engine_named("docker", EngineHost(url=site.engine.url, tls=str(with_own))).info()
    assert "cert" in str(caught.value).lower() or "pem" in str(caught.value).lower()
    other = tmp_path / "other"
    shutil.copytree(site.engine.tls, other)
    shutil.copy(other / "cert.pem", other / "ca.pem")
    with pytest.raises(UnavailableError) as caught:
        engine_named("docker", EngineHost(url=site.engine.url, tls=str(other))).info()
    assert "certificate" in str(caught.value).lower()
