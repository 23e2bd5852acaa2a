"""Is this the pinned build?  The commit decides; the version, the build mode and the rest stand beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import Requirement

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.identity import UNSTATED, CommitMatch, Identity, identity_of_version, identity_of_wheel, matches_commit
from qualify.report import Severity

NOTE = Severity.NOTE


@dataclass(frozen=True, slots=True)
class _Match:
    """The wheel's identity beside the pin's."""

    wheel: Identity
    commit: CommitMatch
    pinned_commit: str
    pinned_version: str  # base and development distance; "" where the pin names no release
    accepted_modes: tuple[str, ...]

    @property
    def version(self) -> str:
        return self.wheel.version().partition("+")[0]

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
    commit = matches_commit(wheel, policy.pin.commit)
    return _Match(wheel, commit, policy.pin.commit, pinned, policy.pin.build_modes)


_BUILD = "build at the pin, or advance the pin first"


@check("IDN001", "other-commit", upstream=NOTE)
def other_commit(case: Case) -> Iterator[Observation]:
    """The wheel was built from another commit than the pinned one.

    Why: the commit is the identity. A wheel of another commit, however near, is another program.

    Mend: build at the pin, or advance the pin in a cycle of its own.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.OTHER:
        found = f"commit {match.wheel.commit} ({match.wheel.commit_origin}), version {match.wheel.text}"
        yield Observation("", found, f"commit {match.pinned_commit}", _BUILD)


@check("IDN002", "commit-unknown", upstream=NOTE, release=Severity.INCONCLUSIVE)
def commit_unknown(case: Case) -> Iterator[Observation]:
    """The wheel names no commit, so that nothing follows about the pin.

    Why: a build from an sdist loses the commit (`__commit_id__ = None`), and a version number is no identity. `cannot
    tell` matches no pin.

    Mend: hand the commit to the build (`SETUPTOOLS_SCM_PRETEND_METADATA`), as this project's builder does.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.CANNOT_TELL and not match.other_version:
        said = f"; {'; '.join(match.wheel.notes)}" if match.wheel.notes else ""
        found = f"no commit in version {match.wheel.text} or the version module{said}"
        yield Observation("", found, f"commit {match.pinned_commit}", "hand the commit to the build, and build again")


@check("IDN003", "other-version", upstream=NOTE)
def other_version(case: Case) -> Iterator[Observation]:
    """The wheel names no commit, and its version is another one than the pin's.

    Why: without a commit the version is all there is, and it says that this is not the pinned release.

    Mend: build at the pin, or take the pinned release.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.CANNOT_TELL and match.other_version:
        yield Observation("", f"version {match.wheel.text}, no commit", f"version {match.pinned_version}", _BUILD)


@check("IDN004", "version-beside-commit", upstream=NOTE, release=NOTE)
def version_beside_commit(case: Case) -> Iterator[Observation]:
    """The commit is the pinned one, and the version number is another.

    Why: a shallow clone, a tag that was set later or a changed tree moves the number. The commit decides; the number
    is said.

    Mend: nothing; build from a clone with its tags where the number matters.
    """
    match = _match(case)
    if match is not None and match.commit is CommitMatch.SAME and match.other_version:
        found = f"version {match.wheel.text} at the pinned commit {match.wheel.commit}"
        yield Observation("", found, f"version {match.pinned_version}", "none needed: the commit is the identity")


@check("IDN005", "build-mode", upstream=NOTE)
def build_mode(case: Case) -> Iterator[Observation]:
    """The wheel states a build mode that the pin does not accept.

    Why: `.precompiled` binaries come from another build, `.empty` and `.cpu` hold none. A suffix proves its mode;
    its absence proves nothing.

    Mend: build from source with the switches for precompiled binaries unset, or accept the mode in `pin.build_modes`.
    """
    match = _match(case)
    if match is None or match.wheel.build_mode in (UNSTATED, *match.accepted_modes):
        return
    found = f"build mode {match.wheel.build_mode} in version {match.wheel.text}"
    expected = f"one of {', '.join(match.accepted_modes)}"
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
