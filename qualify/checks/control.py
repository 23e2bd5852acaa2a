"""The candidate against a control wheel: what was lost, and what was gained.

Where the target requires its control (`control: {required: true}`, profile release), what was lost rejects.  Elsewhere
the same is said in notes, by the second code of each pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from qualify.checks.case import Case, examples
from qualify.checks.registry import Observation, check
from qualify.diffing.parity import Parity
from qualify.matrix.model import Code, Presence
from qualify.report import Severity

NOTE, UNVERIFIED = Severity.NOTE, Severity.UNVERIFIED
_FIND = "find out what the build left out: `qualify diff` names every one"
_BUILD = "build it with an architecture list that covers the target as the control's did"


def _parity(case: Case, *, required: bool) -> Parity | None:
    """The comparison, where there is one and its findings are of this weight."""
    return case.parity if case.policy.control_required is required else None


def _code(case: Case, extension: str) -> Code | None:
    """What is asked of an extension's code, ``require`` included; None where nothing says."""
    expectation = case.expectation(extension)
    stated = None if expectation is None else expectation.code_for(case.policy.profile)
    return stated if case.policy.require is None else case.policy.require


def _asked(case: Case, extension: str) -> bool:
    """Whether the matrix asks anything of an extension's code: of one with ``code: any`` nothing can be lost."""
    return _code(case, extension) is not Code.ANY


def _lost_kernels(case: Case, parity: Parity, *, asked: bool) -> Iterator[Observation]:
    for row in parity.extensions:
        if row.lost and _asked(case, row.extension) is asked:
            found = f"{len(row.lost)} of {row.control} kernels that run from the control don't: {examples(row.lost)}"
            yield Observation(row.extension, found, f"what {_name(case)} runs on {case.policy.device}", _FIND)


def _slower(case: Case, parity: Parity) -> Iterator[Observation]:
    for row in parity.extensions:
        expectation = case.expectation(row.extension)
        allowed = [allowance.pattern for allowance in expectation.jit_ok] if expectation is not None else []
        names = tuple(name for name in row.slower if not _fits(name, allowed))
        # Where native code is asked for, DEV002 names every kernel that is PTX only.
        if names and _code(case, row.extension) not in (Code.ANY, Code.NATIVE):
            found = f"{len(names)} kernels are native in the control and PTX only here: {examples(names)}"
            yield Observation(row.extension, found, f"native code on {case.policy.device}", _BUILD)


def _gaps(case: Case, parity: Parity) -> Iterator[Observation]:
    for gap in parity.gaps:
        if _asked(case, gap.extension):
            found = f"{len(gap.kernels)} kernels lack native code in one container of several: {examples(gap.kernels)}"
            yield Observation(gap.extension, found, "native code in each, as in the control", _BUILD)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _lost_extensions(case: Case, parity: Parity) -> Iterator[Observation]:
    for extension in parity.lost:
        expectation = case.expectation(extension)
        # What the matrix calls optional in this profile may be missing, whatever a fatter control holds.
        if expectation is None or expectation.presence_for(case.policy.profile) is Presence.REQUIRED:
            action = "find out why the build skipped it, or make it optional in the matrix"
            yield Observation(extension, "not in the wheel", f"an extension that {_name(case)} holds", action)


def _name(case: Case) -> str:
    return case.control.filename if case.control is not None else "the control"


@check("CTL001", "kernels-lost", upstream=NOTE)
def kernels_lost(case: Case) -> Iterator[Observation]:
    """Kernels that run from the required control do not run from this wheel.

    Why: a build may quietly drop sources or an architecture: the wheel imports, and an operation that worked with the
    last wheel fails. Names are compared without what differs from build to build (hashes of paths, architecture lists).

    Mend: find out what the build left out. Where upstream removed the kernels, take a newer control.
    """
    if parity := _parity(case, required=True):
        yield from _lost_kernels(case, parity, asked=True)


@check("CTL002", "extension-lost", upstream=NOTE)
def extension_lost(case: Case) -> Iterator[Observation]:
    """An extension of the required control that serves the target is not in this wheel.

    Why: build systems skip an extension whose conditions are not met, and say so in one line of a long log.

    Mend: find that line; or make the extension optional in the matrix, if the target does without.
    """
    if parity := _parity(case, required=True):
        yield from _lost_extensions(case, parity)


