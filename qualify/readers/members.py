"""One member of a wheel: what it is by its bytes, and the facts that follow from that."""

from __future__ import annotations

import hashlib
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator

from qualify.errors import AssayError, UnverifiedError
from qualify.facts import Elf, Member, MemberKind
from qualify.readers import ar
from qualify.readers.binary import Problems, find
from qualify.readers.cubin import is_cubin
from qualify.readers.device import Context, DeviceCode
from qualify.readers.elf import EM_CUDA, MAGIC, SHF_COMPRESSED, SHT_NOBITS, read_header
from qualify.readers.fatbin import MAGIC as FATBIN_MAGIC
from qualify.readers.fatbin import SECTIONS, container_end
from qualify.readers.hostelf import HostElf, read_host_elf

# CPython's and PyPy's suffixes of extension modules (importlib.machinery.EXTENSION_SUFFIXES, PEP 3149), but the bare
# ".so", which any library has.
_EXTENSION_SUFFIX = re.compile(r"\.(abi3t?(-[^./]+)?|cpython-[^./]+|pypy[^./]+|graalpy[^./]+)\.so$")
_MAGICS = (MAGIC, FATBIN_MAGIC, ar.MAGIC, ar.THIN_MAGIC)
_MOST_PLACES = 10_000  # places with a fat binary's magic that are looked at outside the known sections


def read_member(path: str, data: bytes, stored_size: int, context: Context, problems: Problems) -> Member:
    """Facts of one member from its inflated bytes; faults go to ``problems``."""
    sha256 = hashlib.sha256(data).hexdigest()
    if not data.startswith(_MAGICS):
        return Member(path, MemberKind.DATA, len(data), stored_size, sha256, None, (), ())
    code = DeviceCode(context, problems)
    kind, facts = MemberKind.DATA, None
    try:
        kind, facts = _read(path, data, code, problems)
    except AssayError as error:
        code.report("file", error)
        kind = _kind_by_magic(data)
    symbols, containers = code.finish()
    return Member(
        path=path,
        kind=kind,
        size=len(data),
        stored_size=stored_size,
        sha256=sha256,
        elf=facts,
        symbols=symbols,
        containers=containers,
    )


def _kind_by_magic(data: bytes) -> MemberKind:
    """The kind of a file whose content cannot be read: it stays what it is, so that nothing takes it for data."""
    if data.startswith(MAGIC):
        return MemberKind.CUBIN if is_cubin(data) else MemberKind.LIBRARY
    if data.startswith((ar.MAGIC, ar.THIN_MAGIC)):
        return MemberKind.ARCHIVE
    return MemberKind.FATBIN if data.startswith(FATBIN_MAGIC) else MemberKind.DATA


def _read(path: str, data: bytes, code: DeviceCode, problems: Problems) -> tuple[MemberKind, Elf | None]:
    if data.startswith(FATBIN_MAGIC):
        code.add_section(data, 0, len(data), "")
        return MemberKind.FATBIN, None
    if data.startswith((ar.MAGIC, ar.THIN_MAGIC)):
        _read_archive(data, code, problems)
        return MemberKind.ARCHIVE, None
    if not data.startswith(MAGIC):
        return MemberKind.DATA, None
    if read_header(data).machine == EM_CUDA:
        code.add_bare_cubin(data)
        return MemberKind.CUBIN, read_host_elf(data, problems).facts
    elf = read_host_elf(data, problems, code.context.symbols)
    try:
        _read_device_code(data, elf, code, problems, "")
    except AssayError as error:
        code.report("device code", error)
    return _elf_kind(path, elf), elf.facts


def _elf_kind(path: str, elf: HostElf) -> MemberKind:
    facts = elf.facts
    if facts.type == "exec" or elf.position_independent_executable:
        return MemberKind.EXECUTABLE
    if facts.type == "rel":
        return MemberKind.ARCHIVE
    if facts.type != "dyn":
        return MemberKind.DATA
    if facts.python_inits or _EXTENSION_SUFFIX.search(path):
        return MemberKind.EXTENSION
    if facts.interpreter and not facts.soname:
        return MemberKind.EXECUTABLE
    return MemberKind.LIBRARY


