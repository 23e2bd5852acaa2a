"""What a person reads when a compile has failed: the cause, the step, the command, the log; from recorded logs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from builders.compiling import compile_wheel
from builders.engines import Outcome, Paths, Say, Step
from builders.environment import Prepared
from builders.progress import BuildLog
from qualify.errors import BuildError, ExitCode
from tools.failing_builds import read_recipes

RECIPES = read_recipes()[0]
PREPARED = Prepared("/env/bin/python", "3.11.2", "", "", {}, (), True)


class Replaying:
    """A room whose every step prints what a recorded build printed, and ends as that did."""

    engine = "replaying"
    machine = "x86_64"
    paths = Paths("/room/source", "/room/out", "/env", "/cache", "/room/tools")

    def __init__(self, name: str) -> None:
        self.lines = RECIPES[name].log.read_text(encoding="utf-8").splitlines()
        self.steps: list[Step] = []

    def run(self, step: Step, say: Say) -> Outcome:
        self.steps.append(step)
        for line in self.lines:
            say(line)
        return Outcome(1, False, 1.0)


def failure(name: str, folder: Path, jobs: int = 1) -> tuple[BuildError, Replaying, str]:
    stderr = io.StringIO()
    room = Replaying(name)
    with BuildLog(folder / "build.log", stderr) as log, pytest.raises(BuildError) as caught:
        compile_wheel(room, PREPARED, {}, "/room/source", log, "x86_64-sm90", jobs=jobs)  # type: ignore[arg-type]
    assert caught.value.exit_code is ExitCode.BUILD_FAILED
    return caught.value, room, stderr.getvalue()


def test_the_cause_the_step_the_command_and_the_log_are_named(tmp_path: Path) -> None:
    error, _, _ = failure("missing-header-cmake", tmp_path)
    assert str(error) == (
        "x86_64-sm90: compile, line 32 of its output: missing header: /room/source/csrc/b.cpp:1:10: fatal error: "
        "nlohmann/json.hpp: No such file or directory; the command was /usr/bin/c++ … -c /room/source/csrc/b.cpp; the "
        f"build folder is kept, and the next build goes on in it; the log is {tmp_path / 'build.log'}"
    )
    logged = (tmp_path / "build.log").read_text(encoding="utf-8").splitlines()
    assert logged[0].startswith("== compile: 1 job, log ")
    assert logged[32].strip().startswith("/room/source/csrc/b.cpp:1:10: fatal error")


def test_a_cause_without_a_command_names_none(tmp_path: Path) -> None:
    error, _, _ = failure("syntax-error", tmp_path)
    assert "SyntaxError" in error.what
    assert error.action.startswith("the build folder is kept")


def test_a_build_cut_off_says_the_exit_code_and_no_invented_cause(tmp_path: Path) -> None:
    error, _, _ = failure("cut-off", tmp_path)
    assert error.what == "pip wheel ended with 1"


def test_killed_for_memory_is_tried_with_fewer_jobs_and_said(tmp_path: Path) -> None:
    error, room, shown = failure("killed-torchsort", tmp_path, jobs=8)
    assert [step.environment["MAX_JOBS"] for step in room.steps] == ["8", "4", "2"]
    assert "killed for memory with 8 jobs, then 4 jobs, then 2 jobs" in error.what
    assert "again in the same build folder with 4 (try 2 of 3)" in shown
