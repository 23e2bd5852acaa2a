"""A policy as a JSON value: what a wheel was judged by, its digest, and what changed between two of them.

Everything that can turn a verdict stands in it: what the matrix asks, what the command line added, the other wheels
that this one was held against, the waivers that hold for it, every check with its severities, and the tables of data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from qualify.checks import CHECKS
from qualify.checks.case import Case
from qualify.checks.catalogue import severities
from qualify.checks.registry import near_codes
from qualify.matrix import LoadedMatrix
from qualify.matrix.document import Problem, dotted
from qualify.matrix.loader import refusal, shown_path
from qualify.matrix.model import Waiver
from qualify.report import PolicyChange
from qualify.waivers import Standing, Waivable

_DATA = Path(__file__).resolve().parent / "data"
NOTHING = "nothing"


def resolved(case: Case) -> dict[str, Any]:
    """What a case's wheel is judged by."""
    policy, control, torch = case.policy, case.control, case.torch
    return {
        "target": policy.target,
        "machine": policy.machine,
        "compute_capability": str(policy.device),
        "profile": policy.profile.value,
        "require": None if policy.require is None else policy.require.value,
        "python": list(policy.python),
        "ceilings": _dump(policy.ceilings),
        "oldest_cuda": policy.oldest_cuda,
        "project": _dump(policy.project),
        "pin": _dump(policy.pin),
        "labels": list(policy.labels),
        "expectations": {path: _dump(each) for path, each in policy.expectations.items()},
        "libraries": dict(policy.libraries),
        "control_required": policy.control_required,
        "control": None if control is None else {"filename": control.filename, "sha256": control.sha256},
        "torch": None if torch is None else {"filename": torch.filename, "sha256": torch.sha256},
        "waivers": [_dump(held.waiver) for held in case.held if held.standing is Standing.HOLDS],
        "checks": {check.code: severities(check) for check in CHECKS},
        "data": dict(data_tables()),
    }


def _dump(model: Any) -> Any:
    """A part of the matrix as JSON values; defaults are written out, so that a changed default is a change."""
    return None if model is None else model.model_dump(mode="json")


@lru_cache(maxsize=1)
def data_tables() -> Mapping[str, str]:
    """File name -> sha256, of every table that the checks look things up in."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(_DATA.glob("*.json"))}


def require_grantable(loaded: LoadedMatrix) -> None:
    """Nobody can grant what there is no check for, or what is never let through in that way.

    :raises ConfigurationError: every such waiver stands in it, with its line.
    """
    problems = []
    for index, waiver in enumerate(loaded.matrix.waivers):
        if wrong := _ungrantable(waiver):
            path = ("waivers", index, "code")
            problems.append(Problem(loaded.document.line(path), dotted(path), *wrong))
    if problems:
        raise refusal(problems, shown_path(loaded.path))


def _ungrantable(waiver: Waiver) -> tuple[str, str] | None:
    """What is wrong with a waiver's code, and what to do; None where it can be granted."""
    check = next((check for check in CHECKS if check.code == waiver.code), None)
    if check is None:
        near = ", ".join(near_codes(waiver.code, [check.code for check in CHECKS]))
        return f"no check is called {waiver.code}", f"did you mean {near}?" if near else "see `qualify explain`"
    if check.waivable is Waivable.NEVER:
        return f"{waiver.code} {check.slug} can't be waived", f"see `qualify explain {waiver.code}`"
    if check.waivable is Waivable.WHEEL and waiver.wheel is None:
        what = f"{waiver.code} {check.slug} can be waived for a wheel alone, not for a pin"
        return what, "name the wheel by its sha256"
    return None


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[PolicyChange, ...]:
    """Every field in which two policies differ, in the order of the newer one; what only the older has comes last."""
    old, new = dict(_flat(before, ())), dict(_flat(now, ()))
    names = (*new, *(name for name in old if name not in new))
    rows = (PolicyChange(name, old.get(name, NOTHING), new.get(name, NOTHING)) for name in names)
    return tuple(row for row in rows if row.before != row.now)


def _flat(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each leaf as a dotted name and a text.  A list of objects gives a line for each, by what it says."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for each in value:
            text = json.dumps(each, sort_keys=True, ensure_ascii=False)
            yield f"{dotted(path)}: {text}", "listed"
    else:
        yield dotted(path), _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or NOTHING
    return NOTHING if value is None or value == "" else str(value)
