"""Wheels with one fault that the checks LIB of bundled and needed libraries are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qualify.facts import WheelFacts
from qualify.matrix.model import Profile
from tests.mutants.case import Case
from tests.support.elf import host_elf
from tests.unit.judging_support import code, member, wheel

UP = Profile.UPSTREAM
LIBS = "axpy.libs"
EXTENSION = "axpy/_host.abi3.so"
CUDART = ("cudaMalloc", "cudaGetExportTable", "cudaIpcOpenEventHandle", "cudaMallocPitch", "cudaUserObjectCreate")
CUDA = ("cuInit", "cuCtxPopCurrent_v2", "cuGetExportTable", "cuIpcOpenEventHandle", "cuModuleLoadFatBinary")
C10 = ("_ZN3c1010TensorImplD2Ev", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_")


def host(**options: object) -> WheelFacts:
    """The good wheel with another ``axpy/_host``."""
    return wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}, "axpy/_host": member(**options)})


def needing(*names: str, requires: Sequence[str] = (), **options: object) -> WheelFacts:
    binary = member(needed=("libc.so.6", *names), **options)
    return wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}, "axpy/_host": binary}, requires=requires)


def with_library(path: str, data: bytes, **options: object) -> WheelFacts:
    """The good wheel and a library beside it; someone else's, so that a library nobody named is no fault."""
    return wheel(files={path: data}, **options)  # type: ignore[arg-type]


def of_another(extensions: Mapping[str, object], **options: object) -> WheelFacts:
    """A wheel of a project that the matrix does not name, with code that runs."""
    return wheel({"other/_a": {"sm_90": ["k"]}, **extensions}, name="other", **options)  # type: ignore[arg-type]


def repaired(name: str, runpath: str | None, *, place: str = LIBS, libraries: Sequence[str] = ()) -> WheelFacts:
    """The good wheel, whose ``axpy/_host`` needs ``name`` by ``runpath``; ``place`` holds ``libraries``."""
    binary = member(needed=("libc.so.6", name), runpath=runpath)
    files = {f"{place}/{each}": host_elf(soname=each) for each in libraries}
    return wheel({"axpy/_C": {"sm_90": ["axpy_kernel"]}, "axpy/_host": binary}, files=files)


def member_with(*names: str) -> bytes:
    """An extension with code for the target that needs these libraries."""
    return member(code("sm_90"), needed=("libc.so.6", *names))


MUTANTS = (
    Case("the driver's library", lambda: with_library(f"{LIBS}/libcuda.so.1", host_elf()), "LIB001", profile=UP),
    Case(
        "the driver's library under a hash",
        lambda: with_library(f"{LIBS}/libcuda-1a2b3c4d.so.580.65.06", host_elf(soname="libcuda-1a2b3c4d.so.580.65.06")),
        "LIB001",
        profile=UP,
    ),
    Case(
        "the driver's library under another name",
        lambda: with_library("axpy/libgpu.so", host_elf(soname="libgpu.so", defined=CUDA)),
        "LIB001",
        profile=UP,
    ),
    Case("torch's library", lambda: with_library(f"{LIBS}/libtorch_cpu.so", host_elf()), "LIB002", profile=UP),
    Case(
        "torch's library by its soname alone",
        lambda: with_library("axpy/libtensors.so", host_elf(soname="libc10-89abcdef.so")),
        "LIB002",
        profile=UP,
    ),
    Case(
        "torch's library by what it exports",
        lambda: with_library("axpy/libtensors.so", host_elf(soname="libtensors.so", defined=C10)),
        "LIB002",
        profile=UP,
    ),
    Case(
        "the CUDA runtime under a hash",
        lambda: with_library(f"{LIBS}/libcudart-1a2b3c4d.so.13.0.48", host_elf(soname="libcudart-1a2b3c4d.so.13.0.48")),
        "LIB003",
        profile=UP,
    ),
    Case(
        "the CUDA runtime under a hash of another kind",
        lambda: with_library(f"{LIBS}/libcudart.e8e8b82a.so.13", host_elf(soname="libcudart.e8e8b82a.so.13")),
        "LIB003",
        profile=UP,
    ),
    Case(
        "the CUDA runtime under another name, by what it exports",
        lambda: with_library("axpy/libruntime.so", host_elf(soname="libruntime.so", defined=CUDART)),
        "LIB003",
        profile=UP,
    ),
    Case("a library that nobody brings", lambda: needing("libnuma.so.1"), "LIB004"),
    Case(
        "a library that nobody brings, in someone else's wheel", lambda: needing("libnuma.so.1"), "LIB004", profile=UP
    ),
    Case("the development name of a CUDA library", lambda: needing("libcudart.so"), "LIB004"),
    Case("the development name of the driver's library", lambda: needing("libcuda.so"), "LIB004"),
    Case("torch's OpenMP without torch", lambda: needing("libgomp.so.1"), "LIB004"),
    Case(
        "another project's library for another vendor",
        lambda: of_another({"other/_b": member(needed=("libc.so.6", "libhipblas.so.3"))}),
        "LIB005",
    ),
    Case(
        "a renamed library that is not there", lambda: repaired("libz-1a2b3c4d.so.1.3", f"$ORIGIN/../{LIBS}"), "LIB006"
    ),
    Case(
        "a renamed library that no run path leads to",
        lambda: repaired("libz-1a2b3c4d.so.1.3", "$ORIGIN/../axpy_libs", libraries=["libz-1a2b3c4d.so.1.3"]),
        "LIB006",
        profile=UP,
    ),
    Case("torch's library without torch", lambda: needing("libtorch.so", "libc10.so"), "LIB007"),
    Case(
        "torch for an extra alone",
        lambda: needing("libtorch.so", requires=['torch==2.14.0; extra == "gpu"']),
        "LIB007",
    ),
    Case(
        "libraries of two CUDA majors",
        lambda: wheel(
            {
                "axpy/_C": member_with("libcudart.so.13", "libcublas.so.13"),
                "axpy/_host": member(needed=("libc.so.6", "libcudart.so.12")),
            }
        ),
        "LIB008",
    ),
    Case(
        "the requirement of another CUDA's wheels",
        lambda: needing("libcudart.so.13", "libnvrtc.so.13", requires=["nvidia-cublas-cu12>=12.8"]),
        "LIB008",
    ),
    Case("libraries of two CUDA majors in one file", lambda: needing("libcudart.so.13", "libcusolver.so.11"), "LIB008"),
    Case(
        "another project's builds for two CUDA majors",
        lambda: of_another(
            {
                "other/_b": member(needed=("libc.so.6", "libcudart.so.13")),
                "other/_c": member(needed=("libc.so.6", "libcudart.so.12")),
            }
        ),
        "LIB009",
    ),
)

