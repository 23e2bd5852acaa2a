"""PTX text: version, target, kernels."""

from __future__ import annotations

import pytest

from qualify.errors import MalformedError
from qualify.readers.ptx import read_ptx
from tests.support.fatbin import ptx


def test_what_the_compiler_writes() -> None:
    read = read_ptx(ptx("compute_120f", ["k1", "_Z2k2Pf"], isa=(9, 0)))
    assert (read.isa, read.sm, read.suffix, read.kernels) == ("9.0", 120, "f", (b"k1", b"_Z2k2Pf"))


HEAD = b".version 8.7\n.target sm_90a, debug\n.address_size 64\n"


@pytest.mark.parametrize(
    ("body", "kernels"),
    [
        (b".entry k() { ret; }", (b"k",)),
        (b".weak .entry\n\tk\n(\n)\n.maxntid 1, 1, 1\n{ ret; }", (b"k",)),
        (b".visible .func f() { ret; }", ()),
        (b".extern .entry k();", ()),
        (b".visible .entry k();\n.visible .entry k() { ret; }", (b"k",)),
        (b".visible .entry k(.param .u64 p);", ()),
        (b"// .entry k() { }", ()),
        (b"/* .entry k() { } */ .entry m() { }", (b"m",)),
        (b'.file 1 "a .entry k { b.cu"', ()),
        (b".entry $odd_name$1() { }", (b"$odd_name$1",)),
        (b".entryk() { }", ()),
        (b"x.entry k() { }", ()),
        (b".entry", ()),
    ],
)
def test_kernels_by_the_grammar(body: bytes, kernels: tuple[bytes, ...]) -> None:
    read = read_ptx(HEAD + body + b"\n\0\0")
    assert (read.isa, read.sm, read.suffix, read.kernels) == ("8.7", 90, "a", kernels)


@pytest.mark.parametrize("data", [b"", b"\0", b"no ptx", b".version 9.0\n", b".target sm_90\n", HEAD + b"a\0b"])
def test_what_is_no_ptx_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read_ptx(data)
