"""Faults in good files: what random bytes do not find, since nothing behind the first check ever sees them."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

EXTREMES = (
    *(0, 1, 2, 3, 7, 8, 16, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFE, 0xFFFF, 0x10000, 0x7FFFFFFF),
    *(0x80000000, 0xFFFFFFF0, 0xFFFFFFFF, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, (1 << 64) - 1),
)
#: What the formats begin with, end with, or name; put into other places they lead readers astray.
WORDS = (
    *(b"\x7fELF\2\1\1", b"\x7fELF\1\1\1", b"\x50\xed\x55\xba\1\0\x10\0", b"!<arch>\n", b"PK\1\2", b"PK\3\4", b"PK\5\6"),
    *(b"PK\6\6", b"PK\6\7", b"\x28\xb5\x2f\xfd", b".entry ", b".version 9.0\n", b".target sm_90a\n", b"/*", b"//"),
    *(b"NVIDIA Corp\0", b"-arch sm_121a ", b"GLIBC_2.999", b"GLIBC_99999999999.1", b"PyInit_", b"_Py_X", b"..", b"//x"),
    *(
        b"Requires-Dist: torch (==2.*) ; x\n",
        b"Version: 1!" + b"9" * 40 + b"\n",
        b"sha256=",
        b"\r\n",
        b"\xff\xfe",
        b"=",
    ),
    *(b"[console_scripts]\n", b"Tag: " + b"a." * 40 + b"b-c-d\n", b"__version__ = ", b"'" * 3, b"\0", b"(" * 60),
)
_LAYOUTS = ("<B", "<H", "<I", "<Q", ">I")


def mutate(data: bytes, others: Sequence[bytes], dice: random.Random, most: int = 1 << 16) -> bytes:
    """``data`` with one to six faults.  ``others`` are further seeds, of which pieces are taken."""
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 6))):
        _FAULTS[dice.randrange(len(_FAULTS))](out, others, dice)
    return bytes(out[:most])


def _place(data: bytearray, dice: random.Random) -> int:
    # Headers and tables are aligned, and stand at the beginning and the end as a rule.
    at = dice.randrange(len(data) + 1)
    where = dice.random()
    if where < 0.25:
        at = dice.randrange(min(len(data), 256) + 1)
    elif where < 0.45:
        at = len(data) - dice.randrange(min(len(data), 256) + 1)
    return at - at % dice.choice((1, 2, 4, 8))


def _byte(data: bytearray, _: Sequence[bytes], dice: random.Random) -> None:
    if data:
        data[min(_place(data, dice), len(data) - 1)] ^= 1 << dice.randrange(8)


def _number(data: bytearray, _: Sequence[bytes], dice: random.Random) -> None:
    layout = dice.choice(_LAYOUTS)
    size, at = struct.calcsize(layout), _place(data, dice)
    if at + size > len(data):
        return
    value = dice.choice(EXTREMES)
    if dice.random() < 0.4:  # close to what is there, or to the length of the file
        base = dice.choice((struct.unpack_from(layout, data, at)[0], len(data)))
        value = base + dice.choice((-8, -1, 1, 8, 24, 64))
    struct.pack_into(layout, data, at, value % (1 << (8 * size)))


def _cut(data: bytearray, _: Sequence[bytes], dice: random.Random) -> None:
    at = _place(data, dice)
    del data[at : at + dice.choice((1, 2, 8, 16, 24, 64, 256, len(data)))]


def _double(data: bytearray, _: Sequence[bytes], dice: random.Random) -> None:
    at = _place(data, dice)
    piece = data[at : at + dice.choice((1, 8, 16, 24, 46, 64, 512))]
    data[at:at] = piece * dice.choice((1, 1, 2, 50))


def _zero(data: bytearray, _: Sequence[bytes], dice: random.Random) -> None:
    at = _place(data, dice)
    length = min(dice.choice((1, 4, 8, 64)), len(data) - at)
    data[at : at + length] = bytes(length)


def _word(data: bytearray, _: Sequence[bytes], dice: random.Random) -> None:
    word, at = dice.choice(WORDS), _place(data, dice)
    data[at : at + (len(word) if dice.random() < 0.5 else 0)] = word


def _copy(data: bytearray, _: Sequence[bytes], dice: random.Random) -> None:
    source, at, length = _place(data, dice), _place(data, dice), dice.choice((2, 4, 8, 24, 64))
    piece = data[source : source + length]
    data[at : at + len(piece)] = piece


def _splice(data: bytearray, others: Sequence[bytes], dice: random.Random) -> None:
    if not others:
        return
    other = dice.choice(others)
    start = dice.randrange(len(other) + 1)
    at = _place(data, dice)
    data[at : at + dice.choice((0, 16, 64))] = other[start : start + dice.choice((16, 64, 512, 4096))]


_FAULTS = (_byte, _number, _number, _number, _cut, _double, _zero, _word, _copy, _splice)
