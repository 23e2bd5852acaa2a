"""One wheel that is a single fault away from a good one, or looks like one; and what it is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from qualify.facts import WheelFacts
from qualify.judging import Context
from qualify.linking.index import ExportIndex
from qualify.matrix.model import Code, Profile
from qualify.provenance import Receipt
from tests.unit.judging_support import HOPPER, context


@dataclass(frozen=True)
class Case:
    """A wheel, the check that has to speak, and how it is judged."""

    name: str
    make: Callable[[], WheelFacts]
    code: str = ""  # the check that has to speak; "" for a near miss
    target: str = HOPPER
    profile: Profile = Profile.RELEASE
    require: Code | None = None
    control: Callable[[], WheelFacts] | None = None  # the wheel that it is held against
    torch: Callable[[], ExportIndex] | None = None  # what the torch exports that it is linked with
    receipt: Callable[[WheelFacts], Receipt] | None = None  # what lies beside the wheel as its receipt
    extensions: Mapping[str, object] = field(default_factory=dict)  # added to the expectations of the tests' matrix
    matrix: Mapping[str, object] = field(default_factory=dict)  # keys of the matrix that differ from the tests' own

    def context(self) -> Context:
        """What :func:`qualify.judging.judge` takes."""
        made = context(
            self.target,
            self.profile,
            self.require,
            self.extensions,
            control=self.control() if self.control else None,
            torch=self.torch() if self.torch else None,
            **self.matrix,
        )
        return replace(made, receipt=self.receipt(self.make())) if self.receipt else made
