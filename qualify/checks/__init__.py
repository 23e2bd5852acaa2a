"""The checks: pure functions from facts and a target's policy to findings, one file per family.

A new check is one decorated function in its family's file.  ``CHECKS`` holds all of them in running order.
"""

from __future__ import annotations

from qualify.checks import (
    abi,
    archive,
    contents,
    control,
    device,
    driver,
    editable,
    elf,
    floors,
    identity,
    libraries,
    metadata,
    modules,
    names,
    presence,
    python,
    record,
    runpaths,
    sources,
    tags,
    torch,
)
from qualify.checks.case import Case, Policy
from qualify.checks.registry import FAMILIES, Check, find, registered
from qualify.report import Finding, Severity

#: Families that decide whether there is anything to count: an editable wheel is rejected as such, and no more is said.
_FIRST = ("ARC", "EDI")

#: The modules that declare checks, named so that importing them is no accident.
FAMILY_MODULES = (
    abi,
    archive,
    contents,
    control,
    device,
    driver,
    editable,
    elf,
    floors,
    identity,
    libraries,
    metadata,
    modules,
    names,
    presence,
    python,
    record,
    runpaths,
    sources,
    tags,
    torch,
)

CHECKS = registered()


def run(case: Case) -> tuple[tuple[Finding, ...], bool]:
    """Run the checks over one case.

    :returns: the findings in running order, and whether the wheel was counted at all: False for an editable one.
    """
    findings = [finding for each in CHECKS if each.code[:3] in _FIRST for finding in each.run(case)]
    if any(finding.code.startswith("EDI") and finding.severity is Severity.ERROR for finding in findings):
        return tuple(findings), False
    findings += [finding for each in CHECKS if each.code[:3] not in _FIRST for finding in each.run(case)]
    return tuple(findings), True


__all__ = ["CHECKS", "FAMILIES", "FAMILY_MODULES", "Case", "Check", "Policy", "find", "run"]
