"""Reports as people read them: the verdict, a table of the members, then the findings."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qualify.renderers.terminal import plain, rendered
from qualify.report import Finding, Granted, MemberCoverage, PolicyChange, Report, Severity, Since, Verdict

_COLORS = {
    Verdict.QUALIFIED: "bold green",
    Verdict.OVERRIDDEN: "bold magenta",
    Verdict.REJECTED: "bold red",
    Verdict.INCONCLUSIVE: "bold yellow",
    Verdict.UNVERIFIED: "bold yellow",
    Severity.ERROR: "red",
    Severity.UNVERIFIED: "yellow",
    Severity.INCONCLUSIVE: "yellow",
    Severity.WARNING: "magenta",
    Severity.NOTE: "cyan",
}

_ORDER = list(Severity)
_CHANGES = 12  # of a policy, that are listed
_SYMBOLS = 2  # of a floor, that are named
_LONGEST = 32  # characters of a symbol


def render(reports: Sequence[Report], *, width: int, color: bool) -> str:
    """Every report, a blank line between them, and a line for each at the end where there are several."""
    parts: list[RenderableType] = []
    for index, report in enumerate(reports):
        parts += [*([Text()] if index else []), _report(report)]
    if len(reports) > 1:
        parts += [Text(), _summary(reports)]
    return rendered(parts, width=width, color=color)


def _report(report: Report) -> RenderableType:
    head = Text.assemble(
        (report.verdict.value, _COLORS[report.verdict]),
        *((f" ({_changed(report.since.changes)})",) if report.since is not None and report.since.changes else ()),
        f"  {plain(report.wheel)}  for {plain(report.target)}, profile {report.profile}",
    )
    parts: list[RenderableType] = [head]
    if report.since is not None:
        parts += [Text(line) for line in _since(report.since)]
    if report.coverage:
        parts.append(_coverage(report.coverage))
    if report.findings:
        parts.append(_findings(report.findings))
    parts += [Text(f"not judged: {plain(row)}") for row in report.not_judged]
    parts += [Text(line) for line in (*_floors(report), *_companions(report))]
    if report.receipt:
        parts.append(Text(f"judged with the receipt of its build, sha256 {plain(report.receipt)[:12]}"))
    return Group(*parts)


def _floors(report: Report) -> list[str]:
    """What the binaries need of the host at the newest, and the platform tag that is true of that."""
    lines = []
    for floor in report.floors:
        names = ", ".join(map(_short, floor.symbols[:_SYMBOLS])) or "a library as such"
        more = f" and {floor.symbol_count - _SYMBOLS} more" if floor.symbol_count > _SYMBOLS else ""
        lines.append(f"needs {plain(floor.version)} for {plain(names)}{more} in {plain(floor.member)}")
    if report.true_tag:
        lines.append(f"symbol versions allow the tag {plain(report.true_tag)}")
    return lines


def _short(name: str) -> str:
    """A mangled name of a line's length at most."""
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _companions(report: Report) -> list[str]:
    """The other wheels that this one was held against."""
    policy = report.policy or {}
    given = [(name, policy[name]) for name in ("control", "torch") if policy.get(name)]
    return [f"held against {name} {plain(row['filename'])}, sha256 {row['sha256'][:12]}" for name, row in given]


def _changed(changes: Sequence[PolicyChange]) -> str:
    """``policy changed: ceilings.glibc 2.28 -> 2.39``, and how many more there are."""
    first = changes[0]
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"policy changed: {plain(first.field)} {plain(first.before)} -> {plain(first.now)}{more}"


def _since(since: Since) -> list[str]:
    """What is asked otherwise than in the earlier evidence, or why nothing can be said of that."""
    name = plain(since.evidence)
    if since.incomparable:
        return [f"not compared with {name}: {plain(since.incomparable)}"]
    if not since.changes:
        return []
    rows = [f"  {plain(each.field)}: {plain(each.before)} -> {plain(each.now)}" for each in since.changes[:_CHANGES]]
    if len(since.changes) > _CHANGES:
        rows.append(f"  and {len(since.changes) - _CHANGES} more; --json has them all")
    return [f"asked otherwise since {name} of {plain(since.made)}, which said {plain(since.verdict)}:", *rows]


def _coverage(rows: Sequence[MemberCoverage]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("member", overflow="fold")
    for name in ("native", "JIT", "none", "unknown"):
        if name != "unknown" or any(row.unknown or row.containers_unknown for row in rows):
            table.add_column(name, justify="right")
    table.add_column("containers", justify="right")
    table.add_column("asked")
    unknown = len(table.columns) == 7
    for row in rows:
        counts = (row.native, row.jit, row.none, *((row.unknown,) if unknown else ()))
        held = (row.containers_native, row.containers_jit, row.containers_none)
        containers = " / ".join(str(count) for count in held)
        if row.containers_unknown:
            containers += f" / {row.containers_unknown}?"
        empty = not any(counts) and not any(held) and not row.containers_unknown
        cells = ["·"] * len(counts) + ["host code"] if empty else [*map(str, counts), containers]
        table.add_row(Text(plain(row.member)), *cells, row.expectation or "no entry")
    table.caption = "kernels by name at their best; containers native / JIT / none"
    table.caption_justify = "left"
    return table


def _findings(findings: Sequence[Finding]) -> Table:
    """Two columns, the worst first: what kind of finding, and what it says."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in sorted(findings, key=_rank):
        member = f"{plain(finding.member)}: " if finding.member else ""
        text = Text(f"{finding.slug}  {member}{plain(finding.found)}")
        if finding.severity is not Severity.NOTE:
            # A note is for information; what else was expected and could be done stands in `explain` and in the JSON.
            text.append(f"\nexpected: {plain(finding.expected)}\nto do: {plain(finding.action)}")
        if finding.waiver is None:
            label = Text(f"{finding.severity.value} {finding.code}", _COLORS[finding.severity])
        else:
            text.append(f"\n{_through(finding.waiver)}")
            label = Text(f"waived {finding.severity.value} {finding.code}", _COLORS[Verdict.OVERRIDDEN])
        table.add_row(label, text)
    return table


def _rank(finding: Finding) -> tuple[int, int]:
    """What blocks first, then what was let through, then the rest."""
    return (0 if finding.blocks else 1 if finding.waiver else 2), _ORDER.index(finding.severity)


def _through(waiver: Granted) -> str:
    """Who let a finding through, for what, and why."""
    scope = f"wheel {waiver.wheel[:12]}" if waiver.wheel else f"pin {waiver.pin[:12]}"
    return f"let through for {plain(scope)} by {plain(waiver.granted_by)}: {plain(waiver.reason)}"


def _summary(reports: Sequence[Report]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("verdict", "target", "wheel"):
        table.add_column(name, overflow="fold")
    for report in reports:
        table.add_row(
            Text(report.verdict.value, _COLORS[report.verdict]), Text(plain(report.target)), Text(plain(report.wheel))
        )
    return table
