"""Reports as JUnit XML, which CI systems show: a suite for each wheel and target, a case for each check that ran.

JUnit knows four outcomes, and none of them is a waiver.  An error is a failure; what could not be looked at or decided
is an error; what a waiver let through is skipped, so that it never counts as passed, with who and why in the message;
notes and warnings are output of a case that passed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from qualify.report import Finding, Report, Severity

#: What XML 1.0 cannot hold, not even escaped (its production 2, Char).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(reports: Sequence[Report], *, width: int, color: bool) -> str:
    """One XML document in UTF-8; the settings of people's forms mean nothing here."""
    root = ElementTree.Element("testsuites", name="qualify check")
    suites = [_suite(root, report) for report in reports]
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, report: Report) -> ElementTree.Element:
    name = f"{report.wheel} for {report.target}, profile {report.profile}"
    suite = ElementTree.SubElement(root, "testsuite", name=_xml(name))
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (
        ("version", report.wheel_version),
        ("verdict", report.verdict.value),
        ("sha256", report.sha256),
        ("policy_sha256", report.policy_sha256),
        ("policy_changed", "yes" if report.since is not None and report.since.changes else "no"),
    ):
        ElementTree.SubElement(properties, "property", name=key, value=_xml(value))
    spoke = [finding.code for finding in report.findings]
    slugs = {finding.code: finding.slug for finding in report.findings}
    outcomes = []
    # A check that failed itself, or stands in for a file that could not be read, spoke without having run.
    for code in dict.fromkeys((*report.checks, *spoke)):
        found = [finding for finding in report.findings if finding.code == code]
        outcomes.append(_case(suite, report, code, slugs.get(code, ""), found))
    suite.set("tests", str(len(outcomes)))
    for outcome, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(outcomes.count(outcome)))
    return suite


def _case(suite: ElementTree.Element, report: Report, code: str, slug: str, found: Sequence[Finding]) -> str:
    """Add one check's case; returns its outcome: failure, error, skipped, or "" where it passed."""
    classname = f"{report.project or 'wheel'}.{report.target}.{code[:3]}"
    case = ElementTree.SubElement(suite, "testcase", name=_xml(f"{code} {slug}".strip()), classname=_xml(classname))
    blocking = [finding for finding in found if finding.blocks]
    waived = [finding for finding in found if finding.waiver is not None]
    said = [finding for finding in found if not finding.blocks and finding.waiver is None]
    outcome = ""
    if blocking:
        outcome = "failure" if any(finding.severity is Severity.ERROR for finding in blocking) else "error"
        message = blocking[0].found + (f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else "")
        element = ElementTree.SubElement(case, outcome, type=blocking[0].severity.value, message=_xml(message))
        element.text = _xml("\n\n".join(map(_text, blocking)))
        said = [*waived, *said]
    elif waived:
        outcome = "skipped"
        ElementTree.SubElement(case, "skipped", message=_xml(f"overridden: {_waiver(waived[0])}"))
        said = [*waived, *said]
    if said:
        ElementTree.SubElement(case, "system-out").text = _xml("\n\n".join(map(_text, said)))
    return outcome


def _text(finding: Finding) -> str:
    member = f"{finding.member}: " if finding.member else ""
    lines = [
        f"{finding.severity.value} {finding.code} {finding.slug}",
        f"{member}{finding.found}",
        f"expected: {finding.expected}",
        f"to do: {finding.action}",
    ]
    if finding.waiver is not None:
        lines.append(f"overridden: {_waiver(finding)}")
    return "\n".join(lines)


def _waiver(finding: Finding) -> str:
    waiver = finding.waiver
    if waiver is None:
        return ""
    scope = f"wheel {waiver.wheel}" if waiver.wheel else f"pin {waiver.pin}"
    return f"let through for {scope} by {waiver.granted_by}: {waiver.reason}"


def _xml(text: str) -> str:
    """Text that XML can hold: a control character, a lone surrogate or a non-character becomes ``\\x1b``, say."""
    return _NO_XML.sub(lambda match: match[0].encode("unicode_escape", "backslashreplace").decode(), text)
