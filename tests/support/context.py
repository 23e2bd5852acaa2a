"""A reading context as ``opening`` makes it, and shorthands to read bytes that a test made."""

from __future__ import annotations

from qualify.decompress import Libraries
from qualify.facts import Member, Problem
from qualify.readers.binary import Limits, Problems
from qualify.readers.device import Context
from qualify.readers.members import read_member

LIBRARIES = Libraries()


def read(data: bytes, path: str = "x.so", limits: Limits | None = None) -> tuple[Member, tuple[Problem, ...]]:
    """The facts of one member and its problems."""
    problems = Problems(path)
    member = read_member(path, data, len(data), Context.make(LIBRARIES, limits), problems)
    return member, problems.finish()


def code(member: Member) -> dict[str, tuple[int, set[str], set[str]]]:
    """architecture -> entries, kernel names, function names."""
    found: dict[str, tuple[int, set[str], set[str]]] = {}
    for container in member.containers:
        for entry in container.entries:
            count, kernels, functions = found.get(entry.architecture, (0, set(), set()))
            kernels |= {member.symbols[index] for index in entry.kernels}
            functions |= {member.symbols[index] for index in entry.functions}
            found[entry.architecture] = (count + 1, kernels, functions)
    return found
