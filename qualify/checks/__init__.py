"""The checks: pure functions from facts and a target's policy to findings, one file per family.

A new check is one decorated function in its family's file.  ``CHECKS`` holds all of them in running order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    receipt,
    record,
    runpaths,
    scripts,
    sources,
    tags,
    torch,
    waivers,
)
from qualify.checks.case import Case, Policy
from qualify.checks.registry import FAMILIES, Check, find, registered, waivable
from qualify.report import Finding, Severity
from qualify.waivers import grant

#: Families that decide whether there is anything to count: an editable wheel is rejected as such, and no more is said.
_FIRST = ("ARC", "EDI")

#: The family that looks at what the others found.
_LAST = "WVR"

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
    receipt,
    record,
    runpaths,
    scripts,
    sources,
    tags,
    torch,
    waivers,
)

CHECKS = registered()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all checks said of one case."""

    findings: tuple[Finding, ...]  # in running order, with the waivers that let them through
    ran: tuple[str, ...]  # codes of the checks that came to their end, in running order
    counted: bool  # whether the wheel was counted at all: False for an editable one


def run(case: Case) -> Outcome:
    """Run the checks over one case, then hold the matrix's waivers against what they found."""
    findings: list[Finding] = []
    ran: list[str] = []
    crashed: set[str] = set()

    def attempt(chosen: Iterable[Check], over: Case) -> None:
        for each in chosen:
            found, ended = each.attempt(over)
            findings.extend(found)
            (ran.append if ended else crashed.add)(each.code)

    attempt((each for each in CHECKS if each.code[:3] in _FIRST), case)
    counted = not any(each.code.startswith("EDI") and each.severity is Severity.ERROR for each in findings)
    if counted:
        attempt((each for each in CHECKS if each.code[:3] not in (*_FIRST, _LAST)), case)
    granted = grant(findings, case.held, waivable, crashed)
    findings[:] = granted
    if counted:
        late = replace(case, findings=granted, crashed=frozenset(crashed))
        attempt((each for each in CHECKS if each.code.startswith(_LAST)), late)
    return Outcome(tuple(findings), tuple(ran), counted)


__all__ = [
    "CHECKS",
    "FAMILIES",
    "FAMILY_MODULES",
    "Case",
    "Check",
    "Outcome",
    "Policy",
    "find",
    "run",
    "waivable",
]
