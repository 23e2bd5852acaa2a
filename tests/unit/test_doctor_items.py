"""What the doctor says of toolkits, floors of the tree, the store, and the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli import main
from builders.compilerfloor import compiler_floor
from builders.crates import CrateLock
from builders.preflight_items import Item, Status
from builders.preflight_sources import judge_claims, judge_crates
from builders.preflight_toolkit import judge_toolkit
from builders.preflight_tools import judge_tools
from builders.store.claims import Claim
from builders.toolfloors import cargo_floor, raised
from builders.toolsearch import ToolDemand, question
from builders.toolsearch_collector import collect
from builders.vendor import Vendoring
from tests.unit.builders_support import make_tool, sdist_matrix, write_tree

NVCC = 'case "$1" in --list*) ;; *) echo "Cuda compilation tools, release 13.0, V13.0.88";; esac'
PTXAS = 'echo "ptxas: NVIDIA (R) Ptx optimizing assembler"; echo "Cuda compilation tools, release {0}, V{0}.88"'
ASKED = {
    "name": "nvcc",
    "commands": ["nvcc"],
    "arguments": ["--version"],
    "marks": ["nvvm"],
    "beside": [["ptxas", "--version"]],
}


def toolkit(folder: Path, *, ptxas: str = "13.0") -> Path:
    make_tool(folder / "bin", "nvcc", NVCC)
    if ptxas:
        make_tool(folder / "bin", "ptxas", PTXAS.format(ptxas))
    (folder / "nvvm").mkdir()
    return folder


def looked(path: str, look_in: tuple[str, ...] = (), **environment: str) -> dict[str, Item]:
    asked = {"environment": {"PATH": path, "CUDA_HOME": "", **environment}, "tools": [ASKED], "look_in": look_in}
    return {item.name: item for item in judge_toolkit(collect(asked))}


def test_a_whole_toolkit_on_path(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "cuda")
    items = looked(f"{home}/bin")
    assert items["ptxas"].render() == f"ptxas: found (13.0.88 at {home}/bin/ptxas)"
    assert items["CUDA_HOME"].status is Status.FOUND
    assert looked(f"{home}/bin", CUDA_HOME=str(home))["CUDA_HOME"].path == str(home)


def test_a_ptxas_of_another_toolkit_or_none(tmp_path: Path) -> None:
    other = looked(f"{toolkit(tmp_path / 'a', ptxas='12.8')}/bin")["ptxas"]
    assert (other.status, other.version) == (Status.WRONG_VERSION, "12.8.88")
    assert "two toolkits" in other.action
    none = looked(f"{toolkit(tmp_path / 'b', ptxas='')}/bin")["ptxas"]
    assert none.status is Status.ABSENT
    assert "not there" in none.action


def test_a_cuda_home_that_leads_elsewhere(tmp_path: Path) -> None:
    home, other = toolkit(tmp_path / "a"), toolkit(tmp_path / "b")
    wrong = looked(f"{home}/bin", CUDA_HOME=str(other))["CUDA_HOME"]
    assert wrong.status is Status.UNMET
    assert f'export CUDA_HOME="{home}"' in wrong.action
    assert f"leads to {other}/bin/nvcc" in wrong.action
    empty = looked(f"{home}/bin", CUDA_HOME=str(tmp_path))["CUDA_HOME"]
    assert "has no bin/nvcc" in empty.action


def test_an_nvcc_on_path_that_only_calls_another(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "cuda")
    script = make_tool(tmp_path / "bin", "nvcc", f'exec {home}/bin/nvcc "$@"')
    path = f"{script.parent}:/usr/bin:/bin"
    unset = looked(path, (f"{home}/bin",))["CUDA_HOME"]
    assert unset.status is Status.UNMET
    assert f'export CUDA_HOME="{home}"' in unset.action
    assert looked(path, (f"{home}/bin",), CUDA_HOME=str(home))["CUDA_HOME"].status is Status.FOUND


CMAKE = """\
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS "11.3")
  message(FATAL_ERROR "GCC >= 11.3")
endif()
if(DEVICE STREQUAL "cuda" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR "GCC >= 13")
endif()
if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS "99")
  message(WARNING "old")
endif()
if(CMAKE_C_COMPILER_VERSION VERSION_LESS "98")
  message(FATAL_ERROR "another compiler")
