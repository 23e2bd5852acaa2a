"""What was seen in one wheel: frozen values without any judgement.

Facts are read once (``qualify.opening.read_wheel``), print as versioned JSON and read back equal
(``qualify.factsjson``).  Sizes and offsets are in bytes.  A tuple that stands where something could not
be read is never silently empty: the reason stands in a :class:`Problem` beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

FACTS_VERSION = 2


class Depth(StrEnum):
    """How far device code was read.  At ``headers`` no payload is inflated, so that no kernel is known."""

    HEADERS = "headers"
    KERNELS = "kernels"


class MemberKind(StrEnum):
    """What a member is, decided by its magic bytes and ELF headers, never by its name alone."""

    EXTENSION = "extension"  # ELF shared object that defines PyInit_*, or sits under an extension suffix
    LIBRARY = "library"  # any other ELF shared object
    EXECUTABLE = "executable"  # ELF ET_EXEC, or ET_DYN with PT_INTERP
    CUBIN = "cubin"  # a bare ELF of machine EM_CUDA
    FATBIN = "fatbin"  # a bare fat binary
    ARCHIVE = "archive"  # a static library (ar)
    DATA = "data"


class EntryKind(StrEnum):
    """The kind of one fat binary entry."""

    CUBIN = "cubin"
    PTX = "ptx"
    LTO_IR = "lto-ir"
    UNKNOWN = "unknown"


class Compression(StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    UNKNOWN = "unknown"


class ProblemKind(StrEnum):
    """Why something is not as it should be, in the three ways that are kept apart."""

    MALFORMED = "malformed"  # looked at, and wrong
    UNREADABLE = "unreadable"  # could not be looked at (unknown kind, unknown compression, a bound was met)
    ENVIRONMENT = "environment"  # this host lacks what looking takes (a decompressor, say)


@dataclass(frozen=True, slots=True)
class Problem:
    kind: ProblemKind
    member: str  # path in the wheel; empty for the archive as a whole
    where: str  # "central directory", ".nv_fatbin+0x40", "METADATA"
    detail: str  # one sentence


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a fat binary, or one bare cubin."""

    kind: EntryKind
    raw_kind: int  # the u16 of the entry header; 2 for a bare cubin
    architecture: str  # "sm_120f" for code, "compute_80" for PTX and LTO-IR; "" where it could not be told
    isa: str  # PTX ISA version "9.0"; "" for other kinds
    toolkit: str  # "13.0" from the compiler's note; without one "<13" where the cubin's ABI version tells that, else ""
    compression: Compression
    stored_size: int
    size: int  # once inflated
    debug: bool
    options: str  # a cubin's command line from its note, "-arch sm_120f -m 64"; what PTX is to be compiled with; or ""
    kernels: tuple[int, ...]  # ascending indices into Member.symbols: STO_CUDA_ENTRY symbols, or PTX .entry names
    functions: tuple[int, ...]  # ascending indices: `.text.` sections that are no kernel
    readable: bool  # False: kernels is not knowledge; a Problem says why


@dataclass(frozen=True, slots=True)
class Container:
    """One fat binary: the device code of one translation unit, as a rule."""

    section: str  # ".nv_fatbin", "__nv_relfatbin", or "" for a bare file
    offset: int  # from the start of the section
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class VersionNeed:
    """One row of .gnu.version_r: library and symbol version ("libc.so.6", "GLIBC_2.28")."""

    library: str
    version: str


@dataclass(frozen=True, slots=True)
class Import:
    """One undefined symbol of the dynamic symbol table."""

    name: str  # mangled, without its version
    version: str  # "GLIBC_2.34"; "" where it is bound to none
    library: str  # the library that .gnu.version_r asks the version of; "" where it is bound to none
    weak: bool  # STB_WEAK: loading does not fail without it


