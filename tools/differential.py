"""Hold what we read of real wheels against what other tools say of the same bytes.

    python -m tools.differential [WHEEL ...] [--markdown FILE]

Without wheels: those of ``WHEELS``, fetched from the package index.  For each wheel and tool it prints how many answers
were compared, how many agree, and every disagreement.  One that ``docs/differential.md`` explains is in ``EXPLAINED``
with its reason; any other ends the run with 1, and so does an explanation that nothing needs any more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qualify.facts import EntryKind, Member, MemberKind, WheelFacts
from qualify.opening import read_wheel
from tools import peers
from tools.explained import EXPLAINED, Explained

WHEELS = (
    ("vllm==0.33.0", "x86_64"),
    ("vllm==0.33.0", "aarch64"),
    ("bitsandbytes==0.50.2", "x86_64"),
    ("cupy-cuda13x==14.2.0", "x86_64"),
    ("ctranslate2==4.8.5", "x86_64"),
    ("ctranslate2==4.8.5", "aarch64"),
    ("torchcodec==0.17.0", "x86_64"),
    ("torchcodec==0.17.0", "aarch64"),
)
TOOLS = ("cuobjdump", "cubloaty", "readelf", "auditwheel", "abi3audit")
_HOST = frozenset({MemberKind.EXTENSION, MemberKind.LIBRARY, MemberKind.EXECUTABLE})


@dataclass
class Tally:
    """What one tool and we said of one wheel."""

    wheel: str
    tool: str
    compared: int = 0
    disagreements: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def compare(self, what: str, ours: object, theirs: object) -> None:
        self.compared += 1
        if ours != theirs:
            self.disagreements.append(f"{what}: we say {_short(ours, theirs)}, {self.tool} {_short(theirs, ours)}")


def _short(this: object, other: object) -> str:
    """A value as far as it differs: of two sets or mappings, what the other one lacks."""
    if isinstance(this, dict) and isinstance(other, dict):
        this = {key: value for key, value in sorted(this.items()) if other.get(key) != value}
    elif isinstance(this, set) and isinstance(other, set):
        this = sorted(this - other)
    text = str(this)
    return text if len(text) < 300 else text[:299] + "…"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", type=Path)
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the table as docs/differential.md shows it"
    )
    arguments = parser.parse_args()
    wheels = arguments.wheels or [fetch(*each) for each in WHEELS]
    tallies = [tally for wheel in wheels for tally in compare_wheel(wheel)]
    used: Counter[Explained] = Counter()
    unexplained = 0
    for tally in tallies:
        for line in tally.disagreements:
            reason = next((each for each in EXPLAINED if each.fits(tally.wheel, tally.tool, line)), None)
            if reason is not None:
                used[reason] += 1
            else:
                unexplained += 1
                print(f"UNEXPLAINED {tally.wheel}: {line}")
    stale = [each for each in EXPLAINED if each not in used] if not arguments.wheels else []
    for each in stale:
        print(f"STALE: nothing needs the explanation {each.reason!r}")
    table = render(tallies, used)
    print(table)
    if arguments.markdown:
        arguments.markdown.write_text(table + "\n", encoding="utf-8")
    compared = sum(tally.compared for tally in tallies)
    explained = sum(used.values())
    print(f"{compared} answers compared, {explained} disagreements explained, {unexplained} unexplained")
    return 1 if unexplained or stale or not compared else 0


def fetch(requirement: str, machine: str) -> Path:
    from qualify.fetching import fetch_wheel

    return fetch_wheel(requirement, machine, "3.12")


def compare_wheel(wheel: Path) -> Iterator[Tally]:
    """One tally for each tool."""
    facts = read_wheel(wheel)
    tallies = {tool: Tally(wheel.name, tool) for tool in TOOLS}
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        for member in facts.members:
            if member.kind is MemberKind.DATA:
                continue
            path = Path(scratch) / "member"
            path.write_bytes(archive.read(member.path))
            for tool, compare in (("cuobjdump", _cuobjdump), ("cubloaty", _cubloaty), ("readelf", _readelf)):
                start = time.perf_counter()
                try:
                    compare(tallies[tool], member, path)
                except peers.RefusedError as refusal:
                    tallies[tool].compare(f"reading {member.path}", "nothing wrong", f"refuses it: {refusal}")
                tallies[tool].seconds += time.perf_counter() - start
    for tool, compare_all in (("auditwheel", _auditwheel), ("abi3audit", _abi3audit)):
        start = time.perf_counter()
        compare_all(tallies[tool], facts, wheel)
        tallies[tool].seconds += time.perf_counter() - start
    yield from tallies.values()


def images(member: Member, *, family: bool) -> peers.Counts:
    """Entries by architecture; without ``family`` the ``f`` is dropped, as cuobjdump does."""
    names = (entry.architecture for container in member.containers for entry in container.entries)
    return dict(Counter(name if family else name.removesuffix("f") for name in names))


def kernels(member: Member) -> peers.Kernels:
    """Distinct names of the kernels in cubins, by architecture."""
    found: peers.Kernels = {}
    for container in member.containers:
        for entry in container.entries:
            if entry.kind is EntryKind.CUBIN and entry.kernels:
                found.setdefault(entry.architecture, set()).update(member.symbols[index] for index in entry.kernels)
    return found


def _cuobjdump(tally: Tally, member: Member, path: Path) -> None:
    if member.kind is MemberKind.ARCHIVE:
        return
    tally.compare(f"images of {member.path}", images(member, family=False), peers.cuobjdump_images(path))
    ours, theirs = kernels(member), peers.cuobjdump_kernels(path)
    for architecture in sorted({*ours, *theirs}):
        name = f"kernels of {member.path} for {architecture}"
        tally.compare(name, ours.get(architecture, set()), theirs.get(architecture, set()))


def _cubloaty(tally: Tally, member: Member, path: Path) -> None:
    counts, theirs = peers.cubloaty(path)
    tally.compare(f"images of {member.path}", images(member, family=True), counts)
    ours = kernels(member)
    for architecture in sorted({*ours, *theirs}):
        name = f"kernels of {member.path} for {architecture}"
        tally.compare(name, ours.get(architecture, set()), theirs.get(architecture, set()))


def _readelf(tally: Tally, member: Member, path: Path) -> None:
    elf = member.elf
    if elf is None or member.kind not in _HOST:
        return
    theirs = peers.readelf_dynamic(path)
    tally.compare(f"NEEDED of {member.path}", list(elf.needed), theirs["NEEDED"])
    tally.compare(f"SONAME of {member.path}", [elf.soname] if elf.soname else [], theirs["SONAME"])
    tally.compare(f"RPATH of {member.path}", list(elf.rpath), theirs["RPATH"])
    tally.compare(f"RUNPATH of {member.path}", list(elf.runpath), theirs["RUNPATH"])
    needs = {(need.library, need.version) for need in elf.version_needs}
    tally.compare(f"version needs of {member.path}", needs, peers.readelf_needs(path))
    undefined, exported = peers.readelf_symbols(path)
    imports = {f"{each.name}@{each.version}" if each.version else each.name for each in elf.imports}
    tally.compare(f"undefined symbols of {member.path}", imports, undefined)
    tally.compare(f"exported symbols of {member.path}", set(elf.exports), exported)


def _auditwheel(tally: Tally, facts: WheelFacts, wheel: Path) -> None:
    from qualify.floors import true_tag

    machine = next(machine for machine in ("x86_64", "aarch64") if facts.tags[0].endswith(machine))
    tally.compare("the tag by symbol versions", true_tag(facts, machine), peers.auditwheel(wheel))


def _abi3audit(tally: Tally, facts: WheelFacts, wheel: Path) -> None:
    from qualify.stableabi import minor, use_of

    claims = [minor(f"3.{tag.partition('-')[0].removeprefix('cp3')}") for tag in facts.tags if "-abi3-" in tag]
    if not claims:
        return  # without a claim there is nothing that abi3audit holds a wheel to
    theirs = peers.abi3audit(wheel)
    ours = {member.path.rpartition("/")[2]: member for member in facts.members if member.elf is not None}
    for name, (outside, newer) in theirs.items():
        elf = ours[name].elf
        if elf is None:
            raise AssertionError(f"{name} is no ELF file to us")
        answer = use_of(elf, (export for member in facts.members if member.elf for export in member.elf.exports))
        above = {symbol: f"{major}.{part}" for symbol, (major, part) in answer.above(min(claims)).items()}
        tally.compare(f"symbols of {name} outside the stable ABI", set(answer.outside), outside)
        tally.compare(f"symbols of {name} above its claim", above, newer)


def render(tallies: Iterable[Tally], used: Counter[Explained]) -> str:
    """The table, and under it the explanations that were needed."""
    lines = ["| wheel | tool | compared | agree | explained | seconds |", "|---|---|---:|---:|---:|---:|"]
    for tally in tallies:
        agree = tally.compared - len(tally.disagreements)
        row = (tally.wheel, tally.tool, tally.compared, agree, len(tally.disagreements), f"{tally.seconds:.1f}")
        lines.append("| " + " | ".join(map(str, row)) + " |")
    lines.append("")
    lines += [f"- {reason.tool}, {count} times: {reason.reason}" for reason, count in used.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
