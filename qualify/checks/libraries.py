"""Libraries: which the wheel brings and must not, which it asks of the host, and of which CUDA they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from qualify import floors, sonames
from qualify.checks.case import Case, examples
from qualify.checks.floors import judged, not_judged
from qualify.checks.registry import Observation, check
from qualify.checks.runpaths import inside
from qualify.checks.tags import HOST_BINARIES, platforms
from qualify.facts import Elf, Member, installed_path
from qualify.report import Severity
from qualify.sonames import Owner

#: Projects that are themselves where such a library comes from.
_SOURCES = {Owner.DRIVER: re.compile(r"nvidia-.+"), Owner.CUDA: re.compile(r"nvidia-.+|cuda-.+")}
_SOURCES[Owner.TORCH] = re.compile(r"torch|pytorch|.+-torch")


def _binaries(members: Iterable[Member]) -> Iterator[tuple[Member, Elf]]:
    for member in members:
        if member.elf is not None and member.kind in HOST_BINARIES:
            yield member, member.elf


def _bundled(case: Case, owner: Owner, expected: str, action: str) -> Iterator[Observation]:
    if _SOURCES[owner].fullmatch(case.facts.name):
        return
    for member, _ in _binaries(case.facts.members):
        known = sonames.bundled(member)
        if known is not None and known.owner is owner:
            size = f"{member.size / 1e6:.1f} MB"
            yield Observation(member.path, f"{known.stem}, known by {known.sign} ({size})", expected, action)


@check("LIB001", "driver-bundled")
def driver_bundled(case: Case) -> Iterator[Observation]:
    """The wheel brings a library of the NVIDIA driver.

    Why: libcuda and its kin have to be those of the running kernel module. A bundled one is loaded first and refuses
    every call, or is the toolkit's stub, which can do nothing.

    Mend: `auditwheel repair --exclude 'libcuda.so*' --exclude 'libnvidia-*'`; link against the stub, and never ship it.
    """
    yield from _bundled(case, Owner.DRIVER, "the driver's own, on the target", "exclude it where the wheel is repaired")


@check("LIB002", "torch-bundled")
def torch_bundled(case: Case) -> Iterator[Observation]:
    """The wheel brings a library of torch.

    Why: a second copy beside torch's own has a dispatcher, types and allocators of its own. Operators that register
    with one aren't seen by the other, and tensors that cross over crash.

    Mend: `auditwheel repair --exclude 'libtorch*.so' --exclude 'libc10*.so'`; require torch in METADATA.
    """
    yield from _bundled(case, Owner.TORCH, "torch's own, by Requires-Dist", "exclude it where the wheel is repaired")


@check("LIB003", "cuda-library-bundled", upstream=Severity.NOTE)
def cuda_library_bundled(case: Case) -> Iterator[Observation]:
    """The wheel brings a library of the CUDA toolkit, under its own name or another.

    Why: it loads, beside the one that torch brings: hundreds of megabytes twice, and two runtimes in a process that
    answer to different drivers. A static CUDA runtime inside an extension is no such library.

    Mend: `auditwheel repair --exclude` for each, and the nvidia-* wheels (or torch, which requires them) in METADATA.
    """
    yield from _bundled(case, Owner.CUDA, "torch's, or those of nvidia-* wheels", "exclude it where it is repaired")


class _Around:
    """What stands around the binaries of one wheel: who could bring what they ask for."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.own = _own(case)
        self.requires_torch = "torch" in _required(case)

    def brings(self, name: str, machine: str) -> bool:
        """Whether anything that is known brings a library on the target."""
        if name in self.own or sonames.provided_as(name) is not None or sonames.is_libpython(name):
            return True
        if floors.is_loader(name) or name in self._promised(machine):
            return True
        if name in sonames.TORCH_BRINGS and self.requires_torch:
            return True
        return any(fnmatchcase(name, pattern) for pattern in self.case.policy.libraries)

    def _promised(self, machine: str) -> frozenset[str]:
        """The libraries of the tag's policy; of the newest one, where the tag promises nothing."""
        tag = floors.promised(platforms(self.case), machine)
        policy = floors.policy_for_tag(tag) if tag else next(reversed(floors.policies(machine)), None)
        return frozenset() if policy is None else policy.libraries


def _own(case: Case) -> frozenset[str]:
    """The names under which a loader can find what the wheel holds."""
    shared = (member for member in case.facts.members if member.elf is not None or ".so" in member.path)
    return frozenset(name for member in shared for name in sonames.names_of(member))


def _required(case: Case) -> Iterator[str]:
    """The normalised names of the projects that METADATA requires, other than for an extra."""
    for line in case.facts.dist_info.requires_dist if case.facts.dist_info is not None else ():
        name = re.match(r"\s*([A-Za-z0-9._-]+)", line)
        if name and not re.search(r"\bextra\b", line.partition(";")[2]):
            yield re.sub(r"[-_.]+", "-", name[1]).lower()


def _unknown(case: Case, members: Iterable[Member], action: str) -> Iterator[Observation]:
    around = _Around(case)
    for member, elf in _binaries(members):
        machine = floors.machine_of_elf(elf)
        names = [n for n in elf.needed if not sonames.renamed(n) and "/" not in n and not around.brings(n, machine)]
        if names:
            expected = (
                "the wheel's own, the tag's, the driver's, CUDA's, torch's, Python's, or one that the matrix names"
            )
            yield Observation(member.path, f"needs {examples(tuple(names), 8)}", expected, action)


