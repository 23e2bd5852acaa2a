"""Write what was measured of a qualified wheel into ``measured:`` of the matrix, and nothing else of it.

Only proven evidence comes this far, and the values are measured here and now; there is no way to hand them in.  A
value that stands there already is compared and never overwritten: a difference is drift.

The file keeps every byte outside the entry (:mod:`qualify.measuredtext`).  A wrong measurement is replaced only by a
correction that says why and by whom; what stood there goes into the history (:mod:`qualify.history`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qualify import evidence as statements
from qualify import history, identity, matrix, measuring
from qualify.controls import Controls
from qualify.errors import AssayError, DriftError, RefusedError, UsageError
from qualify.evidence import Demands, Evidence, ReadProgress
from qualify.files import locked, write_atomic
from qualify.matrix import LoadedMatrix
from qualify.matrix.model import Measured
from qualify.measuredtext import ORDER, insert, replace
from qualify.measuring import Observation
from qualify.probes import Runner
from qualify.report import Verdict

_LOCK_SECONDS = 600.0  # a recorder proves and measures while it holds the matrix
# What an entry says beside the values: how and when they were learned.  A second measurement differs in these.
_CIRCUMSTANCES = ("how", "when")


@dataclass(frozen=True, slots=True)
class Correction:
    """Why a recorded measurement is replaced, and who says so."""

    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of it: the entry as it stands in the matrix now."""

    target: str
    path: Path
    measured: Measured
    new: bool  # False: the same values stood there already, and the file was not touched
    observation: Observation
    vouched: str  # who signed the evidence, or "unsigned"
    replaced: Measured | None = None  # what a correction took out; it stands in the history


def record(
    wheel: Path,
    target: str,
    *,
    matrix_path: Path | None = None,
    evidence_path: Path | None = None,
    runner: Runner | None = None,
    dependencies: bool = True,
    find_links: Sequence[Path] = (),
    accept_overridden: bool = False,
    control: Path | None = None,
    correct: Correction | None = None,
    demands: Demands | None = None,
    now: datetime,
    progress: ReadProgress | None = None,
) -> Recorded:
    """Prove the evidence, measure the wheel, and write the values for ``target``.

    :param accept_overridden: take a wheel that only waivers let through; the entry says so.
    :param correct: replace what is recorded, at the same commit, and keep it in the history.
    :param control: where the control that the matrix names lies on this machine; None: where the matrix says.
    :param demands: which signature and age the evidence must have; None: none is looked at.
    :param runner: where the wheel is installed and imported; None: nothing runs, the version module counts.
    :raises RefusedError: the evidence proves nothing, or the pin doesn't accept what was measured, or the matrix
        changed meanwhile; nothing was written.
    :raises DriftError: other values stand there; nothing was written.
    """
    if not wheel.is_file():
        raise UsageError("no such file", where=str(wheel), action="name a wheel")
    # Behind a link it is one file with one lock.
    path = matrix.load(matrix_path).path.resolve()
    _writable_matrix(path)
    with locked(path, timeout=_LOCK_SECONDS, purpose="qualify record"):
        before = path.read_bytes()
        loaded = matrix.load(path)
        if target not in loaded.matrix.targets:
            raise UsageError(f"target {target!r} is not in the matrix", where=str(path), action="see --target")
        document = statements.load(evidence_path or statements.path_for(wheel, target))
        if document.target != target:
            raise RefusedError(f"evidence for {document.target}", where=wheel.name, expected=f"evidence for {target}")
        evidence = statements.prove(
            document,
            wheel,
            loaded,
            progress=progress,
            accept_overridden=accept_overridden,
            controls=Controls(loaded, at=control).of_target,
            demands=demands,
        )
        observation = _measure(
            evidence, loaded, runner=runner, dependencies=dependencies, find_links=find_links, now=now
        )
        _accepted(observation, evidence, loaded)
        measured = _entry(observation, evidence)
        known = loaded.matrix.measured.get(target)
        if correct is not None:
            _correctable(known, measured, target, path)
        if known is not None and (correct is None or not _differing(known, measured)):
            _same(known, measured, target, path)
            return Recorded(target, path, known, False, observation, evidence.voucher.state)
        write = insert if known is None else replace
        after = write(before.decode("utf-8"), target, measured).encode("utf-8")
        if path.read_bytes() != before:
            raise RefusedError("the matrix changed since it was read", where=str(path), action="look at it, run again")
        if known is not None and correct is not None:
            # First the history: what a kill leaves is a line too many for a moment, and never a value that is lost.
            history.append(path, _corrected(known, measured, target, correct, now))
        write_atomic(path, after)
        return Recorded(target, path, measured, True, observation, evidence.voucher.state, known)


def _corrected(known: Measured, measured: Measured, target: str, correct: Correction, now: datetime) -> history.Entry:
    when = now.astimezone(UTC).isoformat(timespec="seconds")
    # Without its own time, which a second try would have differently.
    after = measured.model_dump(mode="json", exclude={"when"})
    return history.Entry(when, "corrected", target, correct.by, correct.reason, known.model_dump(mode="json"), after)


def to_json(recorded: Recorded) -> dict[str, Any]:
    """What ``record --json`` prints."""
    return {
        "version": measuring.OBSERVATION_VERSION,
        "target": recorded.target,
        "new": recorded.new,
        "replaced": None if recorded.replaced is None else recorded.replaced.model_dump(mode="json"),
        "evidence": recorded.vouched,
        "measured": recorded.measured.model_dump(mode="json"),
        "observation": measuring.to_json(recorded.observation),
    }


