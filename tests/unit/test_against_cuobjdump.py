"""Made files against NVIDIA's cuobjdump: what we list is what it lists, in its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.context import read
from tests.support.cubin import cubin
from tests.support.cuobjdump import listed, ours
from tests.support.elf import host_elf
from tests.support.fatbin import containers, device_code

# cuobjdump takes the `a` of a cubin from an attribute in `.nv.compat`, which made cubins do not have: the released
# wheels are where that letter is compared.
ALL = {"sm_75": ["k"], "sm_90": ["k"], "sm_100f": ["k"], "sm_121": [], "compute_80": ["k"], "compute_90a": ["k"]}


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_every_kind_of_entry(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(host_elf(sections={".nv_fatbin": device_code(ALL, compression=compression)}))
    member, problems = read(path.read_bytes())
    assert problems == ()
    assert listed(path) == ours(member)
    assert ours(member)["ELF"] == ["sm_75", "sm_90", "sm_100", "sm_121"]


def test_several_containers(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    blobs = [device_code({"sm_80": ["a"]}), device_code({"compute_80": ["b"], "sm_90": ["c"]})]
    path.write_bytes(host_elf(sections={".nv_fatbin": containers(*blobs)}))
    member, _ = read(path.read_bytes())
    assert listed(path) == ours(member) == {"ELF": ["sm_80", "sm_90"], "PTX": ["sm_80"]}


def test_no_device_code(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(host_elf())
    assert listed(path) == ours(read(path.read_bytes())[0]) == {"ELF": [], "PTX": []}


@pytest.mark.parametrize(("sm", "abi"), [(75, 7), (90, 7), (90, 8), (120, 8)])
def test_bare_cubins_of_both_abi_versions(tmp_path: Path, sm: int, abi: int) -> None:
    path = tmp_path / "x.cubin"
    path.write_bytes(cubin(sm, ["k"], abi=abi))
    member, problems = read(path.read_bytes(), "x.cubin")
    assert problems == ()
    assert listed(path)["ELF"] == ours(member)["ELF"]
