"""What the matrix changes in the tree's list of build requirements, and where the tree's own files differ from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from builders.requirements import parsed
from qualify.errors import ConfigurationError
from qualify.lines import lines_of_python
from qualify.matrix.model import RequirementOverrides

MAX_BYTES = 1 << 20  # of one requirements file
MAX_INCLUDED = 20  # files that one file leads to by -r


def overridden(requires: Sequence[str], overrides: RequirementOverrides) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The requirements after the matrix's changes, and each change in words, with its reason.

    :raises ConfigurationError: a change that changes nothing: the tree has moved on, and so must the matrix.
    """
    result = list(requires)
    said: list[str] = []
    for removed in overrides.remove:
        left = [text for text in result if not _is(text, removed.name)]
        if len(left) == len(result):
            raise _matches_nothing("remove", removed.name, requires)
        result = left
        said.append(f"removed {removed.name}: {removed.reason}")
    for replacement in overrides.replace:
        found = [text for text in result if _is(text, replacement.name)]
        if not found:
            raise _matches_nothing("replace", replacement.name, requires)
        parsed(replacement.requirement)
        at = result.index(found[0])
        result = [text for text in result if text not in found]
        result.insert(at, replacement.requirement)
        said.append(f"replaced {', '.join(found)} by {replacement.requirement}: {replacement.reason}")
    for added in overrides.add:
        wanted = parsed(added.requirement)
        if any(parsed(text) == wanted for text in result):
            raise ConfigurationError(
                f"the tree asks for {added.requirement} already",
                where="build.requirements.add",
                action="remove the line from the matrix",
            )
        result.append(added.requirement)
        said.append(f"added {added.requirement}: {added.reason}")
    return tuple(result), tuple(said)


def file_differences(tree: Path, files: Sequence[str], requires: Sequence[str]) -> tuple[str, ...]:
    """How the tree's own files of build requirements differ from ``[build-system].requires``; a note each.

    What a file names and the table doesn't, and the other way round; versions are compared as they are written.
    """
    notes: list[str] = []
    asked = {canonicalize_name(parsed(text).name): parsed(text) for text in requires}
    for name in files:
        listed, problems = _listed(tree, name)
        notes += problems
        if listed is None:
            continue
        for project in sorted(asked.keys() | listed.keys()):
            here, there = listed.get(project), asked.get(project)
            if here is None or there is None or here.specifier != there.specifier:
                notes.append(
                    f"{name} says {here or f'nothing of {project}'}, "
                    f"[build-system].requires says {there or f'nothing of {project}'}"
                )
    return tuple(notes)


def _listed(tree: Path, name: str) -> tuple[dict[NormalizedName, Requirement] | None, list[str]]:
    """The requirements of a file and of those it leads to (``-r``); None where it can't be read, with the reason."""
    found: dict[NormalizedName, Requirement] = {}
    problems: list[str] = []
    waiting, seen = [tree / name], set[Path]()
    while waiting:
        path = waiting.pop().resolve()
        if path in seen:
            continue
        seen.add(path)
        if len(seen) > MAX_INCLUDED or not path.is_relative_to(tree.resolve()) or not path.is_file():
            what = "leads to too many files" if len(seen) > MAX_INCLUDED else "is not a file of the tree"
            return None, [f"{name}: {path.name} {what}; it was not compared"]
        if path.stat().st_size > MAX_BYTES:
            return None, [f"{name}: {path.name} is too large for a list of requirements; it was not compared"]
        text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
        for line in lines_of_python(text):  # as pip reads it
            plain = line.split(" #", 1)[0].strip() if not line.lstrip().startswith("#") else ""
            if not plain:
                continue
            option, _, rest = plain.partition(" ")
            if option in ("-r", "--requirement"):
                waiting.append(path.parent / rest.strip())
            elif not plain.startswith("-"):
                try:
                    requirement = Requirement(plain.split(" --hash", 1)[0])
                except ValueError:
                    problems.append(f"{name}: {plain!r} can't be read as a requirement")
                    continue
                found[canonicalize_name(requirement.name)] = requirement
    return found, problems


def _is(text: str, name: str) -> bool:
    return canonicalize_name(parsed(text).name) == canonicalize_name(name)


def _matches_nothing(change: str, name: str, requires: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"the tree asks for no {name}",
        where=f"build.requirements.{change}",
        expected="one of " + ", ".join(sorted(parsed(text).name for text in requires)),
        action="remove the line from the matrix, or name what the tree asks for",
    )
