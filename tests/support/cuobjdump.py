"""NVIDIA's own lister of device code, as the reference that our readers are held against.

It comes with the PyPI package ``nvidia-cuda-cuobjdump``.  It prints ``sm_120`` for sm_120f: the ``f`` is dropped.
"""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import files
from pathlib import Path

from qualify.facts import EntryKind, Member

_LINE = re.compile(r"^(ELF|PTX) file +\d+: .*\.(sm_\d+[a-z]?)\.(?:cubin|ptx)$")


def program() -> Path:
    """Where the package put the program."""
    for file in files("nvidia-cuda-cuobjdump") or ():
        if file.name == "cuobjdump":
            return Path(str(file.locate()))
    raise FileNotFoundError("the package nvidia-cuda-cuobjdump holds no program")


def listed(path: Path) -> dict[str, list[str]]:
    """``{"ELF": ["sm_90a", …], "PTX": […]}`` in the order of the file."""
    found: dict[str, list[str]] = {"ELF": [], "PTX": []}
    for option in ("--list-elf", "--list-ptx"):
        done = subprocess.run([program(), "--all-fatbin", option, path], capture_output=True, text=True, check=False)
        if done.returncode and "does not contain device code" not in done.stderr and "No PTX file" not in done.stderr:
            raise AssertionError(f"cuobjdump ended with {done.returncode}: {done.stderr}")
        for line in done.stdout.splitlines():
            if match := _LINE.match(line):
                found[match[1]].append(match[2])
    return found


def ours(member: Member) -> dict[str, list[str]]:
    """The same two lists from our facts, with the ``f`` taken off."""
    entries = [entry for container in member.containers for entry in container.entries]
    names = {EntryKind.CUBIN: "ELF", EntryKind.PTX: "PTX"}
    found: dict[str, list[str]] = {"ELF": [], "PTX": []}
    for entry in entries:
        found[names[entry.kind]].append(entry.architecture.replace("compute_", "sm_").removesuffix("f"))
    return found
