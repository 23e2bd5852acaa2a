"""What is asked otherwise since the last evidence: shown in the verdict, in text and in JSON."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from qualify import policies, since
from qualify.cli import main
from qualify.judging import judge
from qualify.matrix.model import Code, Profile
from qualify.renderers import renderer
from qualify.report import PolicyChange, Report, Since
from tests.support.wheel import write_wheel
from tests.unit.judging_support import HOPPER, MATRIX, SPARK, context, wheel

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "report.schema.json").read_text())
Check = Callable[..., tuple[int, str, list[dict[str, Any]]]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_matrix(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHEEL_ASSAY_MATRIX", raising=False)
    return tmp_path


def put_matrix(folder: Path, glibc: str = "2.28", **changes: object) -> None:
    value: Any = copy.deepcopy({**MATRIX, **changes})
    value["targets"][HOPPER]["ceilings"]["glibc"] = glibc
    (folder / "matrix.yaml").write_text(json.dumps(value))


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    def call(*arguments: object) -> tuple[int, str, list[dict[str, Any]]]:
        """Exit code, text, and the results of ``--json`` for the same arguments."""
        words = ["check", *map(str, arguments)]
        code = main(words)
        text = capsys.readouterr().out
        main([word for word in words if word != "--evidence"] + ["--json"])
        value = json.loads(capsys.readouterr().out)
        jsonschema.validate(value, SCHEMA)
        return code, text, value["results"]

    return call


def test_without_earlier_evidence_nothing_is_said(folder: Path, check: Check) -> None:
    code, text, (row,) = check(write_wheel(folder), "--target", HOPPER)
    assert (code, row["since"]) == (0, None)
    assert text.startswith(f"qualified  {row['wheel']}")


def test_a_changed_bound_is_shown_in_the_verdict(folder: Path, check: Check) -> None:
    path = write_wheel(folder)
    check(path, "--target", HOPPER, "--evidence")
    put_matrix(folder, glibc="2.39")
    code, text, (row,) = check(path, "--target", HOPPER)
    assert code == 0
    assert text.startswith("qualified (policy changed: ceilings.glibc 2.28 -> 2.39)  ")
    assert row["since"]["changes"] == [{"field": "ceilings.glibc", "before": "2.28", "now": "2.39"}]
    assert row["since"]["verdict"] == "qualified"
    assert row["policy"]["ceilings"]["glibc"] == "2.39"
    # New evidence is made under the new bound: there is nothing to say then.
    check(path, "--target", HOPPER, "--evidence")
    _, text, (row,) = check(path, "--target", HOPPER)
    assert row["since"]["changes"] == []
    assert text.startswith("qualified  ")


def test_evidence_of_other_bytes_is_no_base_and_that_is_said(folder: Path, check: Check) -> None:
    path = write_wheel(folder)
    check(path, "--target", HOPPER, "--evidence")
    put_matrix(folder, glibc="2.39")
    write_wheel(folder, files={"axpy/more.py": "x = 1\n"})
    _, text, (row,) = check(path, "--target", HOPPER)
    assert row["since"]["changes"] == []
    assert row["since"]["incomparable"].startswith("it is of other bytes, sha256 ")
    assert "policy changed" not in text
    assert f"not compared with {path.name}.{HOPPER}.evidence.json: it is of other bytes" in " ".join(text.split())


def test_evidence_that_nobody_can_read_is_said_too(folder: Path, check: Check) -> None:
    path = write_wheel(folder)
    (folder / f"{path.name}.{HOPPER}.evidence.json").write_text("{")
    code, _, (row,) = check(path, "--target", HOPPER)
    assert code == 0
    assert "not JSON" in row["since"]["incomparable"]


def test_evidence_can_be_named(folder: Path, check: Check) -> None:
    path = write_wheel(folder)
    check(path, "--target", HOPPER, "--evidence")
    kept = folder / "old.evidence.json"
    (folder / f"{path.name}.{HOPPER}.evidence.json").rename(kept)
    put_matrix(folder, glibc="2.39")
    _, _, (row,) = check(path, "--target", HOPPER, "--since", kept)
    assert [change["field"] for change in row["since"]["changes"]] == ["ceilings.glibc"]
    _, _, rows = check(path, "--target", HOPPER, "--target", SPARK, "--since", kept)
    assert [bool(each["since"]["changes"]) for each in rows] == [True, False]
    assert rows[1]["since"]["incomparable"] == f"it is for {HOPPER}"


def test_what_is_named_and_is_no_evidence_is_misuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_wheel(folder)
    assert main(["check", str(path), "--target", HOPPER, "--since", "nowhere.json"]) == 2
    assert "nowhere.json: no evidence" in capsys.readouterr().err


def policy(**changes: Any) -> Mapping[str, Any]:
    value = judge(wheel(), context(**changes)).policy
    assert value is not None
    return value


def test_another_profile_is_one_change_and_not_one_for_each_check() -> None:
    changes = policies.changes(policy(profile=Profile.UPSTREAM), policy())
    assert changes == (PolicyChange("profile", "upstream", "release"),)


@pytest.mark.parametrize(
    ("now", "change"),
    [
        ({"require": Code.JIT}, PolicyChange("require", "nothing", "jit")),
        (
            {"extensions": {"axpy/_C": {"code": "jit"}}},
            PolicyChange('expectations["axpy/_C"].code', "native", "jit"),
        ),
        (
            {"extensions": {"axpy/_new": {}}},
            PolicyChange('expectations["axpy/_new"].presence', "nothing", "required"),
        ),
        (
            {"pin": {**MATRIX["pin"], "build_modes": ["source"]}},
            PolicyChange("pin.build_modes", "source, unstated", "source"),
        ),
        (
            {"libraries": {}},
            PolicyChange('libraries["libother.so.*"]', "every machine of these targets has it", "nothing"),
        ),
    ],
)
def test_each_change_is_a_field_with_both_values(now: dict[str, Any], change: PolicyChange) -> None:
    assert change in policies.changes(policy(), policy(**now))


def test_a_waiver_that_holds_now_is_a_change() -> None:
    waiver = {"code": "DEV001", "reason": "meant so by its makers", "granted_by": "me", "pin": MATRIX["pin"]["commit"]}
    (change,) = policies.changes(policy(), policy(waivers=[waiver]))
    assert change.field.startswith("waivers: {")
    assert '"code": "DEV001"' in change.field
    assert (change.before, change.now) == ("nothing", "listed")


def test_a_new_check_another_severity_and_another_table_are_changes() -> None:
    now = dict(policy())
    before = {
        **now,
        "checks": {**{code: each for code, each in now["checks"].items() if code != "LIB001"}, "DEV005": "error"},
        "data": {**now["data"], "manylinux.json": "0" * 64},
    }
    fields = {change.field: (change.before, change.now) for change in policies.changes(before, now)}
    assert fields["checks.LIB001"] == ("nothing", now["checks"]["LIB001"])
    assert fields["checks.DEV005"] == ("error", "note")
    assert fields['data["manylinux.json"]'][0] == "0" * 64
    assert len(fields) == 3


def test_another_version_of_the_tool_is_said_first(tmp_path: Path) -> None:
    from tests.support.line import qualified, write_matrix

    made = qualified(tmp_path, write_matrix(tmp_path))
    document = dataclasses.replace(made.document, tool_version="0.0.1")
    report = judge(since_facts(made.wheel), made_context(tmp_path))
    found = since.against(report, document, "x")
    assert [change.field for change in found.changes] == ["tool"]
    assert found.changes[0].before == "0.0.1"


def since_facts(path: Path) -> Any:
    from qualify.opening import read_wheel

    return read_wheel(path)


def made_context(folder: Path) -> Any:
    from qualify import matrix
    from qualify.judging import Context

    return Context(matrix.load(folder / "matrix.yaml").matrix, "x86_64-sm90")


def test_a_long_list_of_changes_is_cut_in_text() -> None:
    report: Report = judge(wheel(), context())
    many = tuple(PolicyChange(f"checks.NEW{n:03}", "nothing", "error") for n in range(40))
    shown = renderer("text").render(
        [dataclasses.replace(report, since=Since("e.json", "2026-11-30", "qualified", "", many))],
        width=120,
        color=False,
    )
    assert "qualified (policy changed: checks.NEW000 nothing -> error and 39 more)" in shown
    assert "and 28 more; --json has them all" in shown
