"""Which build is this?  The commit is the identity; the build mode, the toolkit and the rest are facts beside it.

A version string is taken apart by ``packaging`` (PEP 440) and its local part segment by segment; no pattern runs over a
whole string.  What a string doesn't say stays unsaid: a suffix proves its build mode, and its absence proves nothing.

    >>> identity_of_version("0.28.1rc1.dev132+ge126687a9.precompiled").build_mode
    'precompiled'
    >>> compare(identity_of_version("0.33.0"), identity_of_version("0.33.0")).result.value
    'cannot tell'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from qualify.facts import VersionModule, WheelFacts, installed_path
from qualify.identitytext import UNSTATED as UNSTATED
from qualify.identitytext import Grade as Grade
from qualify.identitytext import Identity as Identity
from qualify.identitytext import identity_of_version as identity_of_version
from qualify.identitytext import public_base as public_base
from qualify.matrix.model import Matrix, Pin, SdistSource
from qualify.pinblock import PinBlock
from qualify.provenance import Receipt

SHORTEST_COMMIT = 7  # fewer hex digits name no commit
ACCEPTED_MODES = ("source", UNSTATED)  # what a policy accepts unless it says more

_COMMIT_ID = re.compile(r"g?([0-9a-f]{7,40})")


class Result(StrEnum):
    SAME = "same"
    OTHER_MODE = "same commit, other build mode"
    OTHER_TOOLKIT = "same commit, other toolkit"
    OTHER_PARTS = "same commit, other local part"
    DIRTY = "same commit, dirty"
    OTHER_COMMIT = "other commit"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two identities differ, with both values and where each came from."""

    field: str
    a: str
    a_origin: str
    b: str
    b_origin: str


@dataclass(frozen=True, slots=True)
class Comparison:
    result: Result
    differences: tuple[Difference, ...]  # the one that decides first
    reason: str  # one sentence


@dataclass(frozen=True, slots=True)
class Policy:
    """Which build modes and toolkits count as the reference's; dirty never does."""

    build_modes: tuple[str, ...] = ACCEPTED_MODES
    toolkits: tuple[str, ...] = ()  # accepted beside the reference's own


@dataclass(frozen=True, slots=True)
class Decision:
    accepted: bool | None  # None: it can't be told
    reason: str


class CommitMatch(StrEnum):
    SAME = "same"
    OTHER = "other"
    CANNOT_TELL = "cannot tell"


def identity_of_wheel(facts: WheelFacts, version_module: str = "", labels: Sequence[str] = ()) -> Identity:
    """What a wheel says of itself: METADATA's version, else the file name's, and its version module.

    :param version_module: path of the module that holds ``__version__`` and ``__commit_id__``; "" takes the first.
    """
    stated = facts.dist_info.metadata_version if facts.dist_info else ""
    distribution = identity_of_version(stated or facts.wheel_version, labels, origin=facts.filename)
    return with_version_module(
        distribution,
        _module(facts.version_modules, version_module),
        labels,
        stated_by="METADATA" if stated else "file name",
        editable=any(member.path.startswith("__editable__") for member in facts.members),
    )


def with_version_module(
    distribution: Identity,
    module: VersionModule | None,
    labels: Sequence[str],
    *,
    stated_by: str,
    editable: bool = False,
) -> Identity:
    """Put together what the distribution's version says and what the version module says.

    A commit that the two name differently is none: the wheel lies in one of them.

    :param stated_by: where the distribution's version stands, "METADATA".
    :param editable: whether it is an installation that points at a source tree.
    """
    runtime = identity_of_version(module.version, labels) if module and module.version else None
    commits = [(distribution.commit, stated_by)]
    if module and runtime:
        commits.append((runtime.commit, module.path))
    if module and (match := _COMMIT_ID.fullmatch(module.commit_id)):
        commits.append((match[1], f"__commit_id__ of {module.path}"))
    known = [(commit, origin) for commit, origin in commits if commit]
    longest = max(known, key=lambda pair: len(pair[0]), default=("", ""))
    notes = list(distribution.notes)
    if any(not longest[0].startswith(commit) for commit, _ in known):
        notes.append("it names several commits: " + ", ".join(f"{commit} ({origin})" for commit, origin in known))
        longest = ("", "")
    if runtime and runtime.base and (runtime.base, runtime.dev) != (distribution.base, distribution.dev):
        both = f"runtime version {runtime.text} and distribution version {distribution.text}"
        notes.append(f"{both} differ in more than a suffix")
    modes = {distribution.build_mode, runtime.build_mode if runtime else UNSTATED, "editable" if editable else UNSTATED}
    return replace(
        distribution,
        commit=longest[0],
        commit_origin=longest[1],
        grade=Grade.VERSION_MODULE if module and longest[1] != stated_by else distribution.grade,
        build_mode="+".join(sorted(modes - {UNSTATED})) or UNSTATED,
        dirty=distribution.dirty or (runtime.dirty if runtime else ""),
        runtime=module.version if module else "",
        notes=tuple(notes),
    )


