"""Waivers: what they let through, what never, for which wheel; and the verdict that is never ``qualified``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from qualify import checks
from qualify.arch import ComputeCapability
from qualify.checks import CHECKS
from qualify.cli import main
from qualify.errors import ExitCode
from qualify.facts import Problem, ProblemKind, WheelFacts
from qualify.judging import BareTarget, Context, judge
from qualify.matrix.model import Profile, Waiver
from qualify.report import Granted, Report, Severity, Verdict
from qualify.waivers import Waivable, covers
from tests.support.wheel import COMMIT, write_wheel
from tests.unit.judging_support import HOPPER, MATRIX, SPARK, context, wheel

PIN = COMMIT[1:]


def waiver(code: str = "DEV001", **changes: object) -> dict[str, object]:
    """A waiver of one code for the pin, changed; None leaves a key out."""
    value = {"code": code, "reason": "meant so by its makers", "granted_by": "A. Person", "pin": PIN, **changes}
    return {key: each for key, each in value.items() if each is not None}


def of_wheel(facts: WheelFacts, code: str, **changes: object) -> dict[str, object]:
    return waiver(code, pin=None, wheel=facts.sha256, **changes)


def judged(facts: WheelFacts, *waivers: Mapping[str, object], profile: Profile = Profile.RELEASE) -> Report:
    return judge(facts, context(profile=profile, waivers=list(waivers)))


def codes(report: Report, severity: Severity) -> list[str]:
    return [finding.code for finding in report.findings if finding.severity is severity]


def two_without_code(**options: object) -> WheelFacts:
    """``_C`` and ``_fast`` hold code for another GPU alone; ``_ok`` keeps the wheel usable."""
    dead = {"sm_100": ["k"]}
    return wheel({"axpy/_C": dead, "axpy/_host": {}, "axpy/_fast": dead, "axpy/_any": {"sm_90": ["k"]}}, **options)


@pytest.fixture(scope="module")
def faulty() -> WheelFacts:
    return two_without_code()


def test_without_a_waiver_it_is_rejected(faulty: WheelFacts) -> None:
    report = judged(faulty)
    assert report.verdict is Verdict.REJECTED
    assert codes(report, Severity.ERROR) == ["DEV001", "DEV001"]


@pytest.mark.parametrize("scope", ["wheel", "pin"])
def test_what_a_waiver_lets_through_is_overridden_and_keeps_its_severity(faulty: WheelFacts, scope: str) -> None:
    given = of_wheel(faulty, "DEV001") if scope == "wheel" else waiver()
    report = judged(faulty, given)
    assert report.verdict is Verdict.OVERRIDDEN
    assert report.exit_code is ExitCode.OVERRIDDEN == 9
    assert codes(report, Severity.ERROR) == ["DEV001", "DEV001"]
    expected = Granted("meant so by its makers", "A. Person", faulty.sha256, "")
    if scope == "pin":
        expected = dataclasses.replace(expected, wheel="", pin=PIN)
    assert {finding.waiver for finding in report.findings if finding.severity is Severity.ERROR} == {expected}
    assert codes(report, Severity.WARNING) == []


def test_a_waiver_of_one_member_leaves_the_other_rejected(faulty: WheelFacts) -> None:
    report = judged(faulty, waiver(member="axpy/_C.*"))
    assert report.verdict is Verdict.REJECTED
    assert {f.member: f.waiver is not None for f in report.findings if f.code == "DEV001"} == {
        "axpy/_C.abi3.so": True,
        "axpy/_fast.abi3.so": False,
    }


def test_it_holds_for_one_wheel_and_never_for_the_next(faulty: WheelFacts) -> None:
    given = of_wheel(faulty, "DEV001")
    other = two_without_code(files={"axpy/more.py": "x = 1\n"})
    assert other.sha256 != faulty.sha256
    report = judged(other, given)
    assert (report.verdict, codes(report, Severity.WARNING)) == (Verdict.REJECTED, [])


def test_a_wheel_whose_bytes_nobody_hashed_has_no_waiver(faulty: WheelFacts) -> None:
    unhashed = dataclasses.replace(faulty, sha256="")
    assert judged(unhashed, waiver(pin=None, wheel="0" * 64)).verdict is Verdict.REJECTED


def test_it_holds_for_one_pin_and_never_for_the_next(faulty: WheelFacts) -> None:
    given = waiver()
    next_pin = {**MATRIX["pin"], "commit": "f" * 40}
    facts = two_without_code(commit="g" + "f" * 40)
    report = judge(facts, context(waivers=[given], pin=next_pin))
    assert report.verdict is Verdict.REJECTED
    assert codes(report, Severity.WARNING) == ["WVR002"]
    assert judge(faulty, context(waivers=[given], pin={**MATRIX["pin"], "commit": PIN[:12]})).verdict is (
        Verdict.OVERRIDDEN
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"commit": "g" + "f" * 40}, "of commit ffff"),
        ({"commit": None}, "names no commit"),
        ({"version": "0.1.0+gabcdef0"}, "names no commit (it names several commits"),
        ({"version": "0.1.0+d20260904"}, "from a changed tree"),
        ({"version": "0.1.0+precompiled"}, "build mode is precompiled"),
        ({"version": "0.1.0+patched"}, "nothing explains patched"),
    ],
)
def test_a_wheel_that_is_no_build_of_the_pin_has_no_part_in_its_waivers(options: dict[str, Any], why: str) -> None:
    report = judged(two_without_code(**options), waiver(), profile=Profile.UPSTREAM)
    assert report.verdict is Verdict.REJECTED
    [said] = [finding.found for finding in report.findings if finding.code == "WVR003"]
    assert why in said


def test_a_label_that_a_target_declares_is_no_other_build() -> None:
    assert judged(two_without_code(version="0.1.0+orin"), waiver()).verdict is Verdict.OVERRIDDEN


def test_a_waiver_of_another_target_is_none_here(faulty: WheelFacts) -> None:
    assert judged(faulty, waiver(target=SPARK)).verdict is Verdict.REJECTED
    assert judged(faulty, waiver(target=HOPPER)).verdict is Verdict.OVERRIDDEN


def test_a_foreign_wheel_can_have_one_by_its_bytes_alone() -> None:
    facts = wheel({}, name="other", tag="py3-none-any")
    assert judged(facts, of_wheel(facts, "PRE001")).verdict is Verdict.OVERRIDDEN
    assert judged(facts, waiver("PRE001")).verdict is Verdict.REJECTED


def test_a_target_without_a_matrix_has_no_waivers(faulty: WheelFacts) -> None:
    bare = BareTarget("x86_64", ComputeCapability.parse("8.0"))
    report = judge(faulty, Context(context(waivers=[waiver()]).matrix, bare=bare))
    assert report.verdict is Verdict.REJECTED


def with_problem(kind: ProblemKind) -> WheelFacts:
    problem = Problem(kind, "axpy/_C.abi3.so", ".nv_fatbin", "it is not as it should be")
    return dataclasses.replace(wheel(), problems=(problem,))


@pytest.mark.parametrize(
    ("kind", "code", "verdict"),
    [
        (ProblemKind.MALFORMED, "ARC001", Verdict.REJECTED),
        (ProblemKind.UNREADABLE, "ARC002", Verdict.OVERRIDDEN),
        (ProblemKind.ENVIRONMENT, "ARC003", Verdict.UNVERIFIED),
    ],
)
def test_what_is_malformed_or_the_hosts_fault_is_never_waived(kind: ProblemKind, code: str, verdict: Verdict) -> None:
    facts = with_problem(kind)
    assert judged(facts, of_wheel(facts, code)).verdict is verdict


def test_what_nobody_looked_at_is_waived_for_a_wheel_alone() -> None:
    assert judged(with_problem(ProblemKind.UNREADABLE), waiver("ARC002")).verdict is Verdict.UNVERIFIED


def test_an_editable_wheel_is_never_waived() -> None:
    facts = wheel({}, files={"__editable__.axpy-0.1.0.pth": "/home/me/src\n"})
    given = [of_wheel(facts, code) for code in ("EDI001", "EDI002")]
    assert judged(facts, *given).verdict is Verdict.REJECTED


def test_what_is_not_waived_decides_before_what_is(faulty: WheelFacts) -> None:
    facts = dataclasses.replace(with_problem(ProblemKind.UNREADABLE), members=faulty.members)
    assert judged(facts, waiver()).verdict is not Verdict.OVERRIDDEN
    unnamed = two_without_code(commit=None)
    assert judged(unnamed, of_wheel(unnamed, "DEV001")).verdict is Verdict.INCONCLUSIVE
    both = judged(unnamed, of_wheel(unnamed, "DEV001"), of_wheel(unnamed, "IDN002"))
    assert both.verdict is Verdict.OVERRIDDEN


def test_a_check_that_crashes_is_covered_by_no_waiver(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashes(case: checks.Case) -> list[object]:
        raise RuntimeError("a bug")

    broken = tuple(
        dataclasses.replace(each, function=crashes) if each.code == "ARC002" else each  # type: ignore[arg-type]
        for each in CHECKS
    )
    monkeypatch.setattr(checks, "CHECKS", broken)
    facts = wheel()
    report = judged(facts, of_wheel(facts, "ARC002"))
    assert report.verdict is Verdict.UNVERIFIED
    assert "ARC002" not in report.checks
    assert codes(report, Severity.WARNING) == ["WVR001"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_notes_and_warnings_are_nothing_to_let_through(check: checks.Check) -> None:
    levels = set(check.severities.values())
    if levels <= {Severity.NOTE, Severity.WARNING}:
        assert check.waivable is Waivable.NEVER
    if Severity.UNVERIFIED in levels:
        assert check.waivable is not Waivable.ANY
    finding = checks.registry.Finding(check.code, check.slug, Severity.NOTE, "", "f", "e", "a")
    assert not covers(Waiver.model_validate(waiver(check.code)), finding, Waivable.ANY)


def test_the_policy_holds_the_waivers_that_hold(faulty: WheelFacts) -> None:
    report = judged(faulty, waiver(), waiver(pin="f" * 40), of_wheel(wheel(), "DEV002"))
    assert report.policy is not None
    assert [each["pin"] for each in report.policy["waivers"]] == [PIN]


# As a person meets it


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHEEL_ASSAY_MATRIX", raising=False)
    return tmp_path


def check_with(folder: Path, waivers: list[Mapping[str, object]], *arguments: str) -> int:
    (folder / "matrix.yaml").write_text(json.dumps({**MATRIX, "waivers": waivers}, indent=2))
    dead = {"sm_100": ["k"]}
    more = {"axpy/_C": dead, "axpy/_host": {}, "axpy/_any": {"sm_90": ["k"]}}
    return main(["check", str(write_wheel(folder, extensions=more)), "--target", HOPPER, *arguments])


def test_it_is_printed_with_who_and_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_with(folder, [waiver()]) == 9
    out = capsys.readouterr().out
    assert out.startswith("overridden  ")
    assert "qualified" not in out
    assert "waived error DEV001" in out
    assert "let through for pin 0123456789ab by A. Person: meant so by its makers" in out
    assert check_with(folder, [waiver()], "--json") == 9
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert row["verdict"] == "overridden"
    [given] = [finding["waiver"] for finding in row["findings"] if finding["severity"] == "error"]
    assert given == {"reason": "meant so by its makers", "granted_by": "A. Person", "wheel": "", "pin": PIN}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (waiver("DEV901"), "waivers[0].code: no check is called DEV901"),
        (waiver("DEB001"), "did you mean DEV001"),
        (waiver("ARC001"), "ARC001 malformed can't be waived"),
        (waiver("WVR001"), "WVR001 waiver-unused can't be waived"),
        (waiver("DEV005"), "DEV005 container-without-code can't be waived"),
        (waiver("IDN001"), "IDN001 other-commit can be waived for a wheel alone, not for a pin"),
        (waiver("DEV004"), "DEV004 rule-unknown can be waived for a wheel alone"),
    ],
)
def test_what_nobody_can_grant_is_refused_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], given: Mapping[str, object], said: str
) -> None:
    assert check_with(folder, [given]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    text = (folder / "matrix.yaml").read_text().splitlines()
    line = next(number for number, each in enumerate(text, 1) if f'"code": "{given["code"]}"' in each)
    assert f"matrix.yaml:{line}: " in captured.err
