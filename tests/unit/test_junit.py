"""JUnit XML of reports: well-formed whatever a wheel holds, whole or absent, and no waiver that counts as passed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualify.cli import main
from qualify.judging import judge
from qualify.matrix.model import Profile
from qualify.renderers import renderer
from qualify.report import REPORT_VERSION, Finding, Granted, Report, Severity, verdict_of
from tests.support.wheel import COMMIT, write_wheel
from tests.unit.judging_support import HOPPER, MATRIX, context, wheel

#: Element -> attributes that it must have, that it may have, and what may stand in it.
GRAMMAR = {
    "testsuites": ({"name", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped"}, set(), {"properties", "testcase"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name", "classname"}, set(), {"failure", "error", "skipped", "system-out"}),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"message"}, set(), set()),
    "system-out": (set(), set(), set()),
}
OUTCOMES = ("failure", "error", "skipped")


def rendered(*reports: Report) -> ElementTree.Element:
    """The document, after it kept to the grammar that CI systems read, and to its own numbers."""
    text = renderer("junit").render(reports, width=0, color=False)
    root = ElementTree.fromstring(text.encode("utf-8"))
    for element in root.iter():
        must, may, inside = GRAMMAR[element.tag]
        assert must <= set(element.attrib) <= must | may, element.tag
        assert {child.tag for child in element} <= inside, element.tag
    for suite in root:
        cases = suite.findall("testcase")
        outcomes = [[child.tag for child in case if child.tag in OUTCOMES] for case in cases]
        assert all(len(each) <= 1 for each in outcomes)
        assert int(suite.attrib["tests"]) == len(cases)
        for outcome, attribute in zip(OUTCOMES, ("failures", "errors", "skipped"), strict=True):
            assert int(suite.attrib[attribute]) == outcomes.count([outcome])
        assert len({case.attrib["name"] for case in cases}) == len(cases)
    for attribute in ("tests", "failures", "errors"):
        assert int(root.attrib[attribute]) == sum(int(suite.attrib[attribute]) for suite in root)
    return root


def case_of(root: ElementTree.Element, code: str) -> ElementTree.Element:
    (found,) = [case for case in root.iter("testcase") if case.attrib["name"].split()[0] == code]
    return found


def test_every_check_that_ran_is_a_case() -> None:
    report = judge(wheel(), context())
    root = rendered(report)
    assert [case.attrib["name"] for case in root.iter("testcase")] == list(report.checks)
    assert {each.tag for each in root.iter()} == {"testsuites", "testsuite", "properties", "property", "testcase"}
    values = {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}
    assert values == {
        "version": "0.1.0",
        "verdict": "qualified",
        "sha256": report.sha256,
        "policy_sha256": report.policy_sha256,
        "policy_changed": "no",
    }


def test_an_error_is_a_failure_with_what_was_found_and_what_to_do() -> None:
    root = rendered(judge(wheel({"axpy/_C": {"sm_100": ["k"]}, "axpy/_host": {}}), context()))
    (failure,) = case_of(root, "DEV001")
    assert (failure.tag, failure.attrib["type"]) == ("failure", "error")
    assert failure.attrib["message"]
    assert "\nexpected: " in (failure.text or "")
    assert "\nto do: " in (failure.text or "")


def test_what_could_not_be_decided_is_an_error_and_a_note_is_output() -> None:
    root = rendered(judge(wheel(commit=None), context()))
    assert case_of(root, "IDN002")[0].tag == "error"
    assert case_of(root, "IDN002")[0].attrib["type"] == "inconclusive"
    upstream = rendered(judge(wheel(commit=None), context(profile=Profile.UPSTREAM)))
    assert [child.tag for child in case_of(upstream, "IDN002")] == ["system-out"]


def test_what_a_waiver_lets_through_is_skipped_with_who_and_why_and_never_passed() -> None:
    facts = wheel({"axpy/_C": {"sm_100": ["k"]}, "axpy/_host": {}, "axpy/_any": {"sm_90": ["k"]}})
    given = {"code": "DEV001", "reason": "meant so by its makers", "granted_by": "A. Person", "pin": COMMIT[1:]}
    skipped, said = case_of(rendered(judge(facts, context(waivers=[given]))), "DEV001")
    assert skipped.tag == "skipped"
    assert skipped.attrib["message"] == (
        f"overridden: let through for pin {COMMIT[1:]} by A. Person: meant so by its makers"
    )
    assert "error DEV001 no-code-for-target" in (said.text or "")


def report(*findings: Finding, name: str = "w.whl") -> Report:
    return Report(REPORT_VERSION, name, "", "p", "1", "t", "release", verdict_of(findings), findings, (), ())


def test_a_check_that_blocks_for_one_member_fails_though_another_is_waived() -> None:
    waiver = Granted("some good reason", "A. Person", "0" * 64, "")
    findings = (
        Finding("DEV001", "s", Severity.ERROR, "a", "found a", "e", "t", waiver),
        Finding("DEV001", "s", Severity.ERROR, "b", "found b", "e", "t"),
        Finding("DEV001", "s", Severity.ERROR, "c", "found c", "e", "t"),
    )
    failure, said = case_of(rendered(report(*findings)), "DEV001")
    assert failure.attrib["message"] == "found b (and 1 more)"
    assert "found a" not in (failure.text or "")
    assert "found a" in (said.text or "")


any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
rows = st.builds(
    Finding,
    code=st.sampled_from(("DEV001", "ARC001", "NAM002")),
    slug=st.just("slug"),
    severity=st.sampled_from(Severity),
    member=any_text,
    found=any_text,
    expected=any_text,
    action=any_text,
    waiver=st.none() | st.builds(Granted, reason=any_text, granted_by=any_text, wheel=any_text, pin=any_text),
)


@given(st.lists(rows, max_size=5), any_text)
def test_whatever_a_wheel_says_is_well_formed(findings: list[Finding], name: str) -> None:
    rendered(report(*findings, name=name))


def test_what_xml_cannot_hold_is_escaped_and_all_else_is_kept() -> None:
    found = Finding("DEV001", "s", Severity.ERROR, "", "a\x1b[31m\x00<&\"'>]]>\ud800\ufffe\n\u00e9\U0001f600", "e", "t")
    (failure,) = case_of(rendered(report(found)), "DEV001")
    assert "a\\x1b[31m\\x00<&\"'>]]>\\ud800\\ufffe\n\u00e9\U0001f600" in (failure.text or "")


# As CI meets it


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "matrix.yaml").write_text(json.dumps(MATRIX))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHEEL_ASSAY_MATRIX", raising=False)
    return tmp_path


def test_the_file_is_written_beside_the_output_and_changes_no_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_wheel(folder)
    bad = write_wheel(folder, version="0.2.0", extensions={})
    code = main(["check", str(good), str(bad), "--target", HOPPER, "--junit", "out.xml", "--json"])
    assert code == 1
    assert [row["verdict"] for row in json.loads(capsys.readouterr().out)["results"]] == ["qualified", "rejected"]
    root = ElementTree.parse(folder / "out.xml").getroot()
    assert [re.sub(" for .*", "", suite.attrib["name"]) for suite in root] == [good.name, bad.name]
    assert int(root.attrib["failures"]) >= 1


def test_a_file_that_cannot_be_read_is_a_case_that_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel_path = write_wheel(folder)
    wheel_path.write_bytes(b"no zip")
    assert main(["check", str(wheel_path), "--target", HOPPER, "--junit", "out.xml"]) == 1
    (case,) = ElementTree.parse(folder / "out.xml").getroot().iter("testcase")
    assert (case.attrib["name"], case[0].tag) == ("ARC001 malformed", "failure")


def test_a_run_that_ends_early_leaves_no_older_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out.xml").write_text("<old/>")
    (folder / "wrong-name.whl").write_bytes(b"")
    main(["check", "wrong-name.whl", "--target", HOPPER, "--junit", "out.xml"])
    text = (folder / "out.xml").read_text() if (folder / "out.xml").exists() else ""
    assert "<old/>" not in text
