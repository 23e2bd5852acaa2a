"""After the compile: is it the pin, what did it emit, its true tag, its label, its bill of materials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders import tagging
from builders.crates import Crate
from builders.holding import (
    Say,
    hold_against_bundles,
    hold_against_configure,
    hold_against_device,
    hold_against_missing,
    hold_against_pin,
    hold_against_proof,
    hold_against_target,
    hold_against_version,
    missing_members,
)
from builders.plan import Plan
from builders.proving import Proof, judged_proof
from builders.receipts.architectures import Emitted, requested_beside_emitted
from builders.receipts.configurelines import LeftOut, left_out, torch_warnings
from builders.receipts.sbom import FILE as SBOM
from builders.receipts.sbom import Ingredients, make_sbom
from builders.relabel import labelled, relabel
from builders.repair import Repaired
from qualify import floors
from qualify.errors import BuildError
from qualify.facts import WheelFacts
from qualify.matrix import LoadedMatrix
from qualify.opening import read_wheel


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of a wheel before it is looked at.

    ``output`` is what the build printed; ``repaired`` what became of it; ``ingredients`` all but its version.
    """

    computed: str
    output: tuple[str, ...]
    proof: Mapping[str, Any]
    repaired: Repaired
    provided: tuple[str, ...]  # libraries that torch and its CUDA packages bring
    crates: tuple[Crate, ...]
    distributions: Mapping[str, str]
    hashes: Mapping[str, str]
    optional: tuple[str, ...] = ()  # members that the tree declares optional


@dataclass(frozen=True, slots=True)
class Finished:
    """A wheel as it is delivered, and what was found out on the way."""

    wheel: Path
    facts: WheelFacts
    made_as: str
    computed: str
    commit: str  # "same" or "cannot tell", beside the pin
    architectures: tuple[Emitted, ...]
    left_out: tuple[LeftOut, ...]
    missing: Mapping[str, str]
    torch_warnings: tuple[str, ...]
    proof: Proof
    repaired: Repaired
    tag: tagging.Tagging
    sbom: str


def only_wheel(folder: Path, log: Path) -> Path:
    """The one wheel that a build left.

    :raises BuildError: none, or several.
    """
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise BuildError(
            f"the build ended well and left {len(found)} wheels",
            where=", ".join(path.name for path in found) or str(folder.name),
            expected="one wheel",
            action=f"the log is {log}",
        )
    return found[0]


def finish(wheel: Path, plan: Plan, loaded: LoadedMatrix, made: Made, say: Say) -> Finished:
    """Hold the wheel against the pin and the target, then give it its true tag, its label and its bill of materials.

    :param wheel: as the build backend left it, or as it was repaired.
    :raises BuildError: it is another project's, its extensions are for another machine, it says another commit or
        version than the clean tree, it holds no device code where the plan expects some or binaries that were not
        compiled here, it lacks a part that nothing expects to be left out, or it bundles what must not be.
    :raises MalformedError: it is no wheel.
    """
    target, build = loaded.matrix.targets[plan.target], loaded.matrix.build
    facts = read_wheel(wheel)
    made_as = wheel.name
    hold_against_target(facts, plan)
    commit = hold_against_pin(facts, plan, loaded, say)
    hold_against_version(facts, made.computed)
    architectures = requested_beside_emitted(facts, plan.architectures, plan.compute_capability)
    hold_against_device(facts, plan, architectures, say)
    proof = judged_proof(made.proof, build.prebuilt)
    hold_against_proof(proof, facts, made.repaired)
    announced = left_out(made.output, build.configure, target.not_built)
    hold_against_configure(announced, plan)
    missing = missing_members(facts, loaded, plan, made.output, made.optional)
    hold_against_missing(missing, facts)
    hold_against_bundles(facts, made.repaired)
    wheel, tag = _tagged(wheel, facts, plan, made, target.ceilings.glibc, say)
    version = labelled(facts.wheel_version, plan.label) if plan.label else facts.wheel_version
    bill = make_sbom(plan, Ingredients(version, made.crates, made.distributions, made.hashes, made.repaired.bundled))
    wheel = relabel(wheel, plan.label, {SBOM: bill})
    facts = read_wheel(wheel)
    if facts.problems:
        raise BuildError(
            f"the finished wheel is faulty: {facts.problems[0]}",
            where=wheel.name,
            expected="a wheel that can be read whole",
            action="see how it was built; the build folder is kept",
        )
    return Finished(
        wheel,
        facts,
        made_as,
        made.computed,
        commit,
        architectures,
        announced,
        missing,
        torch_warnings(made.output),
        proof,
        made.repaired,
        tag,
        next((member.path for member in facts.members if member.path.endswith(SBOM)), SBOM),
    )


def _tagged(
    wheel: Path, facts: WheelFacts, plan: Plan, made: Made, ceiling: str, say: Say
) -> tuple[Path, tagging.Tagging]:
    """The wheel under its true tag; where a tag of another kind stands already (a repair's), that stays.

    :param ceiling: the newest glibc that the target allows.
    """
    tag = tagging.true_tag(facts, plan.machine, made.provided)
    if any(not name.endswith(f"-linux_{plan.machine}") for name in facts.tags):
        return wheel, tag
    if not tag.tag:
        say(f"not tagged: {tag.reason}")
        return wheel, tag
    wheel = tagging.retag(wheel, tag.tag)
    say(f"tagged {tag.tag}: {tag.reason}")
    if (floors.tag_glibc(tag.tag) or ()) > floors.parse(ceiling):
        say(f"its floor is above the target's ceiling, glibc {ceiling}: it will not qualify")
    return wheel, tag
