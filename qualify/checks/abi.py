"""Claims of CPython's stable ABI against the symbols that a binary takes from the interpreter.

A wheel claims the stable ABI by its tag (``cp38-abi3``; ``cp315-abi3.abi3t`` for free-threaded builds as well), or says
with ``none`` that it needs no ABI of the interpreter's at all; a file claims it by its suffix.  A file with the suffix
of one interpreter (``_C.cpython-312-x86_64-linux-gnu.so``) claims nothing, under whatever tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from qualify.checks.case import Case, examples, module_path
from qualify.checks.python import installing
from qualify.checks.registry import Observation, check
from qualify.checks.suffixes import Suffix, modules_of, suffix_of
from qualify.facts import Member, MemberKind
from qualify.report import Severity
from qualify.stableabi import Minor, Use, stable_abi, use_of

_INTERPRETER = re.compile(r"(?:cp|py)3(?P<minor>[0-9]{0,3})")


class _Claim(NamedTuple):
    """One binary that has to get by with the stable ABI of ``floor``."""

    member: Member
    suffix: Suffix | None
    floor: Minor
    use: Use


def _floor(case: Case) -> Minor | None:
    """The lowest version whose stable ABI the wheel's tags claim; None where no tag claims more than one version."""
    open_ended, versions = False, []
    for tag in case.facts.tags:
        interpreter, _, rest = tag.partition("-")
        if match := _INTERPRETER.fullmatch(interpreter):
            versions.append((3, int(match["minor"])) if match["minor"] else (3, 2))
        open_ended |= rest.partition("-")[0] in ("abi3", "abi3t", "none")
    return max((3, 2), min(versions)) if open_ended and versions else None


def _binaries(case: Case) -> Iterator[tuple[Member, Suffix | None]]:
    """Extensions and libraries that no suffix binds to one interpreter."""
    for member in case.facts.members:
        if member.elf is not None and member.kind in (MemberKind.EXTENSION, MemberKind.LIBRARY):
            suffix = suffix_of(member.path)
            if suffix is None or suffix.stable or not suffix.interpreter:
                yield member, suffix


def _claims(case: Case) -> Iterator[_Claim]:
    floor = _floor(case)
    if floor is None:
        return
    own = frozenset(name for member in case.facts.members if member.elf is not None for name in member.elf.exports)
    for member, suffix in _binaries(case):
        if member.elf is not None:
            yield _Claim(member, suffix, floor, use_of(member.elf, own))


def _versioned(symbols: dict[str, Minor]) -> str:
    return examples(tuple(f"{name} ({_text(added)})" for name, added in symbols.items()), count=3)


def _text(version: Minor) -> str:
    return f"{version[0]}.{version[1]}"


def _tags(case: Case) -> str:
    return ", ".join(sorted({tag.rpartition("-")[0] for tag in case.facts.tags}))


@check("ABI001", "outside-the-stable-abi", upstream=Severity.INCONCLUSIVE)
def outside_the_stable_abi(case: Case) -> Iterator[Observation]:
    """A binary that claims the stable ABI takes a symbol of the interpreter that is not in it.

    Why: a version of CPython that lacks the symbol, or changed what it means, refuses the file with `undefined symbol`
    or crashes in it. Names of no list are outside too: the list is older than the claimed version only where ABI005
    says so. The tag and the macro `Py_LIMITED_API` know nothing of each other, and setuptools sets only the tag. Which
    versions do have the symbol is not known here, so someone else's wheel may run on the target all the same.

    Mend: define `Py_LIMITED_API` when compiling, and use what the limited API has; or build one file per version.
    """
    listed = stable_abi()
    for claim in _claims(case):
        if claim.use.outside and claim.floor <= listed.newest:
            names = tuple(
                f"{name} (only with {listed.elsewhere[name]})" if name in listed.elsewhere else name
                for name in claim.use.outside
            )
            what = f"{len(names)} {'symbols' if len(names) > 1 else 'symbol'} outside the stable ABI"
            expected = f"symbols of the stable ABI of {_text(claim.floor)}, as the tag {_tags(case)} says"
            action = "compile with Py_LIMITED_API, or build one file per Python"
            yield Observation(claim.member.path, f"{what}: {examples(names, count=3)}", expected, action)


def _late(case: Case) -> Iterator[tuple[_Claim, dict[str, Minor], list[str], list[str]]]:
    """Binaries with symbols above their floor: the symbols, and the versions below them that install the wheel all the
    same, the target's own apart from the others.
    """
    for claim in _claims(case):
        late = claim.use.above(claim.floor)
        if not late:
            continue
        below = [f"3.{number}" for number in range(claim.floor[1], claim.use.lowest[1])]
        below = [python for python in below if installing(case, python)]
        own = [python for python in below if python in case.policy.python]
        yield claim, late, own, [python for python in below if python not in own]


def _needs(claim: _Claim, late: dict[str, Minor]) -> str:
    return f"needs CPython {_text(claim.use.lowest)}: {_versioned(late)}"


@check("ABI002", "newer-than-claimed", upstream=Severity.NOTE)
def newer_than_claimed(case: Case) -> Iterator[Observation]:
    """A binary takes symbols of a later stable ABI than the tag claims, and nothing keeps earlier Pythons away.

    Why: an installer of one of them takes the wheel, and the import ends in `undefined symbol`. The target's own
    versions are not among them (ABI003).

    Mend: raise the tag (`cp311-abi3`) or Requires-Python, or compile with `Py_LIMITED_API` of the claimed version.
    """
    for claim, late, own, others in _late(case):
        if others and not own:
            expected = f"symbols of {_text(claim.floor)}, as the tag {_tags(case)} says, or a Requires-Python above it"
            found = f"{_needs(claim, late)}; CPython {_range(others)} installs it"
            yield Observation(claim.member.path, found, expected, _RAISE)


