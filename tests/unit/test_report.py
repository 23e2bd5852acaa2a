"""Reports: the verdict that follows, the exit code, JSON there and back, and every renderer."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualify.errors import ExitCode, MalformedError, UsageError
from qualify.judging import judge
from qualify.renderers import RENDERERS, renderer
from qualify.report import (
    ENVIRONMENT_CODE,
    REPORT_VERSION,
    Finding,
    Granted,
    HostFloor,
    MemberCoverage,
    PolicyChange,
    Report,
    Severity,
    Since,
    Verdict,
    verdict_of,
)
from qualify.reportjson import document, from_json, to_json
from tests.unit.judging_support import context, wheel

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "report.schema.json").read_text())

text = st.text(max_size=20)
counts = st.integers(0, 10_000)
waivers = st.builds(Granted, reason=text, granted_by=text, wheel=text, pin=text)
findings = st.builds(
    Finding,
    code=st.sampled_from(("DEV001", "ARC003")),
    slug=st.just("no-code-for-target"),
    severity=st.sampled_from(Severity),
    member=text,
    found=text,
    expected=text,
    action=text,
    waiver=st.none() | waivers,
)
floors = st.builds(
    HostFloor, version=text, member=text, symbols=st.lists(text, max_size=2).map(tuple), symbol_count=counts
)
changes = st.builds(PolicyChange, field=text, before=text, now=text)
since = st.builds(
    Since, evidence=text, made=text, verdict=text, incomparable=text, changes=st.lists(changes, max_size=2).map(tuple)
)
POLICY = judge(wheel(), context()).policy
coverage = st.builds(
    MemberCoverage,
    member=text,
    expectation=st.sampled_from(("native", "jit", "host", "any", "")),
    **{field.name: counts for field in dataclasses.fields(MemberCoverage) if field.type == "int"},
)
reports = st.builds(
    Report,
    version=st.just(REPORT_VERSION),
    wheel=text,
    sha256=st.sampled_from(("", "0" * 64)),
    project=text,
    wheel_version=text,
    target=text,
    profile=st.sampled_from(("upstream", "release")),
    verdict=st.sampled_from(Verdict),
    findings=st.lists(findings, max_size=4).map(tuple),
    coverage=st.lists(coverage, max_size=4).map(tuple),
    not_judged=st.lists(text, max_size=2).map(tuple),
    floors=st.lists(floors, max_size=2).map(tuple),
    true_tag=text,
    checks=st.sampled_from(((), ("DEV001", "ARC003"))),
    policy=st.sampled_from((None, POLICY)),
    since=st.none() | since,
)


@given(reports)
def test_json_reads_back_equal_and_keeps_to_its_schema(report: Report) -> None:
    value = json.loads(json.dumps(to_json(report)))
    assert from_json(value) == report
    jsonschema.validate(json.loads(json.dumps(document((report,)))), SCHEMA)


@given(st.lists(reports, max_size=3), st.sampled_from(sorted(RENDERERS)))
def test_every_renderer_takes_every_report(several: list[Report], name: str) -> None:
    out = renderer(name).render(several, width=100, color=False)
    assert out.endswith("\n")
    assert "\x1b" not in out
    for report in several:
        assert report.verdict.value in out


@given(reports)
def test_colors_change_no_word(report: Report) -> None:
    plain = renderer("text").render([report], width=100, color=False)
    colored = renderer("text").render([report], width=100, color=True)
    assert "\x1b[" in colored
    assert _without_colors(colored).split() == plain.split()


def _without_colors(out: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", out)


def test_an_unknown_renderer_is_refused() -> None:
    with pytest.raises(UsageError):
        renderer("html")


def finding(severity: Severity, code: str = "DEV001") -> Finding:
    return Finding(code, "slug", severity, "", "found", "expected", "action")


@pytest.mark.parametrize(
    ("severities", "expected"),
    [
        ((), Verdict.QUALIFIED),
        ((Severity.NOTE,), Verdict.QUALIFIED),
        ((Severity.WARNING,), Verdict.QUALIFIED),
        ((Severity.NOTE, Severity.INCONCLUSIVE), Verdict.INCONCLUSIVE),
        ((Severity.INCONCLUSIVE, Severity.UNVERIFIED), Verdict.UNVERIFIED),
        ((Severity.UNVERIFIED, Severity.ERROR, Severity.NOTE), Verdict.REJECTED),
    ],
)
def test_the_worst_finding_decides(severities: tuple[Severity, ...], expected: Verdict) -> None:
    assert verdict_of(tuple(map(finding, severities))) is expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ((), ExitCode.OK),
        ((finding(Severity.ERROR),), ExitCode.REJECTED),
        ((finding(Severity.INCONCLUSIVE),), ExitCode.UNVERIFIED),
        ((finding(Severity.UNVERIFIED),), ExitCode.UNVERIFIED),
        ((finding(Severity.UNVERIFIED, ENVIRONMENT_CODE),), ExitCode.UNAVAILABLE),
        ((finding(Severity.UNVERIFIED, ENVIRONMENT_CODE), finding(Severity.UNVERIFIED)), ExitCode.UNVERIFIED),
        ((finding(Severity.UNVERIFIED, ENVIRONMENT_CODE), finding(Severity.ERROR)), ExitCode.REJECTED),
    ],
)
def test_each_kind_of_outcome_has_an_exit_code(made: tuple[Finding, ...], expected: ExitCode) -> None:
    report = Report(REPORT_VERSION, "w", "", "p", "1", "t", "release", verdict_of(made), made, (), ())
    assert report.exit_code is expected


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "fine"},
        {"wheel": 1},
        {"findings": [{}]},
        {"findings": None},
        {"coverage": [{"member": "x"}]},
        {"not_judged": [1]},
        {"checks": "DEV001"},
        {"policy": []},
        {"policy_sha256": "0" * 64},
        {"since": {}},
        {"signed": "yes"},
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, object]) -> None:
    value = to_json(Report(REPORT_VERSION, "w", "", "p", "1", "t", "release", Verdict.QUALIFIED, (), (), ()))
    with pytest.raises(MalformedError):
        from_json({**value, **change})


def test_a_count_is_a_whole_number() -> None:
    row = MemberCoverage("m", *([0] * 10))
    value = to_json(Report(REPORT_VERSION, "w", "", "p", "1", "t", "release", Verdict.QUALIFIED, (), (row,), ()))
    value["coverage"][0]["native"] = True
    with pytest.raises(MalformedError):
        from_json(value)


def test_another_version_of_the_report_is_refused() -> None:
    value = to_json(Report(REPORT_VERSION, "w", "", "p", "1", "t", "release", Verdict.QUALIFIED, (), (), ()))
    with pytest.raises(MalformedError):
        from_json(value, REPORT_VERSION + 1)


def test_what_it_was_judged_with_and_what_it_needs_is_said() -> None:
    report = judge(wheel(), context())
    assert report.policy is not None
    floors = (
        HostFloor("GLIBC_2.28", "axpy/_C.abi3.so", ("log", "pow", "sin"), 7),
        HostFloor("GLIBCXX_3.4.21", "axpy/_C.abi3.so", ("_Z" + "x" * 80,), 1),
        HostFloor("GCC_3.0", "axpy/_host.abi3.so", (), 0),
    )
    given = {**report.policy, "torch": {"filename": "torch-2.14.0.whl", "sha256": "0123456789abcdef" * 4}}
    out = renderer("text").render(
        [dataclasses.replace(report, floors=floors, true_tag="manylinux_2_28_x86_64", policy=given)],
        width=120,
        color=False,
    )
    assert "needs GLIBC_2.28 for log, pow and 5 more in axpy/_C.abi3.so\n" in out
    assert "needs GLIBCXX_3.4.21 for _Zxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… in axpy/_C.abi3.so\n" in out
    assert "needs GCC_3.0 for a library as such in axpy/_host.abi3.so\n" in out
    assert "symbol versions allow the tag manylinux_2_28_x86_64\n" in out
    assert "held against torch torch-2.14.0.whl, sha256 0123456789ab\n" in out