endif()
"""


@pytest.mark.parametrize(("device", "version", "line"), [("cuda", "13", 5), ("cpu", "11.3", 2)])
def test_the_compiler_s_floor_is_the_tree_s_own(tmp_path: Path, device: str, version: str, line: int) -> None:
    write_tree(tmp_path, {"CMakeLists.txt": CMAKE})
    floor = compiler_floor(tmp_path, ["CMakeLists.txt"], {"DEVICE": device})
    assert floor is not None
    assert (floor.version, floor.where) == (version, f"CMakeLists.txt:{line}")
    demand = ToolDemand("c++", ("c++",), "12", "the matrix")
    (held,) = raised([demand], [floor])
    assert held.minimum == (version if device == "cuda" else "12")
    assert held.why == ("CMakeLists.txt:5 says so" if device == "cuda" else "the matrix")


def test_a_tree_without_such_a_floor(tmp_path: Path) -> None:
    write_tree(tmp_path, {"CMakeLists.txt": "project(x)\n"})
    assert compiler_floor(tmp_path, ["CMakeLists.txt"], {}) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [('[toolchain]\nchannel = "1.95"\n', "1.95"), ("1.80.1\n", "1.80.1"), ('[toolchain]\nchannel = "stable"\n', "")],
)
def test_cargo_s_floor_is_the_toolchain_file(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "rust-toolchain.toml").write_text(text)
    floor = cargo_floor(tmp_path, "rust-toolchain.toml")
    assert (floor.version if floor else "") == version


RUSTUP = 'case "$1" in toolchain) echo "{0} (active, default)"; echo "nightly-x86_64-unknown-linux-gnu";; esac'


def cargo(folder: Path, toolchain: str, installed: str | None) -> Item:
    """The item of a cargo that is rustup's, which has the ``installed`` toolchain, or that is none of rustup's."""
    real = make_tool(folder / "rust", "cargo", 'echo "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"')
    if installed is not None:
        make_tool(folder / "rust", "rustup", RUSTUP.format(installed))
    (folder / "bin").mkdir()
    (folder / "bin" / "cargo").symlink_to(real)
    demand = ToolDemand("cargo", ("cargo",), "1.80", "", toolchain)
    facts = collect({"environment": {"PATH": f"{folder}/bin:/usr/bin:/bin"}, "tools": [question(demand)]})
    (item,) = judge_tools([demand], facts, plan=None)
    return item


@pytest.mark.parametrize(
    ("toolchain", "installed", "fits"),
    [
        ("1.95", "stable-x86_64-unknown-linux-gnu", False),
        ("1.95", "1.95.0-x86_64-unknown-linux-gnu", False),
        ("1.95", "1.95-x86_64-unknown-linux-gnu", True),
        ("stable", "stable-x86_64-unknown-linux-gnu", True),
        ("ours", "ours", True),
        ("", "stable-x86_64-unknown-linux-gnu", True),
        ("1.95", None, True),
    ],
)
def test_rustup_has_to_have_the_toolchain_of_the_tree_s_file(
    tmp_path: Path, toolchain: str, installed: str | None, fits: bool
) -> None:
    found = cargo(tmp_path, toolchain, installed)
    if fits:
        assert (found.status, found.version) == (Status.FOUND, "1.95.0")
        return
    assert found.status is Status.WRONG_VERSION
    assert f"rustup has no toolchain {toolchain}" in found.action
    assert str(installed) in found.action
    assert f"rustup toolchain install {toolchain}" in found.action


def test_crates_and_abandoned_builds_are_told_and_refuse_nothing(tmp_path: Path) -> None:
    (absent,) = judge_crates([CrateLock("Cargo.lock", "0" * 64, ())], Vendoring(tmp_path))
    assert (absent.status, absent.refuses) == (Status.ABSENT, False)
    claim = Claim("t", "host", "host/12/34", "yesterday", "yesterday", 1, "/its.log", "x86_64-sm90")
    (told,) = judge_claims([claim])
    assert "process 12 on host began it yesterday and has ended" in told.render()
    assert "/its.log" in told.action
    assert not told.refuses


def test_the_doctor_names_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    loaded = sdist_matrix(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    main(["doctor", "x86_64-sm90", "--matrix", str(loaded.path), "--static", "--json", "--no-network"])
    items = {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    assert items["engine"]["status"] == "absent"
    assert items["engine"]["refuses"] is False, "auto builds on this host where Docker does not answer"
    main(["doctor", "x86_64-sm90", "--matrix", str(loaded.path), "--static", "--json", "--engine", "docker"])
    items = {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    assert items["engine"]["refuses"] is True
    # What is asked for is the engine's: nothing of this host stands in for it.
    assert (items["container"]["status"], items["container"]["refuses"]) == ("not looked at", True)
    assert not {"nvcc", "c++", "cmake", "ninja", "python", "machine", "memory"} & items.keys()
    main(["doctor", "x86_64-sm90", "--matrix", str(loaded.path), "--static", "--json", "--engine", "local"])
    assert "c++" in {item["name"] for item in json.loads(capsys.readouterr().out)["items"]}
