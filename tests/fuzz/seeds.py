"""Good files of every format, small, that faults are put into."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from datetime import UTC, datetime

from qualify.envelope import Signature
from qualify.evidencedoc import Document, to_json
from qualify.trust import entry as trusted_entry
from qualify.trust import keyid_of, with_entry
from tests.support.cubin import cubin
from tests.support.elf import host_elf
from tests.support.fatbin import containers, device_code, entry, fatbin, ptx
from tests.support.wheel import ZipMember, make_wheel, wheel_members, zip_bytes

_CODE = containers(
    fatbin(
        entry("sm_90a", ["k1", "k2"], functions=["f"], compression="none"),
        entry("compute_80", ["k1"], compression="none"),
        entry("lto_90", compression="none"),
    ),
    device_code({"sm_120f": ["k1"], "compute_90": ["k2"]}),
    device_code({"sm_80": ["k3"]}, compression="lz4"),
    gap=16,
)
_LIBRARY = host_elf(
    soname="libx.so.1",
    needed=("libc.so.6", "libcudart.so.13", "libtorch.so"),
    runpath="$ORIGIN:/usr/lib",
    version_needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]},
    defined=["PyInit__C", "_ZN1x3fooEv"],
    undefined=["memcpy@GLIBC_2.17", "PyLong_FromLong", "_ZN3c105ErrorC1ESs", "aoti_torch_empty"],
    sections={".nv_fatbin": _CODE, "__nv_relfatbin": device_code({"sm_90": ["r"]})},
)
_OBJECT = host_elf(elf_type="rel", sections={".nv_fatbin": device_code({"sm_90": ["k"]})})


def _archive(members: Mapping[str, bytes]) -> bytes:
    out = bytearray(b"!<arch>\n")
    for name, content in members.items():
        out += f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) % 2)
    return bytes(out)


_METADATA = """Metadata-Version: 2.4
Name: axpy
Version: 0.1.0+cu130
Summary: a
Requires-Python: >=3.11
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Dist: torch==2.14.0; platform_machine == "x86_64"
Requires-Dist: numpy>=2
Provides-Extra: x
Dynamic: description

words
"""

_SHA256 = "0123456789abcdef" * 4
_CLAIM = Document(
    tool_version="0.1.0",
    filename="axpy-0.1.0-py3-none-any.whl",
    sha256=_SHA256,
    size=2889,
    target="x86_64-sm90",
    profile="release",
    matrix_sha256=_SHA256,
    facts_sha256=_SHA256,
    report={
        "version": 3,
        "wheel": "axpy-0.1.0-py3-none-any.whl",
        "sha256": _SHA256,
        "target": "x86_64-sm90",
        "profile": "release",
        "verdict": "qualified",
        "findings": [],
        "policy": {"compute_capability": "9.0", "ceilings": {"glibc": "2.39"}, "checks": {"ARC001": "error"}},
        "policy_sha256": _SHA256,
        "receipt": "",
    },
    made="2026-11-30T12:00:00+00:00",
    expires="2027-11-30T12:00:00+00:00",
    observations=({"sha256": _SHA256},),
)
_PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
_DAY = datetime(2026, 11, 30, tzinfo=UTC)


def _trusted(*publics: str) -> bytes:
    data = None
    for public in publics:
        data = with_entry(data, trusted_entry(keyid_of(public), public, "lab", _DAY, _DAY), "seed")
    return data or b""


#: Target -> its seeds.
SEEDS: Mapping[str, tuple[bytes, ...]] = {
    "zip": (
        make_wheel(),
        zip_bytes([ZipMember("a/b.txt", b"x" * 99, zip64=True), ZipMember("c", b"", 0)], zip64=True),
        zip_bytes([ZipMember("a", b"text", flags=8), ZipMember("ü/é", b"t")], comment=b"words"),
    ),
    "member": (
        _LIBRARY,
        host_elf("aarch64", interpreter="/lib/ld.so", section_headers=False),
        host_elf(sections={".nv_fatbin": device_code({"sm_90": ["k"]})}),
        _CODE,
        _archive({"a.o": _OBJECT, "b.o": _OBJECT, "c": _CODE}),
        cubin(120, ["k"], suffix="f"),
    ),
    "cubin": (
        cubin(90, ["k1", "k2"], functions=["f"], helpers=["$h"]),
        cubin(90, ["k1"], suffix="a", abi=7, notes=False),
        cubin(121, ["k"], extended_numbering=True),
    ),
    "ptx": (ptx("compute_80", ["k1", "k2"]), ptx("compute_120f", ["k"], (9, 3))),
    "text": (
        _METADATA.encode(),
        b"Wheel-Version: 1.0\nGenerator: g\nRoot-Is-Purelib: false\nTag: cp38.cp39-abi3-manylinux_2_28_x86_64\n",
        b"axpy/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nx-1.dist-info/RECORD,,\n",
        b"[console_scripts]\naxpy = axpy.cli:main [x]\n\n[vllm.general_plugins]\na = b\n",
        b"__version__ = version = '0.1.0'\n__commit_id__ = 'g0123456789'\n",
        b"# words\nimport axpy; axpy.hook()\n../src\n",
    ),
    "wheel": (
        make_wheel(extensions={"axpy/_C": {"sm_90": ["k"], "compute_80": ["k"]}, "axpy/_host": _LIBRARY}),
        make_wheel(tag="cp311-abi3-linux_aarch64", files={"axpy.pth": "axpy\n", "axpy/k.fatbin": _CODE}),
        zip_bytes([m for m in wheel_members() if not m.name.endswith("RECORD")]),
    ),
    "evidence": (
        to_json(_CLAIM).encode(),
        to_json(dataclasses.replace(_CLAIM, signature=Signature(keyid_of(_PUBLIC), bytes(range(64))))).encode(),
    ),
    "keys": (_trusted(_PUBLIC), _trusted(_PUBLIC, "00" * 32)),
    # bytes of one member, around which a wheel is made whose sums and RECORD are right
    "inside": (_LIBRARY, _CODE, cubin(90, ["k"]), _METADATA.encode(), struct.pack("<4s", b"!<ar") + b"ch>\n"),
}
