"""The host's floors: symbol versions of glibc, libstdc++ and libgcc against the target's ceilings and the tag."""

from __future__ import annotations

from collections.abc import Iterator

from qualify import floors
from qualify.checks.case import Case, examples
from qualify.checks.needs import above_ceilings, ceiling_of, highest_above, spelled, untold
from qualify.checks.registry import Observation, check
from qualify.checks.tags import HOST_BINARIES, platforms
from qualify.facts import Member
from qualify.report import Severity


def judged(case: Case) -> Iterator[Member]:
    """Members whose needs are held against the target: all where the matrix names the project, else those of which
    something is asked.  A wheel may carry a library for each toolkit, and nothing says that all of them have to load.
    """
    for member in case.compiled:
        if case.policy.named or case.demand(member.path).code is not None:
            yield member


def not_judged(case: Case) -> Iterator[Member]:
    """The compiled members that :func:`judged` leaves out."""
    asked = {member.path for member in judged(case)}
    return (member for member in case.compiled if member.path not in asked)


@check("FLO001", "glibc-above-ceiling")
def glibc_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer glibc than the target has.

    Why: the loader refuses it (`version GLIBC_2.38 not found`). A function as common as strtol sets such a floor
    when it is compiled on a newer system.

    Mend: build on an older base image, such as the manylinux_2_28 builder.
    """
    yield from _over(case, "GLIBC", "build on an older base image")


@check("FLO002", "glibcxx-above-ceiling")
def glibcxx_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer libstdc++ than the target has.

    Why: the loader refuses it (`version GLIBCXX_3.4.32 not found`), where a conda or system libstdc++ comes first.

    Mend: build with the compiler of an older base image, or one that links the newer parts statically (devtoolset).
    """
    yield from _over(case, "GLIBCXX", "build with an older base image's compiler")


@check("FLO008", "cxxabi-above-ceiling")
def cxxabi_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer C++ runtime (exceptions, type information) than the target has.

    Why: libstdc++ counts its runtime's symbols apart, as CXXABI. A binary can need a newer one while its GLIBCXX needs
    are old, and the loader refuses it just the same.

    Mend: as for libstdc++: the compiler of an older base image, or the newer parts linked statically.
    """
    yield from _over(case, "CXXABI", "build with an older base image's compiler")


@check("FLO009", "libgcc-above-ceiling")
def libgcc_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs a newer libgcc_s than the target has.

    Why: newer compilers call helpers (for half precision, say) that older libraries lack: `version GCC_12.0.0 not
    found`.

    Mend: build with an older base image's compiler, or link libgcc statically (`-static-libgcc`).
    """
    yield from _over(case, "GCC", "build with an older base image's compiler, or link libgcc statically")


def _over(case: Case, family: str, action: str) -> Iterator[Observation]:
    ceiling = ceiling_of(case.policy.ceilings, family)
    for member in judged(case):
        if need := highest_above(member, family, ceiling):
            yield Observation(member.path, f"needs {spelled(member, need)}", f"at most {family}_{ceiling}", action)


@check("FLO003", "glibc-above-preferred", upstream=Severity.NOTE, release=Severity.NOTE)
def glibc_above_preferred(case: Case) -> Iterator[Observation]:
    """A binary needs a newer glibc than the target prefers, and still one that it has.

    Why: the wheel would also serve older systems if it were built on an older base.

    Mend: build on the preferred base image, where it can be had.
    """
    ceilings = case.policy.ceilings
    if ceilings is None or ceilings.preferred_glibc is None:
        return
    for member in judged(case):
        need = highest_above(member, "GLIBC", ceilings.preferred_glibc)
        if need and not highest_above(member, "GLIBC", ceilings.glibc):
            found, expected = f"needs {spelled(member, need)}", f"GLIBC_{ceilings.preferred_glibc} preferred"
            yield Observation(member.path, found, expected, "build on an older base image, where there is one")


