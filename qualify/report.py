"""Verdicts: what the checks found, put together.  Fail closed.

A report prints as versioned JSON and reads back equal (``qualify.reportjson``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from qualify.errors import ExitCode

REPORT_VERSION = 3

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


#: Severities that keep a wheel from being qualified.
BLOCKING = frozenset({Severity.ERROR, Severity.UNVERIFIED, Severity.INCONCLUSIVE})


@dataclass(frozen=True, slots=True)
class Granted:
    """The waiver that lets a finding through."""

    reason: str
    granted_by: str
    wheel: str  # the sha256 that it holds for; "" …
    pin: str  # … where it holds for a commit


@dataclass(frozen=True, slots=True)
class Finding:
    code: str  # "DEV001"
    slug: str  # "no-code-for-target"
    severity: Severity  # what the check says of it, waived or not
    member: str  # path in the wheel; "" for the wheel
    found: str
    expected: str
    action: str
    waiver: Granted | None = None

    @property
    def blocks(self) -> bool:
        """Whether this finding alone keeps the wheel from being let through."""
        return self.severity in BLOCKING and self.waiver is None


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
class HostFloor:
    """The newest symbol version of one family that the target's binaries in the wheel bind to."""

    version: str  # "GLIBC_2.34"
    member: str  # the (first) member that needs it
    symbols: tuple[str, ...]  # the first few that it takes at this version, sorted
    symbol_count: int  # of all of them


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One thing that is asked otherwise than when the earlier evidence was made."""

    field: str  # "ceilings.glibc"
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Since:
    """The earlier evidence that a report was held against."""

    evidence: str  # its file name
    made: str  # ISO 8601, UTC; "" where it could not be read
    verdict: str  # what it said; "" where it could not be read
    incomparable: str  # why it is no base of comparison; "" where it is one
    changes: tuple[PolicyChange, ...]


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
    floors: tuple[HostFloor, ...] = ()
    true_tag: str = ""  # the platform tag that the binaries' symbol versions allow; "" without any for the machine
    checks: tuple[str, ...] = ()  # codes of the checks that ran to their end, in running order
    policy: Mapping[str, Any] | None = None  # what was asked, as JSON values; None where nothing could be judged
    since: Since | None = None
    receipt: str = ""  # sha256 of the receipt beside the wheel; "" where none lies there, or it can't be read

    @property
    def policy_sha256(self) -> str:
        """Of the policy as canonical JSON; "" where there is none."""
        return "" if self.policy is None else digest(self.policy)

    @property
    def exit_code(self) -> ExitCode:
        """What ``check`` ends with for this wheel and target alone."""
        if self.verdict is Verdict.QUALIFIED:
            return ExitCode.OK
        if self.verdict is Verdict.OVERRIDDEN:
            return ExitCode.OVERRIDDEN
        if self.verdict is Verdict.REJECTED:
            return ExitCode.REJECTED
        unlooked = {each.code for each in self.findings if each.severity is Severity.UNVERIFIED and each.blocks}
        if self.verdict is Verdict.UNVERIFIED and unlooked == {ENVIRONMENT_CODE}:
            # Nothing is wrong with the wheel as far as could be seen: this host lacks what looking takes.
            return ExitCode.UNAVAILABLE
        return ExitCode.UNVERIFIED


def verdict_of(findings: tuple[Finding, ...]) -> Verdict:
    """Errors reject; then what was not looked at; then what could not be decided; then what waivers let through."""
    severities = {finding.severity for finding in findings if finding.blocks}
    if Severity.ERROR in severities:
        return Verdict.REJECTED
    if Severity.UNVERIFIED in severities:
        return Verdict.UNVERIFIED
    if Severity.INCONCLUSIVE in severities:
        return Verdict.INCONCLUSIVE
    return Verdict.OVERRIDDEN if any(finding.waiver for finding in findings) else Verdict.QUALIFIED


def digest(value: object) -> str:
    """sha256 of a JSON value in its canonical form: keys sorted, no blanks, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
