"""The plan: one frozen value with everything that decides the bytes of a wheel.

Engines act on a plan and decide nothing.  It prints as JSON and has a key, the sha256 of the part that decides the
bytes; how many jobs run, which machine it runs on, where local copies lie and how far upstream has gone since do not,
and enter no key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from builders.externals import External
from builders.requirements import Backend
from builders.toolsearch import Host, ToolDemand

PLAN_VERSION = 2
GB = 10**9

How = Literal["native", "cross", "emulate"]

# Fields that say where and how fast a build runs, or why it is as it is, and not what comes out of it.  What the matrix
# overrides stands in the requirements themselves.
_NOT_IN_KEY = frozenset(
    {"jobs", "memory_per_job", "disk", "host", "unread", "notes", "overrides", "compiler_cache", "refused_environment"}
)


@dataclass(frozen=True)
class PatchPlan:
    """A change to the tree; the order of patches is that of the plan."""

    file: str
    sha256: str


@dataclass(frozen=True)
class ForkPlan:
    """What the source adds to its upstream.  ``behind`` is how many commits upstream is ahead; -1 where nobody says."""

    repository: str
    base: str
    overlay: tuple[str, ...]  # "<commit> <subject>", the oldest first
    behind: int

    def words(self) -> str:
        """``3 overlay, 12 behind upstream``."""
        behind = f"{self.behind} behind upstream" if self.behind >= 0 else "how far behind upstream is not known"
        return f"{len(self.overlay)} overlay, {behind}"


@dataclass(frozen=True)
class CratesPlan:
    """The crates of one ``Cargo.lock``, which names each with its checksum or commit."""

    lock: str  # its path in the tree
    sha256: str
    registry: int  # how many come from a registry …
    git: int  # … and how many from git repositories


@dataclass(frozen=True)
class SourcePlan:
    """The source, without its place on this host."""

    kind: str
    commit: str
    commit_from: str
    version: str
    origin: str
    sha256: str


@dataclass(frozen=True)
class ToolkitPlan:
    """The CUDA toolkit; the version is the target's, the requirement what the package index is asked for."""

    version: str
    requirement: str
    exact: tuple[str, ...]  # its parts, each at its own version; () where this tool knows no pins for it


@dataclass(frozen=True)
class BasePlan:
    """The image that a Docker engine builds in, or what it is bootstrapped from."""

    image: str
    bootstrap: str
    digest: str  # of the image, as the lock of bases has it; "" where it isn't locked, and the bootstrap counts


@dataclass(frozen=True)
class Plan:
    """What will be built, for what, from what and with what.

    ``toolkit`` and ``torch_cuda`` are ``None`` / ``False`` where the shape of the build needs none.  ``environment`` is
    whole: what the matrix, the source, the arch list and ``--set`` say; nothing of the caller's own environment is in
    it.  ``MAX_JOBS`` and the variables of local copies are added by :meth:`build_environment`.
    """

    version: int
    project: str
    target: str
    machine: str
    compute_capability: str
    python: tuple[str, ...]
    how: How
    engine: str
    shape: str  # why this is not the target's ordinary build; "" where it is
    expects_device_code: bool
    label: str
    arch_variable: str
    arch_list: str
    architectures: tuple[str, ...]  # those of the arch list, each as it is written there
    source: SourcePlan
    patches: tuple[PatchPlan, ...]
    fork: ForkPlan | None
    crates: tuple[CratesPlan, ...]
    base: BasePlan
    toolkit: ToolkitPlan | None
    torch: str
    torch_cuda: bool
    backend: Backend
    requirements: tuple[str, ...]  # the tree's PEP 518 list, torch replaced by the target's
    without: Mapping[str, str]  # requirement that the shape of the build does without -> why
    overrides: tuple[str, ...]  # what the matrix adds to, removes from or replaces in the tree's list, each with why
    locked: tuple[str, ...]  # "<python>: <name>==<version> sha256:…" of requirements.lock.yaml; () where unlocked
    environment: Mapping[str, str]
    refused_environment: tuple[str, ...]
    tools: tuple[ToolDemand, ...]
    externals: tuple[External, ...]
    unread: tuple[str, ...]  # "file:line: why": CMake that could not be read, so its external sources are not known
    repair: str  # "auditwheel" or "tag"
    compiler_cache: str  # "ccache", or "" for none
    notes: tuple[str, ...]  # what a person should know, and nothing goes by
    jobs: int
    memory_per_job: int  # bytes that one job needs, all its compiler threads together
    disk: int  # bytes
    host: Host

    @property
    def needed_externals(self) -> tuple[External, ...]:
        return tuple(external for external in self.externals if external.needed)

    @property
    def holes(self) -> tuple[str, ...]:
        """What no fetch mends, for people: local copies that are no such source, and CMake that could not be read."""
        faulty = [f"{e.name}: {e.fault} ({e.copy})" for e in self.needed_externals if e.fault]
        return (*faulty, *(f"not looked at: {text}" for text in self.unread))

    @property
    def toolkit_requirements(self) -> tuple[str, ...]:
        """What the package index is asked for where the toolkit comes from it."""
        return (self.toolkit.requirement, *self.toolkit.exact) if self.toolkit else ()

    def build_environment(self) -> dict[str, str]:
        """``environment`` with the number of jobs; variables that point at sources are the room's."""
        return {**self.environment, "MAX_JOBS": str(self.jobs)}

    @staticmethod
    def outside_key() -> frozenset[str]:
        """The fields that decide no bytes."""
        return _NOT_IN_KEY

    def to_json(self) -> dict[str, Any]:
        """The whole plan with its key and its holes."""
        return {**asdict(self), "holes": list(self.holes), "key": self.key()}

    def key(self) -> str:
        """sha256 over the canonical JSON of everything that decides the bytes."""
        facts = {name: value for name, value in asdict(self).items() if name not in _NOT_IN_KEY}
        facts["externals"] = [
            asdict(replace(external, copy="", fault="", fetched_from="")) for external in self.externals
        ]
        if self.fork is not None:
            facts["fork"] = asdict(replace(self.fork, behind=-1))
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()
