"""Receipts: what was asked for beside what came out, what was left out, and how a wheel is found again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from builders import receipts
from builders.receipts import schema
from builders.receipts.architectures import NOTHING, dropped, requested_beside_emitted
from builders.receipts.configurelines import left_out, plain, torch_warnings
from builders.receipts.files import tools_used
from builders.receipts.model import Receipt
from qualify.files import sha256_of
from qualify.matrix import load
from qualify.matrix.model import Configure, NotBuilt
from qualify.matrix.schema import model_schema_text
from qualify.opening import read_wheel
from tests.support.wheel import write_wheel

ROOT = Path(__file__).parents[2]
VLLM = load(ROOT / "matrix.yaml")


def rows(tmp_path: Path, extensions: dict[str, Any], requested: tuple[str, ...], device: str) -> Any:
    return requested_beside_emitted(read_wheel(write_wheel(tmp_path, extensions=extensions)), requested, device)


@pytest.mark.parametrize(
    ("requested", "code", "served"),
    [
        ("12.1", ["sm_121"], "sm_121 (cubin): compiled for it"),
        (
            "12.1",
            ["sm_120", "sm_120f"],
            "sm_120 (cubin): runs there: same major, lower minor; sm_120f (cubin): runs there: of its family",
        ),
        ("12.1", ["sm_120f"], "sm_120f (cubin): runs there: of its family"),
        ("9.0a", ["sm_90a"], "sm_90a (cubin): compiled for it"),
        ("90a-real", ["sm_90a"], "sm_90a (cubin): compiled for it"),
        ("sm_90", ["sm_90"], "sm_90 (cubin): compiled for it"),
        ("9.0", ["compute_80"], "compute_80 (ptx): PTX, which the driver compiles there"),
        (
            "9.0+PTX",
            ["sm_90", "compute_90"],
            "sm_90 (cubin): compiled for it; compute_90 (ptx): PTX, which the driver compiles there",
        ),
        ("9.0+PTX", ["sm_90"], "sm_90 (cubin): compiled for it; without the PTX that was asked for"),
        ("9.0", ["sm_120"], NOTHING),
        ("12.0", ["sm_121"], NOTHING),
        ("Hopper", ["sm_90"], ""),
    ],
)
def test_how_what_was_asked_for_is_served(tmp_path: Path, requested: str, code: list[str], served: str) -> None:
    (row,) = rows(tmp_path, {"axpy/_C": {name: ["k"] for name in code}}, (requested,), "9.0")
    assert row.served == {requested: served}


def test_each_extension_is_looked_at_by_itself(tmp_path: Path) -> None:
    code = {"axpy/_A": {"sm_90": ["k"]}, "axpy/_B": {"sm_120": ["k"]}, "axpy/_host": {}}
    first, second = rows(tmp_path, code, ("9.0", "12.0"), "9.0")
    assert (first.member, first.unserved) == ("axpy/_A.abi3.so", ("12.0",))
    assert (second.member, second.unserved) == ("axpy/_B.abi3.so", ("9.0",))
    assert first.emitted == {"sm_90 (cubin)": "compiled for it"}
    assert second.emitted == {"sm_120 (cubin)": "does not run there"}
    assert dropped((first, second)) == ()
    assert dropped((first,)) == ("12.0",)
    assert dropped(()) == ()


OUTPUT = """\
-- The CUDA compiler identification is NVIDIA 13.0.88
-- Building Machete kernels for archs: 9.0a
-- Not building scaled_mm_c3x_120 as no compatible archs found in CUDA target architectures
-- Not building scaled_mm_c3x_120 as no compatible archs found in CUDA target architectures
\x1b[0mDeepSelect will not compile: unsupported CUDA architecture 9.0\x1b[0m
-- [QUTLASS] Skipping build: no supported arch (10.0f, 12.0f) in 9.0
-- Not building Marlin kernels as no compatible archs found in CUDA target architectures
""".splitlines()


def test_lines_of_the_configure_step_against_vllm_s_own_expectations() -> None:
    build, target = VLLM.matrix.build, VLLM.matrix.targets["x86_64-sm90"]
    found = left_out(OUTPUT, build.configure, target.not_built)
    assert [(each.line, bool(each.reason)) for each in found] == [(3, True), (5, True), (6, True), (7, False)]
    assert found[0].reason == "CUTLASS 3.x scaled_mm of compute capability 12.x"
    assert found[3].text == "Not building Marlin kernels as no compatible archs found in CUDA target architectures"


def test_what_another_target_expects_is_new_here() -> None:
    build, target = VLLM.matrix.build, VLLM.matrix.targets["aarch64-sm121"]
    found = left_out(OUTPUT, build.configure, target.not_built)
    assert "scaled_mm_c3x_120" in found[0].text
    assert found[0].reason == "", "a build for 12.1 without the kernels of 12.x lost them"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake on PATH")
def test_lines_as_a_real_cmake_writes_them(tmp_path: Path) -> None:
    lines = ("STATUS", "Not building A as B"), ("WARNING", "Not building C as D"), ("", "Not building E as F")
    text = "".join(f'message({kind} "{said}")\n' for kind, said in lines)
    (tmp_path / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\n{text}")
    command = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    output = (done.stdout + done.stderr).splitlines()
    expected = (NotBuilt(pattern="Not building A as *", reason="the target has no A"),)
    found = left_out(output, Configure(expected=expected), ())
    assert {each.text.strip(): each.reason for each in found} == {
        "Not building A as B": "the target has no A",
        "Not building C as D": "",
        "Not building E as F": "",
    }


def test_ordinary_lines_announce_nothing() -> None:
    lines = ["-- Found Torch", "Building CUDA object not building.o", "# Not building x", "gcc -DNOT_BUILDING=1 x.c"]
    assert left_out(lines, Configure(), ()) == ()
    assert plain("\x1b[33m-- Not building x\x1b[0m  ") == "Not building x"


def test_what_is_said_of_torch() -> None:
    lines = [
        "CMake Warning: Pytorch version 2.4.0 expected for CUDA build, saw 2.14.0 instead.",
        "ordinary",
        "UserWarning: Attempted to use ninja as the BuildExtension backend but we could not find ninja..",
        "CMake Warning: Pytorch version 2.4.0 expected for CUDA build, saw 2.14.0 instead.",
        "UserWarning: TORCH_CUDA_ARCH_LIST is not set, all archs for visible cards are included for compilation.",
    ]
    assert torch_warnings(lines) == (lines[0], lines[2], lines[4])


def test_the_version_line_of_a_tool() -> None:
    facts = {
        "tools": {
            "nvcc": {"on_path": [{"path": "/c/nvcc", "output": "nvcc: NVIDIA\nrelease 13.0, V13.0.88\nBuild x"}]},
            "git": {"on_path": [{"path": "/g", "output": "git version 2\n"}, {"path": "/h", "output": "older"}]},
            "cargo": {"on_path": []},
            "silent": {"on_path": [{"path": "/s", "output": ""}]},
        }
    }
    assert tools_used(facts) == {
        "nvcc": {"path": "/c/nvcc", "version": "release 13.0, V13.0.88"},
        "git": {"path": "/g", "version": "git version 2"},
        "silent": {"path": "/s", "version": ""},
    }


def test_the_schema_in_the_repository_is_fresh() -> None:
    stored = (ROOT / "docs" / "schema" / schema.NAME).read_text(encoding="utf-8")
    fresh = model_schema_text(Receipt, "receipt of a wheel-assay build")
    assert stored == fresh, "run: python -m builders.receipts.schema docs/schema"


def test_a_receipt_takes_no_part_that_it_doesn_t_know() -> None:
    with pytest.raises(ValidationError):
        Receipt.model_validate({"version": 2})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": 1}, json.loads(model_schema_text(Receipt, "x")))


KEY = "5" * 64


def delivered(folder: Path, **changes: Any) -> Path:
    """A wheel with as much of a receipt as finding it takes."""
    wheel = write_wheel(folder)
    document = {
        "version": receipts.RECEIPT_VERSION,
        "key": KEY,
        "engine": {"name": "docker"},
        "wheel": {"sha256": sha256_of(wheel).sha256},
        **changes,
    }
    receipts.path_for(wheel).write_text(receipts.to_text(document))
    return wheel


def test_a_wheel_is_found_by_its_receipt(tmp_path: Path) -> None:
    wheel = delivered(tmp_path)
    assert receipts.find_built(tmp_path, KEY, "docker") == wheel
    assert receipts.find_built(tmp_path, "6" * 64, "docker") is None
    assert receipts.find_built(tmp_path, KEY, "local") is None


@pytest.mark.parametrize("changes", [{"version": 1}, {"wheel": {"sha256": "0" * 64}}, {"wheel": None}, {"engine": []}])
def test_a_receipt_of_another_kind_finds_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    delivered(tmp_path, **changes)
    assert receipts.find_built(tmp_path, KEY, "docker") is None


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", '"x"'])
def test_a_broken_receipt_finds_nothing(tmp_path: Path, text: str) -> None:
    receipts.path_for(delivered(tmp_path)).write_text(text, encoding="latin-1")
    assert receipts.find_built(tmp_path, KEY, "docker") is None


def test_a_receipt_without_its_wheel_finds_nothing(tmp_path: Path) -> None:
    delivered(tmp_path).unlink()
    assert receipts.find_built(tmp_path, KEY, "docker") is None
