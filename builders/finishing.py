"""After the compile: is it the pin, what did it emit, its true tag, its label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from builders import tagging
from builders.plan import Plan
from builders.receipt import emitted
from builders.relabel import relabel
from qualify.arch import ComputeCapability, Support
from qualify.coverage import entry_support
from qualify.errors import BuildError
from qualify.facts import MemberKind, WheelFacts
from qualify.identity import CommitMatch, identity_of_wheel, matches_commit
from qualify.matrix import LoadedMatrix
from qualify.opening import read_wheel

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finished:
    wheel: Path
    facts: WheelFacts
    document: dict[str, Any]  # the receipt's part


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


def finish(wheel: Path, plan: Plan, loaded: LoadedMatrix, provided: tuple[str, ...], say: Say) -> Finished:
    """Hold the wheel against the pin, then give it its true tag and its label.

    :raises BuildError: it is another project's, its extensions are for another machine, it says another commit than
        the pin's, or it holds no device code where the plan expects some.
    :raises MalformedError: it is no wheel.
    """
    facts = read_wheel(wheel)
    made_as = wheel.name
    _hold_against_target(facts, plan)
    commit = _hold_against_pin(facts, plan, loaded, say)
    _hold_against_device(facts, plan, say)
    tag = tagging.true_tag(facts, plan.machine, provided)
    ceiling = loaded.matrix.targets[plan.target].ceilings.glibc
    kept = [name for name in facts.tags if not name.endswith(f"-linux_{plan.machine}")]
    if tag.tag and not kept:
        wheel = tagging.retag(wheel, tag.tag)
        say(f"tagged {tag.tag}: {tag.reason}")
        if tagging.glibc_of(tag.tag) > tuple(int(part) for part in ceiling.split(".")):
            say(f"its floor is above the target's ceiling, glibc {ceiling}: it will not qualify for release")
    elif not kept:
        say(f"not tagged: {tag.reason}")
    if plan.label:
        wheel = relabel(wheel, plan.label)
    if wheel.name != made_as:
        facts = read_wheel(wheel)
    return Finished(
        wheel,
        facts,
        {
            "wheel": {"filename": wheel.name, "sha256": facts.sha256, "size": facts.size, "made_as": made_as},
            "versions": {
                "source": plan.source.version,
                "wheel": facts.wheel_version,
                "modules": {module.path: module.version for module in facts.version_modules},
                "commit": commit,
            },
            "requested": {"variable": plan.arch_variable, "architectures": plan.arch_list} if plan.toolkit else None,
            "emitted": emitted(facts),
            "tag": {"platform": tag.tag, "floors": tag.floors, "reason": tag.reason},
            "label": plan.label,
        },
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
