"""The version that a tree's tags give it: by which rule setuptools-scm sees tags, and whether the nearest is a version.

The rule is the tree's own: ``git_describe_command`` (``scm.git.describe_command``), ``tag_regex`` and the prefix of
its pyproject.toml.  What the tree states there is data: only a ``git describe`` with options that choose tags is taken
over, and no other command of a tree is ever run.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from builders.store.gitrun import local
from qualify.errors import PreflightError

DEFAULT_MATCH = "*[0-9]*"
MAX_UNRELATED = 50  # nearer tags that are no version before the search is given up
MAX_SETTINGS = 1 << 20  # bytes of a pyproject.toml

# setuptools-scm's own default: words with dashes before it belong to no version.
_DEFAULT_REGEX = r"^(?P<prefix>[\w-]+-)?(?P<version>[vV]?\d+(?:\.\d+){0,2}[^\+]*)(?:\+.*)?$"
_USUAL_PREFIXES = frozenset({"", "release", "rel", "version", "ver"})
_FLAGS = frozenset({"--tags", "--long", "--dirty", "--first-parent", "--always", "--all"})
_DESCRIBED = re.compile(r"(?P<tag>.+)-(?P<distance>\d+)-g(?P<node>[0-9a-f]+)")
_COMPUTES = re.compile(r"setuptools[_-]scm|use_scm_version|hatch-vcs|vcs-versioning|versioneer|dunamai|setuptools-git")


@dataclass(frozen=True)
class TagRule:
    """Which tags count, and what of their names is the version."""

    options: tuple[str, ...] = ("--tags",)
    match: tuple[str, ...] = (DEFAULT_MATCH,)
    exclude: tuple[str, ...] = ()
    regex: str = ""  # the tree's own; "" is setuptools-scm's default
    prefix: str = ""
    stated: str = "setuptools-scm's default"  # where the rule comes from
    needed: bool = True  # whether the tree computes its version from tags at all

    def sees(self, tag: str) -> bool:
        """Whether ``git describe`` looks at a tag of this name."""
        return any(fnmatchcase(tag, each) for each in self.match or ("*",)) and not any(
            fnmatchcase(tag, each) for each in self.exclude
        )

    def version(self, tag: str, project: str) -> Version | None:
        """The version that a tag names; None where the tag belongs to something else, or to nothing.

        A regular expression of the tree's own decides by itself.  Under the default one, whatever words stand before
        the number would do, so those have to be the usual ones or the project's name.
        """
        name = tag.removeprefix(self.prefix)
        try:
            match = re.match(self.regex or _DEFAULT_REGEX, name)
        except re.error:
            return None
        if match is None:
            return None
        text = match["version"] if "version" in match.re.groupindex else match[1] if match.re.groups else match[0]
        if not self.regex and not (self.prefix and tag.startswith(self.prefix)):
            before = canonicalize_name((match["prefix"] or "").strip("-_"))
            if before not in _USUAL_PREFIXES | {canonicalize_name(project)}:
                return None
        try:
            return Version(text)
        except (InvalidVersion, TypeError):
            return None


@dataclass(frozen=True)
class Described:
    """The nearest tag: its name, the commits since, and how ``git describe --long`` writes it."""

    tag: str = ""
    distance: int = 0
    text: str = ""


def tag_rule(tree: Path, tag_match: str = DEFAULT_MATCH) -> TagRule:
    """The rule of a tree.

    :param tag_match: the matrix's own pattern; another than the default counts over what the tree says.
    :raises PreflightError: the tree states a rule that cannot be followed without running what it names.
    """
    data = project_settings(tree)
    tool = table_of(table_of(data, "tool"), "setuptools_scm") or table_of(table_of(data, "tool"), "vcs-versioning")
    tag = table_of(tool, "tag")
    regex = _text(tag.get("regex")) or _text(tool.get("tag_regex"))
    prefix = _text(tag.get("prefix"))
    needed = computes_version(tree, data) or tag_match != DEFAULT_MATCH
    shape: dict[str, Any] = {"regex": regex, "prefix": prefix, "needed": needed}
    if tag_match != DEFAULT_MATCH:
        return TagRule(match=(tag_match,), stated="build.tag_match of the matrix", **shape)
    command = table_of(table_of(tool, "scm"), "git").get("describe_command") or tool.get("git_describe_command")
    if command is None:
        numbers = "*[0-9]*.*[0-9]*" if tag.get("strict") is True else DEFAULT_MATCH
        stated = "pyproject.toml, tag" if tag else TagRule.stated
        return TagRule(match=(f"{prefix}{numbers}",), stated=stated, **shape)
    return _commanded(command, shape)


def computes_version(tree: Path, data: Mapping[str, Any] | None = None) -> bool:
    """Whether the version comes from tags, as far as the tree's own settings tell; no static version: it may."""
    data = project_settings(tree) if data is None else data
    tool = table_of(data, "tool")
    if "setuptools_scm" in tool or "vcs-versioning" in tool:
        return True
    words = " ".join(str(each) for each in table_of(data, "build-system").get("requires", ()))
    project = table_of(data, "project")
    if "version" in project:
        return False
    for name in ("setup.py", "setup.cfg"):
        path = tree / name
        if path.is_file() and path.stat().st_size <= MAX_SETTINGS:
            words += path.read_text(encoding="utf-8", errors="replace")
    return bool(_COMPUTES.search(words))


