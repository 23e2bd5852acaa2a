"""``qualify check`` as a script meets it: stdout, stderr, exit codes, evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from qualify import fetching
from qualify.cli import main
from qualify.errors import UnavailableError
from qualify.report import REPORT_VERSION
from qualify.reportjson import from_json
from tests.support.wheel import TAG, wheel_filename, write_wheel
from tests.unit.judging_support import ARM_TAG, HOPPER, MATRIX, SPARK

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "report.schema.json").read_text())

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the matrix of the tests in it."""
    (tmp_path / "matrix.yaml").write_text(json.dumps(MATRIX, indent=2))  # JSON is YAML, with every text quoted
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHEEL_ASSAY_MATRIX", raising=False)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["check", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def results(out: str) -> list[dict[str, Any]]:
    value = json.loads(out)
    jsonschema.validate(value, SCHEMA)
    assert value["version"] == REPORT_VERSION
    rows: list[dict[str, Any]] = value["results"]
    return rows


def test_a_good_wheel_is_qualified_with_exit_0(folder: Path, run: Run) -> None:
    code, out, err = run(write_wheel(folder), "--target", HOPPER)
    assert (code, err) == (0, "")
    assert out.startswith(f"qualified  {wheel_filename()}  for {HOPPER}, profile release\n")
    assert "axpy/_C.abi3.so" in out
    assert "1 / 0 / 0" in out


def test_json_goes_to_stdout_alone_and_keeps_to_its_schema(folder: Path, run: Run) -> None:
    code, out, err = run(write_wheel(folder, extensions={"axpy/_C": {"sm_100": ["k"]}}), "--target", HOPPER, "--json")
    assert (code, err) == (1, "")
    (row,) = results(out)
    assert (row["verdict"], row["target"], row["project"], row["wheel_version"]) == (
        "rejected",
        HOPPER,
        "axpy",
        "0.1.0",
    )
    errors = {finding["slug"] for finding in row["findings"] if finding["severity"] == "error"}
    assert errors == {"no-code-for-target", "extension-missing"}
    assert [(c["member"], c["native"], c["jit"], c["none"]) for c in row["coverage"]] == [("axpy/_C.abi3.so", 0, 0, 1)]
    assert len(row["sha256"]) == 64
    assert from_json(row).verdict.value == "rejected"


def test_rejections_are_shown_with_what_was_found_expected_and_to_do(folder: Path, run: Run) -> None:
    code, out, _ = run(write_wheel(folder, tag=ARM_TAG), "--target", HOPPER)
    assert code == 1
    assert "error TAG001  other-machine  platform tag manylinux_2_28_aarch64\n" in out
    assert "              expected: manylinux or linux of x86_64" in out
    assert "              to do: " in out


def test_without_a_target_a_wheel_is_judged_for_the_targets_of_its_machine(folder: Path, run: Run) -> None:
    _, out, _ = run(write_wheel(folder), "--json")
    assert [row["target"] for row in results(out)] == [HOPPER]
    _, out, _ = run(write_wheel(folder, tag=ARM_TAG), "--json")
    assert [row["target"] for row in results(out)] == [id_ for id_ in MATRIX["targets"] if id_ != HOPPER]


def test_several_wheels_and_targets_end_with_the_worst(folder: Path, run: Run) -> None:
    good, arm = write_wheel(folder), write_wheel(folder, tag=ARM_TAG)
    unread = write_wheel(folder, version="0.1.1", commit=None, extensions={})
    assert run(good, "--target", HOPPER)[0] == 0
    code, out, _ = run(good, arm, "--target", HOPPER, "--target", HOPPER)
    assert code == 1
    assert out.count("profile release") == 2
    assert out.splitlines()[-1].split() == ["rejected", HOPPER, arm.name]
    code, out, _ = run(good, arm, unread, "--all-targets", "--json")
    assert code == 1
    assert len(results(out)) == 3 * len(MATRIX["targets"])


def test_a_damaged_file_is_rejected_and_the_others_are_judged(folder: Path, run: Run) -> None:
    good = write_wheel(folder)
    broken = folder / wheel_filename(version="0.2.0")
    broken.write_bytes(good.read_bytes()[:500])
    code, out, err = run(broken, good, "--target", HOPPER)
    assert (code, err) == (1, "")
    assert f"rejected  {broken.name}" in out
    assert "error ARC001  malformed" in out
    assert f"qualified  {good.name}" in out
    code, out, _ = run(broken, good, "--target", HOPPER, "--json")
    assert [row["verdict"] for row in results(out)] == ["rejected", "qualified"]


def test_no_network_is_exit_4_and_the_others_are_judged(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, **__: object) -> Path:
        raise UnavailableError("the package index did not answer", where="axpy==0.1.0", action="try again later")

    monkeypatch.setattr(fetching.Fetcher, "fetch_wheel", nothing)
    code, out, err = run("axpy==0.1.0", "--target", HOPPER)
    assert (code, out) == (4, "")
    assert err == "error: axpy==0.1.0: the package index did not answer\n  to do: try again later\n"
    code, out, err = run("axpy==0.1.0", write_wheel(folder), "--target", HOPPER, "--json")
    assert code == 4
    assert [row["verdict"] for row in results(out)] == ["unverified", "qualified"]
    assert err.startswith("error: axpy==0.1.0: ")


