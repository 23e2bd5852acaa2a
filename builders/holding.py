"""What a built wheel is held against before it is delivered: pin, target, version, device code, proof, parts, bundles.

Each refusal is a :class:`BuildError` that says what is wrong, in which file, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from builders.optional import failed_optional
from builders.plan import Plan
from builders.proving import MemberProof, Proof, Provenance
from builders.receipts.architectures import Emitted, dropped
from builders.receipts.configurelines import LeftOut
from builders.repair import Repaired
from builders.source_version import version_agrees
from qualify.arch import ComputeCapability, Support
from qualify.coverage import entry_support
from qualify.errors import BuildError
from qualify.facts import MemberKind, WheelFacts, module_path
from qualify.identity import CommitMatch, identity_of_wheel, matches_commit
from qualify.matrix import LoadedMatrix
from qualify.matrix.model import Presence, Profile
from qualify.sonames import Owner, bundled

Say = Callable[[str], None]
NEVER_BUNDLED = (Owner.DRIVER, Owner.TORCH, Owner.CUDA)


def hold_against_target(facts: WheelFacts, plan: Plan) -> None:
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


def hold_against_pin(facts: WheelFacts, plan: Plan, loaded: LoadedMatrix, say: Say) -> str:
    """What the wheel says of its commit beside the pin's: "same" or "cannot tell"."""
    pinned = loaded.matrix.pin.commit
    if pinned is None:
        say("the pin asserts no commit: the sdist's sha256 stands for it, in the receipt")
        return CommitMatch.CANNOT_TELL.value
    identity = identity_of_wheel(facts, loaded.matrix.project.version_module)
    answer = matches_commit(identity, pinned)
    if answer is CommitMatch.OTHER:
        raise BuildError(
            f"the wheel says commit {identity.commit}",
            where=facts.filename,
            expected=f"the pin's, {pinned}",
            action="the build read its version from somewhere else than the pinned tree",
        )
    if answer is not CommitMatch.SAME:
        say("the wheel doesn't say which commit it was built from")
    return answer.value


def hold_against_version(facts: WheelFacts, computed: str) -> None:
    """The version of the wheel beside the one of the clean tree."""
    fault = version_agrees(computed, facts.wheel_version) if computed else ""
    if fault:
        raise BuildError(
            fault,
            where=facts.filename,
            expected=f"the version that setuptools-scm computed from the clean tree, {computed}",
            action="the build changed the tree, or forged its version",
        )


def hold_against_device(facts: WheelFacts, plan: Plan, rows: Iterable[Emitted], say: Say) -> None:
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
    names = ", ".join(sorted({entry.architecture for entry in entries}))
    if lost := dropped(rows):
        raise BuildError(
            f"the build dropped {', '.join(lost)}: nothing in its wheel serves "
            f"{'it' if len(lost) == 1 else 'them'}; it holds {names}",
            where=facts.filename,
            expected=f"code for each of {plan.arch_list}",
            action=f"read the log: the build reads its architectures from elsewhere than {plan.arch_variable}, or its "
            "compiler can't make them",
        )
    device = ComputeCapability.parse(plan.compute_capability)
    if all(entry_support(entry, device) is Support.NONE for entry in entries):
        say(f"nothing in it runs on compute capability {plan.compute_capability} ({names}): it will not qualify")


