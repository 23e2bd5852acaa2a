"""Facts as people read them: per compiled member what it is, what it needs of its host, and its device code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from qualify.facts import Depth, Entry, EntryKind, Member, MemberKind, WheelFacts
from qualify.factsjson import CodeGroup, code_groups
from qualify.floors import floors

_HEADINGS = ("device code", "entries", "kernels", "compression", "stored", "inflated", "made by", "")
_WIDTHS = (17, 7, 8, 11, 9, 9, 12, 0)
_RIGHT = frozenset({"entries", "kernels", "stored", "inflated"})
_OWN_ARCHITECTURE = "-arch (its own)"
_MOST_COMMANDS = 30


def page(facts: WheelFacts) -> RenderableType:
    """The wheel in a few lines, each compiled member with its device code, and the compilers' command lines."""
    parts: list[RenderableType] = [_wheel(facts)]
    compiled = [member for member in facts.members if member.kind is not MemberKind.DATA or member.containers]
    parts += [_member(member, facts.depth) for member in compiled]
    if not compiled:
        parts.append(Text("\nno compiled member"))
    commands = _commands(facts)
    if commands is not None:
        parts.append(commands)
    return Group(*parts)


def _wheel(facts: WheelFacts) -> Text:
    inflated = sum(member.size for member in facts.members)
    lines = [
        facts.filename,
        f"  {facts.size:,} bytes, sha256 {facts.sha256}",
        f"  {len(facts.members):,} members of {inflated:,} bytes; tags {', '.join(facts.tags) or 'none'}",
    ]
    if facts.dist_info is not None:
        info = facts.dist_info
        lines.append(
            f"  METADATA says {info.metadata_name or 'no name'} {info.metadata_version or 'without a version'},"
            f" Python {info.requires_python or 'of any version'}"
        )
    lines += [
        f"  {module.path} says {module.version or 'no version'}, commit {module.commit_id or 'none'}"
        for module in facts.version_modules
    ]
    if facts.depth is Depth.HEADERS:
        lines.append("  read to the depth of headers: no payload was looked at, and no kernel is known")
    return Text("\n".join(map(plain, lines)))


def _member(member: Member, depth: Depth) -> RenderableType:
    elf = member.elf
    machine = f", {elf.machine}" if elf is not None and member.kind is not MemberKind.CUBIN else ""
    needs = " ".join(floor.version for floor in floors([member]).values())
    head = Text(f"\n{plain(member.path)}\n", "bold")
    head.append(
        f"  {member.kind}{machine}, {member.size:,} bytes{'; needs ' if needs else ''}{plain(needs)}", "not bold"
    )
    groups = code_groups(member)
    if not groups:
        return Group(head, Text("  no device code"))
    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim")
    for heading, width in zip(_HEADINGS, _WIDTHS, strict=True):
        table.add_column(heading, justify="right" if heading in _RIGHT else "left", min_width=width, overflow="fold")
    debug = Counter((entry.kind, entry.architecture) for entry in _entries(member) if entry.debug)
    for group in groups:
        table.add_row(*map(plain, _cells(group, debug[group.kind, group.architecture], depth)))
    containers = len(member.containers)
    sections = ", ".join(dict.fromkeys(container.section for container in member.containers if container.section))
    place = f"  {containers} {'container' if containers == 1 else 'containers'}"
    if sections:
        place += f" in {plain(sections[:300])}"
    unknown = sorted({entry.raw_kind for entry in _entries(member) if entry.kind is EntryKind.UNKNOWN})
    if unknown:
        place += f"; entries of unknown kind {', '.join(map(str, unknown))[:300]}"
    return Group(head, Text(place), Padding(table, (0, 0, 0, 4)))


def _cells(group: CodeGroup, debug: int, depth: Depth) -> tuple[str, ...]:
    name = group.architecture or "unknown"
    kernels = f"{group.kernels:,}"
    if group.kind is EntryKind.LTO_IR or depth is Depth.HEADERS:
        kernels = ""
    elif group.unreadable:
        kernels += f" ({group.unreadable} not read)"
    made_by = [f"toolkit {toolkit}" for toolkit in group.toolkits] + [f"PTX {isa}" for isa in group.isas]
    return (
        name if group.kind is EntryKind.CUBIN else f"{group.kind} {name}",
        f"{group.entries:,}",
        kernels,
        ", ".join(group.compressions),
        _size(group.stored_size),
        _size(group.size),
        ", ".join(made_by),
        "" if not debug else "debug" if debug == group.entries else f"{debug} debug",
    )


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"


def _commands(facts: WheelFacts) -> RenderableType | None:
    """The distinct command lines of the wheel, the most frequent first; ``-arch`` of its own entry is said once."""
    found = Counter(
        (entry.kind, _general(entry)) for member in facts.members for entry in _entries(member) if entry.options
    )
    if not found:
        return None
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    for (kind, options), count in ranked[:_MOST_COMMANDS]:
        table.add_row(f"{count:,} {kind}", plain(options))
    left = len(ranked) - _MOST_COMMANDS
    rest = [Text(f"  and {left:,} more")] if left > 0 else []
    return Group(Text("\ncompiled with", "bold"), Padding(table, (0, 0, 0, 2)), *rest)


def _general(entry: Entry) -> str:
    own = re.escape(entry.architecture)
    return re.sub(rf"-arch[ =]{own}(?![0-9a-z_])", _OWN_ARCHITECTURE, entry.options).replace("\n", " + ")


def _entries(member: Member) -> Iterator[Entry]:
    for container in member.containers:
        yield from container.entries


def plain(text: str) -> str:
    """Text from a wheel without what a terminal would act on; ends of lines stay."""
    return "".join(
        letter
        if letter.isprintable() or letter == "\n"
        else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in text
    )
