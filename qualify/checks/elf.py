"""The host's side of every binary."""

from __future__ import annotations

from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.checks.tags import machine_of, platforms

#: ELF machines whose files no host loads: CUDA, AMD GPUs, BPF.  They are data to the host.
_DEVICE_MACHINES = frozenset({"cuda", "em-190", "em-224", "em-247"})


@check("ELF001", "machine-differs")
def machine_differs(case: Case) -> Iterator[Observation]:
    """A binary is made for another machine than the wheel's platform tag says.

    Why: a cross build that picked up the host's libraries, or a precompiled binary copied from the other wheel,
    installs without a word and fails at import.

    Mend: build every part for the machine of the tag; look where the named member came from.
    """
    tagged = {machine for machine in map(machine_of, platforms(case)) if machine}
    wanted = {case.policy.machine} if case.policy.machine in tagged or not tagged else tagged
    for member in case.facts.members:
        elf = member.elf
        if elf is None or elf.machine in _DEVICE_MACHINES:
            continue
        if elf.machine not in wanted or elf.bits != 64 or not elf.little_endian:
            order = "" if elf.little_endian else ", big-endian"
            found = f"an ELF file of {elf.machine}, {elf.bits} bits{order}"
            expected = f"{' or '.join(sorted(wanted))}, 64 bits"
            yield Observation(member.path, found, expected, "find out which build step made it, and build it again")
