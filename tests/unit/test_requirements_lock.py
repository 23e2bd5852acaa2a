"""The lock of a build's environment: written by the command, read by the plan, refused where it lies."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from builders.cli import main
from builders.planning import make_plan
from builders.requirements_lock import (
    FILE,
    Locked,
    lock_lines,
    locked_elsewhere,
    locked_for,
    pip_lines,
    place_of,
    read_requirements_lock,
    write_requirements_lock,
)
from builders.toolkit import PINS
from builders.toolsearch import Host
from qualify.errors import ConfigurationError, PreflightError
from qualify.matrix import LoadedMatrix
from tests.support.wheel import write_wheel
from tests.unit.builders_support import sdist_matrix

A, B = "a" * 64, "b" * 64
ENTRY = Locked(("torch==2.14.0", "wheel"), (f"torch==2.14.0+cu130 sha256:{A}", f"wheel==0.45 sha256:{B} sha256:{A}"))
HOST = Host("x86_64", 8, 64 * 10**9)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    cross = Locked(("x",), (f"x==1 sha256:{A}",), (f"y==2 sha256:{B}",))
    write_requirements_lock(tmp_path, "x86_64-sm90", "3.10 on x86_64", ENTRY)
    write_requirements_lock(tmp_path, "aarch64-sm121", "3.12 on x86_64", cross)
    assert read_requirements_lock(tmp_path) == {
        "x86_64-sm90": {"3.10 on x86_64": ENTRY},
        "aarch64-sm121": {"3.12 on x86_64": cross},
    }
    assert read_requirements_lock(tmp_path / "elsewhere") == {}


def test_other_entries_and_comments_stay(tmp_path: Path) -> None:
    write_requirements_lock(tmp_path, "x86_64-sm90", "3.12 on x86_64", ENTRY)
    path = tmp_path / FILE
    path.write_text(path.read_text().replace("targets:\n", "targets:\n  # asked for by the ward\n"))
    write_requirements_lock(tmp_path, "x86_64-sm90", "3.13 on x86_64", ENTRY)
    assert "# asked for by the ward" in path.read_text()
    assert "Written by" in path.read_text()
    assert list(read_requirements_lock(tmp_path)["x86_64-sm90"]) == ["3.12 on x86_64", "3.13 on x86_64"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no lock of requirements"),
        ("[]", "no lock of requirements"),
        ("version: 2\ntargets: {}\n", "its version is 2, not 1"),
        ("version: 1\n", "targets"),
        ("version: 1\ntargets: {a: 3}\n", "no lock of requirements"),
        ("version: 1\ntargets: {a: {3.12 on x86_64: {requested: []}}}\n", None),
        ("version: 1\ntargets: {a: {p: {requested: [], distributions: [x==1]}}}\n", "'x==1' is not of the kind"),
        (f"version: 1\ntargets: {{a: {{p: {{requested: [], distributions: ['x==1 -i u sha256:{A}']}}}}}}\n", "kind"),
        (f"version: 1\ntargets: {{a: {{p: {{requested: [], target: ['-e . sha256:{A}']}}}}}}\n", "kind"),
        ("version: 1\ntargets: {a: {p: {distributions: []}}}\n", "requested"),
        ("version: 1\ntargets: {a: *b}\n", "no lock of requirements"),
        ("\x00", "no lock of requirements"),
    ],
)
def test_what_is_no_lock_is_refused_with_its_place(tmp_path: Path, text: str, said: str | None) -> None:
    (tmp_path / FILE).write_text(text)
    if said is None:
        assert read_requirements_lock(tmp_path)["a"]["3.12 on x86_64"] == Locked((), ())
        return
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_requirements_lock(tmp_path)
    assert caught.value.where == str(tmp_path / FILE)
    assert "lock the targets anew" in caught.value.action


def test_an_entry_made_for_other_requirements_is_refused() -> None:
    lock = {"t": {place_of("3.12", "x86_64"): ENTRY}}
    assert locked_for(lock, "t", ("3.12",), "x86_64", ("wheel", "torch==2.14.0")) == {"3.12": ENTRY}
    with pytest.raises(PreflightError, match=r"no longer torch==2\.14\.0; now torch==2\.15\.0") as caught:
        locked_for(lock, "t", ("3.12",), "x86_64", ("wheel", "torch==2.15.0"))
    assert caught.value.where == f"{FILE}: t, Python 3.12 on x86_64"
    assert caught.value.action == "python -m builders lock t --python 3.12"


def test_another_machine_or_python_is_not_locked_and_that_is_said() -> None:
    lock = {"t": {place_of("3.12", "x86_64"): ENTRY}}
    assert locked_for(lock, "t", ("3.12",), "aarch64", ()) == {}
    assert locked_for(lock, "other", ("3.12",), "x86_64", ()) == {}
    assert locked_elsewhere(lock, "t", ("3.12",), "aarch64") == (
        f"{FILE} has t for 3.12 on x86_64, and not for 3.12 on aarch64",
    )
    assert locked_elsewhere(lock, "t", ("3.12", "3.13"), "x86_64") == (
        f"{FILE} has t for 3.12 on x86_64, and not for 3.13 on x86_64",
    )
    assert locked_elsewhere(lock, "t", ("3.12",), "x86_64") == ()
    assert locked_elsewhere(lock, "other", ("3.12",), "x86_64") == ()


def test_lines_of_a_plan_are_lines_for_pip() -> None:
    lines = lock_lines({"3.12": Locked((), ENTRY.distributions, (f"y==2 sha256:{B}",)), "3.13": ENTRY})
    expected = (f"torch==2.14.0+cu130 --hash=sha256:{A}", f"wheel==0.45 --hash=sha256:{B} --hash=sha256:{A}")
    assert pip_lines(lines) == {"3.12": expected, "3.13": expected}
    assert pip_lines(lines, of_target=True) == {"3.12": (f"y==2 --hash=sha256:{B}",)}
    assert pip_lines(()) == {}


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedMatrix:
    """A matrix whose requirements and toolkit lie in a folder of wheels, which is all that pip sees."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    for name, version in {"setuptools": "80", "wheel": "0.45", "torch": "2.14.0", "cuda-toolkit": "13.0.3"}.items():
        write_wheel(folder, name, version, "py3-none-any", {})
    for name, version in PINS["13.0.3"].items():
        for machine in ("x86_64", "aarch64"):
            write_wheel(folder, name, version, f"py3-none-manylinux2014_{machine}", {})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return sdist_matrix(tmp_path)


