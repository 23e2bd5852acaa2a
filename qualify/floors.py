"""What a wheel's binaries need of the host's C and C++ libraries, and which manylinux tag is true of them.

A floor is the highest symbol version of a family (GLIBC, GLIBCXX, CXXABI, GCC) that a binary binds to; the loader
refuses it on a host whose library is older.  A manylinux tag (PEP 600, and PEP 513, 571, 599 for the older names)
promises that every binary gets by with the versions and libraries of one policy.  auditwheel writes those policies
down; they are read here as data (``data/manylinux.json``), so that the answer is the same on every host.

Needs of libraries that no policy counts among the host's (one that the wheel brings along, say) set no floor of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qualify.facts import Elf, Member, WheelFacts

Version = tuple[int, ...]

#: The families of symbol versions that floors are given for: glibc's, libstdc++'s two, and libgcc_s's.
FAMILIES = ("GLIBC", "GLIBCXX", "CXXABI", "GCC")

_DATA = Path(__file__).resolve().parent / "data" / "manylinux.json"
_NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,7}")
_LOADER = re.compile(r"ld-linux.*\.so\.[0-9]+|ld64\.so\.[12]")
_PERENNIAL = re.compile(r"manylinux_(?P<major>[0-9]{1,4})_(?P<minor>[0-9]{1,4})_(?P<machine>\w+)")
_LEGACY: Mapping[str, Version] = MappingProxyType(
    {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
)
# ELF machine -> the machine of platform tags, where the names differ.
_TAG_MACHINES: Mapping[str, str] = MappingProxyType({"i386": "i686", "arm": "armv7l"})


@dataclass(frozen=True, slots=True)
class ManylinuxPolicy:
    """One policy, for one machine."""

    name: str  # "manylinux_2_28"
    machine: str  # "x86_64"
    glibc: Version
    versions: Mapping[str, frozenset[str]]  # family -> "2.17" and the like; the four of FAMILIES, ZLIB, LIBATOMIC
    libraries: frozenset[str]  # sonames that every host of this policy has
    internal: Mapping[str, frozenset[str]]  # soname -> symbols of it that are nobody else's business

    @property
    def tag(self) -> str:
        return f"{self.name}_{self.machine}"


@dataclass(frozen=True, slots=True)
class Need:
    """One symbol version of a library of the host that a binary binds to."""

    library: str  # "libc.so.6"
    family: str  # "GLIBC"
    text: str  # "2.34", "ABI_DT_RELR"

    @property
    def version(self) -> str:
        return f"{self.family}_{self.text}"


@dataclass(frozen=True, slots=True)
class Floor:
    """The highest need of one family."""

    version: str  # "GLIBC_2.34"
    member: str  # the (first) member that needs it
    symbols: tuple[str, ...]  # what that member takes at this version, sorted; () where no symbol has it


def parse(text: str) -> Version:
    """``"2.28"`` -> (2, 28); trailing zeros count for nothing: ``"14.0.0"`` and ``"14.0"`` are equal."""
    parts = [int(part) for part in text.split(".")]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def number(text: str) -> Version | None:
    """A version that is a number; None for names such as ``ABI_DT_RELR``."""
    return parse(text) if _NUMBER.fullmatch(text) else None


@lru_cache(maxsize=1)
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    return data


def data_version() -> str:
    """The version of auditwheel whose policies these are."""
    return str(_data()["auditwheel"])


@lru_cache(maxsize=32)
def policies(machine: str) -> tuple[ManylinuxPolicy, ...]:
    """Every policy of a tag's machine, the oldest first; () for a machine that none is known of."""
    found = []
    for policy in _data()["policies"]:
        if families := policy["symbol_versions"].get(machine):
            versions = MappingProxyType({family: frozenset(texts) for family, texts in families.items()})
            internal = MappingProxyType({name: frozenset(names) for name, names in policy["blacklist"].items()})
            glibc = tuple(int(part) for part in policy["name"].split("_")[1:3])
            whitelist = frozenset(policy["lib_whitelist"])
            found.append(ManylinuxPolicy(policy["name"], machine, glibc, versions, whitelist, internal))
    return tuple(sorted(found, key=lambda policy: policy.glibc))


def is_loader(library: str) -> bool:
    """Whether a soname is the dynamic loader's own, which is in every process already."""
    return _LOADER.fullmatch(library) is not None


def machine_of_elf(elf: Elf) -> str:
    """A file's machine as platform tags call it: ``i386`` is ``i686``, little-endian ``ppc64`` is ``ppc64le``."""
    if elf.machine == "ppc64" and elf.little_endian:
        return "ppc64le"
    return _TAG_MACHINES.get(elf.machine, elf.machine)


def tag_glibc(platform: str) -> Version | None:
    """The glibc that a tag promises, ``manylinux_2_28_x86_64`` or ``manylinux2014_x86_64``; None for other tags."""
    if match := _PERENNIAL.fullmatch(platform):
        return int(match["major"]), int(match["minor"])
    return next((version for name, version in _LEGACY.items() if platform.startswith(f"{name}_")), None)


def tag_machine(platform: str) -> str:
    """The machine of a manylinux tag; "" for others."""
    if match := _PERENNIAL.fullmatch(platform):
        return match["machine"]
    return next((platform.removeprefix(f"{name}_") for name in _LEGACY if platform.startswith(f"{name}_")), "")


def promised(platforms: Iterable[str], machine: str) -> str:
    """Of a file name's platform tags, the manylinux one that promises ``machine`` most; "" where there is none.

    An installer takes the file where any of its tags fits, so the oldest of a compressed set has to be true.
    """
    tags = [(version, tag) for tag in platforms if (version := tag_glibc(tag)) and tag_machine(tag) == machine]
    return min(tags)[1] if tags else ""