def _read_archive(data: bytes, code: DeviceCode, problems: Problems) -> None:
    for member in ar.read_members(data):
        content = data[member.start : member.end]
        if content.startswith(FATBIN_MAGIC):
            code.add_section(content, 0, len(content), member.name)
        elif is_cubin(content):
            code.add_bare_cubin(content, member.name)
        elif content.startswith((ar.MAGIC, ar.THIN_MAGIC)):
            problems.unreadable(member.name, "is a static library inside another, which no linker looks into")
        elif content.startswith(MAGIC):
            _read_object(member.name, content, code, problems)


def _read_object(name: str, content: bytes, code: DeviceCode, problems: Problems) -> None:
    """One object file of a static library; its own faults are named after it."""
    found = Problems(problems.member)
    try:
        elf = read_host_elf(content, found, code.context.symbols)
        _read_device_code(content, elf, code, problems, f"{name}:")
    except AssayError as error:
        code.report(name, error)
    for problem in found.finish():
        problems.add(problem.kind, f"{name}:{problem.where}", problem.detail)


def _read_device_code(data: bytes, elf: HostElf, code: DeviceCode, problems: Problems, prefix: str) -> None:
    """The fat binaries of a host ELF file: in the sections that nvcc uses, then anywhere else."""
    covered: list[tuple[int, int]] = []
    for section in elf.sections:
        if section.name not in SECTIONS or section.size == 0:
            continue
        start, end = section.offset, section.offset + section.size
        if section.type == SHT_NOBITS or section.flags & SHF_COMPRESSED:
            problems.unreadable(prefix + section.name, "its bytes are not in this file, or compressed as a section")
        elif any(start < other_end and other_start < end for other_start, other_end in covered):
            problems.malformed(prefix + section.name, "overlaps another section of device code")
        else:
            covered.append((start, end))
            code.add_section(data, start, end, prefix + section.name)
    if elf.unlinked:
        detail = f"relocatable device code that was never linked ({elf.unlinked[:80]} is undefined): it does not load"
        problems.malformed(prefix + "device code", detail)
    gaps = _gaps(covered, len(data))
    strays = list(_strays(data, gaps))
    if strays:
        places = _Places(elf)
        names = [places.name(start) for start, _ in strays]
        for (start, end), name in zip(strays, names, strict=True):
            code.add_section(data, start, end, prefix + name)
        where = ", ".join(sorted({name or "no section" for name in names})[:10])
        detail = f"{len(strays)} fat binaries lie in {where}: how they are loaded cannot be told"
        problems.unreadable(prefix + "device code", detail)
    cubins = sum(_count_cubins(data, start, end) for start, end in _gaps([*covered, *strays], len(data)))
    if cubins:
        problems.unreadable(prefix + "device code", f"{cubins} cubins lie outside any fat binary")


def _gaps(covered: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    gaps, at = [], 0
    for start, stop in sorted(covered):
        gaps.append((at, start))
        at = max(at, stop)
    return [(start, stop) for start, stop in [*gaps, (at, end)] if start < stop]


def _strays(data: bytes, gaps: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Fat binaries outside the known sections; the magic alone also stands in code that looks for it."""
    tried = 0
    for start, stop in gaps:
        at = find(data, FATBIN_MAGIC, start, stop)
        while at >= 0:
            tried += 1
            if tried > _MOST_PLACES:
                raise UnverifiedError("a fat binary's magic stands in more places than are looked at")
            end = container_end(data, at, stop)
            if end:
                yield at, end
            at = find(data, FATBIN_MAGIC, max(end, at + 4), stop)


def _count_cubins(data: bytes, start: int, stop: int) -> int:
    count = tried = 0
    at = find(data, MAGIC, start, stop)
    while at >= 0:
        tried += 1
        if tried > _MOST_PLACES:
            raise UnverifiedError("the magic of ELF stands in more places than are looked at")
        # Offset 0 is the file itself; a whole header is wanted, since the magic also stands in code that writes it.
        count += at > 0 and is_cubin(data[at : at + 64]) and data[at + 4 : at + 7] == b"\2\1\1"
        at = find(data, MAGIC, at + 4, stop)
    return count


class _Places:
    """Which section an offset lies in."""

    def __init__(self, elf: HostElf) -> None:
        held = (section for section in elf.sections if section.type not in (0, SHT_NOBITS))
        self._rows = sorted((section.offset, section.offset + section.size, section.name) for section in held)

    def name(self, offset: int) -> str:
        index = bisect_right(self._rows, (offset, sys.maxsize, "")) - 1
        if index >= 0 and self._rows[index][0] <= offset < self._rows[index][1]:
            return self._rows[index][2]
        return ""
