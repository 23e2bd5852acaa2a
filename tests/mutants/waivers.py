"""Waivers of the matrix that a person should mend, on wheels that are good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qualify.facts import WheelFacts
from qualify.matrix.model import Profile
from tests.mutants.case import Case
from tests.support.wheel import COMMIT
from tests.unit.judging_support import HOPPER, SPARK, wheel


def waived(**changes: object) -> Mapping[str, Any]:
    """A matrix with one waiver of DEV001 for its pin, changed."""
    waiver = {"code": "DEV001", "reason": "runs on no machine yet", "granted_by": "A. Person", "pin": COMMIT[1:]}
    return {"waivers": [{key: value for key, value in {**waiver, **changes}.items() if value is not None}]}


def _foreign() -> WheelFacts:
    return wheel({"other/_a": {"sm_90": ["k"]}, "other/_b": {}}, name="other", commit=None)


def of_wheel(sha256: str) -> Mapping[str, Any]:
    return waived(pin=None, wheel=sha256)


MUTANTS = (
    Case("a waiver with nothing to let through", wheel, "WVR001", matrix=waived()),
    Case("a waiver of a check that only notes here", wheel, "WVR001", matrix=waived(code="DEV005")),
    Case("a waiver of the wheel with nothing to let through", wheel, "WVR001", matrix=of_wheel(wheel().sha256)),
    Case("a waiver of the pin before this one", wheel, "WVR002", matrix=waived(pin="f" * 40)),
    Case(
        "a waiver of the pin, and a changed tree", lambda: wheel(version="0.1.0+d20260904"), "IDN006", matrix=waived()
    ),
    Case(
        "a waiver of the pin, and a wheel of another commit",
        lambda: wheel(commit="g" + "f" * 40),
        "WVR003",
        profile=Profile.UPSTREAM,
        matrix=waived(),
    ),
    Case(
        "a waiver of the pin, and a wheel that names no commit",
        lambda: wheel(commit=None),
        "WVR003",
        profile=Profile.UPSTREAM,
        matrix=waived(),
    ),
)

NEAR_MISSES = (
    Case("a waiver of another wheel", wheel, matrix=of_wheel("f" * 64)),
    Case("a waiver of another target", wheel, target=HOPPER, matrix=waived(target=SPARK)),
    Case("a waiver of the pin, and a wheel of another project", _foreign, matrix=waived()),
)
