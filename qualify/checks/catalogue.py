"""The checks as text and as JSON: what ``qualify explain`` prints, and docs/checks.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from qualify.checks.registry import FAMILIES, Check
from qualify.matrix.model import Profile
from qualify.report import BLOCKING

_HEAD = """\
# Checks

Generated from the checks' own docstrings by `qualify explain --markdown`; a test keeps it fresh.

A check is a pure function from what was read in a wheel and what a target asks to findings. Every finding carries the
check's code and the severity of the profile in use:

| severity | verdict | exit code of `qualify check` |
| --- | --- | --- |
| error | rejected | 1 |
| unverified | unverified: something could not be looked at | 3 |
| inconclusive | inconclusive: looked at, and neither yes nor no follows | 3 |
| warning | none: nothing is wrong with the wheel, and somebody should mend something | 0 |
| note | none | 0 |

The worst decides, in the order of the table. An error, and what was not looked at or not decided, can be let through
by a waiver in the matrix (docs/waivers.md), for one wheel's bytes or for one pinned commit, as each check says below.
Where nothing else stands in the way, the verdict is then `overridden` (exit code 9), never `qualified`.

`upstream` asks whether someone else's wheel is usable on the target, `release` whether ours is fit to publish. The two
differ in severities alone. A check that crashes counts as unverified, and no waiver covers that.
"""

#: The parts of a check's docstring after what it looks at.
_PARTS = re.compile(r"^(Why|Mend): ", re.MULTILINE)


def severities(check: Check) -> str:
    """``error``, or both profiles where they differ."""
    upstream, release = check.severities[Profile.UPSTREAM], check.severities[Profile.RELEASE]
    return upstream.value if upstream is release else f"{upstream.value} in upstream, {release.value} in release"


def waivers(check: Check) -> str:
    """For what its findings can be waived; "" where it lets everything through as it is."""
    return f"can be waived {check.waivable.value}" if frozenset(check.severities.values()) & BLOCKING else ""


def entry(check: Check) -> str:
    """One check as text for a terminal."""
    about = "; ".join(part for part in (check.family, severities(check), waivers(check)) if part)
    return f"{check.code} {check.slug}  ({about})\n\n{check.documentation}\n"


def to_json(checks: Sequence[Check]) -> dict[str, Any]:
    """What ``qualify explain --json`` prints: one object, a row for each check."""
    return {
        "version": 1,
        "checks": [
            {
                "code": check.code,
                "slug": check.slug,
                "family": check.family,
                "severities": {profile.value: check.severities[profile].value for profile in Profile},
                "waivable": check.waivable.name.lower(),
                **_documentation(check),
            }
            for check in checks
        ],
    }


def _documentation(check: Check) -> dict[str, str]:
    """The three parts of the docstring, each as running text."""
    what, *rest = _PARTS.split(check.documentation)
    parts = {"what": what, **dict(zip(map(str.lower, rest[::2]), rest[1::2], strict=True))}
    return {name: " ".join(text.split()) for name, text in parts.items()}


def markdown(checks: Sequence[Check]) -> str:
    """The whole of docs/checks.md."""
    parts = [_HEAD]
    for prefix, title in FAMILIES.items():
        chosen = [check for check in checks if check.code.startswith(prefix)]
        if not chosen:
            continue
        parts.append(f"## {title}\n")
        for each in chosen:
            about = "; ".join(part for part in (severities(each), waivers(each)) if part)
            parts.append(f"### {each.code} {each.slug}\n\n*{about}*\n\n{each.documentation}\n")
    return "\n".join(parts)
