"""Cubins: ELF files of machine EM_CUDA with kernels, device functions and the compiler's notes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.support.elf import SHT_STRTAB, SHT_SYMTAB, Section, assemble

EM_CUDA = 190
STO_CUDA_ENTRY = 0x10
SHT_NOTE = 7


def cubin(
    sm: int = 90,
    kernels: Sequence[str] = ("axpy",),
    *,
    suffix: str = "",
    functions: Sequence[str] = (),
    abi: int = 8,
    toolkit: tuple[int, int] = (13, 0),
    notes: bool = True,
    note_sm: int | None = None,
    note_arch: str | None = None,
    note_form: int = 2,
    helpers: Sequence[str] = (),
    code: bytes = b"\x90" * 32,
    says_specific: bool | None = None,
    extended_numbering: bool = False,
    options: str = "",
) -> bytes:
    """One cubin.

    :param suffix: ``"a"`` or ``"f"``: stands in the note's command line alone, as ptxas writes it.
    :param functions: device functions with a ``.text.`` section of their own and without STO_CUDA_ENTRY.
    :param abi: 8 keeps the SM number in bits 8 to 15 of ``e_flags``, 7 in bits 0 to 7.
    :param says_specific: what the header of ABI 7 says of the ``a``, where it is to disagree with ``suffix``.
    :param note_sm, note_arch: what the notes say where they are to disagree with the header.
    :param note_form: 2 as CUDA 13 writes it; 1, as 12.8 does, does not hold the toolkit's number.
    :param options: more of the note's command line: ``"-g"``.
    :param helpers: FUNC symbols inside the first kernel's section (``$__internal_0_…``), which are no kernels.
    """
    says_a = suffix == "a" if says_specific is None else says_specific
    strings = bytearray(b"\0")
    symbols = bytearray(24)
    sections: list[Section] = []
    texts = [(name, STO_CUDA_ENTRY) for name in kernels] + [(name, 0) for name in functions]
    if notes:
        arch = note_arch if note_arch is not None else f"sm_{sm}{suffix}"
        release = f"{toolkit[0]}.{toolkit[1]}"
        sections.append(Section(".note.nv.tkinfo", tkinfo(arch, release, options), SHT_NOTE, flags=0))
        number = toolkit[0] * 10 + toolkit[1] if note_form == 2 else 1
        info = struct.pack("<HHHH", note_form, sm if note_sm is None else note_sm, number, 0)
        sections.append(Section(".note.nv.cuinfo", _note(1000, info), SHT_NOTE, flags=0))
    first_text = 1 + 2 + len(sections)
    for index, (name, other) in enumerate(texts):
        at = len(strings)
        strings += name.encode("utf-8", "surrogateescape") + b"\0"
        symbols += struct.pack("<IBBHQQ", at, 0x12, other, first_text + index, 0, len(code))
        sections.append(Section(f".text.{name}", code, flags=6))
    for name in helpers:
        at = len(strings)
        strings += name.encode() + b"\0"
        symbols += struct.pack("<IBBHQQ", at, 0x22, 0, first_text, 0, 8)
    at = len(strings)
    strings += b"printf\0"
    symbols += struct.pack("<IBBHQQ", at, 0x12, 0, 0, 0, 0)  # an undefined function: no kernel
    tables = [
        Section(".strtab", bytes(strings), SHT_STRTAB, flags=0, align=1),
        Section(".symtab", bytes(symbols), SHT_SYMTAB, flags=0, link=".strtab", info=1, entsize=24),
    ]
    flags = 0x06000004 | (sm << 8) if abi >= 8 else 0x500 | sm | (sm << 16) | (0x800 if says_a else 0)
    return assemble(
        [*tables, *sections],
        machine=EM_CUDA,
        elf_type=2,
        flags=flags,
        osabi=0x41 if abi >= 8 else 0x33,
        abi_version=abi,
        extended_numbering=extended_numbering,
    )


def tkinfo(arch: str, release: str, options: str = "") -> bytes:
    """``.note.nv.tkinfo``: six numbers, then the strings that their offsets point at."""
    texts = [
        "",
        "ptxas",
        f"Cuda compilation tools, release {release}, V{release}.88",
        f"Build cuda_{release}.r{release}/compiler.36424714_0",
        f"-arch {arch} -m 64 {options}",
    ]
    blob = bytearray()
    offsets = []
    for text in texts:
        offsets.append(len(blob))
        blob += text.encode() + b"\0"
    blob += bytes(-len(blob) % 4)
    return _note(2000, struct.pack("<6I", 2, *offsets) + bytes(blob))


def _note(kind: int, payload: bytes) -> bytes:
    owner = b"NVIDIA Corp\0"
    return struct.pack("<III", len(owner), len(payload), kind) + owner + payload + bytes(-len(payload) % 4)
