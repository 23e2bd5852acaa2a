"""Errors as people read them, and the exit codes that scripts read."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest

from qualify import cli, errors, shell
from qualify.errors import AssayError, ExitCode

ALL_ERRORS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, AssayError) and value is not AssayError
]


def dispatch_with(monkeypatch: pytest.MonkeyPatch, run: object) -> int:
    module = types.ModuleType("made_command")
    module.__dict__.update(HELP="made", configure=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "made_command", module)
    return shell.dispatch("prog", "words", {"made": "made_command"}, ["made"])


@pytest.mark.parametrize("kind", ALL_ERRORS, ids=lambda kind: kind.__name__)
def test_each_kind_of_error_ends_with_its_own_code(
    kind: type[AssayError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: object) -> ExitCode:
        words = ("wet", "it is wet") if kind is errors.EvidenceError else ("it is wet",)
        raise kind(*words, where="cellar", expected="a dry cellar", action="pump")

    assert dispatch_with(monkeypatch, run) == kind.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: cellar: it is wet\n  expected: a dry cellar\n  to do: pump\n"


def test_the_kinds_of_outcome_do_not_share_codes() -> None:
    by_code: dict[ExitCode, set[str]] = {}
    for kind in ALL_ERRORS:
        if {errors.UsageError, errors.RefusedError} & set(kind.__mro__[1:]):
            continue  # a kind of that kind
        by_code.setdefault(kind.exit_code, set()).add(kind.__name__)
    assert {code: names for code, names in by_code.items() if len(names) > 1} == {}


def test_a_bug_of_ours_shows_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(arguments: object) -> ExitCode:
        raise ZeroDivisionError("ours")

    assert dispatch_with(monkeypatch, run) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(arguments: object) -> ExitCode:
        raise KeyboardInterrupt

    assert dispatch_with(monkeypatch, run) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_full_disk_is_the_environments_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: object) -> ExitCode:
        raise OSError(28, "No space left on device", "wheels/a.whl")

    assert dispatch_with(monkeypatch, run) == ExitCode.UNAVAILABLE
    assert capsys.readouterr().err.startswith("error: wheels/a.whl: No space left on device\n")


@pytest.mark.parametrize("argv", [[], ["chekc"], ["inspect"], ["inspect", "--no-such-option", "a.whl"]])
def test_a_wrong_command_line_is_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == ExitCode.USAGE
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 1], 1),
        ([1, 3], 3),
        ([1, 3, 4], 4),
        ([4, 0], 4),
    ],
)
def test_the_code_over_several_wheels(codes: list[int], expected: int) -> None:
    assert ExitCode.worst([ExitCode(code) for code in codes]) == expected


def test_errors_cross_processes() -> None:
    error = errors.MalformedError("torn", where="a.so", expected="whole", action="fetch again")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is errors.MalformedError
    assert str(again) == "a.so: torn; expected whole; fetch again"


def test_both_ways_to_start_are_the_same() -> None:
    console = Path(sys.executable).with_name("qualify")
    module = subprocess.run([sys.executable, "-m", "qualify", "--help"], capture_output=True, text=True, check=True)
    assert module.stdout.startswith("usage: qualify")
    if console.exists():
        script = subprocess.run([str(console), "--help"], capture_output=True, text=True, check=True)
        assert script.stdout == module.stdout


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("explain DEV001 >&-", 0),
        ("explain DEV001 2>&-", 0),
        ("explain DEV999 2>&-", 2),
        ("explain DEV001 >/dev/full", 4),
        ("--version >/dev/full", 4),
        ("explain --help >/dev/full", 4),
    ],
)
def test_an_output_that_takes_nothing_is_no_bug(command: str, code: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    shell_line = ["sh", "-c", f'"$0" -m qualify {command}', sys.executable]
    done = subprocess.run(shell_line, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("command", "code"),
    [(["explain", "DEV001"], 0), (["check", "a-1-py3-none-any.whl", "--machine", "x86_64", "--cc", "9.0"], 1)],
)
def test_a_reader_that_went_away_changes_no_exit_code(
    command: list[str], code: int, unbuffered: str, tmp_path: Path
) -> None:
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"no archive")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= {"PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "qualify", *command],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment,
            cwd=tmp_path,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (code, "")