def with_receipt(identity: Identity, facts: WheelFacts, receipt: Receipt | None) -> Identity:
    """What the wheel says of itself, and what the receipt of its build adds.

    The receipt names the source: a commit that it and the wheel name differently is none.  Build mode ``source`` comes
    from here alone: every binary was compiled in that build, and the wheel states no other mode.

    :param receipt: one of other bytes, or that can't be read, adds nothing.
    """
    if receipt is None or not receipt.speaks_of(facts):
        return identity
    commit, origin, notes = identity.commit, identity.commit_origin, identity.notes
    stated = receipt.commit if _COMMIT_ID.fullmatch(receipt.commit) else ""
    if stated and commit and commit_match(stated, commit) is CommitMatch.OTHER:
        notes = (*notes, f"it names commit {commit} ({origin}), and its receipt {stated}")
        commit = origin = ""
    elif len(stated) > len(commit) and not (identity.notes and not commit):
        commit, origin = stated, "receipt"
    local = identity.build_mode == UNSTATED and receipt.compiled_here(facts)
    return replace(
        identity,
        commit=commit,
        commit_origin=origin,
        notes=notes,
        build_mode="source" if local else identity.build_mode,
        sdist=receipt.source_sha256 if receipt.source_kind == "sdist" else "",
        patches=receipt.patches,
    )


def _module(modules: Sequence[VersionModule], path: str) -> VersionModule | None:
    if path:
        return next((module for module in modules if installed_path(module.path) == path), None)
    return min(modules, key=lambda module: installed_path(module.path).count("/"), default=None)


def identity_of_pin(matrix: Matrix, origin: str = "pin") -> Identity:
    """What a matrix pins: the commit, the release where there is one, and the build modes that it accepts."""
    pin = matrix.pin
    _, _, version = pin.requirement.partition("==")
    identity = identity_of_version(version.strip(), origin=origin) if version else Identity("", origin, Grade.METADATA)
    return replace(
        identity,
        commit=pin.commit or "",
        commit_origin="pin.commit" if pin.commit else "",
        accepts=pin.build_modes,
        notes=(),
        sdist=pin.source.sha256 if isinstance(pin.source, SdistSource) else "",
        patches=tuple(patch.sha256 for patch in pin.patches),
    )


def identity_of_block(block: PinBlock, labels: Sequence[str] = (), origin: str = "block") -> Identity:
    """What a pin's block in a Markdown file names.  The commit is its own line; a suffix of the distribution's version
    says how the recorded build was made, and what is compared with it need not be made so."""
    identity = identity_of_version(block.distribution_version, labels, origin=origin)
    return replace(
        identity,
        commit=block.commit,
        commit_origin=f"{block.project}_commit",
        runtime=block.runtime_version,
    )


def compare(a: Identity, b: Identity) -> Comparison:
    """Hold two identities against each other.  Symmetric; never ``same`` for two commits, or where one has none."""
    differences = tuple(_differences(a, b))
    commits = commit_match(a.commit, b.commit)
    if commits is CommitMatch.CANNOT_TELL:
        return Comparison(Result.CANNOT_TELL, differences, _why_unknown(a, b))
    if commits is CommitMatch.OTHER:
        return Comparison(Result.OTHER_COMMIT, differences, f"{a.commit} and {b.commit} are two commits")
    for result, field, reason in (
        (Result.DIRTY, "dirty", "changes that no commit holds went into one of them"),
        (Result.OTHER_MODE, "build mode", "one commit, built in two ways"),
        (Result.OTHER_TOOLKIT, "toolkit", "one commit, built with two toolkits"),
        (Result.OTHER_PARTS, "local part", "one of them carries a mark that nothing explains"),
    ):
        deciding = [difference for difference in differences if difference.field == field]
        if deciding or (result is Result.DIRTY and a.dirty):
            rest = tuple(difference for difference in differences if difference.field != field)
            return Comparison(result, (*deciding, *rest), reason)
    return Comparison(Result.SAME, differences, f"both are commit {max(a.commit, b.commit, key=len)}")


