"""Every check rejects a wheel of its own, and no check rejects what is no fault."""

from __future__ import annotations

import dataclasses
import re
from functools import cache

import pytest

from qualify.arch import ComputeCapability
from qualify.checks import CHECKS, FAMILIES, find
from qualify.checks import run as run_checks
from qualify.checks.case import Case as CheckCase
from qualify.checks.case import module_path
from qualify.checks.registry import Check
from qualify.errors import UsageError
from qualify.judging import BareTarget, Context, judge, policy_for
from qualify.matrix.model import Code, Profile
from qualify.report import Report, Severity, Verdict, verdict_of
from tests.mutants import MUTANTS, NEAR_MISSES, Case
from tests.mutants.matrix import HARMLESS, Row, judged, one_sided, render
from tests.unit.judging_support import ARM_TAG, HOPPER, SPARK, code, context, member, wheel


@cache
def rows() -> dict[int, Row]:
    """Every case, judged once."""
    return {id(case): judged(case) for case in (*MUTANTS, *NEAR_MISSES)}


def rejecting(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity not in HARMLESS}


@pytest.mark.parametrize("case", MUTANTS, ids=lambda case: f"{case.code}-{case.name}")
def test_a_mutant_is_seen_by_its_own_check_and_by_no_other(case: Case) -> None:
    row = rows()[id(case)]
    assert row.good, (row.verdict, sorted(row.spoke), sorted(row.against))


@pytest.mark.parametrize("case", NEAR_MISSES, ids=lambda case: case.name)
def test_a_near_miss_is_accepted(case: Case) -> None:
    row = rows()[id(case)]
    assert row.good, (row.verdict, sorted(row.against))


@pytest.mark.parametrize("case", MUTANTS, ids=lambda case: f"{case.code}-{case.name}")
def test_without_its_check_a_mutant_would_pass_and_every_finding_is_whole(case: Case) -> None:
    report = judge(case.make(), case.context())
    others = tuple(finding for finding in report.findings if finding.code != case.code)
    assert verdict_of(others) is Verdict.QUALIFIED
    for finding in report.findings:
        assert finding.found
        assert finding.expected
        assert finding.action


def test_every_check_is_turned_both_ways() -> None:
    assert one_sided(list(rows().values())) == []


def test_the_matrix_ends_with_what_it_proves() -> None:
    every = list(rows().values())
    last = render(every)[-1]
    found = re.fullmatch(r"(\d+) mutants rejected, each by its own check; (\d+) near misses accepted", last)
    assert found
    assert int(found[1]) >= 60
    assert int(found[2]) >= 25


def test_the_matrix_names_a_mutant_that_no_check_rejects() -> None:
    good = NEAR_MISSES[0]
    pretended = dataclasses.replace(good, code="ARC001")
    row = judged(pretended)
    assert not row.good
    assert render([row])[-1] == "1 cases are not as they should be"
    assert "ARC001" in one_sided([row])


def test_the_good_wheels_say_nothing_at_all() -> None:
    assert judge(wheel(), context()).findings == ()
    assert judge(wheel(tag=ARM_TAG), context(SPARK)).findings == ()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_check_says_what_why_and_how_to_mend(check: Check) -> None:
    assert check.code[:3] in FAMILIES
    assert check.summary.endswith(".")
    assert "\nWhy: " in check.documentation
    assert "\nMend: " in check.documentation


def test_codes_and_slugs_are_unique() -> None:
    assert len({check.code for check in CHECKS}) == len({check.slug for check in CHECKS}) == len(CHECKS)


def test_a_check_that_crashes_is_no_pass() -> None:
    def crashes(case: CheckCase) -> list[object]:
        raise RuntimeError("a bug")

    broken = dataclasses.replace(CHECKS[0], function=crashes)  # type: ignore[arg-type]
    (finding,) = broken.run(CheckCase(wheel(), policy_for(wheel(), context())))
    assert finding.severity is Severity.UNVERIFIED
    assert "RuntimeError: a bug" in finding.found


def test_an_editable_wheel_is_rejected_before_anything_is_counted() -> None:
    facts = wheel({}, files={"__editable__.axpy-0.1.0.pth": "/home/me/src\n"})
    report = judge(facts, context())
    assert {finding.code for finding in report.findings} == {"EDI001", "EDI002"}
    assert report.coverage == ()
    outcome = run_checks(CheckCase(facts, policy_for(facts, context())))
    assert not outcome.counted
    assert outcome.findings == report.findings


def test_require_replaces_what_the_matrix_asks_of_every_member_with_device_code() -> None:
    facts = wheel(more={"axpy/_any": {"sm_100": ["k"]}, "axpy/_fast": {"compute_80": ["k"]}})
    native = judge(facts, context(require=Code.NATIVE))
    assert {(f.code, f.member) for f in native.findings if f.severity is Severity.ERROR} == {
        ("DEV001", "axpy/_any.abi3.so"),
        ("DEV002", "axpy/_fast.abi3.so"),
    }
    jit = judge(facts, context(require=Code.JIT))
    assert [f.member for f in jit.findings if f.severity is Severity.ERROR] == ["axpy/_any.abi3.so"]
    host = judge(facts, context(require=Code.HOST))
    assert {f.code for f in host.findings if f.severity is Severity.ERROR} == {"DEV009"}


