"""Verdicts: what the checks found, put together.  Fail closed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REPORT_VERSION = 1


class Severity(StrEnum):
    ERROR = "error"  # wrong: rejects
    UNVERIFIED = "unverified"  # could not be looked at: never a pass
    INCONCLUSIVE = "inconclusive"  # looked at, and neither yes nor no follows
    NOTE = "note"


class Verdict(StrEnum):
    QUALIFIED = "qualified"
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