def test_a_requirement_is_fetched_for_the_targets_platform(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(self: object, requirement: str, machine: str, python: str, *, glibc: str) -> Path:
        asked.append((requirement, machine, python, glibc))
        return write_wheel(folder, tag=ARM_TAG if machine == "aarch64" else TAG)

    monkeypatch.setattr(fetching.Fetcher, "fetch_wheel", fetch)
    _, out, _ = run("--pin", "--target", HOPPER, "--target", SPARK, "--json")
    assert [row["target"] for row in results(out)] == [HOPPER, SPARK]
    assert asked == [("axpy==0.1.0", "x86_64", "3.11", "2.28"), ("axpy==0.1.0", "aarch64", "3.11", "2.39")]


def test_an_inconclusive_wheel_is_exit_3(folder: Path, run: Run) -> None:
    code, out, _ = run(write_wheel(folder, commit=None), "--target", HOPPER)
    assert code == 3
    assert out.startswith("inconclusive")
    assert run(write_wheel(folder, commit=None), "--target", HOPPER, "--profile", "upstream")[0] == 0


def test_a_target_without_a_matrix(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = write_wheel(tmp_path, tag=ARM_TAG, extensions={"axpy/_a": {"sm_120f": ["k"]}, "axpy/_b": {"sm_90": ["k"]}})
    code, out, _ = run(wheel, "--machine", "aarch64", "--cc", "12.1", "--json")
    assert code == 0
    (row,) = results(out)
    assert row["target"] == "aarch64-sm121"
    assert row["not_judged"] == ["axpy/_b.abi3.so: need unknown"]
    code, out, _ = run(wheel, "--machine", "aarch64", "--cc", "12.1")
    assert "not judged: axpy/_b.abi3.so: need unknown\n" in out
    assert re.search(r"axpy/_a\.abi3\.so .* no entry$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to judge"),
        (("absent.whl",), "absent.whl: no such file"),
        (("axpy",), "axpy: no such file"),
        (("matrix.yaml", "--target", HOPPER), "is not named as a wheel"),
        (("good", "--target", "x86_64-sm9"), "unknown target 'x86_64-sm9'"),
        (("good", "--machine", "x86_64"), "--machine and --cc belong together"),
        (("good", "--machine", "x86_64", "--cc", "9"), "'9' is no compute capability"),
        (("good", "--machine", "x86_64", "--cc", "9.0", "--target", HOPPER), "leave one of the two ways out"),
        (("good", "--profile", "strict"), "invalid choice: 'strict'"),
        (("good", "--matrix", "absent.yaml"), "absent.yaml"),
        (("good", "--target", HOPPER, "--require", "jit", "--evidence"), "--evidence takes the matrix's own demands"),
    ],
)
def test_misuse_is_exit_2_with_one_clear_line(folder: Path, run: Run, arguments: tuple[str, ...], said: str) -> None:
    good = write_wheel(folder)
    code, out, err = run(*(good if argument == "good" else argument for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err


def test_a_file_with_a_wrong_name_does_not_hide_the_other_verdicts(folder: Path, run: Run) -> None:
    code, out, err = run(folder / "matrix.yaml", write_wheel(folder), "--target", HOPPER)
    assert code == 2
    assert out.startswith("qualified")
    assert "is not named as a wheel" in err


def test_a_pin_without_a_requirement_has_nothing_to_fetch(folder: Path, run: Run) -> None:
    pin = {**MATRIX["pin"], "requirement": ""}
    (folder / "matrix.yaml").write_text(json.dumps({**MATRIX, "pin": pin}))
    code, _, err = run("--pin")
    assert code == 2
    assert "the pin has no requirement" in err


def test_evidence_is_written_beside_the_wheel(folder: Path, run: Run) -> None:
    wheel = write_wheel(folder)
    code, out, err = run(wheel, "--target", HOPPER, "--evidence", "--json")
    assert code == 0
    evidence = folder / f"{wheel.name}.{HOPPER}.evidence.json"
    assert str(evidence) in err
    written = json.loads(evidence.read_text())
    assert written["subject"] == [{"name": wheel.name, "digest": {"sha256": results(out)[0]["sha256"]}}]
    assert written["predicate"]["report"]["verdict"] == "qualified"


def test_names_from_a_wheel_cannot_steer_a_terminal(folder: Path, run: Run) -> None:
    wheel = write_wheel(folder, extensions={"axpy/_C": {"sm_90": ["k"]}, "axpy/_host": {}, "axpy/\x1b[2Jx": {}})
    _, out, _ = run(wheel, "--target", HOPPER)
    assert "\x1b" not in out
    assert "\\x1b[2Jx" in out


def test_a_name_that_is_no_wheels_is_said_once(folder: Path, run: Run) -> None:
    write_wheel(folder).rename(folder / "wrong.whl")
    code, out, _ = run("wrong.whl", "--target", HOPPER, "--json")
    errors = [finding["code"] for finding in results(out)[0]["findings"] if finding["severity"] == "error"]
    assert (code, errors) == (1, ["ARC001"])
