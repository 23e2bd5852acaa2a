"""A tree with three FetchContent projects, built with the store alone: the servers gone, the network closed."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.cli import main
from tests.support.fetchcontent import Trio, make_trio
from tests.support.gitserver import git_server

TARGET = "x86_64-sm90"


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    folder = tmp_path_factory.mktemp("offline")
    (folder / "served").mkdir()
    with git_server(folder / "served") as server:
        made = make_trio(folder / "project", server)
        assert main(["fetch", TARGET, "--matrix", str(made.matrix)]) == 0
        server.down = True
        yield made


@pytest.mark.parametrize("engine", ["docker", "local"])
def test_the_compile_needs_no_network(
    trio: Trio, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [TARGET, "--matrix", str(trio.matrix), "--engine", engine, "--out", str(out), "--offline"]
    assert main(["build", *arguments]) == 0, capsys.readouterr().err
    (wheel,) = out.glob("*.whl")
    document = json.loads(wheel.with_name(f"{wheel.name}.receipt.json").read_text())
    used = {each["name"]: each["commit"] for each in document["externals"]}
    assert used == {name: trio.commits[name] for name in ("alpha", "beta", "gamma")}
    assert document["proof"]["members"][0]["provenance"] == "compiled here"
    bill = json.loads(zipfile.ZipFile(wheel).read(document["sbom"]))
    assert {part["name"] for part in bill["components"]} == {"alpha", "beta", "gamma"}
    if engine == "local":
        place = tmp_path / "site"
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(place)], check=True)
        said = subprocess.check_output(
            [sys.executable, "-c", "import trio; print(trio.total())"], env={"PYTHONPATH": str(place)}, text=True
        )
        assert said.strip() == "1111", "each of the four headers was found"
