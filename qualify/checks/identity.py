"""Is this the pinned build?  The commit decides; the version, the build mode and the rest stand beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import Requirement

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.identity import (
    UNSTATED,
    CommitMatch,
    Identity,
    identity_of_version,
    identity_of_wheel,
    matches_pin,
    with_receipt,
)
from qualify.matrix.model import Pin, SdistSource
from qualify.report import Severity

NOTE, INCONCLUSIVE = Severity.NOTE, Severity.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class _Match:
    """The wheel's identity beside the pin's."""

    wheel: Identity
    commit: CommitMatch
    pin: Pin
    pinned_version: str  # base and development distance; "" where the pin names no release

    @property
    def version(self) -> str:
        return self.wheel.version().partition("+")[0]

    @property
    def pinned(self) -> str:
        """What the pin asserts of the source."""
        source = self.pin.source
        return f"commit {self.pin.commit}" if self.pin.commit else f"sdist sha256 {_sdist(source)}"

    @property
    def built_from(self) -> str:
        """What is known of the wheel's source."""
        if self.pin.commit:
            return f"commit {self.wheel.commit} ({self.wheel.commit_origin})"
        return f"sdist sha256 {self.wheel.sdist} (receipt)"

    @property
    def other_version(self) -> bool:
        return bool(self.pinned_version) and self.version != self.pinned_version


def _match(case: Case) -> _Match | None:
    """None where there is no pin, or the wheel says nothing at all (the checks of names speak then)."""
    policy = case.policy
    if policy.pin is None or policy.project is None:
        return None
    wheel = identity_of_wheel(case.facts, policy.project.version_module, policy.labels)
    pinned = ""
    if policy.pin.requirement:
        exact = [s.version for s in Requirement(policy.pin.requirement).specifier if s.operator in ("==", "===")]
        pinned = identity_of_version(exact[0]).version().partition("+")[0] if exact else ""
    wheel = with_receipt(wheel, case.facts, case.receipt)
    return _Match(wheel, matches_pin(wheel, policy.pin), policy.pin, pinned)


def _sdist(source: object) -> str:
    return source.sha256 if isinstance(source, SdistSource) else ""


_BUILD = "build at the pin, or advance the pin first"


@check("IDN001", "other-commit", upstream=NOTE)
def other_commit(case: Case) -> Iterator[Observation]:
    """The wheel was built from another commit than the pinned one, or from another sdist where the pin has no commit.

    Why: the commit is the identity. A wheel of another commit, however near, is another program. A source distribution
    that states no commit is pinned by its sha256, and then that decides; the receipt of a build says what it took.

    Mend: build at the pin, or advance the pin in a cycle of its own.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.OTHER:
        yield Observation("", f"{match.built_from}, version {match.wheel.text}", match.pinned, _BUILD)


@check("IDN002", "commit-unknown", upstream=NOTE, release=Severity.INCONCLUSIVE)
def commit_unknown(case: Case) -> Iterator[Observation]:
    """The wheel names no commit, so that nothing follows about the pin; or no receipt names the sdist that is pinned.

    Why: a build from an sdist loses the commit (`__commit_id__ = None`), and a version number is no identity. `cannot
    tell` matches no pin. Where the pin asserts an sdist alone, no wheel can state it: the receipt of the build does.

    Mend: hand the commit to the build (`SETUPTOOLS_SCM_PRETEND_METADATA`), as this project's builder does; for a pinned
    sdist, keep the receipt beside the wheel.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.CANNOT_TELL and not match.other_version:
        said = f"; {'; '.join(match.wheel.notes)}" if match.wheel.notes else ""
        if match.pin.commit:
            found = f"no commit in version {match.wheel.text} or the version module{said}"
            yield Observation("", found, match.pinned, "hand the commit to the build, and build again")
        else:
            found = f"no receipt beside it says which sdist version {match.wheel.text} was built from{said}"
            action = "put WHEEL.receipt.json of its build beside it, or build it at the pin"
            yield Observation("", found, match.pinned, action)


