"""The real vLLM 0.33.0 sdist through source, plan and preflight, as far as it goes without its git hosts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from builders.cli import main
from builders.compilerfloor import compiler_floor
from builders.plan import Plan
from builders.planning import make_plan
from builders.source import open_source
from builders.source_model import Source
from qualify.content import compare_with_tree
from qualify.fetching import Fetcher
from qualify.matrix import LoadedMatrix, load
from qualify.opening import read_wheel
from tests.unit.builders_support import make_tool
from tests.unit.test_toolsearch import interpreter_without_headers

pytestmark = pytest.mark.network

ROOT = Path(__file__).resolve().parents[2]

# name, repository, tag, submodules, variable: read by hand from the tree.
EXTERNALS = [
    ("cutlass", "nvidia/cutlass.git", "v4.7.1", (), "VLLM_CUTLASS_SRC_DIR"),
    ("triton_kernels", "triton-lang/triton.git", "v3.5.1", (), "TRITON_KERNELS_SRC_DIR"),
    (
        "deepgemm",
        "vllm-project/DeepGEMM.git",
        "0820030756945b2daec208e8e8255268360f337d",
        ("third-party/cutlass", "third-party/deep_jit"),
        "DEEPGEMM_SRC_DIR",
    ),
    ("deepselect", "vllm-project/DeepSelect.git", "d96d33afe1fab0d6066da49cdc91e64c2bee65ea", (), "DEEPSELECT_SRC_DIR"),
    ("fmha_sm100", "vllm-project/MSA.git", "968061ab16cb14991a5c7d4c0e8eabf531be0dcf", (), "FMHA_SM100_SRC_DIR"),
    ("flashmla", "vllm-project/FlashMLA", "e2afa5fd8c220fbd05fe03fc24c9d5e64c24641b", (), "FLASH_MLA_SRC_DIR"),
    (
        "flashkda",
        "vllm-project/FlashKDA.git",
        "17a037d98da546deb4591e967cf961a43c034d8b",
        ("cutlass",),
        "FLASH_KDA_SRC_DIR",
    ),
    ("qutlass", "IST-DASLab/qutlass.git", "e74319e3405ce6d71965732880f5dc1f52371f64", (), "QUTLASS_SRC_DIR"),
    ("tml_fa4", "vllm-project/tml-fa4.git", "75765e76a9c2c012c1f6ecd64577eb646eb4d303", (), "TML_FA4_SRC_DIR"),
    (
        "vllm-flash-attn",
        "vllm-project/flash-attention.git",
        "b273a02621d3c94bc747df67204f591b67f38fae",
        (),
        "VLLM_FLASH_ATTN_SRC_DIR",
    ),
]
OTHER_DEVICES = {"arm_compute", "oneDNN", "triton_kernels"}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedMatrix, Source]:
    loaded = load(ROOT / "matrix.yaml")
    return loaded, open_source(loaded, tmp_path_factory.mktemp("vllm") / "source")


def planned(opened: tuple[LoadedMatrix, Source], **changes: Any) -> Plan:
    loaded, source = opened
    return make_plan(loaded, "x86_64-sm90", source=source, **changes)


def test_the_commit_is_read_from_the_untouched_sdist(opened: tuple[LoadedMatrix, Source]) -> None:
    _, source = opened
    assert (source.commit, source.commit_from, source.version) == ("4ba787ec9", "vllm/_version.py", "0.33.0")
    assert source.environment == {"SETUPTOOLS_SCM_PRETEND_METADATA": '{node="g4ba787ec9", dirty=false}'}


def test_the_compiler_s_floor_and_rust_s_toolchain_are_those_of_the_tree(opened: tuple[LoadedMatrix, Source]) -> None:
    _, source = opened
    files = ("CMakeLists.txt", "cmake/external_projects/*.cmake")
    cuda = compiler_floor(source.tree, files, {"VLLM_TARGET_DEVICE": "cuda"})
    assert cuda is not None
    assert (cuda.version, cuda.where) == ("13", "CMakeLists.txt:1695")
    cpu = compiler_floor(source.tree, files, {"VLLM_TARGET_DEVICE": "cpu"})
    assert cpu is not None
    assert (cpu.version, cpu.where) == ("12.3", "cmake/cpu_extension.cmake:136")
    (cargo,) = [tool for tool in planned(opened).tools if tool.name == "cargo"]
    assert (cargo.minimum, cargo.toolchain) == ("1.95", "1.95")


def test_the_external_sources_are_those_of_the_tree(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened)
    assert [
        (e.name, e.repository.removeprefix("https://github.com/"), e.tag, e.submodules, e.variable)
        for e in plan.needed_externals
    ] == EXTERNALS
    assert plan.unread == ()
    assert {external.name for external in plan.externals if not external.needed} == OTHER_DEVICES
    assert plan.holes == ()


def test_the_requirements_are_those_of_the_tree(opened: tuple[LoadedMatrix, Source]) -> None:
    assert planned(opened).requirements == (
        "cmake>=3.26.1",
        "jinja2",
        "ninja",
        "packaging>=24.2",
        "setuptools-rust>=1.9.0",
        "setuptools-scm>=8.0",
        "setuptools>=77.0.3,<81.0.0",
        "torch==2.14.0",
        "wheel",
    )


def test_local_copies_close_the_holes(opened: tuple[LoadedMatrix, Source], tmp_path: Path) -> None:
    for name, _, _, submodules, _ in EXTERNALS:
        for folder in (tmp_path / name, *(tmp_path / name / sub for sub in submodules)):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "CMakeLists.txt").write_text("", encoding="utf-8")
    (tmp_path / "matrix.yaml").write_bytes((ROOT / "matrix.yaml").read_bytes())
    copies = "\n".join(f"  {name}: {name}" for name, *_ in EXTERNALS)
    (tmp_path / "matrix.local.yaml").write_text(f"version: 1\nexternal_sources:\n{copies}\n", encoding="utf-8")
    plan = make_plan(load(tmp_path / "matrix.yaml"), "x86_64-sm90", source=opened[1])
    assert plan.holes == ()
    assert {e.name: e.copy for e in plan.needed_externals}["cutlass"] == str(tmp_path / "cutlass")
    assert plan.key() == planned(opened).key()


def test_the_empty_shape_needs_no_sources(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened, overrides={"VLLM_TARGET_DEVICE": "empty"})
    assert (plan.holes, plan.tools, plan.toolkit, plan.torch_cuda) == ((), (), None, False)


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code = main(["doctor", "x86_64-sm90", "--matrix", str(ROOT / "matrix.yaml"), "--json", *arguments])
    return code, {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}


def test_the_cuda_build_is_refused_with_every_hole(capsys: pytest.CaptureFixture[str]) -> None:
    code, items = doctor(capsys, "--no-network", "--requirement-mode", "isolated")
    assert code == 8
    holes = {name.removeprefix("external source ") for name, item in items.items() if item["status"] == "absent"}
    assert {name for name, *_ in EXTERNALS} <= holes
    assert not holes & (OTHER_DEVICES - {"triton_kernels"})


def test_the_empty_build_is_not_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, items = doctor(capsys, "--requirement-mode", "isolated", "--set", "VLLM_TARGET_DEVICE=empty", "--no-network")
    room = {name for name in ("disk", "memory") if items[name]["refuses"]}  # of this machine, not of the build
    assert {name: item["status"] for name, item in items.items() if item["refuses"] and name not in room} == {}
    assert code == (8 if room else 0)


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real nvcc of the package index, in a folder that is on nobody's PATH."""
    folder = tmp_path_factory.mktemp("toolkit")
    requirement = "cuda-toolkit[nvcc]==13.0.3"
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(folder)]
    subprocess.run([*command, requirement], check=True)
    return folder / "nvidia" / "cu13"


