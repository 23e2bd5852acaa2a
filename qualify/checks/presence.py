"""The compiled members that must be there, and those that nobody expected."""

from __future__ import annotations

from collections.abc import Iterator

from qualify.checks.case import Case, module_path
from qualify.checks.registry import Observation, check
from qualify.facts import MemberKind, installed_path
from qualify.report import Severity


@check("PRE001", "no-compiled-extension")
def no_compiled_extension(case: Case) -> Iterator[Observation]:
    """The wheel holds no compiled extension module.

    Why: an empty shell installs and imports, and fails at the first kernel: what `VLLM_TARGET_DEVICE=empty` makes,
    and a precompiled build whose binaries were not found. An executable beside it is no extension.

    Mend: build with the target's device set and the switches for precompiled binaries unset; look in the build log
    for the extensions that were skipped.
    """
    kinds = {MemberKind.EXTENSION, MemberKind.LIBRARY}
    if not case.policy.named:
        kinds.add(MemberKind.EXECUTABLE)
    if not any(member.kind in kinds for member in case.facts.members):
        found = f"no compiled extension in {len(case.facts.members)} files"
        yield Observation("", found, "at least one", "build it for the target; an empty or editable build has none")


@check("PRE002", "extension-missing")
def extension_missing(case: Case) -> Iterator[Observation]:
    """An extension module or executable that the target requires is not in the wheel.

    Why: build systems skip an extension whose conditions are not met, and say so in one line of a long log.

    Mend: look for that line (`Not building …`), meet its condition and build again; or make the entry optional in
    the matrix, if the target does without.
    """
    if not any(member.kind in (MemberKind.EXTENSION, MemberKind.LIBRARY) for member in case.facts.members):
        return  # PRE001 says it once, for all of them
    there = {name for member in case.compiled for name in (installed_path(member.path), module_path(member.path))}
    for path in case.required():
        if path not in there:
            action = "find out why the build skipped it, or make it optional in the matrix"
            yield Observation(path, "not in the wheel", f"required on {case.policy.target}", action)


@check("PRE003", "extension-unexpected", upstream=Severity.NOTE)
def extension_unexpected(case: Case) -> Iterator[Observation]:
    """A compiled member has no entry in the matrix.

    Why: it may be new upstream, or a stray of another build. Until somebody says what it needs, its device code is
    judged by nobody.

    Mend: give it an entry under `extensions:` (presence and code), or keep it out of the wheel.
    """
    if not case.policy.named:
        return
    for member in case.compiled:
        if case.expectation(member.path) is None:
            action = f"add {module_path(member.path)} to the matrix's extensions, or leave it out of the wheel"
            yield Observation(member.path, f"a compiled member ({member.kind})", "an entry in the matrix", action)
