"""What a loader searches for a symbol of one binary: the libraries that its DT_NEEDED entries bring in, all the way.

``dlopen`` searches the global scope (the program, what it was linked with, what was opened ``RTLD_GLOBAL``) and then
the binary itself and its dependencies, breadth first (``dlopen(3)``; gABI, chapter 5, "Shared Object Dependencies").
Python opens extensions ``RTLD_LOCAL``, so that neither torch's libraries nor another extension of the same wheel is in
the global scope: each has to be reached through DT_NEEDED.  ``import torch`` opens one library globally,
``libtorch_global_deps.so``, which depends on libraries of others (``torch/__init__.py``, ``_load_global_deps``).

Python binds at once (``RTLD_NOW``), so every symbol that is not weak has to be found, called or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from qualify.errors import UnverifiedError
from qualify.facts import Member, WheelFacts
from qualify.linking.index import ExportIndex, library_name
from qualify.linking.names import TORCH_NAMESPACES, namespace
from qualify.readers.binary import Budget

_GLOBAL = "libtorch_global_deps.so"
#: Steps from one library to another that are taken for one wheel.  scipy's 110 extensions take 4000, torch's own 600.
MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Scope:
    """The libraries that one binary reaches."""

    own: tuple[Member, ...]  # of the wheel, the binary itself included
    torch: tuple[str, ...]  # of the torch wheel, by soname
    others: frozenset[str]  # sonames that neither wheel holds


@dataclass(frozen=True)
class Wheel:
    """A wheel's binaries as a loader sees them, beside a torch wheel's libraries where one is given."""

    facts: WheelFacts
    torch: ExportIndex | None = None
    budget: Budget = field(default_factory=lambda: Budget(MOST_STEPS), compare=False)

    def step(self, count: int = 1) -> None:
        """Account for work that a wheel made to exhaust time could ask for without end.

        :raises UnverifiedError: there was too much of it.
        """
        if not self.budget.take(count):
            raise UnverifiedError(f"its binaries depend on each other in more than {MOST_STEPS} ways")

    @cached_property
    def binaries(self) -> tuple[Member, ...]:
        """Members that a loader loads: shared objects and executables."""
        return tuple(each for each in self.facts.members if each.elf is not None and each.elf.type in ("dyn", "exec"))

    @cached_property
    def by_name(self) -> Mapping[str, tuple[Member, ...]]:
        """Members by soname and by file name; several where folders hold libraries of one name."""
        found: dict[str, tuple[Member, ...]] = {}
        for member in self.binaries:
            for name in dict.fromkeys((library_name(member), member.path.rpartition("/")[2])):
                found[name] = (*found.get(name, ()), member)
        return found

    @cached_property
    def exports(self) -> Mapping[str, frozenset[str]]:
        """Path of a binary -> the names that it exports."""
        return {each.path: frozenset(each.elf.exports) for each in self.binaries if each.elf is not None}

    @cached_property
    def exporters(self) -> Mapping[str, str]:
        """Exported name -> the path of a member that exports it."""
        return {
            name: each.path for each in reversed(self.binaries) if each.elf is not None for name in each.elf.exports
        }

    @cached_property
    def torch_exporters(self) -> Mapping[str, str]:
        """Exported name -> the soname of a library of the torch wheel that exports it."""
        if self.torch is None:
            return {}
        return {name: library for library, names in sorted(self.torch.libraries.items()) for name in names}

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Outermost namespaces of what the wheel exports: its own, and those of headers that it was compiled with."""
        return frozenset(map(namespace, self.exporters)) - TORCH_NAMESPACES - {""}

    def scope(self, member: Member) -> Scope:
        """What is searched for the symbols of ``member``.

        A library that is brought in by another binary is searched for in that one's dependencies, not in its own
        (glibc, ``elf/dl-open.c``: every object that one ``dlopen`` loads gets the scope of the one that was asked for).
        Where several bring it in, which one comes first is not known, and any of them is taken to.
        """
        found = self._closures[member.path]
        if member.elf is None or member.elf.python_inits or member.elf.interpreter or member.elf.type != "dyn":
            return found
        scopes = (found, *self._bringing.get(member.path, ()))
        self.step(sum(len(each.own) + len(each.torch) + len(each.others) for each in scopes))
        return Scope(
            tuple({each.path: each for scope in scopes for each in scope.own}.values()),
            tuple(dict.fromkeys(name for scope in scopes for name in scope.torch)),
            frozenset().union(*(each.others for each in scopes)),
        )

    @cached_property
    def _bringing(self) -> Mapping[str, tuple[Scope, ...]]:
        """Path of a binary -> what is searched where others bring it in."""
        found: dict[str, list[Scope]] = {}
        for scope in self._closures.values():
            self.step(len(scope.own))
            for each in scope.own[1:]:
                found.setdefault(each.path, []).append(scope)
        return {path: tuple(scopes) for path, scopes in found.items()}

    @cached_property
    def _closures(self) -> Mapping[str, Scope]:
        return {each.path: self._closure(each) for each in self.binaries}

    def _closure(self, member: Member) -> Scope:
        own: dict[str, Member] = {member.path: member}
        torch: dict[str, None] = {}
        others: set[str] = set()
        libraries = self.torch.libraries if self.torch is not None else {}
        extension = member.elf is not None and member.elf.type == "dyn" and not member.elf.interpreter
        waiting = deque(_needed(member))
        if extension and _GLOBAL in libraries:
            waiting.append(_GLOBAL)
        seen: set[str] = set()
        while waiting:
            name = waiting.popleft()
            self.step()
            if name in seen:
                continue
            seen.add(name)
            if name in self.by_name:
                for each in self.by_name[name]:
                    if each.path not in own:
                        own[each.path] = each
                        waiting += _needed(each)
            elif self.torch is not None and name in libraries:
                torch[name] = None
                waiting += self.torch.needed.get(name, ())
            else:
                others.add(name)
        return Scope(tuple(own.values()), tuple(torch), frozenset(others))


def _needed(member: Member) -> Iterable[str]:
    return member.elf.needed if member.elf is not None else ()