def test_four_absences_at_once_on_the_real_tree(
    toolkit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ninja and nvcc present off PATH, Python.h and setuptools-rust missing: one list, within seconds."""
    make_tool(tmp_path / "hidden", "ninja", "echo 1.12.1")
    path = tmp_path / "bin"
    make_tool(path, "cmake", "echo cmake version 3.31.0")
    make_tool(path, "c++", "echo 'c++ (GCC) 14.2.0'")
    for name in ("git", "cargo"):
        make_tool(path, name, f"echo {name} version 2.47.0")
    python = interpreter_without_headers(tmp_path / "python")
    began = time.monotonic()
    code, items = doctor(
        capsys,
        *("--python", str(python), "--look-in", str(tmp_path / "hidden"), "--look-in", str(toolkit)),
        *("--env", f"PATH={path}", "--env", f"HOME={tmp_path}", "--no-network"),
    )
    assert time.monotonic() - began < 15
    assert code == 8
    assert (items["nvcc"]["status"], items["nvcc"]["path"]) == ("not on PATH", str(toolkit / "bin/nvcc"))
    assert items["nvcc"]["version"].startswith("13.0.")
    assert items["setuptools-rust"]["status"] == "unmet"
    assert "setuptools-rust>=1.9.0" in items["setuptools-rust"]["action"]
    assert items["requirements of the build backend"]["status"] == "not looked at"
    assert "setuptools-rust" in items["requirements of the build backend"]["action"]
    assert items["torch with CUDA"]["status"] == "absent"
    assert items["ninja"]["status"] == "not on PATH"
    assert items["ninja"]["path"] == str(tmp_path / "hidden/ninja")
    assert items["Python.h"]["status"] != "found"


def test_the_released_wheel_holds_the_python_files_of_its_sdist(opened: tuple[LoadedMatrix, Source]) -> None:
    loaded, source = opened
    target = loaded.matrix.targets["x86_64-sm90"]
    wheel = Fetcher().fetch_wheel("vllm==0.33.0", target.machine, target.python[0], glibc=target.ceilings.glibc)
    found = compare_with_tree(read_wheel(wheel), source.tree, loaded.matrix.project.generated)
    assert (found.same, found.equal, len(found.generated), found.unused) == (True, 2991, 240, ())
