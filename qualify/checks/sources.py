"""Sources that a package compiles where it runs, by the architectures in their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from qualify.arch import ComputeCapability, RealArchitecture, Suffix, Support, support
from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.facts import MemberKind, installed_path
from qualify.report import Severity

#: What nvcc, NVRTC and the Python front ends (CuTe DSL, Triton) compile; templates of such files.
_SOURCE = re.compile(r"\.(?:cu|cuh|h|hh|hpp|hxx|inl|inc|c|cc|cpp|cxx|ptx|py|jinja|j2|in|tmpl)$")
# "sm100", "SM_90a", "sm12x" as a word of its own: `fmha_sm100_plan.cu`, `sm90/`, `mma_sm120.hpp`.
_NAME = re.compile(r"(?<![A-Za-z0-9])sm_?(?P<digits>[1-9][0-9x]{1,2})(?P<suffix>[af]?)(?![A-Za-z0-9])", re.IGNORECASE)
#: From 9.0 on tensor cores have instructions that no later major keeps (wgmma, tcgen05); sources for earlier ones are
#: written in what every later one has.
_FIRST_SPECIFIC = 90
_MOST = 12  # folders that are named one by one
_ACTION = "find out what is used there instead"


@check("DEV013", "sources-not-for-target", upstream=Severity.NOTE, release=Severity.NOTE)
def sources_not_for_target(case: Case) -> Iterator[Observation]:
    """Sources in a package are named for architectures, and none of them for the target's.

    Why: what a package compiles at first use (DeepGEMM, FlashInfer, CuTe DSL) stands in no fat binary: the wheel may
    look covered, and the call ends with `unsupported architecture`, or at a slower kernel. The names are all that is
    looked at, by folder: sm120 covers 12.1 by the rules of `qualify/arch.py`, sm100 covers neither 11.0 nor 12.0, and a
    source for 8.9 or less is written in what every later GPU has.

    Mend: nothing, where the package does without; otherwise find out what it takes there instead.
    """
    device = case.policy.device
    expected = f"sm_{device.number}, or one that covers compute capability {device}"
    lacking = {
        folder: names
        for folder, names in _by_folder(case).items()
        if any(_number(name) >= _FIRST_SPECIFIC for name in names) and not any(_covers(name, device) for name in names)
    }
    largest = sorted(lacking, key=lambda folder: (-sum(lacking[folder].values()), folder))
    for folder in sorted(largest[:_MOST]):
        names = lacking[folder]
        there = ", ".join(f"{name} ({names[name]})" for name in sorted(names, key=_number))
        yield Observation(folder, f"sources named for {there}", expected, _ACTION)
    if len(largest) > _MOST:
        yield Observation("", f"{len(largest) - _MOST} more folders of such sources, with fewer", expected, _ACTION)


def _by_folder(case: Case) -> Mapping[str, Mapping[str, int]]:
    """Folder -> architecture as names spell it ("sm_100", "sm_12x") -> number of sources."""
    shown: dict[str, str] = {}
    found: dict[str, dict[str, int]] = {}
    for member in case.facts.members:
        if "sm" not in member.path.lower() or member.kind is not MemberKind.DATA:
            continue
        path = installed_path(member.path)
        matches = list(_NAME.finditer(path)) if _SOURCE.search(path) else []
        if matches:
            folder, family = _family(path, matches[0].start())
            names = found.setdefault(shown.setdefault(family, folder), {})
            # Below a folder that has a name, the folder's counts: a copy of CUTLASS in fmha_sm100 is there for that.
            for name in _spelled(matches[:1] if path.find("/", matches[0].end()) >= 0 else matches):
                names[name] = names.get(name, 0) + 1
    return found


def _spelled(matches: list[re.Match[str]]) -> set[str]:
    return {f"sm_{match['digits'].lower()}{match['suffix'].lower()}" for match in matches}


def _family(path: str, first: int) -> tuple[str, str]:
    """The folder that a source is counted under, and what it shares with its like for other architectures.

    A folder with an architecture in its name is one with those that differ in it alone (``fmha_sm90``, ``fmha_sm100``);
    headers are counted by the library below ``include``; anything else by its first three folders.
    """
    parts = path.split("/")
    inside = path[:first].count("/")  # the part with the first name in it
    if inside < len(parts) - 1:
        folder = "/".join(parts[: inside + 1])
        return folder, _NAME.sub("sm*", folder)
    if "include" in parts[:-1]:
        above = len(parts) - 1 - parts[::-1].index("include")
        folder = "/".join(parts[: min(above + 2, len(parts) - 1)])
    else:
        folder = "/".join(parts[: min(inside, 3)])
    return folder, folder


def _number(name: str) -> int:
    """``"sm_120a"`` and ``"sm_12x"`` -> 120."""
    return int(name.removeprefix("sm_").rstrip("af").replace("x", "0"))


def _covers(name: str, device: ComputeCapability) -> bool:
    digits = name.removeprefix("sm_").rstrip("af")
    if "x" in digits:
        wildcard = digits.replace("x", "[0-9]")
        return re.fullmatch(wildcard, str(device.number)) is not None
    suffix: Suffix = "a" if name.endswith("a") else "f" if name.endswith("f") else ""
    own = RealArchitecture(ComputeCapability(int(digits[:-1]), int(digits[-1])), suffix)
    return support(own, device) not in (Support.NONE, Support.UNKNOWN)