NEAR_MISSES = (
    Case(
        "what the driver, CUDA, torch and the loader bring",
        lambda: needing(
            *("libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.13", "libcublasLt.so.13", "libcudnn.so.9"),
            *("libnccl.so.2", "libtorch.so", "libc10_cuda.so", "libgomp.so.1", "ld-linux-x86-64.so.2", "libz.so.1"),
            requires=["torch==2.14.0"],
        ),
    ),
    Case("a library that the matrix says is there", lambda: needing("libother.so.3")),
    Case(
        "CUDA libraries whose numbers differ by design",
        lambda: needing("libcudart.so.13", "libcufft.so.12", "libcurand.so.10"),
    ),
    Case(
        "the requirement of another CUDA's wheels, for an extra",
        lambda: needing("libcudart.so.13", requires=["nvidia-cublas-cu12; extra == 'cu12'", "nvidia-cudnn-cu13"]),
    ),
    Case("one CUDA library that two majors have", lambda: needing("libcudart.so.13", "libcusparse.so.12")),
    Case(
        "a static CUDA runtime whose functions are seen, in an extension",
        lambda: host(defined=("PyInit__host", *CUDART)),
    ),
    Case(
        "a shim that has a few of cuBLAS' functions and loads the rest",
        lambda: with_library(
            "axpy/libshim.so", host_elf(soname="libshim.so", defined=("cublasCreate_v2", "cublasGemmEx"))
        ),
        profile=UP,
    ),
    Case(
        "a library whose name begins like torch's",
        lambda: with_library("axpy/libtorchcodec_core4.so", host_elf(soname="libtorchcodec_core4.so")),
        profile=UP,
    ),
    Case(
        "a renamed library, found by the run path",
        lambda: of_another(
            {"other/_b": member(needed=("libc.so.6", "libz-1a2b3c4d.so.1.3"), rpath="$ORIGIN/../other.libs")},
            files={"other.libs/libz-1a2b3c4d.so.1.3": host_elf(soname="libz-1a2b3c4d.so.1.3")},
        ),
    ),
    Case(
        "a renamed library that another's run path leads to",
        lambda: of_another(
            {
                "other/_b": member(needed=("libc.so.6", "libtiff-0000abcd.so.6"), rpath="$ORIGIN/../other.libs"),
            },
            files={
                "other.libs/libtiff-0000abcd.so.6": host_elf(
                    soname="libtiff-0000abcd.so.6", needed=("libc.so.6", "libz-1a2b3c4d.so.1.3")
                ),
                "other.libs/libz-1a2b3c4d.so.1.3": host_elf(soname="libz-1a2b3c4d.so.1.3"),
            },
        ),
    ),
)
