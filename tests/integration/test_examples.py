"""The real packages of examples/ up to the compile: their sdists, as the index has them, with the patches applied."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from builders.planning import make_plan
from builders.source import open_source
from builders.source_patches import gather_patches, patch_commands
from qualify.matrix import load

pytestmark = pytest.mark.network

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_plan_of_torchsort_names_the_cuda_torch(tmp_path: Path) -> None:
    loaded = load(EXAMPLES / "torchsort" / "matrix.yaml")
    source = open_source(loaded, tmp_path / "source", progress=print)
    for target, arch in (("x86_64-sm90", "9.0"), ("aarch64-sm121", "12.1")):
        plan = make_plan(loaded, target, source=source)
        assert plan.build_environment()["TORCH_CUDA_ARCH_LIST"] == arch
        assert "torch==2.14.1" in plan.requirements


def test_causal_conv1d_names_no_architecture_once_it_is_patched(tmp_path: Path) -> None:
    loaded = load(EXAMPLES / "causal-conv1d" / "matrix.yaml")
    source = open_source(loaded, tmp_path / "source", progress=print)
    setup = source.tree / "setup.py"
    assert len(re.findall(r"arch=compute_\d+", setup.read_text(encoding="utf-8"))) == 9
    plan = make_plan(loaded, "x86_64-sm90", source=source)
    assert plan.build_environment()["CAUSAL_CONV1D_FORCE_BUILD"] == "TRUE"
    assert "packaging" in plan.requirements
    gather_patches(source.patches, tmp_path / "patches")
    for command in patch_commands(source.patches, str(tmp_path / "patches")):
        subprocess.run(command, cwd=source.tree, check=True)
    patched = setup.read_text(encoding="utf-8")
    assert "arch=compute" not in patched
    compile(patched, str(setup), "exec")