def test_require_does_not_excuse_an_empty_shell() -> None:
    facts = wheel({"axpy/_C": {}, "axpy/_host": {}})
    assert rejecting(judge(facts, context(require=Code.JIT))) == {"DEV001"}
    assert judge(facts, context(require=Code.HOST)).verdict is Verdict.QUALIFIED


def test_a_foreign_wheel_is_judged_by_the_target_alone() -> None:
    facts = wheel(
        {"other/_a": {"sm_100": ["k"]}, "other/_b": {"sm_90": ["k"]}, "other/_c": {}}, name="other", commit=None
    )
    report = judge(facts, context())
    assert report.verdict is Verdict.QUALIFIED
    assert report.not_judged == ("other/_a.abi3.so: need unknown",)
    for require in (Code.NATIVE, Code.JIT):
        strict = judge(facts, context(require=require))
        assert [(f.code, f.member) for f in strict.findings if f.severity is Severity.ERROR] == [
            ("DEV001", "other/_a.abi3.so")
        ]
        assert strict.not_judged == ()


def test_a_foreign_wheel_without_a_compiled_member_is_rejected_always() -> None:
    facts = wheel({}, name="other", tag="py3-none-any")
    assert rejecting(judge(facts, context())) == {"PRE001"}
    assert rejecting(judge(facts, context(require=Code.HOST))) == {"PRE001"}


def test_what_runs_of_a_foreign_wheel_runs_on_the_promised_driver() -> None:
    facts = wheel({"other/_a": member(code("sm_90", toolkit=(14, 0)))}, name="other")
    assert rejecting(judge(facts, context())) == {"DEV010"}


def test_a_target_without_a_matrix() -> None:
    bare = BareTarget("aarch64", ComputeCapability.parse("12.1"))
    good = judge(wheel(tag=ARM_TAG), Context(bare=bare))
    assert (good.verdict, good.target) == (Verdict.QUALIFIED, "aarch64-sm121")
    assert rejecting(judge(wheel(), Context(bare=bare))) == {"TAG001", "DEV010"}


def test_an_unknown_target_is_refused_with_the_near_one() -> None:
    with pytest.raises(UsageError) as raised:
        judge(wheel(), context("x86_64-sm9"))
    assert "did you mean x86_64-sm90?" in raised.value.expected


def test_expectations_may_differ_by_profile() -> None:
    extensions = {"axpy/_fast": {"code": {"upstream": "jit", "release": "native"}, "presence": "optional"}}
    facts = wheel(more={"axpy/_fast": {"compute_80": ["k"]}})
    assert judge(facts, context(profile=Profile.UPSTREAM, extensions=extensions)).verdict is Verdict.QUALIFIED
    assert rejecting(judge(facts, context(extensions=extensions))) == {"DEV002"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("vllm/_C_stable_libtorch.abi3.so", "vllm/_C_stable_libtorch"),
        ("vllm/_C.cpython-312-x86_64-linux-gnu.so", "vllm/_C"),
        ("vllm/_C.so", "vllm/_C"),
        ("vllm/vllm-rs", "vllm/vllm-rs"),
        ("pkg/libx.so.1.2", "pkg/libx"),
        ("pkg/kernels.cubin", "pkg/kernels.cubin"),
        ("pkg/tool-1.2", "pkg/tool-1.2"),
        ("a.so/b", "a.so/b"),
        ("vllm-1.0.data/platlib/vllm/_C.abi3.so", "vllm/_C"),
        ("vllm-1.0.data/scripts/vllm-rs", "vllm-1.0.data/scripts/vllm-rs"),
    ],
)
def test_module_paths(path: str, expected: str) -> None:
    assert module_path(path) == expected


@pytest.mark.parametrize("text", ["DEV001", "dev001", "no-code-for-target", " No-Code-For-Target "])
def test_a_check_is_found_by_code_or_slug(text: str) -> None:
    assert [check.code for check in find(text, CHECKS)] == ["DEV001"]


def test_checks_are_found_by_the_beginning_of_a_code() -> None:
    assert {check.code for check in find("rec", CHECKS)} == {f"REC00{n}" for n in range(1, 7)}


@pytest.mark.parametrize(
    ("text", "near"), [("DEV0O1", "DEV001"), ("no-code", "no-code-for-target"), ("jit-onyl", "jit-only")]
)
def test_an_unknown_check_is_refused_with_near_names(text: str, near: str) -> None:
    with pytest.raises(UsageError) as raised:
        find(text, CHECKS)
    assert near in raised.value.expected


def test_no_name_at_all_finds_nothing() -> None:
    with pytest.raises(UsageError):
        find("  ", CHECKS)


def test_hopper_is_the_default_of_these_tests() -> None:
    assert policy_for(wheel(), context()).target == HOPPER


def test_code_that_runs_in_a_member_that_does_not_load_is_not_blamed_on_the_architecture() -> None:
    library = member(code("sm_90"), version_needs={"libc.so.6": ["GLIBC_2.38"]})
    [unloaded] = [
        f for f in judge(wheel({"other/_a": library}, name="other"), context()).findings if f.code == "DEV010"
    ]
    assert "do not load: other/_a" in unloaded.found
    assert "architecture" not in unloaded.action
    [foreign] = [
        f for f in judge(wheel({"other/_a": {"sm_100": ["k"]}}, name="other"), context()).findings if f.code == "DEV010"
    ]
    assert "architecture list" in foreign.action