def _why_unknown(a: Identity, b: Identity) -> str:
    for one in (a, b):
        if len(one.commit) < SHORTEST_COMMIT:
            said = f": {'; '.join(one.notes)}" if one.notes else ""
            return f'{one.origin} "{one.text}" names no commit{said}'
    return "the commits can't be compared"


def _differences(a: Identity, b: Identity) -> Iterator[Difference]:
    def differ(field: str, one: str, other: str) -> Difference:
        return Difference(field, one, a.origin, other, b.origin)

    if commit_match(a.commit, b.commit) is not CommitMatch.SAME:
        yield Difference("commit", a.commit, a.commit_origin or a.origin, b.commit, b.commit_origin or b.origin)
    if a.dirty != b.dirty:
        yield differ("dirty", a.dirty, b.dirty)
    # A pin states no mode of its own, but which ones it takes.
    if a.build_mode != b.build_mode and a.build_mode not in b.accepts and b.build_mode not in a.accepts:
        yield differ("build mode", _mode(a), _mode(b))
    if a.toolkit != b.toolkit:
        yield differ("toolkit", a.toolkit, b.toolkit)
    if sorted(a.other) != sorted(b.other):
        yield differ("local part", ".".join(a.other), ".".join(b.other))
    if a.base and b.base and (a.base, a.dev) != (b.base, b.dev):
        yield differ("release", a.version().partition("+")[0], b.version().partition("+")[0])


def _mode(identity: Identity) -> str:
    return f"one of {', '.join(identity.accepts)}" if identity.accepts else identity.build_mode


def decide(subject: Identity, reference: Identity, policy: Policy | None = None) -> Decision:
    """May ``subject`` stand for ``reference``?  The reference's own build mode says nothing about that.

    A recorded string that ends in ``.precompiled`` is met by a source build of its commit, and by no precompiled one.

    :param policy: what counts; by default the modes that the reference accepts, where it is a pin.
    """
    chosen = policy or Policy(build_modes=reference.accepts or ACCEPTED_MODES)
    comparison = compare(subject, reference)
    if comparison.result is Result.CANNOT_TELL:
        return Decision(None, comparison.reason)
    if comparison.result is Result.OTHER_COMMIT:
        return Decision(False, comparison.reason)
    if subject.dirty:
        return Decision(False, f"it was built from a changed tree ({subject.dirty}), and that is no commit")
    if subject.build_mode not in chosen.build_modes:
        accepted = ", ".join(chosen.build_modes)
        return Decision(False, f"build mode {subject.build_mode} isn't accepted (accepted: {accepted})")
    if subject.toolkit not in (reference.toolkit, *chosen.toolkits):
        return Decision(False, f"toolkit {subject.toolkit or 'unnamed'} isn't accepted")
    unexplained = [part for part in subject.other if part not in reference.other]
    if unexplained:
        return Decision(
            False, f"nothing explains {'.'.join(unexplained)} in its version; declare it as a label if it is one"
        )
    return Decision(True, f"commit {subject.commit}, build mode {subject.build_mode}")


def commit_match(a: str, b: str) -> CommitMatch:
    """Two commits, either of which may be abbreviated to no fewer than seven hex digits."""
    if min(len(a), len(b)) < SHORTEST_COMMIT:
        return CommitMatch.CANNOT_TELL
    return CommitMatch.SAME if a.startswith(b) or b.startswith(a) else CommitMatch.OTHER


def matches_commit(identity: Identity, commit: str) -> CommitMatch:
    """Is this the build of ``commit``?  ``cannot tell`` where either names none."""
    return commit_match(identity.commit, commit)


def matches_pin(identity: Identity, pin: Pin) -> CommitMatch:
    """Is this a build of the pin's source?

    Where the pin asserts a commit, the commit decides.  Where it asserts an sdist alone, the sha256 of the sdist does,
    which only a receipt states: a version number is no identity.
    """
    if pin.commit:
        return matches_commit(identity, pin.commit)
    if not isinstance(pin.source, SdistSource) or not identity.sdist:
        return CommitMatch.CANNOT_TELL
    return CommitMatch.SAME if identity.sdist == pin.source.sha256 else CommitMatch.OTHER