@check("LIB004", "library-unknown", upstream=Severity.INCONCLUSIVE)
def library_unknown(case: Case) -> Iterator[Observation]:
    """A binary needs a library that nothing known brings to the target.

    Why: where it isn't there, the import fails (`cannot open shared object file`). An unversioned name such as
    libcudart.so is there on machines with development packages alone.

    Mend: let the repair bundle it, link it statically, or name it under `libraries:` of the matrix with the reason why
    the target has it.
    """
    action = "bundle it, or say under `libraries:` of the matrix why the target has it"
    yield from _unknown(case, judged(case), action)


@check("LIB005", "library-unknown-of-unasked", upstream=Severity.NOTE, release=Severity.NOTE)
def library_unknown_of_unasked(case: Case) -> Iterator[Observation]:
    """A binary of which nothing is asked needs a library that nothing known brings to the target.

    Why: wheels carry libraries for several toolkits and vendors, of which a host uses one. This one loads where the
    named libraries are.

    Mend: nothing; name the project in a matrix of its own to ask for more.
    """
    yield from _unknown(case, not_judged(case), "none needed, if nothing asks for this one")


@check("LIB006", "renamed-library-missing")
def renamed_library_missing(case: Case) -> Iterator[Observation]:
    """A binary needs a library under a name that a repair tool gave it, and it is not in the wheel or out of reach.

    Why: nobody but this wheel has a file of that name, and nothing but a run path leads to it. The import fails.

    Mend: repair the wheel again, as a whole, with a tool that was not interrupted and a patchelf of its time.
    """
    asked = [
        (member, name) for member, elf in _binaries(case.facts.members) for name in elf.needed if sonames.renamed(name)
    ]
    if not asked:
        return
    places: dict[str, set[str]] = {}
    for member in case.facts.members:
        folder, _, base = installed_path(member.path).rpartition("/")
        places.setdefault(base, set()).add(folder)
    entries = {(m.path, entry): m for m, elf in _binaries(case.facts.members) for entry in (*elf.runpath, *elf.rpath)}
    reached = {inside(member, entry) for (_, entry), member in entries.items()}
    for member, name in asked:
        there = places.get(name, set())
        if there & reached:
            continue
        expected = f"a run path to {min(there) or 'the top'}" if there else "that file in the wheel"
        yield Observation(member.path, f"needs {name}", expected, "repair the wheel again")


@check("LIB007", "torch-not-required", upstream=Severity.NOTE)
def torch_not_required(case: Case) -> Iterator[Observation]:
    """A binary needs torch's libraries, and METADATA does not require torch.

    Why: an installer brings no torch, or keeps one of another ABI, and the extension fails at import.

    Mend: `Requires-Dist: torch==…`, the version that it was built with.
    """
    if case.facts.dist_info is None or "torch" in _required(case) or _SOURCES[Owner.TORCH].fullmatch(case.facts.name):
        return
    own = _own(case)
    asking: dict[str, str] = {}
    count = 0
    for member, elf in _binaries(case.facts.members):
        names = [name for name in elf.needed if sonames.provided_as(name) is Owner.TORCH and name not in own]
        count += bool(names)
        for name in names:
            asking.setdefault(name, member.path)
    if asking:
        first = next(iter(asking.values()))
        found = f"{count} binaries need {examples(tuple(asking), 8)}; the first is {first}"
        yield Observation("", found, "Requires-Dist: torch", "require the torch that it was built with")


def _mixed(case: Case, members: Iterable[Member], action: str) -> Iterator[Observation]:
    """Members, and requirements in METADATA, whose CUDA libraries are of another major than most."""
    uses: list[tuple[str, str, frozenset[int]]] = []
    for member, elf in _binaries(members):
        names = dict.fromkeys((*elf.needed, *sonames.names_of(member)))
        uses += [(member.path, name, majors) for name in names if (majors := sonames.cuda_majors(name))]
    if not uses:
        return
    for project in _required(case):
        if match := re.fullmatch(r"nvidia-[a-z0-9-]+-cu([0-9]{2})", project):
            uses.append(("", f"Requires-Dist: {project}", frozenset({int(match[1])})))
    votes = Counter(major for _, _, majors in uses for major in majors)
    most = max(votes, key=lambda major: (votes[major], major))
    other = next(f"{name} of {path or 'METADATA'}" for path, name, majors in uses if most in majors)
    strays: dict[str, list[str]] = {}
    for path, name, majors in uses:
        if most not in majors:
            strays.setdefault(path, []).append(f"{name} (CUDA {' or '.join(map(str, sorted(majors)))})")
    for path, texts in strays.items():
        found = f"needs or brings {examples(tuple(texts), 8)}"
        yield Observation(path, found, f"CUDA {most}, as {other}", action)


@check("LIB008", "cuda-majors-mixed")
def cuda_majors_mixed(case: Case) -> Iterator[Observation]:
    """Binaries that all have to load ask for the libraries of different CUDA majors.

    Why: torch brings the libraries of one major. What was linked for another one fails at import (`libcudart.so.12:
    cannot open shared object file`), or brings a second runtime.

    Mend: build every part with one toolkit; look which step picked up another nvcc or a precompiled binary.
    """
    yield from _mixed(case, judged(case), "build every part with one toolkit")


@check("LIB009", "cuda-majors-side-by-side", upstream=Severity.NOTE, release=Severity.NOTE)
def cuda_majors_side_by_side(case: Case) -> Iterator[Observation]:
    """Binaries of which nothing is asked are for different CUDA majors.

    Why: some wheels carry a library for each toolkit and load the one that fits torch. Those for the other majors do
    not load on the target.

    Mend: nothing; name the project in a matrix of its own to ask for more.
    """
    yield from _mixed(case, not_judged(case), "none needed, if the one that fits is loaded")
