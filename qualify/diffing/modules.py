"""Members that are the same thing in two wheels: by where an installer puts them, not by how their file is called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from qualify.facts import EntryKind, Member, MemberKind, WheelFacts, installed_path, module_path
from qualify.kernelnames import respelt

_VERSIONED = re.compile(r"[^/]+\.(dist-info|data)/")
# What auditwheel puts into the name of a library that it copies in: eight digits of its sha256.
_REPAIRED = re.compile(r"(?<=\.libs/)([^/]+?)-[0-9a-f]{8}(?=[^/]*$)")


def comparable_path(path: str) -> str:
    """An installed path without the version: ``vllm-0.33.0.dist-info/LICENSE`` is ``.dist-info/LICENSE``."""
    return _VERSIONED.sub(r".\1/", installed_path(path), count=1)


def comparable_module(path: str) -> str:
    """A compiled member's module path, without the version and without the hash that a repair tool put in."""
    return _REPAIRED.sub(r"\1", comparable_path(module_path(path)))


@dataclass(frozen=True)
class Module:
    """The compiled members of one module path: one, or several side by side, for an interpreter each."""

    path: str
    members: tuple[Member, ...]

    @property
    def size(self) -> int:
        """Inflated bytes."""
        return sum(member.size for member in self.members)

    @property
    def has_device_code(self) -> bool:
        """Whether there is a kernel, or an entry of which nobody knows whether it holds one."""
        return bool(self.kernels or self.unread)

    @cached_property
    def kernels(self) -> Mapping[str, frozenset[str]]:
        """Architecture -> mangled kernel names, as written.  ``lto_90``: LTO-IR, whose kernels no reader knows."""
        found: dict[str, set[str]] = {}
        for member in self.members:
            indices: dict[str, set[int]] = {}
            for container in member.containers:
                for entry in container.entries:
                    if entry.kind is EntryKind.LTO_IR:
                        indices.setdefault(entry.architecture.replace("compute_", "lto_"), set())
                    elif entry.readable and entry.kernels:
                        indices.setdefault(entry.architecture, set()).update(entry.kernels)
            symbols = member.symbols
            for architecture, numbers in indices.items():
                found.setdefault(architecture, set()).update([symbols[number] for number in numbers])
        return {architecture: frozenset(names) for architecture, names in found.items()}

    @cached_property
    def unread(self) -> Mapping[str, int]:
        """Architecture -> entries whose kernels could not be read; "unknown" where that isn't known either."""
        found: dict[str, int] = {}
        for member in self.members:
            for container in member.containers:
                for entry in container.entries:
                    if not entry.readable and entry.kind is not EntryKind.LTO_IR:
                        name = entry.architecture or "unknown"
                        found[name] = found.get(name, 0) + 1
        return found

    @cached_property
    def respelt(self) -> Mapping[str, tuple[str, str]]:
        """Of the kernels' names, those that differ from build to build: see :func:`qualify.kernelnames.respelt`."""
        return respelt({name for member in self.members for name in member.symbols})

    def count(self, architecture: str) -> int:
        """How many kernels there are on one architecture: names that are one kernel count once."""
        names, several = self.split(architecture)
        return len(names) + sum(several.values())

    def split(self, architecture: str) -> tuple[frozenset[str], Mapping[str, int]]:
        """The kernels on one architecture whose names every build spells so, and the others by normalised name.

        A number above 1: files of one name in several folders each have a kernel of that name.
        """
        names = self.kernels.get(architecture, frozenset())
        changed = names & self.respelt.keys()
        if not changed:
            return names, {}
        sources: dict[str, set[str]] = {}
        for name in changed:
            text, source = self.respelt[name]
            sources.setdefault(text, set()).add(source)
        return names - changed, {text: len(each) for text, each in sources.items()}


def modules_of(facts: WheelFacts) -> Mapping[str, Module]:
    """The compiled members of a wheel by module path, in the wheel's order."""
    found: dict[str, list[Member]] = {}
    for member in facts.members:
        if member.kind is not MemberKind.DATA:
            found.setdefault(comparable_module(member.path), []).append(member)
    return {path: Module(path, tuple(members)) for path, members in found.items()}


Split = tuple[frozenset[str], Mapping[str, int]]


def fewer(these: Split, those: Split) -> tuple[str, ...]:
    """Kernels that ``those`` lack, sorted; a name that stands for several and has fewer there says so."""
    (names, several), (other_names, other_several) = these, those
    found = list(names - other_names)
    for name, count in several.items():
        left = count - other_several.get(name, 0)
        if left > 0:
            found.append(name if left == count else f"{name} ({left} of {count})")
    return tuple(sorted(found))
