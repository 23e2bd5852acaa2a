"""The checks as text: what ``qualify explain`` prints, and docs/checks.md."""

from __future__ import annotations

from collections.abc import Sequence

from qualify.checks.registry import FAMILIES, Check
from qualify.matrix.model import Profile

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
| note | none | 0 |

`upstream` asks whether someone else's wheel is usable on the target, `release` whether ours is fit to publish. The two
differ in severities alone. A check that crashes counts as unverified.
"""


def severities(check: Check) -> str:
    """``error``, or both profiles where they differ."""
    upstream, release = check.severities[Profile.UPSTREAM], check.severities[Profile.RELEASE]
    return upstream.value if upstream is release else f"{upstream.value} in upstream, {release.value} in release"


def entry(check: Check) -> str:
    """One check as text for a terminal."""
    return f"{check.code} {check.slug}  ({check.family}; {severities(check)})\n\n{check.documentation}\n"


def markdown(checks: Sequence[Check]) -> str:
    """The whole of docs/checks.md."""
    parts = [_HEAD]
    for prefix, title in FAMILIES.items():
        chosen = [check for check in checks if check.code.startswith(prefix)]
        parts.append(f"## {title}\n")
        parts += [f"### {each.code} {each.slug}\n\n*{severities(each)}*\n\n{each.documentation}\n" for each in chosen]
    return "\n".join(parts)
