"""Entry points: what installers make programs of, and where those lead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from qualify.checks.case import Case
from qualify.checks.entrypoints import SCRIPTS, read_entry_points
from qualify.checks.metadata import MOST_LINES, more
from qualify.checks.registry import Observation, check
from qualify.facts import DistInfo, installed_path
from qualify.report import Severity


@check("MET005", "entry-points-invalid")
def entry_points_invalid(case: Case) -> Iterator[Observation]:
    """A line of entry_points.txt is no entry point, or a script that no installer can write.

    Why: pip and uv refuse the wheel: for a line that is none, for a script without a callable, and for a name that
    leaves the folder for scripts.

    Mend: correct `[project.scripts]` or `[project.entry-points]` in the project and build again.
    """
    info = case.facts.dist_info
    if info is None or not info.entry_points:
        return
    yield from _faults(info, refused=True)


def _faults(info: DistInfo, refused: bool) -> Iterator[Observation]:
    path = f"{info.folder}/entry_points.txt"
    faults = [fault for fault in read_entry_points(info.entry_points)[1] if fault.refused is refused]
    for fault in faults[:MOST_LINES]:
        found = f"line {fault.line}, {fault.text!r}: {fault.why}"
        yield Observation(path, found, "name = module:attribute", "correct it in the project")
    yield from more(path, len(faults), "name = module:attribute")


@check("MET009", "plugin-entry-invalid", upstream=Severity.NOTE)
def plugin_entry_invalid(case: Case) -> Iterator[Observation]:
    """An entry point of a plugin group names no object, or its group has no name that the specification allows.

    Why: pip and uv install it, and whoever looks for plugins fails at it, or passes over it.

    Mend: correct `[project.entry-points]` in the project and build again.
    """
    info = case.facts.dist_info
    if info is not None and info.entry_points:
        yield from _faults(info, refused=False)


@check("MET006", "script-without-module", upstream=Severity.NOTE)
def script_without_module(case: Case) -> Iterator[Observation]:
    """A script's module is not in the wheel, although the package that it names is, or nothing else could bring it.

    Why: the program is installed and ends in `ModuleNotFoundError`. A module of another distribution that the wheel
    requires is no fault.

    Mend: correct the entry point, or find out why the module was left out of the wheel.
    """
    info = case.facts.dist_info
    if info is None or not info.entry_points:
        return
    scripts = [each for each in read_entry_points(info.entry_points)[0] if each.group in SCRIPTS]
    paths = [installed_path(member.path) for member in case.facts.members] if scripts else []
    for script in scripts:
        top = script.module.partition(".")[0]
        modules = module_names(path for path in paths if path.startswith(script.module.replace(".", "/")))
        own = any(path.startswith((f"{top}/", f"{top}.")) for path in paths)
        if script.module not in modules and (own or not (info.requires_dist or _standard(top))):
            found = f"{script.name} = {script.module}:{script.attribute}"
            action = "correct the entry point, or pack the module"
            yield Observation(f"{info.folder}/entry_points.txt", found, f"the module {script.module}", action)


def module_names(paths: Iterable[str]) -> frozenset[str]:
    """Dotted names of the modules, packages and namespace packages that installed files make."""
    found: set[str] = set()
    for path in paths:
        match = _MODULE.fullmatch(path)
        if match is None:
            continue
        parts = match["path"].split("/")
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        # A folder with a module below it is a package, with or without an __init__.py.
        found.update(".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return frozenset(found)


_MODULE = re.compile(r"(?P<path>[^.\\]++)(?:\.py|\.(?:[^./]++\.)?+so)")


def _standard(top: str) -> bool:
    import sys

    return top in sys.stdlib_module_names