def hold_against_proof(proof: Proof, facts: WheelFacts, repaired: Repaired) -> None:
    """Every binary of the wheel was compiled here, and is still what came out of the compile.

    A repair changes what names the libraries that it bundles, so of a repaired wheel the names alone are held.
    """
    unproven = proof.of(Provenance.FOREIGN)
    unseen = proof.of(Provenance.UNSEEN)
    if unproven:
        raise BuildError(
            f"rejected: not compiled here: {_listed(unproven)}",
            where=facts.filename,
            expected="binaries that this build compiled",
            action="find what copies them into the build; what the tree may bring stands in build.prebuilt",
        )
    if unseen:
        raise BuildError(
            f"rejected: not shown to be compiled here: {_listed(unseen)}",
            where=facts.filename,
            expected="binaries whose objects lie in the build folder and can be read",
            action="let the backend compile in the tree and leave symbols in; what the tree may bring stands in "
            "build.prebuilt",
        )
    proven = {member.name: member.sha256 for member in proof.members}
    for member in facts.members:
        if member.elf is None or member.elf.machine == "cuda" or member.path in repaired.bundled:
            continue
        if member.path not in proven or (not repaired.file and member.sha256 != proven[member.path]):
            raise BuildError(
                f"rejected: not compiled here: {member.path} is not what the build folder was looked at for",
                where=facts.filename,
                expected="the binaries that came out of the compile",
                action="build again; nothing else may write into the build's output folder",
            )


def hold_against_configure(announced: Iterable[LeftOut], plan: Plan) -> None:
    """Parts that the configure step leaves out and nobody expects to be left out."""
    fresh = [each for each in announced if not each.reason]
    if fresh:
        listed = "; ".join(f"line {each.line}: {each.text}" for each in fresh)
        raise BuildError(
            f"the configure step leaves out what the target doesn't expect to be left out: {listed}",
            where=f"{plan.target}: configure",
            expected="only what build.configure.expected and the target's not_built name",
            action="mend the build, or name it there with the reason",
        )


def missing_members(
    facts: WheelFacts, loaded: LoadedMatrix, plan: Plan, output: Iterable[str], declared: Iterable[str] = ()
) -> dict[str, str]:
    """Members that matrix, tree or output name and the wheel lacks -> why that is right, "" where nothing says so.

    :param declared: those that the tree declares optional; the matrix's expectation that one may be missing excuses it.
    """
    there = {module_path(member.path) for member in facts.members if member.elf is not None}
    expectations = loaded.matrix.expectations(plan.target)
    found: dict[str, str] = {}
    if plan.expects_device_code:
        for path, expectation in expectations.items():
            if path not in there and expectation.presence_for(Profile.RELEASE) is Presence.REQUIRED:
                found[path] = ""
        for path in declared:
            if path not in there and path not in found:
                found[path] = _excused(path, expectations)
        for path in failed_optional(output):
            if path not in there:
                found.setdefault(path, "")
    allowed = loaded.matrix.build.optional_members
    return {
        path: next((why for pattern, why in allowed.items() if fnmatchcase(path, pattern)), reason)
        for path, reason in found.items()
    }


def hold_against_missing(missing: Mapping[str, str], facts: WheelFacts) -> None:
    """Parts that the wheel lacks without a reason."""
    wrong = sorted(path for path, reason in missing.items() if not reason)
    if wrong:
        raise BuildError(
            f"the build ended well, and its wheel lacks {', '.join(wrong)}",
            where=facts.filename,
            expected="every extension that the target requires, and every one that the build calls optional",
            action="read the log: an optional extension that fails is only a warning there; "
            "one that may be missing stands in build.optional_members with the reason",
        )


def hold_against_bundles(facts: WheelFacts, repaired: Repaired) -> None:
    """A repair that bundles the driver, torch or CUDA makes a wheel that can't work beside the real ones."""
    for member in facts.members:
        known = bundled(member)
        if known is not None and known.owner in NEVER_BUNDLED:
            raise BuildError(
                f"the wheel bundles {member.path}, which is {known.owner.value}'s",
                where=facts.filename,
                expected="libraries of the driver, torch and CUDA from where they come",
                action=f"see the repair: {repaired.said}",
            )


def _excused(path: str, expectations: Mapping[str, object]) -> str:
    return "the target doesn't require it" if path in expectations else ""


def _listed(members: Iterable[MemberProof]) -> str:
    return "; ".join(f"{each.name}: {each.why}" for each in members)
