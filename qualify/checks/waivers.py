"""Checks on the matrix's waivers, run after all others: what a waiver lets through is known only then."""

from __future__ import annotations

from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check, waivable
from qualify.report import Severity
from qualify.waivers import Standing, describe, unused

WARNING = Severity.WARNING


@check("WVR001", "waiver-unused", upstream=WARNING, release=WARNING)
def waiver_unused(case: Case) -> Iterator[Observation]:
    """A waiver holds for this wheel on this target, and nothing was found that it would let through.

    Why: the fault was mended, or never was here. Left in place, the waiver would let it through unseen when it comes
    back.

    Mend: take the waiver out of the matrix, or name the target or member that it is meant for.
    """
    for waiver in unused(case.findings, case.held, waivable, case.crashed):
        found = f"nothing to let through for {describe(waiver)}"
        yield Observation("", found, "a finding that it covers", "remove it, or narrow it by target or member")


@check("WVR002", "waiver-stale", upstream=WARNING, release=WARNING)
def waiver_stale(case: Case) -> Iterator[Observation]:
    """A waiver is for a commit that the matrix pins no more.

    Why: it was granted for one pin and never holds for the next. Whether the reason still stands, somebody has to say
    anew.

    Mend: remove it; grant it again for the new pin, if its reason holds there.
    """
    for held in case.held:
        if held.standing is Standing.STALE:
            found = f"{describe(held.waiver)}: {held.why}"
            yield Observation("", found, "waivers of the current pin", "remove it, or grant it for the new pin")


@check("WVR003", "waiver-not-of-this-build", upstream=Severity.NOTE, release=Severity.NOTE)
def waiver_not_of_this_build(case: Case) -> Iterator[Observation]:
    """A waiver for the pin does not hold for this wheel, which is no build of the pin that could be told.

    Why: a wheel of another commit, of none that it names, from a changed tree or of a mode that the pin does not take
    is not what the waiver was granted for.

    Mend: build at the pin from a clean tree, with the commit handed to the build; or grant a waiver for this wheel's
    sha256.
    """
    for held in case.held:
        if held.standing is Standing.NOT_THE_PIN:
            found = f"{describe(held.waiver)}: {held.why}"
            yield Observation("", found, "a build of the pin", "build at the pin, or grant one for this wheel's sha256")
