"""The host's floors: symbol versions of glibc and libstdc++ against the target's ceilings and the tag."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.checks.tags import platforms
from qualify.report import Severity

Version = tuple[int, ...]

#: Version needs of glibc that are no numbers, and the release that brought them.
_SPECIAL: Mapping[str, Version] = MappingProxyType({"GLIBC_ABI_DT_RELR": (2, 36)})

#: The older names of manylinux tags.
_LEGACY: Mapping[str, Version] = MappingProxyType(
    {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
)


def _parse(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def _needs(case: Case, prefix: str) -> Iterator[tuple[str, Version | None, str]]:
    """For each binary: its path, its highest need under ``prefix`` and how that is spelled; None for no number."""
    for member in case.facts.members:
        if member.elf is None:
            continue
        numbers: list[tuple[Version, str]] = []
        for need in member.elf.version_needs:
            if not need.version.startswith(f"{prefix}_"):
                continue
            text = need.version.removeprefix(f"{prefix}_")
            if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})*", text):
                numbers.append((_parse(text), need.version))
            elif need.version in _SPECIAL:
                numbers.append((_SPECIAL[need.version], need.version))
            else:
                yield member.path, None, need.version
        if numbers:
            highest, name = max(numbers)
            yield member.path, highest, name


def _above(case: Case, prefix: str, ceiling: str, action: str) -> Iterator[Observation]:
    for path, version, name in _needs(case, prefix):
        if version is not None and version > _parse(ceiling):
            yield Observation(path, f"needs {name}", f"at most {prefix}_{ceiling}", action)


@check("FLO001", "glibc-above-ceiling")
def glibc_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer glibc than the target has.

    Why: the loader refuses it (`version GLIBC_2.38 not found`). A function as common as strtol sets such a floor
    when it is compiled on a newer system.

    Mend: build on an older base image, such as the manylinux_2_28 builder.
    """
    if case.policy.ceilings is not None:
        yield from _above(case, "GLIBC", case.policy.ceilings.glibc, "build on an older base image")


@check("FLO002", "glibcxx-above-ceiling")
def glibcxx_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer libstdc++ than the target has.

    Why: the loader refuses it (`version GLIBCXX_3.4.32 not found`), where a conda or system libstdc++ comes first.

    Mend: build with the compiler of an older base image, or one that links the newer parts statically (devtoolset).
    """
    if case.policy.ceilings is not None:
        yield from _above(case, "GLIBCXX", case.policy.ceilings.glibcxx, "build with an older base image's compiler")


@check("FLO003", "glibc-above-preferred", upstream=Severity.NOTE, release=Severity.NOTE)
def glibc_above_preferred(case: Case) -> Iterator[Observation]:
    """A binary needs a newer glibc than the target prefers, and still one that it has.

    Why: the wheel would also serve older systems if it were built on an older base.

    Mend: build on the preferred base image, where it can be had.
    """
    ceilings = case.policy.ceilings
    if ceilings is None or ceilings.preferred_glibc is None:
        return
    for path, version, name in _needs(case, "GLIBC"):
        if version is not None and _parse(ceilings.preferred_glibc) < version <= _parse(ceilings.glibc):
            expected = f"GLIBC_{ceilings.preferred_glibc} preferred"
            yield Observation(path, f"needs {name}", expected, "build on an older base image, where it can be had")


@check("FLO004", "tag-above-ceiling")
def tag_above_ceiling(case: Case) -> Iterator[Observation]:
    """Every manylinux tag of the file name asks for a newer glibc than the target has.

    Why: an installer on the target refuses the file, whatever the binaries need.

    Mend: build on an older base image, or take the tag that the binaries really need.
    """
    if case.policy.ceilings is None:
        return
    tagged = [(tag, _tag_glibc(tag)) for tag in platforms(case)]
    floors = [(version, tag) for tag, version in tagged if version is not None]
    if floors and len(floors) == len(tagged) and min(floors)[0] > _parse(case.policy.ceilings.glibc):
        expected = f"a tag of glibc {case.policy.ceilings.glibc} or older"
        yield Observation("", f"platform tag {min(floors)[1]}", expected, "build on an older base image")


@check("FLO005", "tag-too-low", upstream=Severity.NOTE)
def tag_too_low(case: Case) -> Iterator[Observation]:
    """A binary needs a newer glibc than the file name's manylinux tag promises.

    Why: an installer takes the wheel on a system where it does not load.

    Mend: retag it for what it needs (`auditwheel show` names it), or build on the tag's own base image.
    """
    floors = [version for version in map(_tag_glibc, platforms(case)) if version is not None]
    if not floors:
        return
    for path, version, name in _needs(case, "GLIBC"):
        if version is not None and version > min(floors):
            expected = f"at most GLIBC_{'.'.join(map(str, min(floors)))}, as the tag says"
            yield Observation(path, f"needs {name}", expected, "retag it, or build on the tag's base image")


@check("FLO006", "version-need-unknown", upstream=Severity.UNVERIFIED, release=Severity.UNVERIFIED)
def version_need_unknown(case: Case) -> Iterator[Observation]:
    """A binary needs a symbol version of glibc or libstdc++ that is no number and in no table here.

    Why: `GLIBC_PRIVATE` binds a file to one build of glibc, and a version that nobody knows sets a floor that nobody
    can compare.

    Mend: find out which library brought it in; rebuild that one.
    """
    for prefix in ("GLIBC", "GLIBCXX"):
        for path, version, name in _needs(case, prefix):
            if version is None:
                expected = f"numbered versions of {prefix}"
                yield Observation(path, f"needs {name}", expected, "find out which library brought it in")


def _tag_glibc(platform: str) -> Version | None:
    """The glibc that a manylinux tag promises; None for other tags."""
    match = re.match(r"manylinux_([0-9]+)_([0-9]+)_", platform)
    if match:
        return int(match[1]), int(match[2])
    return next((version for name, version in _LEGACY.items() if platform.startswith(f"{name}_")), None)
