"""What the tree's build backend requires (PEP 518), and what of it an interpreter lacks.

The environment may be that of another Python on another machine, so nothing is imported there: the collector lists its
distributions, and the rules of ``build.check_dependency`` are applied to that list here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from qualify.errors import PreflightError

LEGACY_BACKEND = "setuptools.build_meta:__legacy__"


@dataclass(frozen=True)
class Backend:
    """The ``[build-system]`` table, with PEP 517's defaults where it says nothing."""

    name: str  # "setuptools.build_meta"
    path: tuple[str, ...]  # backend-path, relative to the tree
    requires: tuple[str, ...]


@dataclass(frozen=True)
class Unmet:
    """One requirement that an environment does not meet.

    ``chain`` leads from what the tree asks for to what is missing, as in ``build.check_dependency``; ``installed`` is
    the version that is there and does not fit, "" where nothing is.
    """

    requirement: str  # the last of the chain, as it is written
    name: str
    installed: str
    chain: tuple[str, ...]


@dataclass(frozen=True)
class Environment:
    """The distributions of one interpreter, as the collector lists them, and its marker environment."""

    distributions: Mapping[str, tuple[str, tuple[str, ...]]]  # normalised name -> version, requirements
    markers: Mapping[str, str]

    @classmethod
    def of(cls, interpreter: Mapping[str, Any]) -> Environment:
        found: dict[str, tuple[str, tuple[str, ...]]] = {
            canonicalize_name(item["name"]): (str(item["version"]), tuple(item["requires"]))
            for item in interpreter["distributions"]
        }
        return cls(found, dict(interpreter["markers"]))

    def version(self, name: str) -> str:
        """The installed version of a project; "" where it isn't installed."""
        return self.distributions.get(canonicalize_name(name), ("", ()))[0]


def read_backend(tree: Path) -> Backend:
    """The build backend of a source tree and its static requirements.

    ``build`` validates the table.  Without one (or without the file) PEP 517 and 518 name setuptools' legacy backend.

    :raises PreflightError: ``pyproject.toml`` cannot be read, or breaks PEP 518.
    """
    from build import BuildException, ProjectBuilder

    try:
        requires = ProjectBuilder(tree).build_system_requires
        # The builder keeps the backend's name and path to itself; it has just accepted both.
        path = tree / "pyproject.toml"
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("build-system", {}) if path.is_file() else {}
    except (BuildException, OSError, ValueError) as error:
        raise PreflightError(
            f"the build requirements cannot be read: {error}", where="pyproject.toml", action="mend the tree at the pin"
        ) from error
    for text in requires:
        parsed(text)
    return Backend(
        name=str(table.get("build-backend", LEGACY_BACKEND)),
        path=tuple(table.get("backend-path", ())),
        requires=tuple(sorted(requires)),
    )


def parsed(text: str) -> Requirement:
    """One requirement.

    :raises PreflightError: it breaks PEP 508.
    """
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise PreflightError(f"{text!r} is no requirement: {error}", where="the build requirements") from error


def replaced(requires: Sequence[str], replacement: str) -> tuple[str, ...]:
    """``requires`` with the requirements on ``replacement``'s project replaced by it; "" replaces nothing."""
    if not replacement:
        return tuple(requires)
    name = canonicalize_name(parsed(replacement).name)
    return tuple(replacement if canonicalize_name(parsed(text).name) == name else text for text in requires)


def less(requires: Sequence[str], without: Iterable[str]) -> tuple[str, ...]:
    """``requires`` without the requirements on the projects named in ``without``."""
    names = {canonicalize_name(name) for name in without}
    return tuple(text for text in requires if canonicalize_name(parsed(text).name) not in names)


def asked_by_backend(facts: Mapping[str, Any], torch: str, without: Iterable[str] = ()) -> tuple[str, ...]:
    """What the build backend asks for besides (PEP 517's hook), as it is to be installed.

    :param facts: of the collector, which asked the hook; where it didn't or the hook failed, nothing is known: ().
    :param torch: the target's torch, which stands for any that the backend names.
    :param without: projects that this build does without.
    """
    hook = facts.get("hook")
    if not hook or hook["failed"]:
        return ()
    return tuple(dict.fromkeys(less(replaced([str(text) for text in hook["requirements"]], torch), without)))


def lacking_of_backend(facts: Mapping[str, Any], torch: str, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Of :func:`asked_by_backend` what the interpreter lacks; () where it could not be asked."""
    if not facts.get("interpreter"):
        return ()
    installed = Environment.of(facts["interpreter"])
    return tuple(text for text in asked_by_backend(facts, torch, without) if unmet(text, installed))


def unmet(requirement: str, environment: Environment) -> tuple[Unmet, ...]:
    """What ``environment`` lacks of one requirement and of everything that this one requires in turn.

    The rules are those of ``build.check_dependency``: markers are evaluated in that environment, pre-releases count,
    a requirement by URL is taken as met when a distribution of its name is there.
    """
    return tuple(_unmet(requirement, (), frozenset(), environment, set()))


def _unmet(
    text: str,
    ancestors: tuple[str, ...],
    extras: frozenset[str],
    environment: Environment,
    seen: set[tuple[str, frozenset[str]]],
) -> Iterator[Unmet]:
    requirement = parsed(text)
    if requirement.marker and not _applies(requirement, extras, environment):
        return
    normalised = str(requirement)
    if normalised in ancestors or (normalised, extras) in seen:
        return
    seen.add((normalised, extras))
    chain = (*ancestors, normalised)
    name = canonicalize_name(requirement.name)
    if name not in environment.distributions:
        yield Unmet(normalised, name, "", chain)
        return
    version, requires = environment.distributions[name]
    if requirement.specifier and not _within(requirement, version):
        yield Unmet(normalised, name, version, chain)
        return
    for further in requires:
        yield from _unmet(further, chain, frozenset(requirement.extras), environment, seen)


def _within(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False  # a version that PEP 440 does not know satisfies nothing


def _applies(requirement: Requirement, extras: frozenset[str], environment: Environment) -> bool:
    assert requirement.marker is not None
    return any(requirement.marker.evaluate({**environment.markers, "extra": extra}) for extra in (extras | {""}))
