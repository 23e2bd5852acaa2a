"""Laws of floors and names: the true tag is true and the oldest that is, and no name costs more than its length."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from qualify import floors, sonames
from qualify.checks.runpaths import inside
from qualify.facts import Member, VersionNeed, WheelFacts
from tests.support.elf import host_elf
from tests.unit.judging_support import wheel

LIBRARIES = {
    "libc.so.6": ("GLIBC",),
    "libm.so.6": ("GLIBC",),
    "ld-linux-x86-64.so.2": ("GLIBC",),
    "libstdc++.so.6": ("GLIBCXX", "CXXABI"),
    "libgcc_s.so.1": ("GCC",),
    "libz.so.1": ("ZLIB",),
    "libatomic.so.1": ("LIBATOMIC",),
}
BASE: WheelFacts = wheel(files={"axpy/lib.so": host_elf()})
(MEMBER,) = (member for member in BASE.members if member.path == "axpy/lib.so")
(ELF,) = (found for found in (MEMBER.elf,) if found is not None)
KNOWN = sorted(
    (library, f"{family}_{text}")
    for library, families in LIBRARIES.items()
    for family in families
    for policy in floors.policies("x86_64")
    for text in policy.versions[family]
    if not (library.startswith("ld-") and text.startswith("ABI"))
)
needs = st.lists(st.sampled_from(KNOWN), max_size=8).map(lambda rows: tuple(VersionNeed(*row) for row in rows))


def needing(*wanted: VersionNeed) -> WheelFacts:
    """One library that needs these versions, alone in its wheel."""
    elf = dataclasses.replace(ELF, version_needs=tuple(wanted))
    return dataclasses.replace(BASE, members=(dataclasses.replace(MEMBER, elf=elf),))


@given(needs)
def test_the_true_tag_promises_everything_and_no_older_one_does(wanted: tuple[VersionNeed, ...]) -> None:
    facts = needing(*wanted)
    policy = floors.symbol_policy(facts, "x86_64")
    assert policy is not None  # the newest policy has every version that any policy has
    (elf,) = (member.elf for member in facts.members)
    assert elf is not None
    assert floors.uncovered(elf, policy.tag) == ()
    for older in floors.policies("x86_64"):
        if older.glibc < policy.glibc:
            lists = older.versions
            assert any(need.text not in lists[need.family] for need in floors.needs(elf) if need.family in lists)


@given(needs, needs)
def test_more_needs_never_lower_the_tag(some: tuple[VersionNeed, ...], more: tuple[VersionNeed, ...]) -> None:
    fewer, all_of_them = (floors.symbol_policy(needing(*rows), "x86_64") for rows in (some, some + more))
    assert fewer is not None
    assert all_of_them is not None
    assert fewer.glibc <= all_of_them.glibc


@given(needs)
def test_a_floor_is_the_highest_need_of_its_family(wanted: tuple[VersionNeed, ...]) -> None:
    facts = needing(*wanted)
    found = floors.floors(facts.members)
    assert set(found) == {need.version.partition("_")[0] for need in wanted} & set(floors.FAMILIES)
    for family, floor in found.items():
        top = floors.rank(floors.Need("", family, floor.version.partition("_")[2]), "x86_64")
        assert top is not None
        for need in floors.needs(facts.members[0].elf or ELF):
            if need.family == family:
                assert floors.exceeds(need, top, "x86_64") is not True


@given(st.text("lib-_.so0123456789abcdef/cudartorh", max_size=60) | st.text(max_size=20))
def test_names_are_read_without_an_error(name: str) -> None:
    plain = sonames.stem(name)
    assert sonames.stem(plain) == plain
    assert name.startswith(plain)
    owner = sonames.provided_as(name)
    if owner is not None:
        known = sonames.by_name(name)
        assert known is not None
        assert known.owner is owner
        assert not sonames.renamed(name)


@given(st.text("$ORIGIN{}/.axpy", max_size=40) | st.text(max_size=20))
def test_a_run_path_leads_below_site_packages_or_nowhere(entry: str) -> None:
    folder = inside(MEMBER, entry)
    assert folder is None or (not folder.startswith(("/", "../")) and folder not in (".", ".."))


@settings(max_examples=10, deadline=timedelta(seconds=10))  # what grows with the square takes minutes
@given(st.sampled_from(("-aaaaaaaa", ".so", "-0123abcd.so.", "a.b", ".so.1", "cudnn_", "ld-linux.so.")))
def test_a_hostile_name_costs_its_length(piece: str) -> None:
    name = "lib" + piece * 60_000
    member: Member = dataclasses.replace(MEMBER, path=f"axpy/{name}")
    sonames.stem(name)
    sonames.renamed(name)
    sonames.provided_as(name)
    sonames.cuda_majors(name)
    sonames.is_libpython(name)
    floors.is_loader(name)
    floors.tag_glibc(name)
    inside(member, f"$ORIGIN/{name}")
