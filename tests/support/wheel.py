"""Wheels in memory: a good one in one call, and every part of it replaceable.

>>> data = make_wheel(extensions={"axpy/_C": {"sm_90": ["axpy_kernel"]}, "axpy/_host": {}})
>>> broken = make_wheel(record="")                       # a part replaced
>>> broken = make_wheel(omit=["axpy-0.1.0.dist-info/WHEEL"])  # a part left out
>>> broken = zip_bytes([*wheel_members(), ZipMember("axpy/x.so", b"", crc=1)])  # a fault of the archive
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.elf import host_elf
from tests.support.fatbin import containers, device_code

TAG = "cp311-abi3-manylinux_2_28_x86_64"
COMMIT = "g0123456789abcdef0123456789abcdef01234567"

# architecture -> kernel names in one fat binary; a list of them is several fat binaries; bytes are the whole member
Code = Mapping[str, Sequence[str]] | Sequence[Mapping[str, Sequence[str]]] | bytes


@dataclass(frozen=True)
class ZipMember:
    """One member; every field that the archive repeats can be made to lie."""

    name: str
    data: bytes = b""
    method: int = 8  # 0 stored, 8 deflated
    raw: bytes | None = None  # the stored bytes, where they are not to be made from ``data``
    crc: int | None = None
    size: int | None = None
    stored_size: int | None = None
    flags: int = 0  # 1 encrypted, 8 data descriptor, 0x800 UTF-8 name
    mode: int = 0o100644  # 0o120777 is a symbolic link
    local_name: str | None = None
    local_crc: int | None = None
    local_size: int | None = None
    local_method: int | None = None
    local_offset: int | None = None  # of the central directory, where it is to point elsewhere
    zip64: bool = False
    extra: bytes = b""
    local_extra: bytes | None = None
    local_flags: int | None = None
    descriptor: bytes | None = None  # what stands behind the stored bytes, where it is not to be made from ``data``
    disk: int = 0
    needed: int = 20  # the version of the format that it takes to read it, in tenths
    comment: bytes = b""


def zip_bytes(
    members: Sequence[ZipMember],
    *,
    prefix: bytes = b"",
    suffix: bytes = b"",
    comment: bytes = b"",
    count: int | None = None,
    directory_size: int | None = None,
    directory_offset: int | None = None,
    zip64: bool = False,
    locator: int | None = None,
    gap: bytes = b"",
) -> bytes:
    """A zip archive written by hand.

    ``prefix``, ``gap`` (before the directory) and ``suffix`` are foreign bytes; ``locator`` is where the ZIP64 locator
    says that the ZIP64 record is.
    """
    out = bytearray(prefix)
    directory = bytearray()
    for member in members:
        raw = member.raw
        if raw is None:
            raw = _deflate(member.data) if member.method == 8 else member.data
        crc = zlib.crc32(member.data) if member.crc is None else member.crc
        size = len(member.data) if member.size is None else member.size
        stored = len(raw) if member.stored_size is None else member.stored_size
        name = member.name.encode("utf-8", "surrogateescape")
        flags = member.flags | (0x800 if not name.isascii() else 0)
        offset = len(out) if member.local_offset is None else member.local_offset
        local_name = name if member.local_name is None else member.local_name.encode()
        local_size = size if member.local_size is None else member.local_size
        local_crc = crc if member.local_crc is None else member.local_crc
        method = member.method if member.local_method is None else member.local_method
        described = bool(flags & 8)
        local = (0, 0, 0) if described else (local_crc, stored, local_size)
        extra = member.extra if member.local_extra is None else member.local_extra
        if member.zip64:
            extra += struct.pack("<HHQQ", 1, 16, local[2], local[1])
            local = (local[0], 0xFFFFFFFF, 0xFFFFFFFF)
        local_flags = flags if member.local_flags is None else member.local_flags
        fields = (20, local_flags, method, 0, 0x2100, *local, len(local_name), len(extra))
        out += struct.pack("<4s5H3I2H", b"PK\x03\x04", *fields) + local_name + extra + raw
        if member.descriptor is not None:
            out += member.descriptor
        elif described:
            out += struct.pack("<4s3I", b"PK\x07\x08", local_crc, stored, local_size)
        extra = member.extra
        numbers = (stored, size, offset)
        if member.zip64:
            extra += struct.pack("<HHQQQ", 1, 24, size, stored, offset)
            numbers = (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
        head = (
            0x0314,
            member.needed,
            flags,
            member.method,
            0,
            0x2100,
            crc,
            numbers[0],
            numbers[1],
            len(name),
            len(extra),
        )
        row = (*head, len(member.comment), member.disk, 0, member.mode << 16, numbers[2])
        directory += struct.pack("<4s6H3I5HII", b"PK\x01\x02", *row) + name + extra + member.comment
    out += gap
    start = len(out) if directory_offset is None else directory_offset
    total = len(members) if count is None else count
    length = len(directory) if directory_size is None else directory_size
    end64 = len(out) + len(directory)
    out += directory
    if zip64:
        out += struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, total, total, length, start)
        out += struct.pack("<4sIQI", b"PK\x06\x07", 0, end64 if locator is None else locator, 1)
        total, length, start = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    out += struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, total, total, length, start, len(comment)) + comment
    return bytes(out + suffix)


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


def wheel_filename(name: str = "axpy", version: str = "0.1.0", tag: str = TAG) -> str:
    """``axpy-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl``."""
    return f"{name.replace('-', '_')}-{version}-{tag}.whl"


def extension(code: Code | None = None, *, module: str = "_C", machine: str = "x86_64", **options: object) -> bytes:
    """An extension module that defines ``PyInit_<module>`` and holds ``code``; ``{}`` and None hold none."""
    if isinstance(code, bytes):
        return code
    fatbins = [code] if isinstance(code, Mapping) else list(code or ())
    blobs = [device_code(each) for each in fatbins if each]
    sections = {".nv_fatbin": containers(*blobs)} if blobs else {}
    defined = (f"PyInit_{module}",)
    return host_elf(machine, **({"defined": defined, "sections": sections} | options))  # type: ignore[arg-type]


def wheel_members(
    name: str = "axpy",
    version: str = "0.1.0",
    tag: str = TAG,
    extensions: Mapping[str, Code] | None = None,
    *,
    files: Mapping[str, bytes | str] | None = None,
    metadata: str | None = None,
    wheel: str | None = None,
    record: str | None = None,
    requires: Sequence[str] = (),
    commit: str | None = COMMIT,
    runtime_version: str | None = None,
    omit: Sequence[str] = (),
) -> list[ZipMember]:
    """The members of :func:`make_wheel`, RECORD last, to be changed before :func:`zip_bytes` writes them."""
    package = name.replace("-", "_")
    platform = tag.split("-")[2]
    machine = "aarch64" if platform.endswith("aarch64") else "x86_64"
    if extensions is None:
        extensions = {f"{package}/_C": {"sm_90": ("axpy_kernel",)}, f"{package}/_host": {}}
    info = f"{package}-{version}.dist-info"
    content: dict[str, bytes | str] = {f"{package}/__init__.py": ""}
    node = "None" if commit is None else repr(commit)
    shown = version if runtime_version is None else runtime_version
    content[f"{package}/_version.py"] = f"__version__ = version = {shown!r}\n__commit_id__ = commit_id = {node}\n"
    for path, code in extensions.items():
        member = path if path.endswith(".so") else f"{path}.abi3.so"
        content[member] = extension(code, module=path.rpartition("/")[2].partition(".")[0], machine=machine)
    content |= files or {}
    if metadata is None:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Requires-Python: >=3.11"]
        metadata = "\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires), "", ""])
    if wheel is None:
        interpreters, abis, platforms = (part.split(".") for part in tag.split("-"))
        tags = [f"Tag: {i}-{a}-{p}" for i in interpreters for a in abis for p in platforms]
        wheel = "\n".join(["Wheel-Version: 1.0", "Generator: maker (1)", "Root-Is-Purelib: false", *tags, "", ""])
    content[f"{info}/licenses/LICENSE"] = "Do what you like.\n"
    content[f"{info}/METADATA"] = metadata
    content[f"{info}/WHEEL"] = wheel
    kept = {path: data.encode() if isinstance(data, str) else data for path, data in content.items()}
    kept = {path: data for path, data in kept.items() if path not in omit}
    if record is None:
        record = "".join(f"{path},{record_hash(data)},{len(data)}\n" for path, data in kept.items())
        record += f"{info}/RECORD,,\n"
    members = [ZipMember(path, data) for path, data in kept.items()]
    if f"{info}/RECORD" not in omit:
        members.append(ZipMember(f"{info}/RECORD", record.encode()))
    return members


def make_wheel(
    name: str = "axpy",
    version: str = "0.1.0",
    tag: str = TAG,
    extensions: Mapping[str, Code] | None = None,
    **options: object,
) -> bytes:
    """A valid wheel.

    :param extensions: module path without suffix (or a path that ends in ``.so``) -> device code by architecture:
        ``{"axpy/_C": {"sm_90": ["k1", "k2"], "compute_80": ["k3"]}, "axpy/_host": {}}``; a list of such mappings is
        one fat binary each; bytes are the member itself.  Default: one with an sm_90 kernel, one of the host alone.
    :param options: of :func:`wheel_members`: ``files``, ``metadata``, ``wheel``, ``record``, ``requires``, ``commit``,
        ``runtime_version``, ``omit``.
    """
    return zip_bytes(wheel_members(name, version, tag, extensions, **options))  # type: ignore[arg-type]


def write_wheel(
    folder: Path,
    name: str = "axpy",
    version: str = "0.1.0",
    tag: str = TAG,
    extensions: Mapping[str, Code] | None = None,
    **options: object,
) -> Path:
    """:func:`make_wheel` under its right file name in ``folder``."""
    path = folder / wheel_filename(name, version, tag)
    path.write_bytes(make_wheel(name, version, tag, extensions, **options))
    return path


def replaced(members: Sequence[ZipMember], path: str, **changes: object) -> list[ZipMember]:
    """The members with some fields of one of them changed: ``replaced(m, "axpy/_C.abi3.so", crc=1)``."""
    return [replace(member, **changes) if member.name == path else member for member in members]  # type: ignore[arg-type]


def record_hash(data: bytes) -> str:
    """``sha256=<urlsafe base64 without padding>`` as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
