"""The matrix files under examples/: they load, pin the patches that lie beside them, and say what they are for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builders.source_patches import check_patches, read_patches
from qualify.errors import PreflightError
from qualify.matrix import load
from qualify.matrix.model import Code, Profile, SdistSource

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MATRICES = sorted(EXAMPLES.glob("*/matrix.yaml"))


def test_the_examples_are_there() -> None:
    assert {path.parent.name for path in MATRICES} >= {"axpy", "causal-conv1d", "torchsort"}


@pytest.mark.parametrize("path", MATRICES, ids=lambda path: path.parent.name)
def test_a_matrix_loads_with_its_patches_and_expects_device_code(path: Path) -> None:
    loaded = load(path)
    assert [patch.sha256 for patch in read_patches(loaded)] == [patch.sha256 for patch in loaded.matrix.pin.patches]
    for target in loaded.matrix.targets:
        expected = loaded.matrix.expectations(target).values()
        assert Code.NATIVE in {each.code_for(Profile.RELEASE) for each in expected}


@pytest.mark.parametrize("name", ["torchsort", "causal-conv1d"])
def test_the_real_packages_are_built_for_both_machines_with_torch(name: str) -> None:
    matrix = load(EXAMPLES / name / "matrix.yaml").matrix
    assert isinstance(matrix.pin.source, SdistSource)
    assert matrix.build.torch
    targets = {target: (each.machine, each.arch_list) for target, each in matrix.targets.items()}
    assert targets == {"x86_64-sm90": ("x86_64", "9.0"), "aarch64-sm121": ("aarch64", "12.1")}
    assert all(each.torch.startswith("torch==") for each in matrix.targets.values())


def test_a_patch_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "causal-conv1d"
    shutil.copytree(EXAMPLES / "causal-conv1d", folder)
    with (folder / "architectures.patch").open("a", encoding="utf-8") as patch:
        patch.write("\n")
    with pytest.raises(PreflightError, match=r"architectures\.patch has sha256"):
        read_patches(load(folder / "matrix.yaml"))


def test_the_patch_leaves_no_architecture_and_fits_no_other_tree(tmp_path: Path) -> None:
    patches = read_patches(load(EXAMPLES / "causal-conv1d" / "matrix.yaml"))
    changed = [line for line in patches[0].path.read_text(encoding="utf-8").splitlines() if line[:1] in "+-"]
    assert [line for line in changed if line.startswith("+") and not line.startswith("+++")] == []
    removed = [line for line in changed if "arch=" in line]
    assert len(removed) == 9
    (tmp_path / "setup.py").write_text("print('another tree')\n", encoding="utf-8")
    with pytest.raises(PreflightError, match="does not apply"):
        check_patches(tmp_path, patches)
