"""entry_points.txt, line by line.

Format: the entry points specification of packaging.python.org.  Groups in brackets, then ``name = module:attribute
[extras]``; no continuation lines, no other delimiter, comments on lines of their own.  ``configparser`` (uv's like) and
``importlib.metadata`` (pip's) read different files; here a line is right where both take it, else it is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from qualify.lines import lines_of, lines_of_python

#: Groups whose entries an installer turns into programs.
SCRIPTS = ("console_scripts", "gui_scripts")

# Possessive quantifiers: no text makes these look back.
_OBJECT = re.compile(r"(?P<module>[\w.]++)\s*+(?::\s*+(?P<attribute>[\w.]++)\s*+)?(?:\[(?P<extras>[^\[\]]*+)\]\s*+)?")
_GROUP = re.compile(r"\w++(?:\.\w++)*+")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    group: str
    name: str
    module: str
    attribute: str  # "" where the whole module is meant


@dataclass(frozen=True, slots=True)
class Fault:
    """One line that is not as it should be."""

    line: int  # from 1
    text: str  # the line, shortened
    why: str
    refused: bool  # pip or uv refuses the wheel for it (measured with pip 26.3 and uv 0.13)


@lru_cache(maxsize=4)
def read_entry_points(text: str) -> tuple[tuple[EntryPoint, ...], tuple[Fault, ...]]:
    """The entries of an entry_points.txt, and the lines that are none.

    Takes any text, in time that is linear in it.
    """
    entries: list[EntryPoint] = []
    faults: list[Fault] = []
    group, seen = "", {("", "")}
    lines: list[tuple[int, str]] = []
    for number, whole in enumerate(lines_of(text), 1):
        parts = lines_of_python(whole)
        if len(parts) > 1:
            faults.append(_fault(number, whole.strip(), "`importlib.metadata` ends a line within it", refused=False))
        lines += [(number, part) for part in parts]
    for number, raw in lines:
        line = raw.strip()
        if not line or line[0] == "#":
            continue
        if line[0] == ";":
            faults.append(_fault(number, line, "a comment that `importlib.metadata` takes for an entry", refused=True))
            continue
        if line[0] == "[":
            group = line.strip("[] ") or line
            if line[-1] != "]":
                faults.append(_fault(number, line, "no name of a group in brackets", refused=True))
            elif not _GROUP.fullmatch(group):
                faults.append(_fault(number, line, "no name of a group", refused=False))
            elif (group, "") in seen:
                faults.append(_fault(number, line, "a group that stands there already", refused=True))
            seen.add((group, ""))
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        script = group in SCRIPTS
        if not group or not equals or not name:
            why = "before any group" if not group else "no `name = module:attribute`"
            faults.append(_fault(number, line, why, refused=True))
            continue
        match = _OBJECT.fullmatch(value)
        attribute = (match["attribute"] or "") if match else ""
        if match is None or not _identifiers(match["module"]) or (attribute and not _identifiers(attribute)):
            faults.append(_fault(number, line, f"{value[:60]!r} is no module:attribute", script))
        elif script and not attribute:
            faults.append(_fault(number, line, "a script without a callable", refused=True))
        elif script and ("/" in name or "\\" in name or name in (".", "..")):
            faults.append(_fault(number, line, "a script that would be written outside its folder", refused=True))
        elif (group, name) in seen:
            faults.append(_fault(number, line, f"{name[:60]!r} stands twice in its group", refused=True))
        else:
            entries.append(EntryPoint(group, name, match["module"], attribute))
        seen.add((group, name))
    return tuple(entries), tuple(faults)


def _identifiers(dotted: str) -> bool:
    return all(part.isidentifier() for part in dotted.split("."))


def _fault(line: int, text: str, why: str, refused: bool) -> Fault:
    return Fault(line, text[:80], why, refused)
