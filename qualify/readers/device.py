"""The device code of one member: payloads inflated one at a time, kernels named, headers and notes held together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from qualify.errors import AssayError, MalformedError, UnavailableError, UnverifiedError
from qualify.facts import Compression, Container, Depth, Entry, EntryKind, ProblemKind
from qualify.readers.binary import Budget, Decompressors, Limits, Problems, text
from qualify.readers.cubin import Cubin, read_cubin
from qualify.readers.fatbin import EntryHeader, read_containers
from qualify.readers.ptx import read_ptx


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
        for raw in read_containers(data, start, end, where, self.problems, left):
            self._entries += len(raw.entries)
            entries = tuple(self._entry(data, header, f"{where}+{header.offset - start:#x}") for header in raw.entries)
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

    def _entry(self, data: bytes, header: EntryHeader, where: str) -> Entry:
        known = header.kind is not EntryKind.UNKNOWN
        prefix = "sm_" if header.kind is EntryKind.CUBIN else "compute_"
        entry = Entry(
            kind=header.kind,
            raw_kind=header.raw_kind,
            architecture=f"{prefix}{header.sm}{header.suffix}" if known and header.sm and header.suffix != "?" else "",
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
        deep = self.context.depth is Depth.KERNELS
        try:
            if not known:
                raise UnverifiedError(f"is an entry of kind {header.raw_kind}, which is not known here")
            if not entry.architecture:
                raise MalformedError("says no SM number, or is both architecture-specific and family-specific")
            if header.options is None:
                raise MalformedError("says that its options lie past its header")
            if header.kind is EntryKind.LTO_IR:
                # Its payload is scrambled, and nothing of it runs before it is linked: there is nothing to look at.
                return replace(entry, readable=deep)
            if header.bits != 64:
                raise UnverifiedError("is code for 32-bit processes, which is not known here")
            if header.compression is Compression.UNKNOWN:
                raise UnverifiedError("is compressed in a way that is not known here")
            if not deep:
                return entry
            payload = self._payload(data, header)
            if header.kind is EntryKind.CUBIN:
                return self._cubin_entry(entry, payload, header)
            return self._ptx_entry(entry, payload, header)
        except AssayError as error:
            if isinstance(error, MalformedError) and header.unknown_flags:
                error = UnverifiedError(
                    f"{error.what}; it has flags that are not known here ({header.unknown_flags:#x})"
                )
            self.report(where, error)
            return entry

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

    def _cubin_entry(self, entry: Entry, payload: bytes, header: EntryHeader) -> Entry:
        cubin = read_cubin(payload)
        _check_sm(cubin, header.sm)
        _check_suffix(cubin, entry.architecture)
        if cubin.note_architectures and entry.architecture not in cubin.note_architectures:
            raise MalformedError(f"says {entry.architecture} and its note {' and '.join(cubin.note_architectures)}")
        return self._named(replace(entry, readable=True), cubin)

    def _ptx_entry(self, entry: Entry, payload: bytes, header: EntryHeader) -> Entry:
        ptx = read_ptx(payload)
        target = f"compute_{ptx.sm}{ptx.suffix}"
        if target != entry.architecture or ptx.isa != header.isa:
            raise MalformedError(f"says {entry.architecture} and PTX {header.isa}, its text {target} and PTX {ptx.isa}")
        return replace(entry, kernels=self._number(ptx.kernels), readable=True)

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
    """The SM number of the entry, of the cubin's header and of its note must agree."""
    if cubin.sm != sm:
        raise MalformedError(f"the entry says SM {sm} and the cubin's header {cubin.sm}")
    if cubin.note_sms and sm not in cubin.note_sms:
        raise MalformedError(f"the header says SM {sm} and the cubin's note {' and '.join(map(str, cubin.note_sms))}")
