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
from qualify.report import BLOCKING, Finding, Severity
from qualify.waivers import Waivable


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
        "RCP": "Receipt",
        "IDN": "Identity",
        "CTL": "Parity with a control",
        "WVR": "Waivers",
    }
)

#: What the findings of a family, or of one check, can be waived for, where it is not what their severity says.
#: A malformed archive may be read otherwise by the next tool, so that nobody knows which files a waiver lets through;
#: a missing decompressor is installed; of an editable wheel nothing was looked at.  RECORD, receipt and identity speak
#: of one file's bytes, and a wheel that is no build of the pin has no part in the pin's waivers.
_WAIVABLE: Mapping[str, Waivable] = MappingProxyType(
    {
        "ARC": Waivable.NEVER,
        "ARC002": Waivable.WHEEL,
        "EDI": Waivable.NEVER,
        "REC": Waivable.WHEEL,
        "RCP": Waivable.WHEEL,
        "IDN": Waivable.WHEEL,
        "WVR": Waivable.NEVER,
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

    @property
    def waivable(self) -> Waivable:
        """For what its findings can be let through.

        What nobody looked at can be vouched for in one file, by somebody who looked at it in another way; never in
        every build of a commit.
        """
        declared = _WAIVABLE.get(self.code, _WAIVABLE.get(self.code[:3]))
        levels = frozenset(self.severities.values())
        if declared is Waivable.NEVER or not levels & BLOCKING:
            return Waivable.NEVER
        return declared or (Waivable.WHEEL if Severity.UNVERIFIED in levels else Waivable.ANY)

    def run(self, case: Case) -> list[Finding]:
        """The findings of this check."""
        return self.attempt(case)[0]

    def attempt(self, case: Case) -> tuple[list[Finding], bool]:
        """The findings, and whether the check came to its end.

        A check that crashes has looked at nothing: ``unverified``, never a pass.
        """
        severity, ended = self.severities[case.policy.profile], True
        try:
            seen = list(dict.fromkeys(self.function(case)))
        except Exception as error:  # noqa: BLE001 - fail closed whatever the bug is; the report names it
            what = f"the check itself failed: {type(error).__name__}: {error}"
            seen = [Observation("", what, "an answer, yes or no", "report this as a bug of wheel-assay")]
            severity, ended = Severity.UNVERIFIED, False
        return [Finding(self.code, self.slug, severity, *observation) for observation in seen], ended


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


def waivable(code: str) -> Waivable:
    """For what the findings of a code can be let through; never for a code that there is not."""
    return _CHECKS[code].waivable if code in _CHECKS else Waivable.NEVER


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
        near += near_codes(wanted.upper(), [each.code for each in known])
        offered = ", ".join(dict.fromkeys(near[:6]))
        raise UsageError(
            f"no check is called {text!r}",
            expected=f"perhaps {offered}" if offered else "a code (DEV001), its beginning (DEV), or a slug",
            action="see `qualify explain` for the list",
        )
    return found


def near_codes(wanted: str, codes: Iterable[str]) -> list[str]:
    """Up to three codes that somebody may have meant: few places apart, or a digit too few or too many."""
    known = sorted(codes)
    apart = {
        code: sum(a != b for a, b in zip(code, wanted, strict=False)) for code in known if len(code) == len(wanted)
    }
    same_length = sorted((code for code, places in apart.items() if places <= 2), key=lambda code: apart[code])
    return (same_length or difflib.get_close_matches(wanted, known, 3, cutoff=0.75))[:3]