@check("FLO004", "tag-above-ceiling")
def tag_above_ceiling(case: Case) -> Iterator[Observation]:
    """Every manylinux tag of the file name asks for a newer glibc than the target has.

    Why: an installer on the target refuses the file, whatever the binaries need.

    Mend: build on an older base image, or take the tag that the binaries really need.
    """
    if case.policy.ceilings is None:
        return
    tagged = [(floors.tag_glibc(tag), tag) for tag in platforms(case)]
    asked = [(version, tag) for version, tag in tagged if version is not None]
    if asked and len(asked) == len(tagged) and min(asked)[0] > floors.parse(case.policy.ceilings.glibc):
        expected = f"a tag of glibc {case.policy.ceilings.glibc} or older"
        action = f"build on an older base image{_true(case)}"
        yield Observation("", f"platform tag {min(asked)[1]}", expected, action)


def _true(case: Case) -> str:
    """What the symbol versions say, for an action; "" where no manylinux tag is true."""
    policy = floors.symbol_policy(case.facts, case.policy.machine)
    return "" if policy is None else f"; by its symbol versions {policy.tag} is true"


@check("FLO005", "tag-too-low", upstream=Severity.NOTE)
def tag_too_low(case: Case) -> Iterator[Observation]:
    """A binary needs newer symbol versions than the file name's manylinux tag promises.

    Why: an installer takes the wheel on a system where it does not load. A tag promises glibc's symbol versions,
    libstdc++'s (GLIBCXX, CXXABI), libgcc's and zlib's; each of them can be what fails. Of a compressed set of tags the
    oldest has to be true.

    Mend: retag it for what it needs, which the finding names, or build on the tag's own base image.
    """
    yield from _too_low(case, judged(case))


@check("FLO010", "tag-too-low-of-unasked", upstream=Severity.NOTE, release=Severity.NOTE)
def tag_too_low_of_unasked(case: Case) -> Iterator[Observation]:
    """A binary of which nothing is asked needs newer symbol versions than the file name's manylinux tag promises.

    Why: wheels carry libraries for several toolkits and vendors, of which a host uses one. The tag is not true of all
    of them, which matters to whoever uses this one.

    Mend: nothing here; name the project in a matrix of its own to ask for more.
    """
    yield from _too_low(case, not_judged(case))


def _too_low(case: Case, members: Iterator[Member]) -> Iterator[Observation]:
    for member in members:
        if member.elf is None or member.kind not in HOST_BINARIES:
            continue
        machine = floors.machine_of_elf(member.elf)
        tag = floors.promised(platforms(case), machine)
        missing = floors.uncovered(member.elf, tag) if tag else ()
        if not missing:
            continue
        highest = {need.family: need for need in sorted(missing, key=lambda need: floors.rank(need, machine) or ())}
        true = floors.true_tag(case.facts, machine)
        expected = f"what {tag} promises; the true tag is {true}"
        action = f"retag it as {true}, or build on the base image of {tag}"
        yield Observation(member.path, f"needs {spelled(member, *highest.values())}", expected, action)


@check("FLO006", "version-need-unknown", upstream=Severity.UNVERIFIED, release=Severity.UNVERIFIED)
def version_need_unknown(case: Case) -> Iterator[Observation]:
    """A binary needs a symbol version of the host's libraries that is no number and in no policy.

    Why: `GLIBC_PRIVATE` binds a file to one build of glibc, and a version that nobody knows sets a floor that nobody
    can compare.

    Mend: find out which library brought it in; rebuild that one. Where the version is a new one, refresh this tool's
    policies (`nox -s refresh`).
    """
    for member in judged(case):
        if member.elf is None:
            continue
        tag = floors.promised(platforms(case), floors.machine_of_elf(member.elf))
        unknown = dict.fromkeys((*untold(member, case.policy.ceilings), *floors.beyond(member.elf, tag)))
        for family in dict.fromkeys(need.family for need in unknown):
            found = f"needs {spelled(member, *(need for need in unknown if need.family == family))}"
            expected = f"versions of {family} that can be compared"
            yield Observation(member.path, found, expected, "find out what brought it in")