def describe(tree: Path, rule: TagRule, project: str, where: str) -> Described:
    """The nearest tag that the rule sees, from the checked out commit of ``tree``.

    :raises PreflightError: there is none, or the nearest is no version while one farther away is.
    """
    nearest = _describe(tree, rule, ())
    if nearest is None:
        if not rule.needed:
            return Described()
        raise PreflightError(
            f"no tag that matches {' or '.join(rule.match) or '*'}"
            + (f" and not {' or '.join(rule.exclude)}" if rule.exclude else "")
            + ("" if "--tags" in rule.options else ", annotated tags alone,")
            + " is reachable from the commit, so the version would count from nothing",
            where=where,
            expected=f"the repository with its tags (the rule is of {rule.stated})",
            action="push the tags there (git push --tags), or make the bundle with --tags",
        )
    if rule.version(nearest.tag, project) is not None or not rule.needed:
        return nearest
    passed = [nearest.tag]
    while len(passed) <= MAX_UNRELATED:
        farther = _describe(tree, rule, tuple(passed))
        if farther is None:
            break
        if (version := rule.version(farther.tag, project)) is not None:
            raise PreflightError(
                f"the nearest tag is {nearest.tag}, which is no version of {project}, while {farther.tag} "
                f"({version}) is farther away by {farther.distance - nearest.distance} commits: the version would "
                "count from an unrelated tag",
                where=where,
                expected=f"a version in the nearest tag that {rule.stated} sees",
                action="state a describe command or tag regex in the tree that leaves it out, set build.tag_match in "
                "the matrix, or remove the tag",
            )
        passed.append(farther.tag)
    # All tags are written alike, in a way that is not the usual one: setuptools-scm's own rule decides.
    if not rule.regex and re.match(_DEFAULT_REGEX, nearest.tag):
        return nearest
    raise PreflightError(
        f"the nearest tag is {nearest.tag}, which is no version",
        where=where,
        expected="a tag that names a version (PEP 440)",
        action="state the tags' form in the tree (tag_regex), or set build.tag_match in the matrix",
    )


def _describe(tree: Path, rule: TagRule, passed: tuple[str, ...]) -> Described | None:
    arguments = ["describe", "--long", "--abbrev=40", *(each for each in rule.options if each != "--long")]
    arguments += [f"--match={each}" for each in rule.match]
    arguments += [f"--exclude={each}" for each in (*rule.exclude, *passed)]
    done = local(*arguments, folder=tree)
    if done.code != 0 or not (match := _DESCRIBED.fullmatch(done.text.strip())):
        return None
    return Described(match["tag"], int(match["distance"]), match[0])


def _commanded(command: object, shape: Mapping[str, Any]) -> TagRule:
    """A describe command, as text or as a list, as far as it chooses tags."""
    where = "pyproject.toml: git_describe_command"
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(each) for each in _list(command)]
    except ValueError:
        words = []
    if words[:2] != ["git", "describe"]:
        raise PreflightError(
            f"the tree asks for its version by {command!r}, which is not run",
            where=where,
            expected="git describe",
            action="set build.tag_match in the matrix to the pattern that its tags follow",
        )
    options: list[str] = []
    lists: dict[str, list[str]] = {"--match": [], "--exclude": []}
    rest = iter(words[2:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name in lists:
            lists[name].append(value if equals else next(rest, ""))
        elif name in ("--abbrev", "--candidates"):
            value = value if equals or name == "--abbrev" else next(rest, "")
            if name == "--candidates" and value.isdigit():
                options.append(f"--candidates={value}")
        elif word in _FLAGS:
            if word not in ("--long", "--dirty", "--always"):
                options.append(word)
        elif not name.startswith("--dirty"):
            raise PreflightError(
                f"the tree's describe command has {word}, which is not known here",
                where=where,
                expected="options that choose tags: --match, --exclude, --tags, --all, --first-parent, --candidates",
                action="set build.tag_match in the matrix to the pattern that its tags follow",
            )
    return TagRule(tuple(options), tuple(lists["--match"]), tuple(lists["--exclude"]), stated=where, **shape)


def project_settings(tree: Path) -> dict[str, Any]:
    """What pyproject.toml of a tree says; nothing where there is none.

    :raises PreflightError: it cannot be read.
    """
    path = tree / "pyproject.toml"
    if not path.is_file() or path.stat().st_size > MAX_SETTINGS:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PreflightError(f"cannot be read: {error}", where=str(path.name), action="mend the tree") from error


def table_of(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table in it; an empty one where there is none, or something else."""
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