@dataclass(frozen=True, slots=True)
class Elf:
    bits: int  # 32 or 64
    little_endian: bool
    machine: str  # "x86_64", "aarch64", "cuda"; "em-<n>" for others
    type: str  # "dyn", "exec", "rel", …
    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]  # entries of DT_RPATH
    runpath: tuple[str, ...]  # entries of DT_RUNPATH
    version_needs: tuple[VersionNeed, ...]
    python_inits: tuple[str, ...]  # names of defined PyInit_* functions, without the prefix
    interpreter: str  # PT_INTERP; "" where there is none
    imports: tuple[Import, ...]  # undefined dynamic symbols, sorted by name and version
    exports: tuple[str, ...]  # distinct names of defined global, weak and unique dynamic symbols, sorted
    executable_stack: bool  # PT_GNU_STACK with PF_X, or none in a file of a machine whose default that is (x86)
    text_relocations: bool  # DT_TEXTREL, or DF_TEXTREL in DT_FLAGS


@dataclass(frozen=True, slots=True)
class Member:
    path: str
    kind: MemberKind
    size: int
    stored_size: int
    sha256: str  # of the inflated bytes; "" where they could not be inflated
    elf: Elf | None
    symbols: tuple[str, ...]  # sorted distinct device symbol names that entries refer to
    containers: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One row of RECORD as written."""

    path: str
    hash: str  # "sha256=<urlsafe base64>"; may be empty for RECORD itself
    size: str


@dataclass(frozen=True, slots=True)
class DistInfo:
    folder: str  # "vllm-0.33.0.dist-info"
    metadata_name: str
    metadata_version: str  # the project's version as METADATA says it
    requires_python: str
    requires_dist: tuple[str, ...]
    wheel_tags: tuple[str, ...]  # each `Tag:` of WHEEL, expanded
    wheel_version: str
    root_is_purelib: str
    generator: str
    record: tuple[RecordRow, ...]
    files: tuple[str, ...]  # names inside the folder
    metadata: str  # METADATA as it stands, without the description; "" where it is not there or could not be read
    entry_points: str  # entry_points.txt as it stands; "" where it is not there or could not be read
    build: str  # `Build` of WHEEL, "1"; "" where it states none


@dataclass(frozen=True, slots=True)
class VersionModule:
    """A ``_version.py`` read as text (by ``ast``; nothing runs)."""

    path: str
    version: str  # "" where it is not there or no literal
    commit_id: str  # "g4ba787ec9"; "" where it is not there, None or no literal


@dataclass(frozen=True, slots=True)
class WheelFacts:
    version: int  # FACTS_VERSION
    depth: Depth
    filename: str
    size: int
    sha256: str
    name: str  # normalised project name from the file name (PEP 503)
    wheel_version: str  # version from the file name, as written there with "_" read as "-"/"+" by packaging
    build_tag: str
    tags: tuple[str, ...]  # expanded compressed tag set, "cp38-abi3-manylinux_2_28_x86_64"
    dist_info: DistInfo | None
    version_modules: tuple[VersionModule, ...]
    path_files: tuple[str, ...]  # `.pth` members, and their import/path lines as "path: line"
    members: tuple[Member, ...]  # every member but directories, in archive order
    problems: tuple[Problem, ...]


_DATA = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")


def installed_path(path: str) -> str:
    """Where a member lies below site-packages: ``x-1.data/platlib/x/_C.so`` is ``x/_C.so`` (PEP 427)."""
    match = _DATA.match(path)
    return path[match.end() :] if match else path


_SHARED_OBJECT = re.compile(
    r"(\.abi[0-9]+t?(-[A-Za-z0-9_-]+)?|\.cpython-[A-Za-z0-9_-]+|\.cp[0-9]+[A-Za-z0-9_-]*|\.pypy[A-Za-z0-9_-]+)?"
    r"\.so(\.[0-9]+)*$"
)


def module_path(path: str) -> str:
    """A member's installed path without the suffix of a shared object: ``pkg/_C.abi3.so`` is ``pkg/_C``.

    Anything that is no ``.so`` (an executable, a ``.cubin``) keeps its suffix.
    """
    return _SHARED_OBJECT.sub("", installed_path(path))
