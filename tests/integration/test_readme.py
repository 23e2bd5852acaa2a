"""The output that the README shows is what the command prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
SHOWN = re.compile(r"<!-- output: qualify (?P<arguments>.+?) -->\n```text\n(?P<output>.*?)```", re.DOTALL)


@pytest.mark.network
@pytest.mark.parametrize(
    "shown", list(SHOWN.finditer(README.read_text(encoding="utf-8"))), ids=lambda m: m["arguments"]
)
def test_the_readme_shows_what_the_command_prints(shown: re.Match[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "qualify", *shown["arguments"].split()],
        capture_output=True,
        text=True,
        cwd=README.parent,
        env={**os.environ, "COLUMNS": "110"},
    )
    assert run.returncode == 0, run.stderr
    assert [line.rstrip() for line in run.stdout.strip().splitlines()] == shown["output"].rstrip("\n").split("\n")


def test_the_readme_shows_a_verdict() -> None:
    assert "qualified  vllm-" in README.read_text(encoding="utf-8")
