"""The device code of one member: payloads inflated one at a time, kernels named, headers and notes held together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from qualify.errors import AssayError, MalformedError, UnavailableError, UnverifiedError
from qualify.facts import Compression, Container, Depth, Entry, EntryKind, ProblemKind
from qualify.readers.binary import Budget, Decompressors, Limits, Problems, text
from qualify.readers.cubin import Cubin, read_cubin
from qualify.readers.fatbin import EntryHeader, read_containers
from qualify.readers.ptx import Ptx, read_ptx

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Spread(Protocol):
    """``map(work, items)`` in order, by as many threads as there are; ``weigh`` tells the bytes that an item takes."""

    def __call__(
        self, work: Callable[[Item], Answer], items: Sequence[Item], weigh: Callable[[Item], int]
    ) -> Iterator[Answer]: ...


def one_by_one(work: Callable[[Item], Answer], items: Sequence[Item], weigh: Callable[[Item], int]) -> Iterator[Answer]:
    """The :class:`Spread` of a single thread."""
    return map(work, items)


@dataclass(frozen=True, slots=True)
class Context:
    """What reading a member takes: decompressors, bounds, and the work that all members share."""

    decompressors: Decompressors
    limits: Limits
    members: Budget  # inflated bytes of members
    texts: Budget  # bytes of members that are kept as text
    problems: Budget
    device: Budget  # inflated bytes of device code
    symbols: Budget  # bytes of dynamic symbols
    depth: Depth = Depth.KERNELS
    spread: Spread = one_by_one

    @classmethod
    def make(cls, decompressors: Decompressors, limits: Limits | None = None, depth: Depth = Depth.KERNELS) -> Context:
        limits = limits or Limits()
        return cls(
            decompressors,
            limits,
            members=Budget(limits.total_size),
            texts=Budget(limits.texts_size),
            problems=Budget(limits.problems),
            device=Budget(limits.device_size),
            symbols=Budget(limits.symbols_size),
            depth=depth,
        )


#: The first SM number with a form of its own features (sm_90a): a cubin of an older one needs no note to be told.
_FIRST_WITH_SUFFIX = 90


@dataclass(slots=True)
class DeviceCode:
    """Collects containers; names are kept once for the member and entries hold their numbers."""

    context: Context
    problems: Problems
    containers: list[Container] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _commands: dict[str, str] = field(default_factory=dict)
    _name_bytes: int = 0
    _references: int = 0
    _entries: int = 0

    def add_section(self, data: bytes, start: int, end: int, section: str) -> None:
        """Read every fat binary in ``start .. end`` of ``data``."""
        where = section or "file"
        left = self.context.limits.entries - self._entries
        containers = list(read_containers(data, start, end, where, self.problems, left))
        headers = [header for raw in containers for header in raw.entries]
        self._entries += len(headers)
        # What is dear (inflating payloads, naming kernels) is spread over threads; what counts is done here, in order.
        found = self.context.spread(partial(self._look, data), headers, lambda header: header.size)
        for raw in containers:
            entries = tuple(
                self._entry(header, each, f"{where}+{header.offset - start:#x}")
                for header, each in zip(raw.entries, found, strict=False)
            )
            self.containers.append(Container(section, raw.offset - start, entries))

    def add_bare_cubin(self, data: bytes, section: str = "") -> None:
        """A cubin that lies in no fat binary; its suffix can be told by its note alone."""
        entry = Entry(
            kind=EntryKind.CUBIN,
            raw_kind=2,
            architecture="",
            isa="",
            toolkit="",
            compression=Compression.NONE,
            stored_size=len(data),
            size=len(data),
            debug=False,  # no header says it of a bare cubin
            options="",
            kernels=(),
            functions=(),
            readable=False,
        )
        where = section or "cubin"
        try:
            cubin = read_cubin(data)
            named = [name for name in cubin.note_architectures if _plain(name) == f"sm_{cubin.sm}"]
            if len(named) > 1:
                raise MalformedError(f"its notes name {' and '.join(named)}")
            _check_sm(cubin, cubin.sm)
            # A header that says `a` or not `a` is as good as a note below the first family-specific architecture.
            told = bool(named) or cubin.specific is not None or cubin.sm < _FIRST_WITH_SUFFIX
            if not told:
                self.problems.unreadable(where, "has no note, so that the a or f of its architecture cannot be told")
            architecture = named[0] if named else f"sm_{cubin.sm}{'a' if cubin.specific else ''}"
            _check_suffix(cubin, architecture)
            entry = replace(entry, architecture=architecture)
            # The note that tells the suffix stands in the cubin itself; what is deeper is left out at header depth.
            if self.context.depth is Depth.KERNELS:
                entry = self._named(replace(entry, readable=told), cubin)
        except AssayError as error:
            self.report(where, error)
        self.containers.append(Container(section, 0, (entry,)))

    def finish(self) -> tuple[tuple[str, ...], tuple[Container, ...]]:
        """The sorted names, and the containers with ascending indices into them."""
        order = sorted((text(name), number) for name, number in self._numbers.items())
        place = {number: index for index, (_, number) in enumerate(order)}
        renumbered = tuple(
            replace(container, entries=tuple(_renumber(entry, place) for entry in container.entries))
            for container in self.containers
        )
        return tuple(name for name, _ in order), renumbered

    def _entry(self, header: EntryHeader, found: Cubin | Ptx | AssayError | None, where: str) -> Entry:
        entry = Entry(
            kind=header.kind,
            raw_kind=header.raw_kind,
            architecture=header.architecture,
            isa=header.isa,
            toolkit="",
            compression=header.compression,
            stored_size=header.stored_size,
            size=header.size,
            debug=header.debug,
            options=self._options(header.options or ""),
            kernels=(),
            functions=(),
            readable=False,
        )
        try:
            if isinstance(found, AssayError):
                raise found
            if isinstance(found, Cubin):
                return self._named(replace(entry, readable=True), found)
            if isinstance(found, Ptx):
                return replace(entry, kernels=self._number(found.kernels), readable=True)
        except AssayError as error:
            if isinstance(error, MalformedError) and header.unknown_flags:
                error = UnverifiedError(
                    f"{error.what}; it has flags that are not known here ({header.unknown_flags:#x})"
                )
            self.report(where, error)
            return entry
        # Nothing to look at: header depth, or LTO-IR, whose payload is scrambled; nothing of it runs before its link.
        return replace(entry, readable=self.context.depth is Depth.KERNELS)

    def _look(self, data: bytes, header: EntryHeader) -> Cubin | Ptx | AssayError | None:
        """What one entry's payload holds, or what is wrong with the entry; None where there is nothing to look at.

        Several threads may be in here for one member: it changes nothing but the budgets.
        """
        try:
            if header.kind is EntryKind.UNKNOWN:
                raise UnverifiedError(f"is an entry of kind {header.raw_kind}, which is not known here")
            if not header.architecture:
                raise MalformedError("says no SM number, or is both architecture-specific and family-specific")
            if header.options is None:
                raise MalformedError("says that its options lie past its header")
            if header.kind is EntryKind.LTO_IR:
                return None
            if header.bits != 64:
                raise UnverifiedError("is code for 32-bit processes, which is not known here")
            if header.compression is Compression.UNKNOWN:
                raise UnverifiedError("is compressed in a way that is not known here")
            if self.context.depth is Depth.HEADERS:
                return None
            payload = self._payload(data, header)
            return _cubin(payload, header) if header.kind is EntryKind.CUBIN else _ptx(payload, header)
        except AssayError as error:
            return error

    def _payload(self, data: bytes, header: EntryHeader) -> bytes:
        limits = self.context.limits
        if header.size > limits.entry_size:
            raise UnverifiedError(f"says {header.size} bytes, more than the {limits.entry_size} that are looked at")
        if not self.context.device.take(header.size):
            raise UnverifiedError(f"the wheel's device code is larger than the {limits.device_size} bytes looked at")
        if header.compression is Compression.NONE:
            return data[header.start : header.start + header.stored_size]
        stored = memoryview(data)[header.start : header.start + header.stored_size]
        if header.compression is Compression.LZ4:
            return self.context.decompressors.lz4(stored, header.size)
        return self.context.decompressors.zstd(stored, header.size)

    def _named(self, entry: Entry, cubin: Cubin) -> Entry:
        return replace(
            entry,
            toolkit=cubin.toolkit,
            options=self._options(cubin.options),
            kernels=self._number(cubin.kernels),
            functions=self._number(cubin.functions),
        )

    def _options(self, command: str) -> str:
        """``command``, kept once for the member and counted against the bound on names."""
        known = self._commands.get(command)
        if known is None:
            self._name_bytes += len(command) + 64
            if self._name_bytes > self.context.limits.name_bytes:
                return ""
            known = self._commands[command] = command
        return known

    def _number(self, names: Iterable[bytes]) -> tuple[int, ...]:
        numbers = self._numbers
        found = []
        for name in names:
            number = numbers.get(name)
            if number is None:
                self._name_bytes += len(name) + 64
                if self._name_bytes > self.context.limits.name_bytes:
                    raise UnverifiedError("the member's kernel names are longer than what is looked at")
                number = numbers[name] = len(numbers)
            found.append(number)
        self._references += len(found)
        if self._references > self.context.limits.references:
            raise UnverifiedError("the member's entries name more kernels than are looked at")
        return tuple(found)

    def report(self, where: str, error: AssayError) -> None:
        """Keep an error as a problem of the member: wrong, not to be looked at, or a lack of this host."""
        kind = ProblemKind.UNREADABLE
        if isinstance(error, MalformedError):
            kind = ProblemKind.MALFORMED
        elif isinstance(error, UnavailableError):
            kind = ProblemKind.ENVIRONMENT
        self.problems.add(kind, where, error.what)


def _cubin(payload: bytes, header: EntryHeader) -> Cubin:
    """The cubin of an entry, once entry, header and notes agree."""
    cubin = read_cubin(payload)
    _check_sm(cubin, header.sm)
    _check_suffix(cubin, header.architecture)
    if cubin.note_architectures and header.architecture not in cubin.note_architectures:
        raise MalformedError(f"says {header.architecture} and its note {' and '.join(cubin.note_architectures)}")
    return cubin


def _ptx(payload: bytes, header: EntryHeader) -> Ptx:
    """The PTX of an entry, once both agree on architecture and version."""
    ptx = read_ptx(payload)
    target = f"compute_{ptx.sm}{ptx.suffix}"
    if target != header.architecture or ptx.isa != header.isa:
        raise MalformedError(f"says {header.architecture} and PTX {header.isa}, its text {target} and PTX {ptx.isa}")
    return ptx


def _renumber(entry: Entry, place: dict[int, int]) -> Entry:
    kernels = tuple(sorted(place[number] for number in entry.kernels))
    functions = tuple(sorted(place[number] for number in entry.functions))
    return replace(entry, kernels=kernels, functions=functions)


def _check_suffix(cubin: Cubin, architecture: str) -> None:
    """The header's own statement of an architecture-specific cubin, where it makes one, must agree."""
    if cubin.specific is not None and cubin.specific != architecture.endswith("a"):
        said = "for one architecture alone" if cubin.specific else "for no single architecture"
        raise MalformedError(f"says {architecture}, and the cubin's header that it is {said}")


def _plain(architecture: str) -> str:
    return architecture.rstrip("abcdefghijklmnopqrstuvwxyz")


def _check_sm(cubin: Cubin, sm: int) -> None:
    """The SM number of the entry, of the cubin's header and of its note must agree.

    nvlink may link objects of an older architecture of the same major (torch 2.14.0's NVSHMEM library: sm_80 objects
    in its sm_86): the note then keeps the objects' number, and the command lines name both architectures.
    """
    if cubin.sm != sm:
        raise MalformedError(f"the entry says SM {sm} and the cubin's header {cubin.sm}")
    named = {_plain(architecture) for architecture in cubin.note_architectures}
    linked = f"sm_{sm}" in named and all(
        f"sm_{each}" in named and each // 10 == sm // 10 and each <= sm for each in cubin.note_sms
    )
    if cubin.note_sms and sm not in cubin.note_sms and not linked:
        raise MalformedError(f"the header says SM {sm} and the cubin's note {' and '.join(map(str, cubin.note_sms))}")
