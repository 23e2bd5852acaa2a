"""From facts to a verdict: which policy holds for this wheel, what the checks say, and the report of both."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from qualify import checks, floors, policies
from qualify.arch import ComputeCapability
from qualify.checks.case import Case, Policy
from qualify.coverage import summarize
from qualify.errors import UsageError
from qualify.facts import Depth, WheelFacts
from qualify.linking.index import ExportIndex
from qualify.matrix.model import Code, Matrix, Profile
from qualify.provenance import Receipt
from qualify.report import REPORT_VERSION, HostFloor, MemberCoverage, Report, verdict_of

#: Symbols of a floor that a report names.
_SYMBOLS = 5


@dataclass(frozen=True, slots=True)
class BareTarget:
    """A target without a matrix: a machine and a compute capability, and nothing that anybody expects."""

    machine: str
    device: ComputeCapability

    @property
    def id(self) -> str:
        """As the matrix would call it: ``aarch64-sm121``."""
        return f"{self.machine}-sm{self.device.number}"


@dataclass(frozen=True, slots=True)
class Context:
    """What a wheel is judged by: a target of a matrix, or a bare one.

    :param target: a target of ``matrix``; not used with ``bare``.
    :param require: replaces the expectations' ``code`` for this run, and their ``jit_ok``.
    """

    matrix: Matrix | None = None
    target: str = ""
    profile: Profile = Profile.RELEASE
    require: Code | None = None
    bare: BareTarget | None = None
    control: WheelFacts | None = None
    torch: ExportIndex | None = None
    receipt: Receipt | None = None  # what lies beside the wheel as the receipt of its build


def policy_for(facts: WheelFacts, context: Context) -> Policy:
    """What the context asks of this wheel.

    A wheel of a project that the matrix does not name is judged by the target alone: its machine, its GPU, its
    Pythons, ceilings and driver, without expectations and without a pin.

    :raises UsageError: the target is not in the matrix, or there is neither a matrix nor a bare target.
    """
    if context.bare is not None:
        bare = context.bare
        return Policy(bare.id, bare.machine, bare.device, context.profile, context.require)
    matrix = context.matrix
    if matrix is None:
        raise UsageError("no target", expected="a matrix and --target, or --machine and --cc")
    if context.target not in matrix.targets:
        raise UsageError(
            f"unknown target {context.target!r}",
            expected=offer(context.target, tuple(matrix.targets)),
            action="see `python -m builders targets`",
        )
    target = matrix.targets[context.target]
    policy = Policy(
        target=context.target,
        machine=target.machine,
        device=ComputeCapability.parse(target.compute_capability),
        profile=context.profile,
        require=context.require,
        python=target.python,
        ceilings=target.ceilings,
        oldest_cuda=target.driver.oldest_cuda,
        libraries=matrix.libraries,
        waivers=matrix.waivers,
    )
    if facts.name != matrix.project.name:
        return policy
    return replace(
        policy,
        project=matrix.project,
        pin=matrix.pin,
        labels=tuple(sorted({each.label for each in matrix.targets.values() if each.label})),
        expectations=matrix.expectations(context.target),
        control_required=bool(target.control and target.control.required and context.profile is Profile.RELEASE),
    )


def offer(wanted: str, known: tuple[str, ...]) -> str:
    """What an error says was expected: the known names, and the near one."""
    near = difflib.get_close_matches(wanted, known, 1)
    return f"one of {', '.join(known)}" + (f"; did you mean {near[0]}?" if near else "")


def judge(facts: WheelFacts, context: Context) -> Report:
    """Run every check over one wheel for one target.

    :raises UsageError: as :func:`policy_for` says, or the facts (of the wheel or its control) hold headers alone.
        Nothing that a wheel holds raises.
    """
    for each in (facts, context.control):
        if each is not None and each.depth is not Depth.KERNELS:
            raise UsageError(
                f"was read to the depth of {each.depth}: no kernel of it is known",
                where=each.filename,
                expected=f"facts of depth {Depth.KERNELS}",
                action="read it whole",
            )
    policy = policy_for(facts, context)
    case = Case(facts, policy, context.control, context.torch, context.receipt)
    outcome = checks.run(case)
    coverage, not_judged = _count(case) if outcome.counted else ((), ())
    return Report(
        version=REPORT_VERSION,
        wheel=facts.filename,
        sha256=facts.sha256,
        project=facts.name,
        wheel_version=facts.wheel_version,
        target=policy.target,
        profile=policy.profile.value,
        verdict=verdict_of(outcome.findings),
        findings=outcome.findings,
        coverage=coverage,
        not_judged=not_judged,
        floors=_floors(case),
        true_tag=floors.true_tag(facts, policy.machine) if any(floors.binaries(facts, policy.machine)) else "",
        checks=outcome.ran,
        policy=policies.resolved(case),
        receipt=context.receipt.sha256 if context.receipt is not None else "",
    )


def _floors(case: Case) -> tuple[HostFloor, ...]:
    """The newest symbol versions that the binaries of the target's machine bind to, with the symbols that do."""
    found = floors.floors(member for member, _ in floors.binaries(case.facts, case.policy.machine))
    return tuple(
        HostFloor(each.version, each.member, each.symbols[:_SYMBOLS], len(each.symbols)) for each in found.values()
    )


def _count(case: Case) -> tuple[tuple[MemberCoverage, ...], tuple[str, ...]]:
    """Coverage of every compiled member, with what was asked of it, and the members that nobody judged."""
    rows = []
    for member in case.compiled:
        code = case.demand(member.path).code
        rows.append(summarize(case.kernels[member.path], "" if code is None else code.value))
    return tuple(rows), case.not_judged()