def lock(loaded: LoadedMatrix, *arguments: str) -> int:
    return main(["lock", *arguments, "--matrix", str(loaded.path)])


def test_the_command_locks_every_python_of_a_target(
    matrix: LoadedMatrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock(matrix, "x86_64-sm90", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    places = [f"{python} on x86_64" for python in ("3.11", "3.12", "3.13", "3.14")]
    assert list(said["locked"]) == places
    plan = make_plan(matrix, "x86_64-sm90", host=HOST)
    wheel = tmp_path / "wheelhouse" / "wheel-0.45-py3-none-any.whl"
    assert f"3.12: wheel==0.45 sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}" in plan.locked
    assert len(plan.locked) == 4 * len(said["locked"][places[0]]["distributions"])
    assert plan.notes == ()
    assert plan.key() != make_plan(matrix, "x86_64-sm90", host=HOST, use_lock=False).key()


def test_of_a_cross_build_the_linked_parts_are_locked_too(
    matrix: LoadedMatrix, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("cross builds run on x86_64")
    assert lock(matrix, "aarch64-sm121", "--python", "3.12") == 0
    assert "distributions and 4 of aarch64" in capsys.readouterr().out
    plan = make_plan(matrix, "aarch64-sm121", host=HOST)
    assert {line.partition("==")[0] for line in plan.locked if " target: " in line} == {
        "3.12 target: torch",
        *(f"3.12 target: nvidia-cuda-{name}" for name in ("runtime", "cccl", "crt")),
    }


def test_a_python_that_the_target_is_not_for(matrix: LoadedMatrix, capsys: pytest.CaptureFixture[str]) -> None:
    assert lock(matrix, "x86_64-sm90", "--python", "3.9") == 2
    assert "x86_64-sm90 is not for Python 3.9" in capsys.readouterr().err


def test_nothing_is_written_where_one_python_can_t_be_had(
    matrix: LoadedMatrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wheelhouse" / "wheel-0.45-py3-none-any.whl").unlink()
    write_wheel(tmp_path / "wheelhouse", "wheel", "0.45", "cp311-none-any", {})
    assert lock(matrix, "x86_64-sm90") == 8
    assert "No matching distribution found for wheel" in capsys.readouterr().err
    assert not (tmp_path / FILE).exists()


def test_a_matrix_that_moved_on_is_refused_with_what_to_do(
    matrix: LoadedMatrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock(matrix, "aarch64-sm121", "--how", "emulate") == 0
    matrix.path.write_text(matrix.path.read_text().replace("torch==2.14.0", "torch==2.15.0"))
    assert main(["plan", "aarch64-sm121", "--how", "emulate", "--matrix", str(matrix.path)]) == 8
    said = capsys.readouterr().err
    assert "no longer torch==2.14.0; now torch==2.15.0" in said
    assert "python -m builders lock aarch64-sm121 --python 3.12" in said