@check("IDN003", "other-version", upstream=NOTE)
def other_version(case: Case) -> Iterator[Observation]:
    """The wheel names no commit (or the pin has none), and its version is another one than the pin's.

    Why: without a commit the version is all there is, and it says that this is not the pinned release.

    Mend: build at the pin, or take the pinned release.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.CANNOT_TELL and match.other_version:
        yield Observation("", f"version {match.wheel.text}, source unknown", f"version {match.pinned_version}", _BUILD)


@check("IDN004", "version-beside-commit", upstream=NOTE, release=NOTE)
def version_beside_commit(case: Case) -> Iterator[Observation]:
    """The commit is the pinned one, and the version number is another.

    Why: a shallow clone, a tag that was set later or a changed tree moves the number. The commit decides; the number
    is said.

    Mend: nothing; build from a clone with its tags where the number matters.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.SAME and match.other_version:
        found = f"version {match.wheel.text} at the pinned {match.built_from}"
        yield Observation("", found, f"version {match.pinned_version}", "none needed: the source is the identity")


@check("IDN005", "build-mode", upstream=NOTE)
def build_mode(case: Case) -> Iterator[Observation]:
    """The wheel states a build mode that the pin does not accept.

    Why: `.precompiled` binaries come from another build, `.empty` and `.cpu` hold none. A suffix proves its mode;
    its absence proves nothing.

    Mend: build from source with the switches for precompiled binaries unset, or accept the mode in `pin.build_modes`.
    """
    match = _match(case)
    if match is None or match.wheel.build_mode in (UNSTATED, *match.pin.build_modes):
        return
    where = "by its receipt, of" if match.wheel.build_mode == "source" else "in"
    found = f"build mode {match.wheel.build_mode} {where} version {match.wheel.text}"
    expected = f"one of {', '.join(match.pin.build_modes)}"
    yield Observation("", found, expected, "build from source, or accept the mode in pin.build_modes")


@check("IDN006", "dirty", upstream=NOTE)
def dirty(case: Case) -> Iterator[Observation]:
    """The wheel was built from a changed tree.

    Why: the changes are in no commit, so that nobody can build the wheel again or say what is in it.

    Mend: commit or drop the changes and build again.
    """
    match = _match(case)
    if match is not None and match.wheel.dirty:
        found = f"version {match.wheel.text}: changes of {match.wheel.dirty} that no commit holds"
        yield Observation("", found, "a clean tree", "commit or drop the changes, and build again")


@check("IDN007", "unexplained-local-part", upstream=NOTE)
def unexplained_local_part(case: Case) -> Iterator[Observation]:
    """The version's local part holds a segment that nothing explains.

    Why: it may stand for a patch or another toolkit. A target's own label is declared in the matrix, and is then
    known as such.

    Mend: declare it as `label` of a target, if it is one; else build without it.
    """
    match = _match(case)
    if match is not None and match.wheel.other:
        found = f"{'.'.join(match.wheel.other)} in version {match.wheel.text}"
        yield Observation("", found, "a commit, a toolkit, a build mode or a label", "declare it as a target's label")


@check("IDN008", "other-source", upstream=NOTE)
def other_source(case: Case) -> Iterator[Observation]:
    """The receipt of the build names another sdist, or other patches, than the pin.

    Why: patches are part of the pin. The same commit with another patch is another program of the same version.

    Mend: build at the pin as it stands now, or put the patches back.
    """
    match = _match(case)
    if match is None or match.wheel.patches is None or match.commit is CommitMatch.OTHER:
        return
    patches = tuple(patch.sha256 for patch in match.pin.patches)
    pinned = _sdist(match.pin.source)
    if match.wheel.sdist and pinned and match.wheel.sdist != pinned:
        yield Observation("", f"sdist sha256 {match.wheel.sdist} (receipt)", f"sdist sha256 {pinned}", _BUILD)
    if match.wheel.patches != patches:
        found = f"{_patches(match.wheel.patches)} (receipt)"
        yield Observation("", found, _patches(patches), "build at the pin as it stands now, or put the patches back")


def _patches(patches: tuple[str, ...]) -> str:
    return f"patches sha256 {', '.join(each[:12] for each in patches)}" if patches else "no patches"


@check("IDN009", "build-mode-unstated", upstream=NOTE, release=INCONCLUSIVE)
def build_mode_unstated(case: Case) -> Iterator[Observation]:
    """Nothing states how the wheel was built, and the pin does not take such a wheel.

    Why: the absence of a suffix proves nothing. Only the receipt of a build in which every binary was compiled says
    `source`.

    Mend: keep the receipt of the build beside the wheel, or accept `unstated` in `pin.build_modes`.
    """
    match = _match(case)
    if match is not None and match.wheel.build_mode == UNSTATED and UNSTATED not in match.pin.build_modes:
        found = f"no build mode is stated of version {match.wheel.text}"
        expected = f"one of {', '.join(match.pin.build_modes)}"
        yield Observation("", found, expected, "put WHEEL.receipt.json of its build beside it")
