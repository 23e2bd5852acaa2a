"""After the compile: is it the pin, what did it emit, its true tag, its label."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from builders import tagging
from builders.crates import Crate
from builders.plan import Plan
from builders.proving import Proof, judged_proof
from builders.receipts.architectures import requested_beside_emitted
from builders.receipts.configurelines import LeftOut, left_out, torch_warnings
from builders.receipts.sbom import FILE as SBOM
from builders.receipts.sbom import Ingredients, make_sbom
from builders.relabel import labelled, relabel
from builders.repair import Repaired
from builders.source_version import version_agrees
from qualify.arch import ComputeCapability, Support
from qualify.coverage import entry_support
from qualify.errors import BuildError
from qualify.facts import MemberKind, WheelFacts
from qualify.identity import CommitMatch, identity_of_wheel, matches_commit
from qualify.matrix import LoadedMatrix
from qualify.matrix.model import Presence, Profile
from qualify.opening import read_wheel
from qualify.sonames import Owner, bundled

Say = Callable[[str], None]
_NEVER_BUNDLED = (Owner.DRIVER, Owner.TORCH, Owner.CUDA)
# setuptools, of an extension that is optional: it warns and goes on.
_OPTIONAL_FAILED = re.compile(r"building extension ['\"]?(?P<name>[\w.]+)['\"]? failed")


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


@dataclass(frozen=True, slots=True)
class Finished:
    """A wheel as it is delivered, and what was found out on the way."""

    wheel: Path
    facts: WheelFacts
    made_as: str
    computed: str
    commit: str  # "same" or "cannot tell", beside the pin
    architectures: tuple[dict[str, Any], ...]
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
    _hold_against_target(facts, plan)
    commit = _hold_against_pin(facts, plan, loaded, say)
    _hold_against_version(facts, made.computed)
    _hold_against_device(facts, plan, say)
    proof = judged_proof(made.proof, build.prebuilt)
    _hold_against_proof(proof, facts)
    announced = left_out(made.output, build.configure, target.not_built)
    _hold_against_configure(announced, plan)
    missing = missing_members(facts, loaded, plan, made.output)
    _hold_against_missing(missing, facts)
    _hold_against_bundles(facts, made.repaired)
    tag = _tagged(facts, plan, made)
    kept = [name for name in facts.tags if not name.endswith(f"-linux_{plan.machine}")]
    if tag.tag and not kept:
        wheel = tagging.retag(wheel, tag.tag)
        say(f"tagged {tag.tag}: {tag.reason}")
        if tagging.glibc_of(tag.tag) > tuple(int(part) for part in target.ceilings.glibc.split(".")):
            say(f"its floor is above the target's ceiling, glibc {target.ceilings.glibc}: it will not qualify")
    elif not kept:
        say(f"not tagged: {tag.reason}")
    version = labelled(facts.wheel_version, plan.label) if plan.label else facts.wheel_version
    bill = make_sbom(plan, Ingredients(version, made.crates, made.distributions, made.hashes, made.repaired.bundled))
    wheel = relabel(wheel, plan.label, {SBOM: bill})
    facts = read_wheel(wheel)
    if facts.problems:
        raise BuildError(f"the finished wheel is faulty: {facts.problems[0]}", where=wheel.name)
    return Finished(
        wheel,
        facts,
        made_as,
        made.computed,
        commit,
        tuple(requested_beside_emitted(facts, plan.architectures, plan.compute_capability)),
        announced,
        missing,
        torch_warnings(made.output),
        proof,
        made.repaired,
        tag,
        next((member.path for member in facts.members if member.path.endswith(SBOM)), SBOM),
    )


def _tagged(facts: WheelFacts, plan: Plan, made: Made) -> tagging.Tagging:
    """The true tag; libraries that a repair bundled are the wheel's own."""
    return tagging.true_tag(facts, plan.machine, made.provided)


def _hold_against_version(facts: WheelFacts, computed: str) -> None:
    fault = version_agrees(computed, facts.wheel_version) if computed else ""
    if fault:
        raise BuildError(
            fault,
            where=facts.filename,
            expected=f"the version that setuptools-scm computed from the clean tree, {computed}",
            action="the build changed the tree, or forged its version",
        )


def _hold_against_proof(proof: Proof, facts: WheelFacts) -> None:
    if proof.foreign:
        listed = "; ".join(f"{each.name}: {each.why}" for each in proof.foreign)
        raise BuildError(
            f"rejected: not compiled here: {listed}",
            where=facts.filename,
            expected="binaries that this build compiled",
            action="find what copies them into the build; what the tree may bring stands in build.prebuilt",
        )


