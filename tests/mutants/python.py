"""Wheels with one fault that the checks PYT are for."""

from __future__ import annotations

from qualify.facts import WheelFacts
from qualify.matrix.model import Code
from tests.mutants.case import Case
from tests.mutants.making import (
    GOOD,
    foreign,
    metadata,
)
from tests.unit.judging_support import wheel


def side_by_side(*numbers: str, requires: str = ">=3.10") -> WheelFacts:
    """The good wheel with one ``axpy/_C`` for each interpreter, under a tag of the stable ABI of 3.10."""
    builds = {f"axpy/_C.cpython-{number}-x86_64-linux-gnu.so": {"sm_90": ["k"]} for number in numbers}
    lines = ("Name: axpy", "Version: 0.1.0", f"Requires-Python: {requires}")
    tag = "cp310-abi3-manylinux_2_28_x86_64"
    return wheel({**builds, "axpy/_host": {}}, tag=tag, metadata=metadata(*lines))


MUTANTS = (
    Case(
        "an extension for some of the target's Pythons",
        lambda: wheel(
            {
                "axpy/_C.cpython-311-x86_64-linux-gnu.so": {"sm_90": ["k"]},
                "axpy/_C.cpython-312-x86_64-linux-gnu.so": {"sm_90": ["k"]},
                "axpy/_host": {},
            }
        ),
        "PYT003",
    ),
    Case(
        "an extension that a cross build named after its own machine",
        lambda: wheel({**GOOD, "axpy/_host.cpython-312-aarch64-linux-gnu.so": {}}),
        "PYT003",
    ),
    Case(
        "another project's extension for another interpreter",
        lambda: foreign({"other/_C.pypy310-pp73-x86_64-linux-gnu.so": {}}),
        "PYT003",
        require=Code.HOST,
    ),
    Case("a tag for one Python", lambda: wheel(tag="cp312-cp312-manylinux_2_28_x86_64"), "PYT001"),
    Case(
        "a Requires-Python that leaves one out",
        lambda: wheel(metadata=metadata("Name: axpy", "Version: 0.1.0", "Requires-Python: >=3.12")),
        "PYT002",
    ),
    Case(
        "a Requires-Python that is none",
        lambda: wheel(metadata=metadata("Name: axpy", "Version: 0.1.0", "Requires-Python: three")),
        "PYT002",
    ),
    Case(
        "builds side by side, and a tag that another Python installs by",
        lambda: side_by_side("311", "312", "313", requires=">=3.10"),
        "PYT004",
    ),
)

NEAR_MISSES = (
    Case("builds side by side for all that install them", lambda: side_by_side("310", "311", "312", "313")),
    Case(
        "builds side by side, and a Requires-Python that keeps the others away",
        lambda: side_by_side("311", "312", "313", requires=">=3.11"),
    ),
)
