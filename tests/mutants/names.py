"""Wheels with one fault that the checks NAM are for."""

from __future__ import annotations

from qualify.matrix.model import Profile
from tests.mutants.case import Case
from tests.mutants.making import (
    metadata,
    with_info_folder,
)
from tests.support.wheel import TAG, wheel_filename, wheel_members
from tests.unit.judging_support import archive, wheel


def _built(line: str) -> str:
    return f"Wheel-Version: 1.0\nGenerator: maker (1)\nRoot-Is-Purelib: false\nTag: {TAG}\n{line}\n"


MUTANTS = (
    Case("no WHEEL", lambda: wheel(omit=["axpy-0.1.0.dist-info/WHEEL"]), "NAM001"),
    Case("another name in METADATA", lambda: wheel(metadata=metadata("Name: axpi", "Version: 0.1.0")), "NAM002"),
    Case("another version in METADATA", lambda: wheel(metadata=metadata("Name: axpy", "Version: 0.1.1")), "NAM003"),
    Case(
        "a local version in the file name alone",
        lambda: archive(wheel_members(), wheel_filename(version="0.1.0+cu130")),
        "NAM003",
        profile=Profile.UPSTREAM,
    ),
    Case(
        "a retag of the file name alone",
        lambda: wheel(wheel="Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: cp311-abi3-linux_x86_64\n"),
        "NAM004",
    ),
    Case("a dist-info folder of another version", lambda: with_info_folder("axpy-0.1.1.dist-info"), "NAM005"),
    Case(
        "a wheel format that no installer knows",
        lambda: wheel(wheel=f"Wheel-Version: 2.0\nRoot-Is-Purelib: false\nTag: {TAG}\n"),
        "NAM006",
    ),
    Case(
        "a build tag in the file name alone",
        lambda: archive(wheel_members(), wheel_filename(tag=f"1-{TAG}")),
        "NAM007",
    ),
    Case("a build tag in WHEEL alone", lambda: wheel(wheel=_built("Build: 2")), "NAM007"),
)

NEAR_MISSES = (
    Case(
        "a build tag in both",
        lambda: archive(wheel_members(wheel=_built("Build: 1_cu130")), wheel_filename(tag=f"1_cu130-{TAG}")),
    ),
)
