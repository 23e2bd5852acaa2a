"""What the checks are handed: a wheel's facts, what a target asks, and the coverage that follows from both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from qualify.arch import ComputeCapability, DriverAnswer
from qualify.checks.needs import above_ceilings, importable
from qualify.coverage import MemberKernels, entry_driver, kernels_of
from qualify.diffing.parity import Parity, parity
from qualify.facts import Entry, Member, MemberKind, WheelFacts, installed_path
from qualify.facts import module_path as module_path
from qualify.linking.link import Link
from qualify.linking.torchpin import TorchPin, torch_pin
from qualify.matrix.model import Ceilings, Code, Expectation, JitOk, Pin, Presence, Profile, Project, Waiver
from qualify.provenance import Receipt
from qualify.report import Finding
from qualify.waivers import Held, hold

if TYPE_CHECKING:
    from qualify.linking.index import ExportIndex

#: Kinds that hold compiled code, of the host or of the device.
COMPILED = frozenset(MemberKind) - {MemberKind.DATA}


@dataclass(frozen=True, slots=True)
class Policy:
    """What one target asks of a wheel, for one profile."""

    target: str
    machine: str  # "x86_64", "aarch64"
    device: ComputeCapability
    profile: Profile
    require: Code | None = None  # replaces the expectations' ``code`` for this run
    python: tuple[str, ...] = ()  # "3.12"; empty: not asked
    ceilings: Ceilings | None = None
    oldest_cuda: str = ""  # "13.0"; empty: the target promises no driver
    project: Project | None = None  # None: the matrix does not name the wheel's project
    pin: Pin | None = None
    labels: tuple[str, ...] = ()  # that the matrix's targets put into the local version
    expectations: Mapping[str, Expectation] = field(default_factory=dict)  # member path without suffix -> expectation
    libraries: Mapping[str, str] = field(default_factory=dict)  # fnmatch pattern of a soname that the target provides
    control_required: bool = False  # in this profile, what the control has must not be lost
    waivers: tuple[Waiver, ...] = ()  # all of the matrix's; which of them hold depends on the wheel

    @property
    def named(self) -> bool:
        """Whether the matrix names the wheel's project, so that expectations and pin hold for it."""
        return self.project is not None


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of one member's device code.  ``code`` None: nothing says what the member needs."""

    code: Code | None
    jit_ok: tuple[JitOk, ...] = ()
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One wheel held against one target."""

    facts: WheelFacts
    policy: Policy
    control: WheelFacts | None = None  # the wheel that this one is held against
    torch: ExportIndex | None = None  # what the torch wheel exports that this one is to be linked with
    receipt: Receipt | None = None  # what lies beside the wheel as the receipt of its build
    findings: tuple[Finding, ...] = ()  # of all other checks, for those that run after them
    crashed: frozenset[str] = frozenset()  # codes of the checks that failed themselves

    @property
    def has_wheel_name(self) -> bool:
        """Whether the file name is a wheel's.  One that isn't says nothing that could differ; ARC001 rejects it."""
        return bool(self.facts.name)

    @cached_property
    def link(self) -> Link:
        """Undefined symbols and who defines them, against ``torch`` where one is given."""
        return Link(self.facts, self.torch)

    @cached_property
    def parity(self) -> Parity | None:
        """What the target runs of this wheel and of its control; None without a control that says something."""
        control = self.control
        if control is None or control.sha256 == self.facts.sha256 or control.name != self.facts.name:
            return None
        return parity(self.facts, control, self.policy.device, self.policy.oldest_cuda)

    @cached_property
    def torch_pins(self) -> tuple[TorchPin, ...]:
        """What METADATA lets an installer take as torch, for the target's Pythons; () where it asks for none."""
        lines = self.facts.dist_info.requires_dist if self.facts.dist_info is not None else ()
        found = [torch_pin(lines, self.policy.machine, python) for python in self.pythons or ("3.12",)]
        return tuple({pin.text: pin for pin in found if pin is not None}.values())

    @cached_property
    def compiled(self) -> tuple[Member, ...]:
        """Members with compiled code of any kind."""
        return tuple(member for member in self.facts.members if member.kind in COMPILED)

    @cached_property
    def kernels(self) -> Mapping[str, MemberKernels]:
        """Coverage by architecture alone, of every compiled member."""
        return MappingProxyType({m.path: kernels_of(m, self.policy.device) for m in self.compiled})

    @cached_property
    def under_driver(self) -> Mapping[str, MemberKernels]:
        """Coverage without the entries that the oldest promised driver does not take."""
        return self._cover(frozenset({DriverAnswer.NO}))

    @cached_property
    def surely_under_driver(self) -> Mapping[str, MemberKernels]:
        """Coverage by the entries alone that the oldest promised driver takes for sure."""
        return self._cover(frozenset({DriverAnswer.NO, DriverAnswer.UNKNOWN}))

    @cached_property
    def _driver_answers(self) -> Mapping[str, frozenset[DriverAnswer]]:
        """What the oldest promised driver says to the entries of each compiled member; nothing without a promise."""
        oldest = self.policy.oldest_cuda
        return {
            member.path: frozenset(entry_driver(e, oldest) for c in member.containers for e in c.entries)
            if oldest
            else frozenset()
            for member in self.compiled
        }

    def _cover(self, refused: frozenset[DriverAnswer]) -> Mapping[str, MemberKernels]:
        policy = self.policy

        def taken(entry: Entry) -> bool:
            return entry_driver(entry, policy.oldest_cuda) not in refused

        # A member of which no entry is refused is covered as before: covering is the dear part of a judgement.
        return MappingProxyType(
            {
                m.path: kernels_of(m, policy.device, taken)
                if self._driver_answers[m.path] & refused
                else self.kernels[m.path]
                for m in self.compiled
            }
        )

    @cached_property
    def pythons(self) -> tuple[str, ...]:
        """The target's Python versions; without any, those that the tags name; () where a tag names no single one."""
        tagged = [re.fullmatch(r"cp(3)([0-9]+)-cp3[0-9]+-.*", tag) for tag in self.facts.tags]
        named = [f"{match[1]}.{match[2]}" for match in tagged if match]
        return self.policy.python or (tuple(named) if len(named) == len(tagged) else ())

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The matrix's waivers, each with its standing for this wheel on this target."""
        policy = self.policy
        return hold(policy.waivers, self.facts, policy.target, policy.project, policy.pin, policy.labels, self.receipt)

    def expectation(self, path: str) -> Expectation | None:
        """The matrix's entry for a member, by its path with or without the suffix."""
        expectations = self.policy.expectations
        return expectations.get(installed_path(path)) or expectations.get(module_path(path))

    def demand(self, path: str) -> Demand:
        """What is asked of a member's device code, ``require`` included."""
        expectation = self.expectation(path)
        require = self.policy.require
        code = None if expectation is None else expectation.code_for(self.policy.profile)
        if require is Code.HOST or require is Code.ANY:
            # Without a matrix nothing is expected of a single member, so there is nothing to replace.
            return Demand(require if self.policy.named else None)
        if require is not None:
            # A member that ought to hold code and holds none is asked as well: an empty shell is no excuse.
            asked = self.kernels[path].has_kernels or code in (Code.NATIVE, Code.JIT)
            listed = expectation.kernels if expectation is not None and require is Code.NATIVE else ()
            return Demand(require, kernels=listed) if asked else Demand(code)
        if expectation is None:
            return Demand(None)
        return Demand(code, expectation.jit_ok, expectation.kernels)

    def demanded(self, *codes: Code) -> Iterator[tuple[MemberKernels, Demand]]:
        """Compiled members of whom one of ``codes`` is asked, with their coverage."""
        for member in self.compiled:
            demand = self.demand(member.path)
            if demand.code in codes:
                yield self.kernels[member.path], demand

    def required(self) -> Iterator[str]:
        """Module paths that must be there in this profile."""
        for path, expectation in self.policy.expectations.items():
            if expectation.presence_for(self.policy.profile) is Presence.REQUIRED:
                yield path

    def usable(self, coverage: Mapping[str, MemberKernels]) -> tuple[MemberKernels, ...]:
        """Of ``coverage``, the members that the target can load and of which at least one kernel runs.

        A static library is loaded by nobody: its code has to be linked first.
        """
        ceilings = self.policy.ceilings
        loadable = [member for member in self.compiled if member.kind is not MemberKind.ARCHIVE]
        loading = [
            member
            for member in loadable
            if not above_ceilings(member, ceilings) and importable(member, self.policy.machine, self.pythons)
        ]
        return tuple(coverage[member.path] for member in loading if runs(coverage[member.path]))

    def not_judged(self) -> tuple[str, ...]:
        """Members with device code that does not run here, and of which nothing says whether it has to."""
        usable = {kernels.member for kernels in self.usable(self.under_driver)}
        return tuple(
            f"{path}: need unknown"
            for path, kernels in self.under_driver.items()
            if kernels.has_kernels and self.demand(path).code is None and path not in usable
        )


def runs(kernels: MemberKernels) -> bool:
    """Whether at least one kernel runs, natively or by JIT."""
    return any(best.native or best.value == "jit" for best in kernels.best.values())


def examples(names: tuple[str, ...], count: int = 2, width: int = 72) -> str:
    """A few names for a finding: the first ones, shortened, with the number of those left out."""
    shown = [name if len(name) <= width else name[: width - 1] + "…" for name in names[:count]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
