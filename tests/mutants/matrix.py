"""Judge every mutant and near miss, and say for each what its check and the others made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qualify.checks import CHECKS
from qualify.judging import judge
from qualify.report import Report, Severity, Verdict
from tests.mutants.case import Case

#: Findings of these severities leave a wheel qualified.
HARMLESS = (Severity.NOTE, Severity.WARNING)
_VERDICT = {
    Severity.ERROR: Verdict.REJECTED,
    Severity.UNVERIFIED: Verdict.UNVERIFIED,
    Severity.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


@dataclass(frozen=True)
class Row:
    """One case, judged."""

    case: Case
    severity: Severity | None  # of the check that is meant, in the case's profile; None for a near miss
    spoke: frozenset[str]  # codes of all findings
    against: frozenset[str]  # codes of those that keep the wheel from being qualified
    verdict: Verdict

    @property
    def rejects(self) -> bool:
        """Whether the case is a mutant that must not be qualified."""
        return self.severity is not None and self.severity not in HARMLESS

    @property
    def good(self) -> bool:
        """Whether the meant check spoke and no other did, as far as it decides; for a near miss, none that decides."""
        if not self.case.code:
            return not self.against and self.verdict is Verdict.QUALIFIED
        if self.rejects and self.severity is not None:
            return self.against == {self.case.code} and self.verdict is _VERDICT[self.severity]
        return self.case.code in self.spoke and not self.against and self.verdict is Verdict.QUALIFIED


def judged(case: Case) -> Row:
    """One case through :func:`qualify.judging.judge`."""
    return row(case, judge(case.make(), case.context()))


def row(case: Case, report: Report) -> Row:
    severities = {check.code: check.severities[case.profile] for check in CHECKS}
    return Row(
        case,
        severities.get(case.code),
        frozenset(finding.code for finding in report.findings),
        frozenset(finding.code for finding in report.findings if finding.blocks),
        report.verdict,
    )


def one_sided(rows: Sequence[Row]) -> list[str]:
    """Checks that no mutant makes speak, or that speak on every case: nothing turns them both ways."""
    found = []
    for check in CHECKS:
        mine = [each for each in rows if each.case.code == check.code]
        silent = any(check.code not in each.spoke for each in rows)
        if not mine or not silent or not all(check.code in each.spoke for each in mine):
            found.append(check.code)
    return found


def render(rows: Sequence[Row]) -> list[str]:
    """The matrix, a line for each case, and the line that sums it up."""
    lines = []
    for title, chosen in (
        ("mutants", [each for each in rows if each.case.code]),
        ("near misses", [each for each in rows if not each.case.code]),
    ):
        lines += ["", title]
        for each in sorted(chosen, key=lambda each: each.case.code):
            mark = "ok" if each.good else "WRONG"
            said = ", ".join(sorted(each.against or ({each.case.code} & each.spoke))) or "nothing"
            where = f"{each.case.target} {each.case.profile.value}"
            meant = each.case.code or "-"
            lines.append(f"  {mark:5} {meant:7} {each.verdict.value:12} {said:8} {where:23} {each.case.name}")
    rejected = [each for each in rows if each.rejects]
    seen = [each for each in rows if each.case.code and not each.rejects]
    misses = [each for each in rows if not each.case.code]
    wrong = [each for each in rows if not each.good]
    lines += ["", f"{len(CHECKS)} checks; {len(seen)} more mutants seen by checks that only note or warn"]
    lines += [f"NOTHING TURNS {code} BOTH WAYS" for code in one_sided(rows)]
    if wrong:
        lines.append(f"{len(wrong)} cases are not as they should be")
    elif not one_sided(rows):
        lines.append(f"{len(rejected)} mutants rejected, each by its own check; {len(misses)} near misses accepted")
    return lines