@check("FLO007", "need-unknown-above-ceiling", upstream=Severity.NOTE, release=Severity.NOTE)
def need_unknown_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary of a wheel that the matrix does not name does not load on the target, and nothing says that it has to.

    Why: wheels carry libraries for several toolkits and vendors, of which a host uses one. A member above the ceiling
    does not count as one that runs (DEV010), and is no fault by itself.

    Mend: nothing; name the project in a matrix of its own to ask for more.
    """
    for member in not_judged(case):
        if name := above_ceilings(member, case.policy.ceilings):
            yield Observation(member.path, f"needs {name}, and does not load", "no demand is made of it", "none needed")


@check("FLO011", "tag-higher-than-needed", upstream=Severity.NOTE, release=Severity.NOTE)
def tag_higher_than_needed(case: Case) -> Iterator[Observation]:
    """The symbol versions would allow an older manylinux tag than the file name's, or one where it has none.

    Why: installers on older systems refuse a wheel that would load there, and package indexes refuse `linux_…`.

    Mend: retag it (`wheel tags --platform-tag`), if it is meant to serve those systems and its other libraries do.
    """
    machine = case.policy.machine
    if case.facts.problems or not any(floors.binaries(case.facts, machine)):
        return  # what could not be read may need anything
    policy = _least(case, machine)
    tag = floors.promised(platforms(case), machine)
    promise = floors.policy_for_tag(tag) if tag else None
    bare = f"linux_{machine}" in platforms(case)
    if policy is None or (promise is not None and promise.glibc <= policy.glibc) or (promise is None and not bare):
        return
    expected = f"{policy.tag} is true as well"
    yield Observation("", f"platform tag {tag or f'linux_{machine}'}", expected, f"retag it as {policy.tag}, if wanted")


def _least(case: Case, machine: str) -> floors.ManylinuxPolicy | None:
    """The oldest policy that allows the symbol versions, and the libraries of those that the newest one allows."""
    by_symbols = floors.symbol_policy(case.facts, machine)
    if by_symbols is None:
        return None
    known = floors.policies(machine)
    needed = {name for _, elf in floors.binaries(case.facts, machine) for name in elf.needed} & known[-1].libraries
    return next((each for each in known if each.glibc >= by_symbols.glibc and needed <= each.libraries), None)


@check("FLO012", "internal-symbol", upstream=Severity.NOTE)
def internal_symbol(case: Case) -> Iterator[Observation]:
    """A binary takes a symbol that is internal to a library of the host.

    Why: manylinux allows a library's public symbols. An internal one (zlib's `_tr_init`, say) is there in one build of
    the library and not in another, and the wheel fails at import where it isn't.

    Mend: link that library statically, or call its public functions.
    """
    for member, elf in floors.binaries(case.facts, case.policy.machine):
        promise = floors.policy_for_tag(floors.promised(platforms(case), case.policy.machine))
        forbidden = promise.internal if promise is not None else {}
        for library in sorted(forbidden.keys() & set(elf.needed)):
            strong = {each.name for each in elf.imports if not each.weak and each.library in ("", library)}
            if names := tuple(sorted(forbidden[library] & strong)):
                found = f"takes {examples(names, 3)} of {library}"
                yield Observation(member.path, found, "public symbols of the host's libraries", "link it statically")


@check("FLO013", "musl-not-judged", upstream=Severity.NOTE, release=Severity.NOTE)
def musl_not_judged(case: Case) -> Iterator[Observation]:
    """The file name has a musllinux tag, and nothing here holds the binaries against musl.

    Why: musl has no symbol versions, so that no floor can be read off a file. The tag is neither confirmed nor denied.

    Mend: nothing; the manylinux tags beside it are judged as ever.
    """
    tags = tuple(tag for tag in platforms(case) if tag.startswith("musllinux_"))
    if tags:
        yield Observation("", f"platform tag {', '.join(tags)}", "a tag that is judged", "none needed")
