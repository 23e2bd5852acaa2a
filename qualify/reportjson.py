"""Reports as JSON, there and back: the contract of ``check --json`` (docs/schema/report.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar

from qualify.errors import MalformedError
from qualify.report import (
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
)

_NAMES = ("wheel", "sha256", "project", "wheel_version", "target", "profile")
_KEYS = frozenset(
    [
        *_NAMES,
        *("verdict", "findings", "coverage", "not_judged", "floors", "true_tag"),
        *("checks", "policy", "policy_sha256", "since", "receipt"),
    ]
)


def to_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; keys are the contract of ``check --json``."""
    return {
        **{name: getattr(report, name) for name in _NAMES},
        "verdict": report.verdict.value,
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in report.findings],
        "coverage": [asdict(coverage) for coverage in report.coverage],
        "not_judged": list(report.not_judged),
        "floors": [{**asdict(floor), "symbols": list(floor.symbols)} for floor in report.floors],
        "true_tag": report.true_tag,
        "checks": list(report.checks),
        "policy": None if report.policy is None else dict(report.policy),
        "policy_sha256": report.policy_sha256,
        "since": None if report.since is None else _since(report.since),
        "receipt": report.receipt,
    }


def _since(since: Since) -> dict[str, Any]:
    return {**asdict(since), "changes": [asdict(change) for change in since.changes]}


def document(reports: Sequence[Report]) -> dict[str, Any]:
    """What ``check --json`` prints: one object, a result for each wheel and target."""
    return {"version": REPORT_VERSION, "results": [to_json(report) for report in reports]}


def from_json(value: Mapping[str, Any], version: int = REPORT_VERSION) -> Report:
    """The report that :func:`to_json` printed.

    :raises MalformedError: where a key lacks, is unknown or of another type, or the version is another.
    """
    if version != REPORT_VERSION:
        raise MalformedError(f"a report of version {version}", expected=f"version {REPORT_VERSION}")
    try:
        if set(value) != _KEYS:
            raise ValueError(f"keys missing or unknown: {', '.join(sorted(map(str, set(value) ^ _KEYS)))}")
        policy, since = value["policy"], value["since"]
        if policy is not None and not isinstance(policy, dict):
            raise ValueError("policy is no object")
        report = Report(
            version=version,
            **{name: _text(value[name]) for name in _NAMES},
            verdict=Verdict(value["verdict"]),
            findings=tuple(_finding(row) for row in value["findings"]),
            coverage=tuple(_flat(MemberCoverage, row) for row in value["coverage"]),
            not_judged=_texts(value["not_judged"]),
            floors=tuple(_flat(HostFloor, row) for row in value["floors"]),
            true_tag=_text(value["true_tag"]),
            checks=_texts(value["checks"]),
            policy=policy,
            since=None if since is None else _read_since(since),
            receipt=_text(value["receipt"]),
        )
        if value["policy_sha256"] != report.policy_sha256:
            raise ValueError(f"policy_sha256 is {value['policy_sha256']!r}, and the policy's is {report.policy_sha256}")
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"no report: {error}", expected="what check --json prints") from error
    return report


def _finding(row: Mapping[str, Any]) -> Finding:
    waiver = row["waiver"]
    rest = {name: value for name, value in row.items() if name != "waiver"}
    granted = None if waiver is None else _flat(Granted, waiver)
    return _flat(Finding, rest, waiver=granted)


def _read_since(row: Mapping[str, Any]) -> Since:
    changes = tuple(_flat(PolicyChange, each) for each in row["changes"])
    return _flat(Since, {name: value for name, value in row.items() if name != "changes"}, changes=changes)


Row = TypeVar("Row", Finding, Granted, HostFloor, MemberCoverage, PolicyChange, Since)


def _flat(kind: type[Row], row: Mapping[str, Any], **read: object) -> Row:
    """One dataclass from a JSON object; unknown, missing and mistyped keys are refused.

    :param read: fields that were read already, and are no keys of ``row``.
    """
    if not isinstance(row, dict):
        raise ValueError(f"{row!r} is no object")
    known = {field.name: str(field.type) for field in fields(kind) if field.name not in read}
    if set(row) != set(known):
        raise ValueError(f"keys {sorted(row)} where {sorted(known)} belong")
    values: dict[str, Any] = dict(read)
    for name, of in known.items():
        values[name] = _VALUES[of](row[name])
    return kind(**values)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list")
    return tuple(map(_text, value))


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value


#: How the value of a field is read, by the field's annotation.
_VALUES: Mapping[str, Any] = {"str": _text, "int": _number, "tuple[str, ...]": _texts, "Severity": Severity}
