"""The catalogue of checks: what one is, how one is declared, how one is found."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from qualify.checks.case import Case
from qualify.errors import UsageError
from qualify.matrix.model import Profile
from qualify.report import Finding, Severity


class Observation(NamedTuple):
    """What one check saw; it becomes a finding with the check's code and severity."""

    member: str  # path in the wheel; "" for the wheel
    found: str
    expected: str
    action: str


Function = Callable[[Case], Iterable[Observation]]

#: Code prefix -> title of the family, in the order in which they run.
FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "ARC": "Archive",
        "EDI": "Editable wheels",
        "NAM": "Names and metadata",
        "REC": "RECORD",
        "TAG": "Tags and the target",
        "ELF": "Host binaries",
        "PRE": "Presence",
        "DEV": "Device code",
        "DRV": "Driver floor",
        "FLO": "Host floors",
        "LIB": "External libraries",
        "TOR": "Torch",
        "PYT": "Python",
        "ABI": "Python's stable ABI",
        "MET": "Metadata and contents",
        "IDN": "Identity",
        "CTL": "Parity with a control",
    }
)


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a pure function of a :class:`~qualify.checks.case.Case`."""

    code: str  # "DEV001"; its letters name the family
    slug: str
    severities: Mapping[Profile, Severity]
    function: Function

    @property
    def family(self) -> str:
        return FAMILIES[self.code[:3]]

    @property
    def documentation(self) -> str:
        """What it looks at, why, and how to mend what it finds."""
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def summary(self) -> str:
        return self.documentation.partition("\n")[0]

    def run(self, case: Case) -> list[Finding]:
        """The findings of this check.  A check that crashes has looked at nothing: ``unverified``, never a pass."""
        severity = self.severities[case.policy.profile]
        try:
            seen = list(dict.fromkeys(self.function(case)))
        except Exception as error:  # noqa: BLE001 - fail closed whatever the bug is; the report names it
            what = f"the check itself failed: {type(error).__name__}: {error}"
            seen = [Observation("", what, "an answer, yes or no", "report this as a bug of wheel-assay")]
            severity = Severity.UNVERIFIED
        return [Finding(self.code, self.slug, severity, *observation) for observation in seen]


_CHECKS: dict[str, Check] = {}


def check(
    code: str, slug: str, *, upstream: Severity = Severity.ERROR, release: Severity = Severity.ERROR
) -> Callable[[Function], Function]:
    """Declare a check.  The severities are those of the two profiles; the docstring is its documentation."""

    def register(function: Function) -> Function:
        if code in _CHECKS or any(known.slug == slug for known in _CHECKS.values()) or code[:3] not in FAMILIES:
            raise ValueError(f"{code} {slug} is taken, or of no known family")
        severities = MappingProxyType({Profile.UPSTREAM: upstream, Profile.RELEASE: release})
        _CHECKS[code] = Check(code, slug, severities, function)
        return function

    return register


def registered() -> tuple[Check, ...]:
    """Every declared check, by family in running order, then by code."""
    order = {prefix: index for index, prefix in enumerate(FAMILIES)}
    return tuple(sorted(_CHECKS.values(), key=lambda each: (order[each.code[:3]], each.code)))


def find(text: str, checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks that a code, a slug or the beginning of a code names, whatever the case.

    :raises UsageError: where none is meant; it offers the near names.
    """
    known = tuple(checks)
    wanted = text.strip()
    found = tuple(each for each in known if each.slug == wanted.lower() or each.code == wanted.upper())
    if not found and wanted:
        found = tuple(each for each in known if each.code.startswith(wanted.upper()))
    if not found:
        slugs = [each.slug for each in known]
        near = [slug for slug in slugs if wanted and wanted.lower() in slug]
        near += difflib.get_close_matches(wanted.lower(), slugs, 3)
        near += _near_codes(wanted.upper(), [each.code for each in known])
        offered = ", ".join(dict.fromkeys(near[:6]))
        raise UsageError(
            f"no check is called {text!r}",
            expected=f"perhaps {offered}" if offered else "a code (DEV001), its beginning (DEV), or a slug",
            action="see `qualify explain` for the list",
        )
    return found


def _near_codes(wanted: str, codes: Iterable[str]) -> list[str]:
    """Up to three codes of the same length that differ in the fewest places, in two at most."""
    apart = {
        code: sum(a != b for a, b in zip(code, wanted, strict=False)) for code in codes if len(code) == len(wanted)
    }
    return sorted((code for code, places in apart.items() if places <= 2), key=lambda code: apart[code])[:3]
