"""The receipt beside a wheel: is it for these bytes, can it be read, and does it vouch for every binary?"""

from __future__ import annotations

from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.provenance import BROUGHT
from qualify.report import Severity

NOTE = Severity.NOTE


@check("RCP001", "receipt-of-other-bytes", upstream=NOTE)
def receipt_of_other_bytes(case: Case) -> Iterator[Observation]:
    """A receipt lies beside the wheel, and it is for other bytes.

    Why: the file was changed after its build, or replaced. What the receipt says of its making is then said of another
    file.

    Mend: put the wheel and its own receipt back, or build again; remove a receipt that belongs to no file here.
    """
    receipt = case.receipt
    if receipt is not None and not receipt.fault and not receipt.speaks_of(case.facts):
        found = f"{receipt.filename} is for sha256 {receipt.wheel_sha256[:12] or 'nothing'}"
        expected = f"a receipt for sha256 {case.facts.sha256[:12]}"
        yield Observation("", found, expected, "put the wheel and its own receipt back, or build again")


@check("RCP002", "receipt-unreadable", upstream=NOTE, release=Severity.UNVERIFIED)
def receipt_unreadable(case: Case) -> Iterator[Observation]:
    """A receipt lies beside the wheel, and it can't be read.

    Why: what it says of the build was not looked at; that is not the same as no receipt.

    Mend: put back the receipt that the build wrote, build again, or remove the file where it is no receipt.
    """
    receipt = case.receipt
    if receipt is not None and receipt.fault:
        found = f"{receipt.filename} {receipt.fault}"
        yield Observation("", found, "the receipt that the build wrote", "put it back, or build again")


@check("RCP003", "not-compiled-here", upstream=NOTE)
def not_compiled_here(case: Case) -> Iterator[Observation]:
    """The receipt is the wheel's own, and it does not vouch for one of its binaries.

    Why: such a binary was copied from somewhere: another build's, at another commit, with other kernels. What the tree
    brings and the matrix allows (`build.prebuilt`) is said in the receipt and passes; the build mode is not `source`
    then.

    Mend: find what copies the file into the build; allow it in `build.prebuilt` with a reason, or build without it.
    """
    receipt = case.receipt
    if receipt is None or not receipt.speaks_of(case.facts):
        return
    for path, said in receipt.unproven(case.facts):
        if said != BROUGHT:
            found = f"its receipt says {said!r}" if said else "its receipt doesn't mention it"
            yield Observation(path, found, "a binary that the build compiled", "find what copies it into the build")