def _hold_against_configure(announced: tuple[LeftOut, ...], plan: Plan) -> None:
    fresh = [each for each in announced if not each.reason]
    if fresh:
        listed = "; ".join(f"line {each.line}: {each.text}" for each in fresh)
        raise BuildError(
            f"the configure step leaves out what the target doesn't expect to be left out: {listed}",
            where=f"{plan.target}: configure",
            expected="only what build.configure.expected and the target's not_built name",
            action="mend the build, or name it there with the reason",
        )


def missing_members(facts: WheelFacts, loaded: LoadedMatrix, plan: Plan, output: tuple[str, ...]) -> dict[str, str]:
    """Members that the matrix or the build's output names and the wheel lacks -> why that is right, "" if it isn't.

    Optional extensions fail without an error: setuptools warns that building them failed, and goes on.
    """
    there = {member.path.split(".", 1)[0] for member in facts.members if member.elf is not None}
    allowed = loaded.matrix.build.optional_members
    found: dict[str, str] = {}
    if plan.expects_device_code:
        for path, expectation in loaded.matrix.expectations(plan.target).items():
            if path not in there and expectation.presence_for(Profile.RELEASE) is Presence.REQUIRED:
                found[path] = ""
    for line in output:
        if match := _OPTIONAL_FAILED.search(line):
            path = match["name"].replace(".", "/")
            if path not in there:
                found[path] = ""
    return {
        path: next((reason for pattern, reason in allowed.items() if fnmatchcase(path, pattern)), "") for path in found
    }


def _hold_against_missing(missing: Mapping[str, str], facts: WheelFacts) -> None:
    wrong = sorted(path for path, reason in missing.items() if not reason)
    if wrong:
        raise BuildError(
            f"the build ended well, and its wheel lacks {', '.join(wrong)}",
            where=facts.filename,
            expected="every extension that the target requires, and every one that the build called optional",
            action="read the log: an optional extension that fails is only a warning there; "
            "one that may be missing stands in build.optional_members with the reason",
        )


def _hold_against_bundles(facts: WheelFacts, repaired: Repaired) -> None:
    """A repair that bundles the driver, torch or CUDA makes a wheel that can't work beside the real ones."""
    for member in facts.members:
        known = bundled(member)
        if known is not None and known.owner in _NEVER_BUNDLED:
            raise BuildError(
                f"the wheel bundles {member.path}, which is {known.owner.value}'s",
                where=facts.filename,
                expected="libraries of the driver, torch and CUDA from where they come",
                action=f"see the repair: {repaired.said}",
            )


def _hold_against_target(facts: WheelFacts, plan: Plan) -> None:
    """A cross build that finds the wrong compiler makes this machine's code under the other's name."""
    if facts.name != canonicalize_name(plan.project):
        raise BuildError(
            f"the build made a wheel of {facts.name}",
            where=facts.filename,
            expected=plan.project,
            action="mend project.name of the matrix, or pin.source.subdirectory",
        )
    for member in facts.members:
        if member.kind is MemberKind.EXTENSION and member.elf is not None and member.elf.machine != plan.machine:
            raise BuildError(
                f"{member.path} is for {member.elf.machine}",
                where=facts.filename,
                expected=plan.machine,
                action="read the log: the build found another compiler than the plan's",
            )


def _hold_against_pin(facts: WheelFacts, plan: Plan, loaded: LoadedMatrix, say: Say) -> str:
    """What the wheel says of its commit beside the pin's: "same" or "cannot tell"."""
    identity = identity_of_wheel(facts, loaded.matrix.project.version_module)
    answer = matches_commit(identity, loaded.matrix.pin.commit)
    if answer is CommitMatch.OTHER:
        raise BuildError(
            f"the wheel says commit {identity.commit}",
            where=facts.filename,
            expected=f"the pin's, {loaded.matrix.pin.commit}",
            action="the build read its version from somewhere else than the pinned tree",
        )
    if answer is not CommitMatch.SAME:
        say("the wheel doesn't say which commit it was built from")
    return answer.value


def _hold_against_device(facts: WheelFacts, plan: Plan, say: Say) -> None:
    """Builds fall back to host code without an error: torchsort does, where torch sees no CUDA."""
    if not plan.expects_device_code:
        return
    entries = [entry for member in facts.members for container in member.containers for entry in container.entries]
    if not entries:
        raise BuildError(
            "the build ended well, and its wheel holds no device code",
            where=facts.filename,
            expected=f"code for {plan.arch_list}",
            action="read the log: the build chose another device by itself, or dropped its extensions",
        )
    device = ComputeCapability.parse(plan.compute_capability)
    if all(entry_support(entry, device) is Support.NONE for entry in entries):
        names = ", ".join(sorted({entry.architecture for entry in entries}))
        say(f"nothing in it runs on compute capability {plan.compute_capability} ({names}): it will not qualify")