@check("ABI003", "newer-than-target")
def newer_than_target(case: Case) -> Iterator[Observation]:
    """A Python version of the target installs the wheel, and a symbol that a binary takes joined the stable ABI later.

    Why: the import ends in `undefined symbol` there, whatever the tag says. A few such symbols were there before
    (7 of 97 in CPython 3.12), for whom nothing was promised: neither is an answer for a target that names the version.

    Mend: compile with `Py_LIMITED_API` of the target's lowest version, or take that version from the target.
    """
    for claim, late, own, _ in _late(case):
        if own:
            expected = f"symbols that CPython {', '.join(own)} has, which the target promises"
            yield Observation(claim.member.path, _needs(claim, late), expected, _RAISE)


@check("ABI004", "newer-than-tag", upstream=Severity.NOTE, release=Severity.NOTE)
def newer_than_tag(case: Case) -> Iterator[Observation]:
    """A binary takes symbols of a later stable ABI than the tag claims, and Requires-Python keeps earlier Pythons away.

    Why: nothing fails, since installers go by both. vLLM 0.33.0 does so: three extensions of 3.10 and 3.11 under the
    tag cp38-abi3, with Requires-Python 3.11 and later. Tools that go by the tag alone are misled.

    Mend: raise the tag to what the binaries need.
    """
    for claim, late, own, others in _late(case):
        if not own and not others:
            expected = f"symbols of {_text(claim.floor)}, as the tag {_tags(case)} says; Requires-Python covers it"
            yield Observation(claim.member.path, _needs(claim, late), expected, _RAISE)


_RAISE = "raise the tag or Requires-Python, or compile with Py_LIMITED_API of the claimed version"


def _range(pythons: list[str]) -> str:
    return pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"


@check("ABI005", "claim-newer-than-list", upstream=Severity.UNVERIFIED, release=Severity.UNVERIFIED)
def claim_newer_than_list(case: Case) -> Iterator[Observation]:
    """A wheel claims the stable ABI of a Python that this tool's list does not know yet.

    Why: a symbol that is in no list may be of that version, or outside the stable ABI. Below that version the list is
    complete, and a name that it lacks is outside (ABI001).

    Mend: use a newer version of this tool, or refresh its list (`python tools/refresh_abi3.py`).
    """
    newest = stable_abi().newest
    for claim in _claims(case):
        if claim.use.outside and claim.floor > newest:
            found = f"symbols that no list names: {examples(claim.use.outside, count=3)}"
            expected = f"a list that knows Python {_text(claim.floor)}; this one ends with {_text(newest)}"
            yield Observation(claim.member.path, found, expected, "refresh the list of the stable ABI")


@check("ABI006", "stable-file-under-one-version", upstream=Severity.NOTE, release=Severity.NOTE)
def stable_file_under_one_version(case: Case) -> Iterator[Observation]:
    """A file has the suffix of the stable ABI under a tag for one Python version.

    Why: it works there. Either the tag claims less than the wheel holds, and other versions go without, or the suffix
    claims more than is true.

    Mend: tag the wheel for the stable ABI (`cp312-abi3`), if all of its files keep to it; else drop `.abi3`.
    """
    if _floor(case) is not None or not case.facts.tags:
        return
    for member, suffix in _binaries(case):
        if member.elf is not None and suffix is not None and suffix.stable:
            outside = use_of(member.elf).outside
            names = f", with symbols outside the stable ABI: {examples(outside)}" if outside else ""
            found = f"the suffix .{suffix.interpreter}.so under {_tags(case)}{names}"
            expected = "a tag of the stable ABI, or the suffix of one Python"
            yield Observation(member.path, found, expected, "let tag and suffix claim the same")


@check("ABI007", "not-for-free-threading", upstream=Severity.NOTE)
def not_for_free_threading(case: Case) -> Iterator[Observation]:
    """The tag or the suffix says that free-threaded builds take an extension (`abi3t`), and they don't.

    Why: such a build (3.15 or later, PEP 803) imports no `.abi3.so`, and of a module that is not exported by
    `PyModExport_` it refuses the stable ABI. The target's own interpreters have the GIL.

    Mend: compile with `Py_TARGET_ABI3T`, export the module by PEP 793, and name the file `.abi3t.so`.
    """
    tagged = any(tag.split("-", 2)[1:2] == ["abi3t"] for tag in case.facts.tags)
    others = {module_path(m.path) for m, s in _binaries(case) if s is not None and s.interpreter in ("abi3t", "")}
    for member, suffix in _binaries(case):
        if member.elf is None or suffix is None or not modules_of(member.elf):
            continue
        if suffix.interpreter == "abi3" and tagged and module_path(member.path) not in others:
            expected = "a file that free-threaded builds import, as the tag abi3t says"
            yield Observation(member.path, "the suffix .abi3.so alone", expected, "name it .abi3t.so")
        elif (tagged or suffix.interpreter == "abi3t") and not any(
            name.startswith("PyModExport_") for name in member.elf.exports
        ):
            expected = "PyModExport_, which the stable ABI of free-threaded builds takes"
            found = f"the module is exported by PyInit_{examples(member.elf.python_inits, count=1)} alone"
            yield Observation(member.path, found, expected, "export the module by PEP 793")
