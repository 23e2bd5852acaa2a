"""The link against torch: symbols, string ABI, and what METADATA has to ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from qualify.checks.case import Case, examples
from qualify.checks.registry import Observation, check
from qualify.floors import parse
from qualify.linking.link import Link
from qualify.linking.names import shown
from qualify.linking.resolve import Lack, Miss
from qualify.linking.tables import release_of, stable_functions
from qualify.report import Severity
from qualify.sonames import cuda_majors

_NAMED = 10  # symbols of one member that have a finding of their own
_MANGLED = 120
_LATEST = "the newest release that is known here"


def _missing(case: Case, *lacks: Lack) -> Iterator[tuple[str, Miss]]:
    for resolution in case.link.resolutions:
        for miss in resolution.misses:
            if miss.lack in lacks:
                yield resolution.member, miss


def _named(rows: Iterator[tuple[str, Miss]], say: Callable[[Miss], tuple[str, str, str]]) -> Iterator[Observation]:
    """A finding for each symbol, and one for all beyond the first ones of a member."""
    left: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for member, miss in rows:
        counts[member] = counts.get(member, 0) + 1
        if counts[member] <= _NAMED:
            yield Observation(member, *say(miss))
        else:
            left.setdefault(member, []).append(miss.name)
    for member, names in left.items():
        found = f"{len(names)} further symbols: {_some(names)}"
        yield Observation(member, found, "as above", "as above")


def _symbol(name: str) -> str:
    """How a symbol is shown: as it reads, and mangled for a search."""
    readable = shown(name)
    return readable if readable == name else f"{readable} ({name[:_MANGLED]}{'…' if len(name) > _MANGLED else ''})"


def _some(names: Sequence[str], count: int = 2) -> str:
    """The first names as they read, and how many more there are.  Only those are demangled."""
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(map(shown, names[:count])) + more


def _near(link: Link, name: str) -> tuple[str, bool]:
    return link.nearest.nearest(name) if link.nearest is not None else ("", False)


@check("TOR001", "torch-symbol-missing")
def torch_symbol_missing(case: Case) -> Iterator[Observation]:
    """A binary needs a symbol of torch that the torch wheel given by `--torch` does not export.

    Why: the import fails (`undefined symbol`). torch's C++ changes from release to release: a parameter more, or of
    another type, is another symbol. Python binds every symbol when it loads an extension, called or not.

    Mend: build against the torch that it will run with, or run it with the torch that it was built against.
    """
    torch = case.torch
    if torch is None:
        return

    def say(miss: Miss) -> tuple[str, str, str]:
        near = _near(case.link, miss.name)[0]
        expected = f"an export of {torch.label}"
        if release := stable_functions().get(miss.name):
            expected = f"torch {release} or later, which brought it"
        elif near:
            expected += f"; the nearest is {_symbol(near)}"
        return f"needs {_symbol(miss.name)}", expected, f"build it against {torch.label}, or run it with its own torch"

    rows = _missing(case, Lack.TORCH)
    yield from _named(((member, miss) for member, miss in rows if not _near(case.link, miss.name)[1]), say)


@check("TOR002", "string-abi-mismatch")
def string_abi_mismatch(case: Case) -> Iterator[Observation]:
    """A binary needs a function of torch that the torch wheel exports with the other C++ string.

    Why: the binary was compiled with the other `_GLIBCXX_USE_CXX11_ABI` than torch, so that `std::string` is another
    type (`Ss` or `std::__cxx11::basic_string` in the mangled name) and every function that takes one is another symbol.

    Mend: compile with the value that `torch.compiled_with_cxx11_abi()` states; wheels of torch 2.7 and later have 1.
    """
    torch = case.torch
    if torch is None:
        return

    def say(miss: Miss) -> tuple[str, str, str]:
        near = _near(case.link, miss.name)[0]
        value = int("cxx11" in near)
        action = f"compile with -D_GLIBCXX_USE_CXX11_ABI={value}, as {torch.label} is"
        return f"needs {_symbol(miss.name)}", f"{_symbol(near)}, which {torch.label} exports", action

    rows = _missing(case, Lack.TORCH)
    yield from _named(((member, miss) for member, miss in rows if _near(case.link, miss.name)[1]), say)


@check("TOR003", "unresolved-symbol")
def unresolved_symbol(case: Case) -> Iterator[Observation]:
    """A binary needs a symbol that nobody defines: not this wheel, no library in its reach, not the interpreter.

    Why: the import fails (`undefined symbol`). A shared object links with symbols left open, so that a source file
    that was left out for an architecture, and is called all the same, shows at import and not in the build.

    Mend: compile the file that defines it, or leave out the call; link with `-Wl,--no-undefined` to see it earlier.
    """

    def say(miss: Miss) -> tuple[str, str, str]:
        whose = ", which is the wheel's own," if miss.own else ""
        action = "compile the file that defines it" if miss.own else "link the library that defines it"
        return f"needs {_symbol(miss.name)}{whose} and nobody defines it", "a definition in reach", action

    yield from _named(_missing(case, Lack.NOBODY), say)


@check("TOR004", "symbol-out-of-reach", upstream=Severity.INCONCLUSIVE, release=Severity.INCONCLUSIVE)
def symbol_out_of_reach(case: Case) -> Iterator[Observation]:
    """A binary needs a symbol of a library that none of its dependencies, direct or not, brings in.

    Why: Python loads extensions and their libraries for themselves alone (`RTLD_LOCAL`), so that a library that is in
    memory already is not searched. It loads only where the package opens that library with `RTLD_GLOBAL` first, which
    the wheel's files do not tell.

    Mend: link the library (`DT_NEEDED`), or open it with `RTLD_GLOBAL` on purpose, and waive this.
    """

    def say(miss: Miss) -> tuple[str, str, str]:
        return f"needs {_symbol(miss.name)}, of {miss.where}", f"{miss.where} among its dependencies", "link it"

    yield from _named(_missing(case, Lack.REACH), say)


@check("TOR005", "unversioned-above-ceiling")
def unversioned_above_ceiling(case: Case) -> Iterator[Observation]:
    """A binary needs, without a version, a symbol that only a newer libstdc++ than the target's exports.

    Why: linked against a library that happened to export it, the reference bears no version, and no list of version
    needs shows this floor; the loader says `undefined symbol` where that library no longer does.

    Mend: build with the compiler of an older base image, or one that links the newer parts statically (devtoolset).
    """
    ceilings = case.policy.ceilings
    if ceilings is None:
        return
    for resolution in case.link.resolutions:
        for hidden in resolution.hidden:
            family, _, number = hidden.version.partition("_")
            if family == "GLIBCXX" and parse(number) > parse(ceilings.glibcxx):
                found = f"needs {_symbol(hidden.name)}, which {hidden.version} brought, without a version"
                expected = f"at most GLIBCXX_{ceilings.glibcxx}"
                yield Observation(resolution.member, found, expected, "build with an older base image's compiler")


@check("TOR006", "torch-excluded")
def torch_excluded(case: Case) -> Iterator[Observation]:
    """METADATA's torch requirement excludes the torch wheel given by `--torch`.

    Why: an installer puts another torch beside this wheel than the one that its symbols were looked up in.

    Mend: give the torch that METADATA asks for, or build the wheel again for this one.
    """
    if case.torch is None:
        return
    for pin in case.torch_pins:
        if not pin.admits(case.torch.version):
            action = "give the torch that METADATA asks for, or build for this one"
            yield Observation(
                "", f"METADATA asks for {pin.text}", f"a requirement that admits {case.torch.label}", action
            )


@check("TOR007", "no-torch-requirement", upstream=Severity.WARNING)
def no_torch_requirement(case: Case) -> Iterator[Observation]:
    """A binary calls torch without depending on its libraries (DT_NEEDED), and METADATA asks for no torch.

    Why: an installer takes any torch or leaves it out, and a mirror that moves on breaks the wheel without a word.
    Where a binary depends on torch's libraries, `torch-not-required` says the same.

    Mend: put the requirement back (`torch==2.14.0`; `torch>=2.10` for the stable interface alone).
    """
    uses = case.link.uses
    if not uses or case.torch_pins or case.facts.dist_info is None or any(use.libraries for use in uses.values()):
        return
    paths = tuple(uses)
    release, _, _ = case.link.minimum
    classic = any(use.unstable for use in case.link.uses.values())
    expected = f"torch>={release}" if release and not classic else "torch==, the release it was built against"
    yield Observation(
        paths[0], f"needs torch, as do {len(paths)} members; METADATA does not", expected, "require torch"
    )


@check("TOR008", "torch-requirement-unsatisfied")
def torch_requirement_unsatisfied(case: Case) -> Iterator[Observation]:
    """METADATA's torch requirement admits no release that has all stable functions that a binary calls.

    Why: with every torch that an installer may take, the import fails (`undefined symbol`).

    Mend: raise the requirement, or compile for an older interface (`-DTORCH_TARGET_VERSION`).
    """
    release, path, names = case.link.minimum
    for pin in case.torch_pins if release else ():
        if not pin.reaches(release):
            found = f"calls {examples(names)}, of torch {release}; METADATA asks for {pin.text}"
            yield Observation(path, found, f"a requirement that admits torch {release} or later", "raise it")


@check("TOR009", "torch-requirement-too-low", upstream=Severity.WARNING)
def torch_requirement_too_low(case: Case) -> Iterator[Observation]:
    """METADATA's torch requirement admits a release without a stable function that a binary calls.

    Why: torch's stable interface grows; a binary that calls a function fails to load (`undefined symbol`) with every
    release before the one that brought it.

    Mend: ask for the release that is named, or compile for an older interface (`-DTORCH_TARGET_VERSION`).
    """
    release, path, names = case.link.minimum
    for pin in case.torch_pins if release else ():
        if pin.reaches(release) and (lower := pin.below(release)):
            found = f"calls {examples(names)}, of torch {release}; METADATA's {pin.text} admits {lower}"
            yield Observation(path, found, f"torch>={release}", f"require torch>={release}")


@check("TOR010", "torch-requirement-loose", upstream=Severity.WARNING)
def torch_requirement_loose(case: Case) -> Iterator[Observation]:
    """A binary uses torch's C++, which fits one release, and METADATA admits several.

    Why: C++ symbols change between releases. An installer takes the newest, and the import fails.

    Mend: require the release that it was built against (`torch==2.14.0`), or use the stable interface alone.
    """
    classic = {path: use.unstable for path, use in case.link.uses.items() if use.unstable}
    for pin in case.torch_pins if classic else ():
        if not pin.exact:
            path, names = next(iter(classic.items()))
            found = f"uses {_some(names)}; METADATA asks for {pin.text}"
            yield Observation(path, found, "a requirement of one release of torch (==)", "require torch==")


@check("TOR011", "link-unverified", upstream=Severity.UNVERIFIED, release=Severity.UNVERIFIED)
def link_unverified(case: Case) -> Iterator[Observation]:
    """Something that the link depends on could not be looked up.

    That is a function of torch's stable interface that no table here knows, or a wheel whose binaries depend on each
    other in more ways than are followed.

    Why: which release brought a function decides which torch the wheel needs; a function newer than the table leaves
    that open, even where the torch of `--torch` exports it.

    Mend: use a newer version of this tool, or refresh its table.
    """
    for path, use in case.link.uses.items():
        if use.unknown:
            latest = max(set(stable_functions().values()), key=release_of)
            found = f"calls {examples(use.unknown)}"
            yield Observation(path, found, f"functions of torch {latest} or older, {_LATEST}", "refresh the table")
    if case.link.unlooked:
        yield Observation("", case.link.unlooked, "a wheel of some hundred binaries", "look at what they depend on")


@check("TOR012", "link-not-judged", upstream=Severity.NOTE, release=Severity.NOTE)
def link_not_judged(case: Case) -> Iterator[Observation]:
    """Binaries use torch, and no torch was given to look their symbols up in.

    Why: whether they load with a torch is known once each symbol is found in it.

    Mend: give a torch wheel, `--torch torch==2.14.0` or a file; it is read once and its exports are kept.
    """
    called = {path: use for path, use in case.link.uses.items() if use.shims or use.unstable}
    if case.torch is None and called:
        stable = sum(use.stable for use in called.values())
        symbols = sum(len(use.shims) + len(use.unstable) for use in called.values())
        found = f"{symbols} symbols of torch in {len(called)} members, {stable} of them by its stable interface alone"
        yield Observation("", found, "a torch to look them up in", "give --torch")


@check("TOR013", "torch-minimum", upstream=Severity.NOTE, release=Severity.NOTE)
def torch_minimum(case: Case) -> Iterator[Observation]:
    """Every binary that calls torch does so by its stable interface, and METADATA asks for one release all the same.

    Why: such a wheel loads with every later torch 2. A requirement with `==` is narrower than its binaries are; its
    Python code may be the reason.

    Mend: nothing; `torch>=` the named release is what the binaries need.
    """
    release, path, names = case.link.minimum
    if not release or any(use.unstable for use in case.link.uses.values()):
        return
    for pin in case.torch_pins:
        if pin.exact and pin.reaches(release) and not pin.address:
            found = f"needs torch {release} ({examples(names, 1)}); METADATA asks for {pin.text}"
            yield Observation(path, found, f"torch>={release} would do", "none needed")


@check("TOR014", "symbols-not-looked-up", upstream=Severity.NOTE, release=Severity.NOTE)
def symbols_not_looked_up(case: Case) -> Iterator[Observation]:
    """Symbols that only a library of another origin can define, which was not looked at.

    Why: a library that is neither in the wheel, nor torch's, CUDA's, or the system's C and C++ library is known by its
    name alone. That it is there is another check's matter; that it defines these symbols is nobody's.

    Mend: nothing; look at the library where the import fails.
    """
    by_library: dict[str, list[str]] = {}
    for _, miss in _missing(case, Lack.UNLOOKED):
        by_library.setdefault(miss.where, []).append(miss.name)
    for libraries, names in sorted(by_library.items()):
        found = f"{len(set(names))} symbols that {libraries} may define: {examples(tuple(dict.fromkeys(names)))}"
        yield Observation("", found, "libraries that are known here", "none needed")


@check("TOR015", "cuda-differs-from-torch", upstream=Severity.INCONCLUSIVE)
def cuda_differs_from_torch(case: Case) -> Iterator[Observation]:
    """A binary that uses torch needs libraries of another CUDA major than the torch wheel given by `--torch`.

    Why: torch brings its own CUDA's libraries and no other. The import fails (`libcudart.so.12: cannot open shared
    object file`), or finds a second runtime that happens to be installed, beside torch's in one process.

    Mend: take the wheel, or the torch, of the same CUDA.
    """
    torch = case.torch
    if torch is None:
        return
    each = [of for names in torch.needed.values() for name in names if (of := cuda_majors(name))]
    majors = each[0].intersection(*each) if each else frozenset()  # libcusparse.so.12 is of CUDA 12 and of CUDA 13
    for path in case.link.uses if majors else ():
        member = next(one for one in case.link.wheel.binaries if one.path == path)
        needed = member.elf.needed if member.elf is not None else ()
        strange = [
            name
            for name in needed
            if name not in case.link.wheel.by_name and (of := cuda_majors(name)) and of.isdisjoint(majors)
        ]
        if strange:
            numbers = ", ".join(map(str, sorted(majors)))
            action = "take the wheel, or the torch, of the same CUDA"
            yield Observation(path, f"needs {', '.join(strange)}", f"CUDA {numbers}, as {torch.label} needs", action)
