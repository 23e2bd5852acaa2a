"""The true manylinux tag of a wheel, from the floors that its binaries have, and the wheel under that tag.

PEP 600: ``manylinux_X_Y`` says that the wheel works where glibc is X.Y or newer, with the few libraries that every
such system has.  The rows are those of auditwheel's policies for x86_64 and aarch64 (a test compares them).
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from qualify.errors import BuildError
from qualify.facts import Elf, WheelFacts

Number = tuple[int, ...]

# Newest symbol version that each policy allows: (glibc, GLIBCXX, CXXABI, GCC).
POLICIES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "x86_64": (
        ("2.17", "3.4.19", "1.3.7", "4.8.0"),
        ("2.24", "3.4.22", "1.3.10", "4.8.0"),
        ("2.26", "3.4.22", "1.3.10", "4.8.0"),
        ("2.27", "3.4.24", "1.3.11", "7.0.0"),
        ("2.28", "3.4.24", "1.3.11", "7.0.0"),
        ("2.31", "3.4.28", "1.3.12", "7.0.0"),
        ("2.34", "3.4.29", "1.3.13", "7.0.0"),
        ("2.35", "3.4.30", "1.3.13", "12.0.0"),
        ("2.36", "3.4.30", "1.3.13", "12.0.0"),
        ("2.38", "3.4.30", "1.3.13", "12.0.0"),
        ("2.39", "3.4.33", "1.3.15", "14.0.0"),
        ("2.40", "3.4.33", "1.3.15", "14.0.0"),
        ("2.41", "3.4.33", "1.3.15", "14.0.0"),
    ),
    "aarch64": (
        ("2.17", "3.4.19", "1.3.7", "4.7.0"),
        ("2.24", "3.4.22", "1.3.10", "4.7.0"),
        ("2.26", "3.4.24", "1.3.11", "7.0.0"),
        ("2.27", "3.4.24", "1.3.11", "7.0.0"),
        ("2.28", "3.4.24", "1.3.11", "7.0.0"),
        ("2.31", "3.4.28", "1.3.12", "7.0.0"),
        ("2.34", "3.4.29", "1.3.13", "11.0"),
        ("2.35", "3.4.30", "1.3.13", "11.0"),
        ("2.36", "3.4.30", "1.3.13", "11.0"),
        ("2.38", "3.4.30", "1.3.13", "11.0"),
        ("2.39", "3.4.33", "1.3.15", "14.0.0"),
        ("2.40", "3.4.33", "1.3.15", "14.0.0"),
        ("2.41", "3.4.33", "1.3.15", "14.0.0"),
    ),
}
# Libraries that every manylinux system has, less those that no compiled extension of ours should take for granted.
SYSTEM_LIBRARIES = (
    *("libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libutil.so.1"),
    *("libresolv.so.2", "libanl.so.1", "libnsl.so.1", "libgcc_s.so.1", "libstdc++.so.6", "libatomic.so.1"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
)
_FAMILIES = ("GLIBC", "GLIBCXX", "CXXABI", "GCC")
_NAMED = {"GLIBC_ABI_DT_RELR": "GLIBC_2.36"}  # a feature of glibc 2.36 that is asked for by name


@dataclass(frozen=True, slots=True)
class Tagging:
    """The platform tag that is true, and why: "" where none is, with the reason."""

    tag: str
    floors: dict[str, str]  # GLIBC -> "2.28", GLIBCXX -> "3.4.24", …: the highest that any member asks for
    reason: str


def true_tag(facts: WheelFacts, machine: str, provided: tuple[str, ...] = ()) -> Tagging:
    """The oldest manylinux policy that holds for every binary of a wheel.

    :param provided: file names, or patterns of them, of libraries that a dependency brings (torch, say).
    """
    binaries = [member.elf for member in facts.members if member.elf is not None and member.elf.machine != "cuda"]
    if not binaries:
        return Tagging("", {}, "nothing in it is compiled")
    foreign = sorted({binary.machine for binary in binaries} - {machine})
    if foreign:
        return Tagging("", {}, f"it holds binaries of {', '.join(foreign)}, not only of {machine}")
    floors, unknown = _floors(binaries)
    shown = {family: ".".join(map(str, number)) for family, number in floors.items()}
    if unknown:
        return Tagging("", shown, f"no policy knows the symbol version {unknown[0]}")
    own = {member.path.rsplit("/", 1)[-1] for member in facts.members if member.elf is not None}
    own |= {binary.soname for binary in binaries}
    outside = sorted(
        {
            name
            for binary in binaries
            for name in binary.needed
            if name not in own
            and name not in SYSTEM_LIBRARIES
            and not any(fnmatchcase(name, pattern) for pattern in provided)
        }
    )
    if outside:
        return Tagging("", shown, f"it needs {', '.join(outside)}, which no manylinux system has to have")
    for row in POLICIES[machine]:
        if all(floors.get(family, ()) <= _number(limit) for family, limit in zip(_FAMILIES, row, strict=True)):
            tag = f"manylinux_{row[0].replace('.', '_')}_{machine}"
            return Tagging(tag, shown, "the oldest policy under which every symbol version is had")
    return Tagging("", shown, "no known policy allows its symbol versions")


def glibc_of(tag: str) -> Number:
    """``manylinux_2_28_x86_64`` -> (2, 28)."""
    return tuple(int(part) for part in tag.split("_")[1:3])


def retag(wheel: Path, platform: str) -> Path:
    """The same wheel under another platform tag, by ``wheel tags``: file name, WHEEL and RECORD change together.

    The old file is gone afterwards.

    :raises BuildError: ``wheel tags`` would not.
    """
    done = subprocess.run(
        [sys.executable, "-m", "wheel", "tags", "--platform-tag", platform, "--remove", wheel.name],
        cwd=wheel.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    made = wheel.parent / (lines[-1] if lines else "")
    if done.returncode != 0 or not made.is_file():
        raise BuildError(
            f"wheel tags failed: {(done.stderr or done.stdout).strip()}",
            where=wheel.name,
            expected=f"the tag {platform}",
            action="python -m pip install 'wheel>=0.45'",
        )
    return made


def _floors(binaries: list[Elf]) -> tuple[dict[str, Number], list[str]]:
    """The highest number for each family of symbol versions, and versions that are none of them."""
    floors: dict[str, Number] = {}
    unknown: set[str] = set()
    for need in {need for binary in binaries for need in binary.version_needs}:
        if need.library not in SYSTEM_LIBRARIES:
            continue
        family, _, text = _NAMED.get(need.version, need.version).partition("_")
        number = _number(text)
        if family not in _FAMILIES or not number:
            unknown.add(need.version)
        else:
            floors[family] = max(floors.get(family, ()), number)
    return floors, sorted(unknown)


def _number(text: str) -> Number:
    parts = text.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
