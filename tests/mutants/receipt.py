"""Wheels whose receipt has one fault that the checks RCP are for, or says what the checks IDN look at."""

from __future__ import annotations

from functools import partial
from typing import Any

from qualify.matrix.model import Profile
from qualify.provenance import parse
from tests.mutants.case import Case
from tests.support.receipt import SDIST, receipt
from tests.support.wheel import COMMIT
from tests.unit.judging_support import MATRIX, wheel

PATCH = "a" * 64
_C, _HOST = "axpy/_C.abi3.so", "axpy/_host.abi3.so"


def pinned(**changes: Any) -> dict[str, Any]:
    """The tests' matrix with another pin; ``commit=None`` leaves the commit out."""
    pin = {**MATRIX["pin"], **changes}
    return {"pin": {key: value for key, value in pin.items() if value is not None}}


_BY_SDIST = pinned(commit=None)
_PATCHED = pinned(patches=[{"file": "a.patch", "sha256": PATCH, "reason": "it needs this"}])
_FROM_SOURCE = pinned(build_modes=["source"])


def _of(**changes: Any) -> Any:
    return partial(receipt, **changes)


def _broken(_: object) -> Any:
    return parse(b'{"version": 2}', "w.receipt.json")


MUTANTS = (
    Case("a receipt of other bytes", wheel, "RCP001", receipt=_of(wheel="e" * 64)),
    Case("a file that is no receipt, where one belongs", wheel, "RCP002", receipt=_broken),
    Case("a binary that is foreign by the receipt", wheel, "RCP003", receipt=_of(members={_C: "foreign"})),
    Case("a binary that the receipt doesn't mention", wheel, "RCP003", receipt=_of(members={_C: ""})),
    Case("another sdist than the one pinned", wheel, "IDN001", receipt=_of(sdist="e" * 64), matrix=_BY_SDIST),
    Case("no receipt, where the sdist alone is pinned", wheel, "IDN002", matrix=_BY_SDIST),
    Case("another commit, by the receipt alone", lambda: wheel(commit=None), "IDN001", receipt=_of(commit="f" * 40)),
    Case("the pinned commit, and another sdist by the receipt", wheel, "IDN008", receipt=_of(sdist="e" * 64)),
    Case("a receipt without the pin's patch", wheel, "IDN008", receipt=_of(), matrix=_PATCHED),
    Case("a receipt with a patch that the pin lacks", wheel, "IDN008", receipt=_of(patches=[PATCH])),
    Case("no receipt, where the pin takes source builds alone", wheel, "IDN009", matrix=_FROM_SOURCE),
    Case(
        "a binary that the tree brings, where the pin takes source builds alone",
        wheel,
        "IDN009",
        receipt=_of(members={_C: "brought by the tree"}),
        matrix=_FROM_SOURCE,
    ),
)

NEAR_MISSES = (
    Case("the receipt of a local compile", wheel, receipt=_of()),
    Case("the same, where the pin takes source builds alone", wheel, receipt=_of(), matrix=_FROM_SOURCE),
    Case("the commit by the receipt alone", lambda: wheel(commit=None), receipt=_of(commit=COMMIT[1:], kind="git")),
    Case("the pinned sdist by the receipt", lambda: wheel(commit=None), receipt=_of(sdist=SDIST), matrix=_BY_SDIST),
    Case("the pin's patch in the receipt", wheel, receipt=_of(patches=[PATCH]), matrix=_PATCHED),
    Case("a binary that the matrix lets the tree bring", wheel, receipt=_of(members={_C: "brought by the tree"})),
    Case("a binary that a repair bundled", wheel, receipt=_of(members={_HOST: ""}, bundled=[_HOST])),
    Case(
        "a receipt of other bytes beside someone else's wheel",
        wheel,
        profile=Profile.UPSTREAM,
        receipt=_of(wheel="e" * 64),
    ),
)
