"""What two wheels hold beside device code: files, metadata, entry points, floors, and how they were compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from email.parser import HeaderParser

from qualify.diffing.modules import Module, comparable_path
from qualify.diffing.values import Change, Names, Size
from qualify.facts import DistInfo, Entry, EntryKind, MemberKind, WheelFacts
from qualify.floors import floors
from qualify.lines import lines_of_python

#: Files of the dist-info folder that differ with every build, or whose content is compared as metadata.
_COMPARED_ELSEWHERE = frozenset({"METADATA", "WHEEL", "RECORD", "entry_points.txt"})
#: METADATA fields of which a file may have several (core metadata 2.4), Requires-Dist aside.
_MULTIPLE = frozenset(
    {"Classifier", "Dynamic", "License-File", "Obsoletes-Dist", "Platform", "Project-URL", "Provides-Dist"}
    | {"Provides-Extra", "Requires-External", "Supported-Platform"}
)
_ARCHITECTURE_OPTION = re.compile(r"(?:^|\s)-arch[= ]\S+")


def files_of(candidate: WheelFacts, control: WheelFacts) -> Names:
    """Members that are no compiled code, by installed path; changed ones have other bytes."""
    now, before = _files(candidate), _files(control)
    both = now.keys() & before.keys()
    return Names(
        tuple(sorted(before.keys() - both)),
        tuple(sorted(now.keys() - both)),
        tuple(sorted(path for path in both if now[path] != before[path])),
    )


def _files(facts: WheelFacts) -> dict[str, str]:
    data = (member for member in facts.members if member.kind is MemberKind.DATA)
    found = {comparable_path(member.path): member.sha256 for member in data}
    return {path: sha256 for path, sha256 in found.items() if not _elsewhere(path)}


def _elsewhere(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == ".dist-info" and name in _COMPARED_ELSEWHERE


def metadata_of(candidate: WheelFacts, control: WheelFacts) -> Iterator[Change]:
    """Fields of METADATA, requirements by project, and tags."""
    now, before = _fields(candidate.dist_info), _fields(control.dist_info)
    for name in sorted(now.keys() | before.keys()):
        new, old = now.get(name, ()), before.get(name, ())
        if new == old:
            continue
        if name.partition(": ")[0] in _MULTIPLE or len(new) > 1 or len(old) > 1:
            for text in old:
                if text not in new:
                    yield Change("", name, text, "")
            for text in new:
                if text not in old:
                    yield Change("", name, "", text)
        else:
            yield Change("", name, "".join(old), "".join(new))
    for name, of in (("Tag of the file name", _tags), ("Tag of WHEEL", _wheel_tags), ("Generator", _generator)):
        new, old = of(candidate), of(control)
        if new != old:
            yield Change("", name, ", ".join(old), ", ".join(new))


def _tags(facts: WheelFacts) -> tuple[str, ...]:
    return tuple(sorted(facts.tags))


def _wheel_tags(facts: WheelFacts) -> tuple[str, ...]:
    return tuple(sorted(facts.dist_info.wheel_tags)) if facts.dist_info else ()


def _generator(facts: WheelFacts) -> tuple[str, ...]:
    return (facts.dist_info.generator,) if facts.dist_info else ()


def _fields(info: DistInfo | None) -> dict[str, tuple[str, ...]]:
    """Field -> its values; a requirement's field carries its project: ``Requires-Dist: torch``."""
    if info is None:
        return {}
    found: dict[str, list[str]] = {}
    for name, value in HeaderParser().parsestr(info.metadata).items():
        text = str(value)
        field = "-".join(part.capitalize() for part in name.split("-")).replace("-Url", "-URL")
        if field == "Requires-Dist":
            project, text = _requirement(text)
            field = f"{field}: {project}"
        found.setdefault(field, []).append(text)
    return {field: tuple(values) for field, values in found.items()}


def _requirement(text: str) -> tuple[str, str]:
    """The project's normalised name, and the requirement in one spelling; as it stands where it is none."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return text.split(";")[0].strip(), text
    requirement.name = canonicalize_name(requirement.name)
    return requirement.name, str(requirement)


def entry_points_of(candidate: WheelFacts, control: WheelFacts) -> Names:
    """Entry points as ``group: name``; changed ones point at another object."""
    now, before = (_entry_points(facts.dist_info) for facts in (candidate, control))
    both = now.keys() & before.keys()
    return Names(
        tuple(sorted(before.keys() - both)),
        tuple(sorted(now.keys() - both)),
        tuple(sorted(name for name in both if now[name] != before[name])),
    )


def _entry_points(info: DistInfo | None) -> dict[str, str]:
    """Read by lines: what is no entry point is nothing that one side could lose."""
    found: dict[str, str] = {}
    group = ""
    for line in lines_of_python(info.entry_points if info else ""):
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            group = text[1:-1].strip()
        elif text and text[0] not in "#;" and "=" in text:
            name, _, value = text.partition("=")
            found[f"{group}: {name.strip()}"] = "".join(value.split())
    return found


def floors_of(candidate: Mapping[str, Module], control: Mapping[str, Module]) -> Iterator[Change]:
    """Highest symbol versions by extension that both hold, and of the wheel as a whole."""
    pairs = [
        ("", [m for each in candidate.values() for m in each.members], [m for e in control.values() for m in e.members])
    ]
    pairs += [
        (path, list(candidate[path].members), list(control[path].members)) for path in control if path in candidate
    ]
    for where, now, before in pairs:
        new, old = floors(now), floors(before)
        for family in sorted(new.keys() | old.keys()):
            versions = [found[family].version if family in found else "" for found in (old, new)]
            if versions[0] != versions[1]:
                yield Change(where, family, *versions)


_COMPILED: Mapping[str, Callable[[Entry], str]] = {
    "toolkit": lambda entry: entry.toolkit,
    "PTX ISA": lambda entry: entry.isa,
    "options": lambda entry: " ".join(_ARCHITECTURE_OPTION.sub("", entry.options).split()),
    "compression": lambda entry: entry.compression.value,
    "debug": lambda entry: "debug" if entry.debug else "",
}


def compilers_of(candidate: Mapping[str, Module], control: Mapping[str, Module]) -> Iterator[Change]:
    """How the code of the architectures that both hold was made, extension by extension, as sorted sets of values."""
    for path, before in control.items():
        now = candidate.get(path)
        both = frozenset(before.kernels.keys() & now.kernels.keys()) if now is not None else frozenset[str]()
        if now is None or not both:
            continue
        values = [_compiled(module, both) for module in (before, now)]
        for what in _COMPILED:
            old, new = (", ".join(sorted(found[what])) for found in values)
            if old != new:
                yield Change(path, what, old, new)


def _compiled(module: Module, architectures: frozenset[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {what: set() for what in _COMPILED}
    entries = (entry for member in module.members for container in member.containers for entry in container.entries)
    for entry in entries:
        if entry.kernels and entry.kind is not EntryKind.LTO_IR and entry.architecture in architectures:
            for what, of in _COMPILED.items():
                if text := of(entry):
                    found[what].add(text)
    return found


def sizes_of(
    candidate: WheelFacts, control: WheelFacts, now: Mapping[str, Module], before: Mapping[str, Module]
) -> Iterator[Size]:
    """The wheel's file, and every extension that both hold, where they differ."""
    pairs = [("", control.size, candidate.size)]
    pairs += [(path, module.size, now[path].size) for path, module in before.items() if path in now]
    for where, old, new in pairs:
        if old != new:
            yield Size(where, old, new)
