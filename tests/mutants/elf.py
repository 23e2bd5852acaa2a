"""Wheels with one fault that the checks ELF are for."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.mutants.making import (
    with_host,
)
from tests.support.wheel import TAG

MUTANTS = (Case("a binary of the other machine", lambda: with_host(TAG, machine="aarch64"), "ELF001"),)
