"""The real vLLM sdist, built for no device: a wheel comes out, and it is rejected for what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qualify import cli as qualify_cli

pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]


def test_the_empty_build_is_rejected_for_no_compiled_extension(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "builders", "build", "x86_64-sm90", "--matrix", str(ROOT / "matrix.yaml")]
    options = ["--engine", "docker", "--out", str(tmp_path), "--set", "VLLM_TARGET_DEVICE=empty", "--json"]
    done = subprocess.run([*command, *options], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert receipt["versions"]["wheel"] == "0.33.0+empty"
    assert receipt["versions"]["commit"] == "same"  # the sdist's own, kept through a build that would lose it
    assert receipt["architectures"] == []
    assert receipt["deviations"] == ["--set VLLM_TARGET_DEVICE"]
    assert receipt["plan"]["shape"]
    judged = ["check", receipt["path"], "--target", "x86_64-sm90", "--matrix", str(ROOT / "matrix.yaml"), "--json"]
    code = qualify_cli.main(judged)
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (code, result["verdict"]) == (1, "rejected")
    assert "no-compiled-extension" in [finding["slug"] for finding in result["findings"]]
