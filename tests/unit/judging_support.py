"""One project, its matrix and its good wheel, for the tests of the checks and of the commands."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qualify.facts import WheelFacts
from qualify.judging import Context
from qualify.linking.index import ExportIndex
from qualify.matrix.model import Code, Matrix, Profile
from qualify.opening import read_wheel
from tests.support.elf import host_elf
from tests.support.fatbin import Entry, containers, entry, fatbin
from tests.support.wheel import COMMIT, TAG, ZipMember, make_wheel, wheel_filename, zip_bytes

HOPPER = "x86_64-sm90"
SPARK = "aarch64-sm121"
ORIN = "aarch64-sm87"
ADA = "aarch64-sm89"
ARM_TAG = TAG.replace("x86_64", "aarch64")

_TARGET = {
    "python": ["3.11", "3.12", "3.13"],
    "base": {"bootstrap": "debian-12"},
    "toolkit": "13.0",
    "driver": {"oldest_cuda": "13.0"},
}

MATRIX: Mapping[str, Any] = {
    "version": 1,
    "project": {"name": "axpy", "import_name": "axpy", "version_module": "axpy/_version.py"},
    "pin": {
        "repository": "https://example.org/axpy",
        "requirement": "axpy==0.1.0",
        "source": {"sdist": "axpy==0.1.0", "sha256": "0" * 64},
        "commit": COMMIT[1:],
    },
    "extensions": {
        "axpy/_C": {"code": "native", "jit_ok": [{"pattern": "*marlin*", "reason": "meant to be PTX"}]},
        "axpy/_host": {"code": "host"},
        "axpy/_fast": {"code": "jit", "presence": "optional"},
        "axpy/_listed": {"code": "any", "kernels": ["vital*"], "presence": "optional"},
        "axpy/_any": {"code": "any", "presence": "optional"},
        "axpy/tool": {"code": "host", "presence": {"upstream": "optional", "release": "optional"}},
    },
    "libraries": {"libother.so.*": "every machine of these targets has it"},
    "targets": {
        HOPPER: {
            **_TARGET,
            "machine": "x86_64",
            "compute_capability": "9.0",
            "arch_list": "9.0",
            "ceilings": {"glibc": "2.28", "glibcxx": "3.4.24", "cxxabi": "1.3.11", "gcc": "7.0.0"},
        },
        SPARK: {
            **_TARGET,
            "machine": "aarch64",
            "compute_capability": "12.1",
            "arch_list": "12.1",
            "ceilings": {"glibc": "2.39", "glibcxx": "3.4.33", "preferred_glibc": "2.28"},
        },
        ORIN: {
            **_TARGET,
            "machine": "aarch64",
            "compute_capability": "8.7",
            "arch_list": "8.7",
            "ceilings": {"glibc": "2.35", "glibcxx": "3.4.30"},
            "label": "orin",
        },
        ADA: {
            **_TARGET,
            "machine": "aarch64",
            "compute_capability": "8.9",
            "arch_list": "8.9",
            "ceilings": {"glibc": "2.35", "glibcxx": "3.4.30"},
        },
    },
}


def matrix(**changes: object) -> Matrix:
    """The matrix above, with top-level keys replaced."""
    return Matrix.model_validate({**MATRIX, **changes})


def context(
    target: str = HOPPER,
    profile: Profile = Profile.RELEASE,
    require: Code | None = None,
    extensions: Mapping[str, object] | None = None,
    *,
    control: WheelFacts | None = None,
    torch: ExportIndex | None = None,
    **changes: object,
) -> Context:
    """What a wheel is judged by; ``extensions`` adds to the matrix's, ``changes`` replaces its other keys.

    A key of a target is written with two underscores: ``ceilings__wheel_size=1`` is for every target.
    """
    merged = {**MATRIX["extensions"], **(extensions or {})}
    targets = {name: dict(target_) for name, target_ in MATRIX["targets"].items()}
    whole: dict[str, object] = {}
    for key, value in changes.items():
        outer, _, inner = key.partition("__")
        if not inner:
            whole[key] = value
            continue
        for target_ in targets.values():
            target_[outer] = {**(target_.get(outer) or {}), inner: value}
    made = matrix(**{"extensions": merged, "targets": targets, **whole})
    return Context(made, target, profile, require, control=control, torch=torch)


def read(data: bytes, filename: str = "") -> WheelFacts:
    """The facts of a wheel in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (filename or wheel_filename())
        path.write_bytes(data)
        return read_wheel(path, workers=1)


def wheel(
    extensions: Mapping[str, Any] | None = None,
    *,
    name: str = "axpy",
    version: str = "0.1.0",
    tag: str = TAG,
    more: Mapping[str, Any] | None = None,
    **options: object,
) -> WheelFacts:
    """The facts of the good wheel, with its extensions replaced (``extensions``) or added to (``more``)."""
    package = name.replace("-", "_")
    kernels = {"sm_120": ["axpy_kernel"]} if tag.endswith("aarch64") else {"sm_90": ["axpy_kernel"]}
    if extensions is None:
        extensions = {f"{package}/_C": kernels, f"{package}/_host": {}}
    data = make_wheel(name, version, tag, {**extensions, **(more or {})}, **options)
    return read(data, wheel_filename(name, version, tag))


def archive(members: Sequence[ZipMember], filename: str = "") -> WheelFacts:
    """The facts of an archive whose members were changed one by one."""
    return read(zip_bytes(members), filename)


#: A file may define several modules; the interpreter takes the one of the file's own name.
MODULES = tuple(f"PyInit_{name}" for name in ("_C", "_host", "_fast", "_listed", "_any", "_stray", "_a", "_b", "_c"))


def member(*entries: Entry, machine: str = "x86_64", **options: object) -> bytes:
    """An extension module with one fat binary of ``entries``, under any of the names that these tests give to one."""
    sections = {".nv_fatbin": containers(fatbin(*entries))} if entries else {}
    values: dict[str, Any] = {"defined": MODULES, "sections": sections, **options}
    return host_elf(machine, **values)


def code(architecture: str, *kernels: str, **options: object) -> Entry:
    """One entry; ``toolkit`` and ``notes`` as the maker of cubins takes them."""
    return entry(architecture, kernels or ("axpy_kernel",), **options)  # type: ignore[arg-type]
