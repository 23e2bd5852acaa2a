"""``qualify inspect``: what a wheel holds, without any judgement."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import ExitCode
from qualify.facts import EntryKind, MemberKind, ProblemKind, WheelFacts
from qualify.factsjson import CodeGroup, code_groups, to_json
from qualify.opening import read_wheel

if TYPE_CHECKING:
    from rich.console import Console

HELP = "show what a wheel holds: its compiled members, their device code and kernels"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=Path, help="path of a .whl file")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the facts; 1 where a part of the wheel is malformed, 3 where one could not be read, else 0."""
    facts = read_wheel(arguments.wheel, progress=_progress if sys.stderr.isatty() else None)
    if arguments.json:
        # Without indentation the encoder written in C does the work: the facts of a big wheel are megabytes.
        sys.stdout.write(json.dumps(to_json(facts)) + "\n")
    else:
        from rich.console import Console

        _show(facts, Console(width=None if sys.stdout.isatty() else 120))
    for problem in facts.problems:
        place = ": ".join(part for part in (problem.member, problem.where) if part)
        print(f"{problem.kind}: {place}: {problem.detail}", file=sys.stderr)
    return ExitCode.worst([_CODES[problem.kind] for problem in facts.problems])


_CODES = {
    ProblemKind.MALFORMED: ExitCode.REJECTED,
    ProblemKind.UNREADABLE: ExitCode.UNVERIFIED,
    ProblemKind.ENVIRONMENT: ExitCode.UNAVAILABLE,
}


def _progress(path: str, done: int, total: int) -> None:
    end = "\n" if done >= total else ""
    print(f"\r\x1b[Kreading {100 * done // total:3d} % {path[-60:]}", end=end, file=sys.stderr, flush=True)


def _show(facts: WheelFacts, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(Text(f"{facts.filename}\n  {facts.size:,} bytes, sha256 {facts.sha256}"))
    console.print(Text(f"  {len(facts.members)} members; tags {', '.join(facts.tags) or 'none'}"))
    if facts.dist_info:
        info = facts.dist_info
        console.print(Text(f"  METADATA says {info.metadata_name} {info.metadata_version}"))
    for module in facts.version_modules:
        console.print(
            Text(f"  {module.path} says {module.version or 'no version'}, commit {module.commit_id or 'none'}")
        )
    table = Table(title="compiled members", title_justify="left")
    for heading in ("member", "kind", "machine", "device code", "entries", "kernels"):
        table.add_column(heading, justify="right" if heading in ("entries", "kernels") else "left", overflow="fold")
    for member in facts.members:
        if member.kind is MemberKind.DATA and not member.containers:
            continue
        machine = member.elf.machine if member.elf else ""
        head = (Text(member.path), str(member.kind), machine)
        for group in code_groups(member) or (None,):
            table.add_row(*head, *_cells(group))
            head = (Text(""), "", "")
    console.print(table)


def _cells(group: CodeGroup | None) -> tuple[str, str, str]:
    if group is None:
        return "none", "", ""
    unread = f" ({group.unreadable} not read)" if group.unreadable else ""
    name = group.architecture or "unknown"
    shown = name if group.kind is EntryKind.CUBIN else f"{group.kind} {name}"
    return shown, str(group.entries), "" if group.kind is EntryKind.LTO_IR else f"{group.kernels}{unread}"
