"""What one device runs of either wheel: by kernel, at its best in the extension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from qualify.arch import ComputeCapability, DriverAnswer, Support
from qualify.coverage import MemberKernels, entry_driver, kernels_of
from qualify.diffing.modules import Module
from qualify.diffing.values import OnDevice, TargetDifference
from qualify.facts import Entry

#: Normalised name -> how it runs.  Of several kernels under one name the best has it, the next "name #2", and so on.
Best = Mapping[str, Support]
_NATIVE = (Support.EXACT, Support.SAME_MAJOR, Support.FAMILY)
_RUN = (*_NATIVE, Support.JIT)


def taken_by(oldest_cuda: str) -> Callable[[Entry], bool] | None:
    """Whether the oldest promised driver takes an entry, as far as is known; None where no driver is promised."""
    if not oldest_cuda:
        return None
    known: dict[tuple[str, str, str, str], bool] = {}

    def taken(entry: Entry) -> bool:
        # Entries are many, and what the driver asks of them is nearly always the same.
        asked = (entry.kind.value, entry.isa, entry.toolkit, entry.compression.value)
        if asked not in known:
            known[asked] = entry_driver(entry, oldest_cuda) is not DriverAnswer.NO
        return known[asked]

    return taken


Covered = Mapping[str, tuple[MemberKernels, ...]]  # module path -> coverage of its members


def cover(modules: Mapping[str, Module], device: ComputeCapability, oldest_cuda: str = "") -> Covered:
    """Coverage of every module, under the oldest driver that is promised."""
    taken = taken_by(oldest_cuda)
    return {
        path: tuple(kernels_of(member, device, taken) for member in module.members) for path, module in modules.items()
    }


def best_of(module: Module, coverage: Iterable[MemberKernels]) -> Best:
    """How each kernel of a module runs, by normalised name, from the coverage of its members."""
    found: dict[str, Support] = {}
    for kernels in coverage:
        if found:
            _improve(found, kernels.best)
        else:
            found.update(kernels.best)
    several: dict[str, dict[str, Support]] = {}
    for name in found.keys() & module.respelt.keys():
        text, source = module.respelt[name]
        support, known = found.pop(name), several.setdefault(text, {})
        known[source] = min(known.get(source, support), support, key=_rank)
    for text, supports in several.items():
        for index, support in enumerate(sorted(supports.values(), key=_rank), 1):
            found[text if index == 1 else f"{text} #{index}"] = support
    return found


def on_device(path: str, candidate: Best, control: Best, *, blind: bool) -> OnDevice:
    """Hold the kernels of one extension against each other.

    :param blind: the candidate has entries that could not be read and might run: what it seems to lack may be there.
    """
    lost: list[str] = []
    slower: list[str] = []
    gained: list[str] = []
    faster: list[str] = []
    unknown: list[str] = []
    for name, before in control.items():
        now = candidate.get(name, Support.NONE)
        if before is now or before not in _RUN:
            if now in _RUN and before not in _RUN:
                gained.append(name)
        elif now not in _RUN:
            (unknown if blind or now is Support.UNKNOWN else lost).append(name)
        elif before.native is not now.native:
            # What could not be read may be the native code that seems to be gone.
            (faster if now.native else unknown if blind else slower).append(name)
    gained += [name for name in candidate.keys() - control.keys() if candidate[name] in _RUN]
    return OnDevice(
        extension=path,
        control=sum(best in _RUN for best in control.values()),
        candidate=sum(best in _RUN for best in candidate.values()),
        control_native=sum(best.native for best in control.values()),
        candidate_native=sum(best.native for best in candidate.values()),
        lost=tuple(sorted(lost)),
        slower=tuple(sorted(slower)),
        gained=tuple(sorted(gained)),
        faster=tuple(sorted(faster)),
        unknown=tuple(sorted(unknown)),
    )


def compare_on(
    candidate: Mapping[str, Module],
    control: Mapping[str, Module],
    device: ComputeCapability,
    *,
    target: str = "",
    oldest_cuda: str = "",
    covered: tuple[Covered, Covered] | None = None,
) -> TargetDifference:
    """What ``device`` runs of either wheel, under the oldest driver that is promised.

    :param covered: of both, where the caller has it.
    """
    now, before = covered or (cover(candidate, device, oldest_cuda), cover(control, device, oldest_cuda))
    rows = []
    for path, module in control.items():
        if path in candidate:
            blind = any(kernels.unread for kernels in now[path])
            best = best_of(candidate[path], now[path]), best_of(module, before[path])
            row = on_device(path, *best, blind=blind)
            if row.control or row.candidate:
                rows.append(row)
    return TargetDifference(
        target or f"sm{device.number}",
        str(device),
        oldest_cuda,
        tuple(rows),
        tuple(path for path in control if path not in candidate and serves(before[path])),
        tuple(path for path in candidate if path not in control and serves(now[path])),
    )


def serves(coverage: Iterable[MemberKernels]) -> bool:
    """Whether members are of use on a device: they hold no device code at all, or some that runs or might run."""
    every = tuple(coverage)
    if not any(kernels.has_kernels for kernels in every):
        return True
    return any(
        kernels.unread or any(best in _RUN or best is Support.UNKNOWN for best in kernels.best.values())
        for kernels in every
    )


def _improve(found: dict[str, Support], others: Mapping[str, Support]) -> None:
    for name, support in others.items():
        known = found.get(name)
        if known is None or support.rank < known.rank:
            found[name] = support


def _rank(support: Support) -> int:
    return support.rank
