"""Device code: what the target's GPU can run of each member, held against what is asked of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase, translate

from qualify.arch import Support
from qualify.checks.case import Case, Demand, examples, runs
from qualify.checks.registry import Observation, check
from qualify.coverage import MemberKernels
from qualify.facts import EntryKind, MemberKind
from qualify.matrix.model import Code
from qualify.report import Severity

NOTE, UNVERIFIED = Severity.NOTE, Severity.UNVERIFIED


def _architectures(case: Case, path: str) -> str:
    """What a member holds, for a finding: ``sm_80, sm_100f, compute_80``."""
    member = next(member for member in case.facts.members if member.path == path)
    names = {entry.architecture or "unknown" for c in member.containers for entry in c.entries if entry.kernels}
    return ", ".join(sorted(names)) or "nothing"


@check("DEV001", "no-code-for-target")
def no_code_for_target(case: Case) -> Iterator[Observation]:
    """A member that has to run on the target holds no kernel that its GPU can run.

    Why: everything imports, and the first launch fails with `no kernel image is available for execution`.

    Mend: build it with an architecture list that the target can run. That need not name the target: sm_120 runs on
    12.1. Where the member does without on this target, say `code: any` in the matrix.
    """
    for kernels, demand in case.demanded(Code.NATIVE, Code.JIT):
        if runs(kernels) or kernels.unknown or kernels.unread or kernels.hidden:
            continue
        if kernels.best:
            found = f"none of {len(kernels.best)} kernels runs there (code for {_architectures(case, kernels.member)})"
        elif kernels.has_kernels:
            found = "device code of which nothing runs there"
        elif _needs_link(case, kernels.member):
            found = "LTO-IR alone, of which nothing runs before it is linked"
        else:
            found = "no device code at all" if not kernels.entries else "device code without a single kernel"
        yield Observation(kernels.member, found, _expected(case, demand), _BUILD)


def _needs_link(case: Case, path: str) -> bool:
    """Whether a member holds LTO-IR."""
    member = next(member for member in case.facts.members if member.path == path)
    return any(entry.kind is EntryKind.LTO_IR for c in member.containers for entry in c.entries)


def _expected(case: Case, demand: Demand) -> str:
    how = "native code" if demand.code is Code.NATIVE else "code that runs, natively or by JIT,"
    return f"{how} for compute capability {case.policy.device}"


_LOAD = "see FLO007 (an older base image) and PYT003 (the file's suffix); link what is a static library"
_BUILD = "build it with an architecture list that covers the target"


def _allowed(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _not_allowed(kernels: MemberKernels, demand: Demand) -> tuple[str, ...]:
    patterns = [allowance.pattern for allowance in demand.jit_ok]
    return tuple(name for name in kernels.jit if not _allowed(name, patterns))


@check("DEV002", "jit-only-kernels")
def jit_only_kernels(case: Case) -> Iterator[Observation]:
    """Native code is asked for, and kernels reach the target only as PTX.

    Why: the driver compiles them at first load, for seconds or minutes in every process until its cache holds them,
    and without the features of the `a` and `f` architectures.

    Mend: add the target's architecture for the sources of these kernels. Where upstream means them to be PTX, list
    them under `jit_ok` with the reason.
    """
    for kernels, demand in case.demanded(Code.NATIVE):
        names = _not_allowed(kernels, demand)
        if not names and kernels.jit and not kernels.native and not kernels.unknown:
            names = kernels.jit  # every one of them is allowed, and still nothing is native
        if names:
            found = f"{len(names)} of {len(kernels.best)} kernels are PTX only, such as {examples(names)}"
            listing = "" if case.policy.require else ", or list them under jit_ok"
            yield Observation(kernels.member, found, _expected(case, demand), _BUILD + listing)


@check("DEV003", "listed-kernel-not-native")
def listed_kernel_not_native(case: Case) -> Iterator[Observation]:
    """A kernel that the target lists does not run there natively, or is not in the member.

    Why: a good union over a member hides single translation units without code for the target: each launches the
    kernel from its own container. Kernels that the target cannot do without are listed, and each of them counts, in
    every container that holds it.

    Mend: add the target's architecture for their sources; where a kernel was renamed, correct the pattern.
    """
    for member in case.compiled:
        kernels, demand = case.kernels[member.path], case.demand(member.path)
        if demand.code in (Code.NATIVE, Code.JIT) and not runs(kernels):
            continue  # DEV001 says it once, for all of them
        not_native = _not_native(kernels) if demand.kernels else set()
        for pattern in demand.kernels:
            matching = _matching(kernels.best, pattern)
            missing = tuple(sorted(matching & not_native))
            if missing:
                found = f"{len(missing)} kernels that match {pattern!r} are not native: {examples(missing)}"
                yield Observation(member.path, found, f"each native on {case.policy.device}", _BUILD)
            elif not matching and not kernels.unread:
                found = f"no kernel matches {pattern!r}"
                yield Observation(member.path, found, "at least one", "correct the pattern, or find the lost kernel")


_PART = re.compile(r"\*([^*?\[]+)\*")  # the pattern that nearly all are: a part of the name


def _matching(names: Iterable[str], pattern: str) -> set[str]:
    """Names that an fnmatch pattern fits.  Mangled names are long and many: a part is looked for as a part."""
    if part := _PART.fullmatch(pattern):
        return {name for name in names if part[1] in name}
    fits = re.compile(translate(pattern)).match
    return {name for name in names if fits(name)}


def _not_native(kernels: MemberKernels) -> set[str]:
    """Kernels that at least one container holds without code that runs natively, as far as that is known."""
    known = (each for each in kernels.containers if each.best is not Support.UNKNOWN)
    return {name for container in known for name in set(container.kernels) - set(container.native)}


@check("DEV004", "rule-unknown", upstream=UNVERIFIED, release=UNVERIFIED)
def rule_unknown(case: Case) -> Iterator[Observation]:
    """Whether code that a member depends on runs on the target is not known.

    Why: an architecture that no document describes (sm_88) may or may not be compatible. Guessing would be a
    verdict without a ground.

    Mend: give the member code of an architecture with a known rule, or add the architecture's row to
    `qualify/arch.py` once a document says where it belongs.
    """
    for kernels, _ in case.demanded(Code.NATIVE, Code.JIT):
        if kernels.unknown:
            found = f"{len(kernels.unknown)} kernels hang on code for {_architectures(case, kernels.member)}"
            expected = f"a known rule for compute capability {case.policy.device}"
            yield Observation(kernels.member, found, expected, "build for a known architecture")


@check("DEV005", "container-without-code", upstream=NOTE, release=NOTE)
def container_without_code(case: Case) -> Iterator[Observation]:
    """Some translation units of a member hold nothing for the target, while others do.

    Why: by design every fat wheel has some: kernels written for one generation. It is said so that a missing one is
    seen; kernels that matter are listed in the matrix, and are then an error (DEV003).

    Mend: nothing, as a rule. List the kernels that the target cannot do without under `kernels`.
    """
    for member in case.compiled:
        kernels = case.kernels[member.path]
        gaps = [container for container in kernels.containers if container.best is Support.NONE]
        if gaps and runs(kernels) and case.demand(member.path).code is not Code.HOST:
            what = f"{len(gaps)} of {len(kernels.containers)} containers hold nothing for the target"
            names = f"; {len(kernels.none)} kernels don't run there" if kernels.none else ""
            yield Observation(member.path, what + names, "by design in a fat wheel", "list kernels that matter")


@check("DEV006", "jit-only", upstream=NOTE, release=NOTE)
def jit_only(case: Case) -> Iterator[Observation]:
    """Everything that a member has for the target is PTX.

    Why: it works, and the first call of each process waits for the driver's JIT: 18 seconds were measured for
    FlashAttention 2 on an H200.

    Mend: nothing where `code: jit` is what upstream can give; otherwise add the target's architecture.
    """
    for member in case.compiled:
        kernels = case.under_driver[member.path]
        if kernels.jit and not kernels.native:
            found = f"JIT only: all {len(kernels.jit)} kernels that run are PTX"
            yield Observation(member.path, found, "native code, where it can be had", _BUILD)


@check("DEV007", "partly-jit", upstream=NOTE, release=NOTE)
def partly_jit(case: Case) -> Iterator[Observation]:
    """Some kernels of a member are native on the target, and others PTX only.

    Why: the member as a whole looks covered, and single operations still wait for the driver's JIT.

    Mend: nothing where the kernels stand under `jit_ok`; otherwise add the target's architecture for their sources.
    """
    for member in case.compiled:
        kernels = case.under_driver[member.path]
        if kernels.jit and kernels.native:
            found = f"partly JIT: {len(kernels.native)} kernels native, {len(kernels.jit)} PTX only"
            yield Observation(member.path, found, "native code, where it can be had", _BUILD)


@check("DEV008", "nothing-for-target", upstream=NOTE, release=NOTE)
def nothing_for_target(case: Case) -> Iterator[Observation]:
    """A member holds device code, none of it for the target, and the matrix says that it need not.

    Why: FlashAttention 3 is in every vLLM wheel and runs on Hopper alone. The verdict names such members, so that
    nobody takes their presence for a promise.

    Mend: nothing; or ask for more in the matrix (`code: native` or `jit`).
    """
    for kernels, _ in case.demanded(Code.ANY):
        if kernels.has_kernels and not runs(case.under_driver[kernels.member]):
            found = f"nothing for the target in {len(kernels.best)} kernels ({_architectures(case, kernels.member)})"
            newer = ": what there is needs a newer driver" if runs(kernels) else ""
            yield Observation(kernels.member, found + newer, "no demand is made of it", "none needed")


@check("DEV009", "device-code-unexpected")
def device_code_unexpected(case: Case) -> Iterator[Observation]:
    """A member that should be host code alone holds kernels.

    Why: either the matrix is out of date, or something was linked in that does not belong there; nobody judges
    whether it runs.

    Mend: say what is asked of it (`code: native`, `jit` or `any`), or find out what brought the kernels in.
    """
    for kernels, _ in case.demanded(Code.HOST):
        if kernels.has_kernels:
            found = f"{len(kernels.best)} kernels for {_architectures(case, kernels.member)}"
            yield Observation(kernels.member, found, "no device code", "correct the matrix, or the link step")


@check("DEV010", "nothing-runs")
def nothing_runs(case: Case) -> Iterator[Observation]:
    """No member of a wheel that the matrix does not name has a kernel that runs on the target.

    Why: without expectations the least that can be asked is that something runs: natively or by JIT, on the
    target's oldest driver, in a member that the target's C library and interpreter load. That device code may be
    missing (`--require host`) does not say that all of it may be for other GPUs. A static library is there to be
    linked elsewhere: where host code is enough, it is asked for nothing.

    Mend: build it for the target, or use a release that covers it.
    """
    if case.policy.named or _asked_each(case):
        return
    linked_elsewhere = {member.path for member in case.compiled if member.kind is MemberKind.ARCHIVE}
    spared = linked_elsewhere if case.policy.require is Code.HOST else frozenset[str]()
    holding = [k for path, k in case.under_driver.items() if k.has_kernels and path not in spared]
    open_questions = any(kernels.unknown or kernels.unread for kernels in holding)
    if holding and not open_questions and not case.usable(case.under_driver):
        unloaded = [kernels for kernels in holding if runs(kernels)]
        names = examples(tuple(kernels.member for kernels in unloaded or holding))
        if unloaded:
            expected = "one that the target's C library and interpreter load as it is"
            yield Observation("", f"the code that runs there is in members that do not load: {names}", expected, _LOAD)
            return
        expected = f"one that runs on compute capability {case.policy.device}"
        yield Observation("", f"nothing runs in the members with device code: {names}", expected, _BUILD)


def _asked_each(case: Case) -> bool:
    """Whether this run asks each member with device code by itself (DEV001), a static library aside, which does not
    run as it is.
    """
    loaded = (member for member in case.compiled if member.kind is not MemberKind.ARCHIVE)
    asked = case.policy.require in (Code.NATIVE, Code.JIT)
    return asked and any(case.kernels[member.path].has_kernels for member in loaded)


@check("DEV011", "no-device-code")
def no_device_code(case: Case) -> Iterator[Observation]:
    """A wheel that the matrix does not name holds no device code at all.

    Why: a torch without CUDA in the build environment makes many projects build for the CPU, without an error.

    Mend: build with CUDA. If the wheel is right without device code, say so: `--require host`.
    """
    if case.policy.named or case.policy.require in (Code.HOST, Code.ANY):
        return
    if case.compiled and not any(kernels.has_kernels for kernels in case.kernels.values()):
        linked = any(_needs_link(case, member.path) for member in case.compiled)
        what = "LTO-IR alone, of which nothing runs before it is linked," if linked else "no device code"
        found = f"{what} in {len(case.compiled)} compiled members"
        yield Observation("", found, "kernels", "build with CUDA, or give --require host where none is right")


@check("DEV012", "nothing-certain", upstream=UNVERIFIED, release=UNVERIFIED)
def nothing_certain(case: Case) -> Iterator[Observation]:
    """Of a wheel that the matrix does not name, nothing runs for sure, and something might.

    Why: the only code that could run belongs to an architecture without a known rule, needs a driver that the
    tables do not know, or could not be read. That is no pass, and no rejection either.

    Mend: give the wheel code of a known architecture.
    """
    if case.policy.named or _asked_each(case):
        return
    usable = case.usable(case.under_driver)
    possible = usable or tuple(k for k in case.under_driver.values() if k.unknown or k.unread)
    if possible and not case.usable(case.surely_under_driver):
        names = examples(tuple(kernels.member for kernels in possible))
        expected = f"code that runs on compute capability {case.policy.device} for sure"
        yield Observation("", f"it is not known whether anything runs: {names}", expected, _BUILD)


@check("DEV014", "hidden-image")
def hidden_image(case: Case) -> Iterator[Observation]:
    """Kernels have code that the target's GPU could run, in an image that its driver does not load.

    Why: of a container (one translation unit, as a rule) the driver loads one image: a cubin before PTX, `sm_90a`
    before `sm_90`, else the highest that fits. A kernel that only another image holds is not found at its first launch,
    as measured on an H200, even where it stands there as PTX. nvcc puts every kernel into every image; a container that
    was put together by hand need not hold it so.

    Mend: compile the kernel for each architecture of its translation unit, or put it into one of its own.
    """
    for kernels, _ in case.demanded(Code.NATIVE, Code.JIT):
        if kernels.hidden:
            found = f"{len(kernels.hidden)} kernels are in images that are not loaded: {examples(kernels.hidden)}"
            expected = f"each kernel in the image that compute capability {case.policy.device} loads"
            yield Observation(kernels.member, found, expected, "compile it for every architecture of its unit")