def lines(recorded: Recorded) -> list[str]:
    """The same for people."""
    state = "recorded" if recorded.new else "recorded already, with the same values"
    if recorded.replaced is not None:
        state = f"corrected; what stood there is kept in {history.path_for(recorded.path).name}"
    values = recorded.measured.model_dump(mode="json")
    head = f"{recorded.path.name}: measured.{recorded.target}: {state}"
    return [
        head,
        f"  evidence: {recorded.vouched}",
        *(f"  {name}: {value or 'none'}" for name, value in values.items()),
    ]


def _writable_matrix(path: Path) -> None:
    if Path(__file__).parent in path.parents:
        raise RefusedError(
            "this is the copy of the matrix that came with the tool",
            where=str(path),
            expected="a matrix of yours",
            action="name one with --matrix",
        )


def _measure(
    evidence: Evidence,
    loaded: LoadedMatrix,
    *,
    runner: Runner | None,
    dependencies: bool,
    find_links: Sequence[Path],
    now: datetime,
) -> Observation:
    target = loaded.matrix.targets[evidence.target]
    labels = (target.label,) if target.label else ()
    subject = measuring.subject_of(evidence.facts, loaded.matrix)
    if runner is None:
        return measuring.read(evidence.facts, subject, now=now, machine=target.machine, labels=labels)
    return measuring.install(
        evidence.wheel,
        evidence.facts,
        subject,
        runner,
        now=now,
        dependencies=dependencies,
        find_links=find_links,
        machine=target.machine,
        labels=labels,
    )


def _accepted(observation: Observation, evidence: Evidence, loaded: LoadedMatrix) -> None:
    """What the pin takes: its own project, its own commit, its build modes, values that were really seen."""

    def refuse(what: str, expected: str, action: str = "") -> AssayError:
        return RefusedError(what, where=evidence.wheel.name, expected=expected, action=action)

    asserted = loaded.matrix
    if evidence.facts.name != asserted.project.name:
        raise refuse(f"a wheel of {evidence.facts.name}", f"a wheel of the matrix's project, {asserted.project.name}")
    if not observation.conclusive:
        raise refuse(f"the measurement is inconclusive: {observation.reason}", "values that were seen")
    seen = _identity(observation, evidence)
    if seen.build_mode not in asserted.pin.build_modes:
        raise refuse(
            f"build mode {seen.build_mode!r}",
            f"one of {', '.join(asserted.pin.build_modes)} (pin.build_modes)",
            "build it from source at the pin",
        )
    if observation.dirty:
        raise refuse(f"built from a changed tree ({observation.dirty})", "the pin's commit, unchanged")
    answer = identity.matches_pin(seen, asserted.pin)
    if answer is not identity.CommitMatch.SAME:
        pinned = identity.identity_of_pin(asserted)
        raise refuse(
            f"commit {seen.commit or 'not stated'}{f', sdist {seen.sdist[:12]}' if seen.sdist else ''}: {answer}",
            f"the pin's, {pinned.commit or f'sdist {pinned.sdist[:12]}'}",
            "record a wheel of the pin",
        )


def _identity(observation: Observation, evidence: Evidence) -> identity.Identity:
    """What was measured, and what the receipt of the build adds: the source, and that all of it was compiled there."""
    measured = identity.Identity(
        observation.distribution_version,
        evidence.wheel.name,
        identity.Grade.METADATA,
        commit=observation.commit,
        commit_origin=observation.commit_origin,
        build_mode=observation.build_mode,
    )
    return identity.with_receipt(measured, evidence.facts, evidence.receipt)


def _entry(observation: Observation, evidence: Evidence) -> Measured:
    # Whether an import ran in a container or on somebody's host is part of how it was learned.
    place = f", {observation.where}" if observation.grade == measuring.IMPORT else ""
    seen = _identity(observation, evidence)
    return Measured(
        runtime_version=observation.runtime_version,
        distribution_version=observation.distribution_version,
        build_mode=seen.build_mode,
        commit=observation.commit or seen.commit,
        sha256=observation.sha256,
        toolkit=observation.toolkit,
        torch=observation.torch,
        flashinfer=observation.flashinfer,
        how=observation.how + place,
        when=observation.when,
        verdict="overridden" if evidence.report.verdict is Verdict.OVERRIDDEN else "qualified",
    )


def _differing(known: Measured, measured: Measured) -> list[str]:
    """Each value that differs, with both; circumstances are none."""
    return [
        f"{name}: recorded {getattr(known, name)!r}, measured {getattr(measured, name)!r}"
        for name in ORDER
        if name not in _CIRCUMSTANCES and getattr(known, name) != getattr(measured, name)
    ]


def _same(known: Measured, measured: Measured, target: str, path: Path) -> None:
    if lines := _differing(known, measured):
        raise DriftError(
            "; ".join(lines),
            where=f"{path.name}: measured.{target}",
            expected="the recorded values",
            action="find out which of the two is right; nothing was written (a wrong record: --correct)",
        )


def _correctable(known: Measured | None, measured: Measured, target: str, path: Path) -> None:
    """A correction replaces a measurement of the same source; another commit comes by another way."""
    where = f"{path.name}: measured.{target}"
    if known is None:
        raise RefusedError("nothing is recorded that could be wrong", where=where, action="record without --correct")
    if known.commit != measured.commit and (
        identity.commit_match(known.commit, measured.commit) is not identity.CommitMatch.SAME
    ):
        raise RefusedError(
            f"recorded at commit {known.commit or 'not stated'}, measured at {measured.commit or 'not stated'}",
            where=where,
            expected="the same commit: a correction mends a measurement, and advances no pin",
            action="remove the entry of the earlier pin, and record anew",
        )
