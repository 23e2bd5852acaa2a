"""Verdicts: what the checks found, put together.  Fail closed.

A report prints as versioned JSON (:func:`to_json`; schema in docs/schema/report.schema.json) and reads back equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

from qualify.errors import ExitCode, MalformedError

REPORT_VERSION = 1

#: The check whose findings say that this host, not the wheel, is at fault.
ENVIRONMENT_CODE = "ARC003"


class Severity(StrEnum):
    ERROR = "error"  # wrong: rejects
    UNVERIFIED = "unverified"  # could not be looked at: never a pass
    INCONCLUSIVE = "inconclusive"  # looked at, and neither yes nor no follows
    WARNING = "warning"  # nothing wrong with the wheel; something that a person should mend
    NOTE = "note"


class Verdict(StrEnum):
    QUALIFIED = "qualified"
    OVERRIDDEN = "overridden"  # rejected, but for waivers that hold for this wheel: never qualified
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Finding:
    code: str  # "DEV001"
    slug: str  # "no-code-for-target"
    severity: Severity
    member: str  # path in the wheel; "" for the wheel
    found: str
    expected: str
    action: str


@dataclass(frozen=True, slots=True)
class MemberCoverage:
    """Kernels of one member on one target, by distinct name; a kernel counts once, at its best."""

    member: str
    native: int  # exact + same_major + family
    jit: int
    none: int
    exact: int
    same_major: int
    family: int
    unknown: int  # kernels in entries whose rule is not known
    containers_native: int
    containers_jit: int
    containers_none: int
    containers_unknown: int = 0
    expectation: str = ""  # what was demanded: "native", "jit", "host", "any"; "" where nothing says


@dataclass(frozen=True, slots=True)
class Report:
    version: int
    wheel: str  # file name
    sha256: str
    project: str
    wheel_version: str
    target: str
    profile: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    coverage: tuple[MemberCoverage, ...]
    not_judged: tuple[str, ...]

    @property
    def exit_code(self) -> ExitCode:
        """What ``check`` ends with for this wheel and target alone."""
        if self.verdict is Verdict.QUALIFIED:
            return ExitCode.OK
        if self.verdict is Verdict.OVERRIDDEN:
            return ExitCode.OVERRIDDEN
        if self.verdict is Verdict.REJECTED:
            return ExitCode.REJECTED
        unlooked = {finding.code for finding in self.findings if finding.severity is Severity.UNVERIFIED}
        if self.verdict is Verdict.UNVERIFIED and unlooked == {ENVIRONMENT_CODE}:
            # Nothing is wrong with the wheel as far as could be seen: this host lacks what looking takes.
            return ExitCode.UNAVAILABLE
        return ExitCode.UNVERIFIED


def verdict_of(findings: tuple[Finding, ...]) -> Verdict:
    """Errors reject; then what was not looked at; then what could not be decided; else qualified."""
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return Verdict.REJECTED
    if Severity.UNVERIFIED in severities:
        return Verdict.UNVERIFIED
    if Severity.INCONCLUSIVE in severities:
        return Verdict.INCONCLUSIVE
    return Verdict.QUALIFIED


def to_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; keys are the contract of ``check --json``."""
    return {
        "wheel": report.wheel,
        "sha256": report.sha256,
        "project": report.project,
        "wheel_version": report.wheel_version,
        "target": report.target,
        "profile": report.profile,
        "verdict": report.verdict.value,
        "findings": [asdict(finding) for finding in report.findings],
        "coverage": [asdict(coverage) for coverage in report.coverage],
        "not_judged": list(report.not_judged),
    }


def document(reports: tuple[Report, ...]) -> dict[str, Any]:
    """What ``check --json`` prints: one object, a result for each wheel and target."""
    return {"version": REPORT_VERSION, "results": [to_json(report) for report in reports]}


def from_json(value: Mapping[str, Any], version: int = REPORT_VERSION) -> Report:
    """The report that :func:`to_json` printed.

    :raises MalformedError: where a key lacks or is of another type, or the version is another.
    """
    if version != REPORT_VERSION:
        raise MalformedError(f"a report of version {version}", expected=f"version {REPORT_VERSION}")
    try:
        return Report(
            version=version,
            **{
                name: _text(value[name])
                for name in ("wheel", "sha256", "project", "wheel_version", "target", "profile")
            },
            verdict=Verdict(value["verdict"]),
            findings=tuple(_read(Finding, row) for row in value["findings"]),
            coverage=tuple(_read(MemberCoverage, row) for row in value["coverage"]),
            not_judged=tuple(_text(row) for row in value["not_judged"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"no report: {error}", expected="what check --json prints") from error


Row = TypeVar("Row", Finding, MemberCoverage)


def _read(kind: type[Row], row: Mapping[str, Any]) -> Row:
    """One flat dataclass from JSON; unknown, missing and mistyped keys are refused."""
    known = {field.name: field for field in fields(kind)}
    if set(row) != set(known):
        raise ValueError(f"keys {sorted(row)} where {sorted(known)} belong")
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name == "severity":
            values[name] = Severity(row[name])
        elif field.type == "int":
            if not isinstance(row[name], int) or isinstance(row[name], bool):
                raise ValueError(f"{name} is {row[name]!r}, no whole number")
            values[name] = row[name]
        else:
            values[name] = _text(row[name])
    return kind(**values)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