def policy_for_tag(platform: str) -> ManylinuxPolicy | None:
    """The policy that a tag promises: for a glibc without a policy of its own, the next older one.

    A tag that is older than every policy of its machine gets the oldest: no such host is older than that.
    """
    glibc = tag_glibc(platform)
    known = policies(tag_machine(platform))
    if glibc is None or not known:
        return None
    return next((policy for policy in reversed(known) if policy.glibc <= glibc), known[0])


def needs(elf: Elf) -> tuple[Need, ...]:
    """What a binary binds to in libraries of the host, distinct, in the file's order."""
    known = policies(machine_of_elf(elf))
    host = known[-1].libraries if known else None
    found: dict[Need, None] = {}
    for need in elf.version_needs:
        family, _, text = need.version.partition("_")
        if host is None or need.library in host or is_loader(need.library):
            found[Need(need.library, family, text)] = None
    return tuple(found)


def exceeds(need: Need, ceiling: Version, machine: str) -> bool | None:
    """Whether a need is newer than ``ceiling`` of its family; None where nobody can tell.

    A version that is a name stands between the policy that brings it and the one before.
    """
    value = number(need.text)
    if value is not None:
        return value > ceiling
    older: ManylinuxPolicy | None = None
    for policy in policies(machine):
        if need.text in policy.versions.get(need.family, ()):
            if _highest(policy, need.family) <= ceiling:
                return False
            return True if older is not None and _highest(older, need.family) >= ceiling else None
        older = policy
    return None


def _highest(policy: ManylinuxPolicy, family: str) -> Version:
    return max((value for text in policy.versions.get(family, ()) if (value := number(text)) is not None), default=())


def rank(need: Need, machine: str) -> Version | None:
    """A need's place in its family: its number, or that of the first policy which knows its name; None for neither."""
    value = number(need.text)
    if value is not None:
        return value
    for policy in policies(machine):
        if need.text in policy.versions.get(need.family, ()):
            return _highest(policy, need.family)
    return None


def uncovered(elf: Elf, platform: str) -> tuple[Need, ...]:
    """The needs of a binary that a manylinux tag does not promise, named ones that nobody knows left out.

    glibc is held against the tag's own number, every other family that the tag's policy has against its list.  A tag
    newer than every policy promises nothing that could be looked up but glibc: see :func:`beyond`.
    """
    policy, glibc, machine = policy_for_tag(platform), tag_glibc(platform), machine_of_elf(elf)
    if policy is None or glibc is None:
        return ()
    found = []
    for need in needs(elf):
        allowed = policy.versions.get(need.family)
        if allowed is None or need.text in allowed or rank(need, machine) is None:
            continue
        if need.family == "GLIBC":
            if exceeds(need, glibc, machine) is False:
                continue
        elif glibc > policies(machine)[-1].glibc:
            continue
        found.append(need)
    return tuple(found)


def beyond(elf: Elf, platform: str) -> tuple[Need, ...]:
    """The needs that no policy lists, under a tag newer than every policy: nobody here can tell."""
    policy, glibc = policy_for_tag(platform), tag_glibc(platform)
    if policy is None or glibc is None or glibc <= policies(policy.machine)[-1].glibc:
        return ()
    lists = {family: texts for family, texts in policy.versions.items() if family != "GLIBC"}
    return tuple(n for n in needs(elf) if n.text not in lists.get(n.family, frozenset((n.text,))))


def binaries(facts: WheelFacts, machine: str) -> Iterator[tuple[Member, Elf]]:
    """The members that are ELF files of a tag's machine."""
    for member in facts.members:
        if member.elf is not None and machine_of_elf(member.elf) == machine:
            yield member, member.elf


def symbol_policy(facts: WheelFacts, machine: str) -> ManylinuxPolicy | None:
    """The oldest policy whose symbol versions cover every binary of ``machine`` (auditwheel's `sym_policy`).

    None where not even the newest does, or there is no binary of that machine: no manylinux tag is true then.
    """
    found = list(binaries(facts, machine))
    required: dict[str, set[str]] = {}
    for _, elf in found:
        for need in needs(elf):
            required.setdefault(need.family, set()).add(need.text)
    for policy in policies(machine) if found else ():
        if all(required[family] <= policy.versions[family] for family in required.keys() & policy.versions.keys()):
            return policy
    return None


def true_tag(facts: WheelFacts, machine: str) -> str:
    """The platform tag that is true by symbol versions: ``manylinux_2_28_x86_64``, or ``linux_x86_64`` without one."""
    policy = symbol_policy(facts, machine)
    return f"linux_{machine}" if policy is None else policy.tag


def symbols_at(elf: Elf, version: str) -> tuple[str, ...]:
    """The names that a binary takes at a symbol version, sorted."""
    return tuple(each.name for each in elf.imports if each.version == version)


def floors(members: Iterable[Member]) -> Mapping[str, Floor]:
    """Family -> the highest need of these members, with the symbols that set it; families without a need are absent.

    Versions that are names nobody knows (``GLIBC_PRIVATE``) have no place in the order and set no floor here.
    """
    found: dict[str, tuple[Version, Need, Member, Elf]] = {}
    for member in members:
        if member.elf is None:
            continue
        machine = machine_of_elf(member.elf)
        for need in needs(member.elf):
            place = rank(need, machine) if need.family in FAMILIES else None
            if place is not None and (need.family not in found or place > found[need.family][0]):
                found[need.family] = (place, need, member, member.elf)
    return MappingProxyType(
        {
            family: Floor(need.version, member.path, symbols_at(elf, need.version))
            for family in FAMILIES
            if family in found
            for _, need, member, elf in (found[family],)
        }
    )
