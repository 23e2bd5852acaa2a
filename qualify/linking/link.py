"""One wheel's link, all of it: each binary resolved, and how each uses torch.  Worked out once for all checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from qualify.errors import UnverifiedError
from qualify.facts import Member, WheelFacts
from qualify.linking.index import ExportIndex
from qualify.linking.nearest import Nearest
from qualify.linking.resolve import Resolution, Resolver
from qualify.linking.scope import Wheel
from qualify.linking.tables import release_of
from qualify.linking.torchuse import TorchUse, torch_use


@dataclass(frozen=True)
class Link:
    """A wheel beside a torch wheel's exports, or without."""

    facts: WheelFacts
    torch: ExportIndex | None = None

    @cached_property
    def wheel(self) -> Wheel:
        return Wheel(self.facts, self.torch)

    @property
    def resolutions(self) -> tuple[Resolution, ...]:
        """Of every binary of torch's machine; of all of them without a torch.  None at all where that is too much."""
        return self._resolved[0]

    @property
    def unlooked(self) -> str:
        """Why nothing was resolved; "" where it was."""
        return self._resolved[1]

    @cached_property
    def _resolved(self) -> tuple[tuple[Resolution, ...], str]:
        try:
            return self._resolve(), ""
        except UnverifiedError as error:
            return (), error.what

    def _resolve(self) -> tuple[Resolution, ...]:
        resolver = Resolver(self.wheel)
        machine = self.torch.machine if self.torch is not None else ""
        return tuple(
            resolver.resolve(each)
            for each in self.wheel.binaries
            if each.elf is not None and machine in ("", each.elf.machine)
        )

    @cached_property
    def uses(self) -> Mapping[str, TorchUse]:
        """Path of a binary that needs torch -> what it asks for."""
        found = {each.path: self._use(each) for each in self.wheel.binaries}
        return {path: use for path, use in found.items() if use.needs_torch}

    def _use(self, member: Member) -> TorchUse:
        if member.elf is None:
            return TorchUse((), (), ())
        return torch_use(member.elf, self.wheel.exporters)

    @cached_property
    def minimum(self) -> tuple[str, str, tuple[str, ...]]:
        """The least torch release that has all stable functions that the wheel calls, a binary that asks for it, and
        the functions that do; empty where no binary calls one.
        """
        rows = [(*use.minimum(), path) for path, use in self.uses.items()]
        known = [(release, path, names) for release, names, path in rows if release]
        return max(known, key=lambda row: release_of(row[0]), default=("", "", ()))

    @cached_property
    def nearest(self) -> Nearest | None:
        return Nearest(self.torch) if self.torch is not None else None
