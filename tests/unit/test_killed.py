from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from qualify.publishers import PUBLISHERS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("kind", "fewest"), [("record", 10), *((kind, 60) for kind in PUBLISHERS)])
def test_killed_at_any_moment_everything_is_whole_and_the_same_command_ends_it(
    tmp_path: Path, kind: str, fewest: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killing", kind, str(tmp_path), "11"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["steps"] >= fewest
    assert counts["random"] == 20
