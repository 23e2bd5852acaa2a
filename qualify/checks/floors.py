"""The host's floors: symbol versions of glibc and libstdc++ against the target's ceilings and the tag."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from qualify.checks.case import Case
from qualify.checks.needs import Version, above, above_ceilings, needs, parse
from qualify.checks.registry import Observation, check
from qualify.checks.tags import platforms
from qualify.facts import Member
from qualify.report import Severity

#: The older names of manylinux tags.
_LEGACY: Mapping[str, Version] = MappingProxyType(
    {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
)


def _judged(case: Case) -> Iterator[Member]:
    """Members whose floors are held against the target: all where the matrix names the project, else those of which
    something is asked.  A wheel may carry a library for each toolkit, and nothing says that all of them have to load.
    """
    for member in case.compiled:
        if case.policy.named or case.demand(member.path).code is not None:
            yield member


@check("FLO001", "glibc-above-ceiling")
def glibc_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer glibc than the target has.

    Why: the loader refuses it (`version GLIBC_2.38 not found`). A function as common as strtol sets such a floor
    when it is compiled on a newer system.

    Mend: build on an older base image, such as the manylinux_2_28 builder.
    """
    yield from _over(case, "GLIBC", "glibc", "build on an older base image")


def _over(case: Case, prefix: str, ceiling: str, action: str) -> Iterator[Observation]:
    if case.policy.ceilings is None:
        return
    highest = getattr(case.policy.ceilings, ceiling)
    for member in _judged(case):
        if name := above(member, prefix, highest):
            yield Observation(member.path, f"needs {name}", f"at most {prefix}_{highest}", action)


@check("FLO002", "glibcxx-above-ceiling")
def glibcxx_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer libstdc++ than the target has.

    Why: the loader refuses it (`version GLIBCXX_3.4.32 not found`), where a conda or system libstdc++ comes first.

    Mend: build with the compiler of an older base image, or one that links the newer parts statically (devtoolset).
    """
    yield from _over(case, "GLIBCXX", "glibcxx", "build with an older base image's compiler")


@check("FLO003", "glibc-above-preferred", upstream=Severity.NOTE, release=Severity.NOTE)
def glibc_above_preferred(case: Case) -> Iterator[Observation]:
    """A binary needs a newer glibc than the target prefers, and still one that it has.

    Why: the wheel would also serve older systems if it were built on an older base.

    Mend: build on the preferred base image, where it can be had.
    """
    ceilings = case.policy.ceilings
    if ceilings is None or ceilings.preferred_glibc is None:
        return
    for member in _judged(case):
        name = above(member, "GLIBC", ceilings.preferred_glibc)
        if name and not above(member, "GLIBC", ceilings.glibc):
            expected = f"GLIBC_{ceilings.preferred_glibc} preferred"
            yield Observation(
                member.path, f"needs {name}", expected, "build on an older base image, where there is one"
            )


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
    if floors and len(floors) == len(tagged) and min(floors)[0] > parse(case.policy.ceilings.glibc):
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
    promised = ".".join(map(str, min(floors)))
    for member in _judged(case):
        if name := above(member, "GLIBC", promised):
            expected = f"at most GLIBC_{promised}, as the tag says"
            yield Observation(member.path, f"needs {name}", expected, "retag it, or build on the tag's base image")


@check("FLO006", "version-need-unknown", upstream=Severity.UNVERIFIED, release=Severity.UNVERIFIED)
def version_need_unknown(case: Case) -> Iterator[Observation]:
    """A binary needs a symbol version of glibc or libstdc++ that is no number and in no table here.

    Why: `GLIBC_PRIVATE` binds a file to one build of glibc, and a version that nobody knows sets a floor that nobody
    can compare.

    Mend: find out which library brought it in; rebuild that one.
    """
    for member in _judged(case):
        for prefix in ("GLIBC", "GLIBCXX"):
            if names := needs(member, prefix)[1]:
                expected = f"numbered versions of {prefix}"
                yield Observation(member.path, f"needs {', '.join(names)}", expected, "find out what brought it in")


@check("FLO007", "need-unknown-above-ceiling", upstream=Severity.NOTE, release=Severity.NOTE)
def need_unknown_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary of a wheel that the matrix does not name does not load on the target, and nothing says that it has to.

    Why: wheels carry libraries for several toolkits and vendors, of which a host uses one. A member above the ceiling
    does not count as one that runs (DEV010), and is no fault by itself.

    Mend: nothing; name the project in a matrix of its own to ask for more.
    """
    asked = {member.path for member in _judged(case)}
    for member in case.compiled:
        if member.path not in asked and (name := above_ceilings(member, case.policy.ceilings)):
            yield Observation(member.path, f"needs {name}, and does not load", "no demand is made of it", "none needed")


def _tag_glibc(platform: str) -> Version | None:
    """The glibc that a manylinux tag promises; None for other tags."""
    match = re.match(r"manylinux_([0-9]+)_([0-9]+)_", platform)
    if match:
        return int(match[1]), int(match[2])
    return next((version for name, version in _LEGACY.items() if platform.startswith(f"{name}_")), None)