@check("CTL003", "container-gap", upstream=NOTE)
def container_gap(case: Case) -> Iterator[Observation]:
    """Single translation units lack native code of kernels that the required control covers in each of them.

    Why: each translation unit launches a kernel from its own container, so that a good union over the extension hides
    the unit that cannot.

    Mend: add the target's architecture for the sources that lack it.
    """
    if parity := _parity(case, required=True):
        yield from _gaps(case, parity)


@check("CTL004", "slower-than-control", upstream=NOTE)
def slower_than_control(case: Case) -> Iterator[Observation]:
    """Kernels that are native in the required control reach the target only as PTX, where the matrix allows that.

    Why: `code: jit` is the least that is asked, and the control gave more. The first launch waits for the driver's JIT
    in every process, and the features of `a` and `f` are gone.

    Mend: add the target's architecture for their sources, or list them under `jit_ok` with the reason.
    """
    if parity := _parity(case, required=True):
        yield from _slower(case, parity)


@check("CTL005", "no-control", upstream=NOTE, release=UNVERIFIED)
def no_control(case: Case) -> Iterator[Observation]:
    """The target requires a control, and the wheel was held against none, or against one that says nothing.

    Why: without its control nobody knows whether the wheel lost something. The same bytes, another project's wheel or
    one that could not be read whole compare equal to anything.

    Mend: give the control (`--control`, or `control:` in the matrix): the last good wheel of this target.
    """
    if case.policy.control_required:
        yield from _without(case)


def _without(case: Case) -> Iterator[Observation]:
    if problem := _unfit(case):
        expected = f"the last good wheel of {case.facts.name or 'the project'} for {case.policy.target}"
        yield Observation("", problem, expected, "give it by --control, or name it in the matrix")


def _unfit(case: Case) -> str:
    """Why there is no control that says something; "" where there is one."""
    control = case.control
    if control is None:
        return "no control was given"
    if control.sha256 == case.facts.sha256:
        return "the control is this very wheel"
    if control.name != case.facts.name:
        return f"the control {control.filename} is a wheel of {control.name or 'no project'}"
    if control.problems:
        return f"the control has faults of its own: {control.problems[0].detail}"
    unknown = sum(len(row.unknown) for row in case.parity.extensions) if case.parity is not None else 0
    return f"of {unknown} kernels of the control nobody can tell whether they run from this wheel" if unknown else ""


@check("CTL006", "gained", upstream=NOTE, release=NOTE)
def gained(case: Case) -> Iterator[Observation]:
    """The wheel runs kernels or holds extensions on the target that its control does not.

    Why: a build for one architecture is no subset of a fat one: some projects choose other sources where fewer
    architectures are asked for. What was gained is said apart from what was lost.

    Mend: nothing.
    """
    if case.parity is None:
        return
    for row in case.parity.extensions:
        if row.gained or row.faster:
            faster = f", {len(row.faster)} are native that were PTX only" if row.faster else ""
            found = f"{len(row.gained)} kernels run that don't from the control{faster}"
            yield Observation(row.extension, found, "more than the control", "none needed")
    for extension in case.parity.gained:
        yield Observation(extension, "an extension that the control lacks", "more than the control", "none needed")


@check("CTL007", "less-than-control", upstream=NOTE, release=NOTE)
def less_than_control(case: Case) -> Iterator[Observation]:
    """The wheel runs less than a control that nothing requires, or than the required one where any code is right.

    Why: the same losses as CTL001 to CTL004, where nothing asks for them: the control was given for information, or
    the matrix says `code: any` of the extension. A control that says nothing (the same bytes, another project's wheel,
    one that could not be read whole) is named here as well.

    Mend: nothing, or require the control in the matrix.
    """
    if case.control is not None and not case.policy.control_required:
        yield from _without(case)
    if case.parity is None:
        return
    if not case.policy.control_required:
        yield from _lost_kernels(case, case.parity, asked=True)
        yield from _lost_extensions(case, case.parity)
        yield from _gaps(case, case.parity)
        yield from _slower(case, case.parity)
    yield from _lost_kernels(case, case.parity, asked=False)
