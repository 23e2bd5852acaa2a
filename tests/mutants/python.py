"""Wheels with one fault that the checks PYT are for."""

from __future__ import annotations

from qualify.matrix.model import Code
from tests.mutants.case import Case
from tests.mutants.making import (
    GOOD,
    foreign,
    metadata,
)
from tests.unit.judging_support import wheel

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
)
