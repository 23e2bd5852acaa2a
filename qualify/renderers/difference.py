"""What two wheels differ in, as people read it: lost first, then changed, then gained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from qualify.diffing.values import Architecture, Change, Difference, Kernels, Names, OnDevice, TargetDifference
from qualify.renderers.terminal import plain, rendered

_LISTED = 5  # names that are listed of many
_LONGEST = 160  # characters of a name; mangled ones have up to a thousand, and --all shows them whole
_COLORS = {"lost": "red", "slower": "red", "gained": "green", "faster": "green", "changed": "cyan", "unknown": "yellow"}


def render(difference: Difference, *, width: int, color: bool, every: bool) -> str:
    """The text.

    :param width: columns.
    :param every: lists every kernel and file, and not the first few alone.
    """
    return rendered(_lines(difference, every), width=width, color=color, wrap=False)


def _lines(difference: Difference, every: bool) -> Iterator[Text]:
    control, candidate = difference.control, difference.candidate
    yield Text(f"control    {plain(control.filename)}  {control.sha256[:12]}  {_size(control.size)}")
    yield Text(f"candidate  {plain(candidate.filename)}  {candidate.sha256[:12]}  {_size(candidate.size)}")
    yield Text()
    if difference.target is not None:
        yield from _target(difference.target, every)
    # With a target its own lines say it; what other architectures lost or gained is for those who ask for all.
    yield from _kernels(difference.kernels, every, rows=every or difference.target is None)
    yield from _architectures("lost", difference.architectures_lost)
    yield from _architectures("gained", difference.architectures_gained)
    yield from _names("extension", difference.extensions, every)
    yield from _names("file", difference.files, every)
    yield from _names("entry point", difference.entry_points, every)
    yield from _changes("METADATA and tags", difference.metadata)
    yield from _changes("floors", difference.floors)
    yield from _changes("compilers", difference.compilers)
    yield from _sizes(difference)
    for sentence in difference.unknown:
        yield _line("unknown", plain(sentence))
    yield Text()
    yield Text(_summary(difference))


def _target(target: TargetDifference, every: bool) -> Iterator[Text]:
    driver = f", driver of CUDA {target.oldest_cuda}" if target.oldest_cuda else ""
    yield Text(f"what runs on {plain(target.target)} (compute capability {target.device}{driver})")
    for row in target.extensions:
        counts = f"{_count(row.control)} run from the control ({row.control_native} natively)"
        yield Text(f"  {plain(row.extension)}: {counts}, {row.candidate} from the candidate ({row.candidate_native})")
        yield from _of_device(row, every)
    for path in target.lost:
        yield _line("lost", f"extension {plain(path)}")
    for path in target.gained:
        yield _line("gained", f"extension {plain(path)}")
    yield Text()


def _of_device(row: OnDevice, every: bool) -> Iterator[Text]:
    for kind, names in (
        ("lost", row.lost),
        ("slower", row.slower),
        ("unknown", row.unknown),
        ("gained", row.gained),
        ("faster", row.faster),
    ):
        if names:
            yield _line(kind, _count(len(names)), indent=4)
            yield from _listed(names, every, indent=6)


def _kernels(found: Sequence[Kernels], every: bool, *, rows: bool) -> Iterator[Text]:
    differing = [row for row in found if row.lost or row.gained]
    equal = len(found) - len(differing)
    if found:
        yield Text(f"kernels: {equal} of {len(found)} pairs of extension and architecture that both hold are equal")
    for row in differing if rows else ():
        yield Text(f"  {plain(row.extension)} {row.architecture}: {row.control} before, {row.candidate} now")
        for kind, names in (("lost", row.lost), ("gained", row.gained)):
            if names:
                yield _line(kind, _count(len(names)), indent=4)
                yield from _listed(names, every, indent=6)


def _architectures(kind: str, rows: Sequence[Architecture]) -> Iterator[Text]:
    for row in rows:
        kernels = f", {_count(row.kernels)}" if row.kernels else ""
        yield _line(kind, f"{row.architecture} of {plain(row.extension)}{kernels}")


def _names(what: str, names: Names, every: bool) -> Iterator[Text]:
    for kind, found in (("lost", names.lost), ("changed", names.changed), ("gained", names.gained)):
        if found:
            yield _line(kind, f"{len(found)} {what}{'s' if len(found) > 1 else ''}")
            yield from _listed(found, every, indent=4)


def _changes(title: str, changes: Sequence[Change]) -> Iterator[Text]:
    if changes:
        yield Text(title)
    for each in changes:
        where = f"{plain(each.where)} " if each.where else ""
        yield _line("changed", f"{where}{plain(each.what)}: {_said(each.control)} -> {_said(each.candidate)}")


def _sizes(difference: Difference) -> Iterator[Text]:
    if difference.sizes:
        yield Text("sizes")
    for each in difference.sizes:
        ratio = f" ({100 * (each.candidate - each.control) / each.control:+.1f} %)" if each.control else ""
        where = plain(each.where) or "the wheel"
        yield _line("changed", f"{where}: {_size(each.control)} -> {_size(each.candidate)}{ratio}")


def _summary(difference: Difference) -> str:
    if difference.loses:
        return "something is lost" + ("; something could not be compared" if difference.leaves_open else "")
    return "something could not be compared" if difference.leaves_open else "nothing is lost"


def _listed(names: Sequence[str], every: bool, *, indent: int) -> Iterator[Text]:
    shown = names if every else names[:_LISTED]
    for name in shown:
        text = plain(name)
        yield Text(" " * indent + (text if every or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"))
    if len(names) > len(shown):
        yield Text(" " * indent + f"and {len(names) - len(shown)} more: --all lists them, and --json has them")


def _line(kind: str, text: str, *, indent: int = 2) -> Text:
    return Text.assemble(" " * indent, (f"{kind:8}", _COLORS[kind]), text)


def _said(text: str) -> str:
    return plain(text) if text else "none"


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size:,} bytes"


def _count(number: int) -> str:
    return f"{number} kernel" if number == 1 else f"{number} kernels"
