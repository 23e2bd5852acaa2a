"""Whose a shared library is, by its name or by what it exports: the driver's, CUDA's, torch's; and of which CUDA.

A repair tool that bundles a library renames it, file and soname alike: ``libcudart-1a2b3c4d.so.13.0.48`` by auditwheel,
``libcudart.1a2b3c4d.so.13`` by torchvision's script.  So the hash is taken off before a name is looked up.  A library
under a name of its own is known by its exports: each signature is a set of functions far apart in the library's
interface, all of which have to be there.  A shim that loads the real library at run time, or one linked with the static
CUDA runtime, exports a few of them or none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from qualify.facts import Elf, Member


class Owner(StrEnum):
    """Who brings a library, and from whom alone it may come."""

    DRIVER = "the driver"
    CUDA = "CUDA"
    TORCH = "torch"


class Known(NamedTuple):
    """A library of somebody else's."""

    owner: Owner
    stem: str  # "libcudart"
    sign: str  # what it was known by: a name, or a symbol that it exports


_HASH = re.compile(r"-[0-9a-f]{8}")
_HASH_LENGTH = 9
_PYTHON = re.compile(r"libpython3\.[0-9]+t?d?\.so(?:\.1(?:\.0)?)?|libpython3\.so")

# The driver's user-mode libraries, as its packages install them.
_DRIVER = re.compile(r"libcuda|libcudadebugger|libnvcuvid|libnvoptix|libnvidia-[a-z0-9-]+")
# The toolkit's redistributable libraries, and those that NVIDIA ships beside it.
_CUDA = re.compile(
    r"lib(?:cudart|cublas|cublasLt|cublasMp|nvblas|cufft|cufftw|cufftMp|curand|cusolver|cusolverMg|cusolverMp|cusparse"
    r"|cusparseLt|nvrtc|nvrtc-builtins|nvJitLink|nvfatbin|nvvm|nvjpeg|nvjpeg2k|npp[a-z]+|cupti|nvperf_host|nvperf_target"
    r"|nvToolsExt|nvtx3interop|cufile|cufile_rdma|cudnn(?:_[a-z_]+)?|nccl|nvshmem_[a-z_]+|cutensor|cutensorMg|cudss)"
)
# lib/ of the torch wheel (2.5 to 2.14, both machines), and what its ROCm and XPU builds have instead.
_TORCH = frozenset(
    f"lib{name}"
    for name in (
        *("c10", "c10_cuda", "c10_hip", "c10_xpu", "caffe2_nvrtc", "shm", "torch", "torch_cpu", "torch_cuda"),
        *("torch_cuda_linalg", "torch_global_deps", "torch_hip", "torch_nvshmem", "torch_python", "torch_xpu"),
    )
)
#: Of others, what the torch wheel brings in its own lib/ and loads first.
TORCH_BRINGS = frozenset({"libgomp.so.1"})

# Where the number in the soname is the toolkit's major; for the others, number -> the majors that have it.
_OWN_MAJOR = re.compile(
    r"lib(?:cudart|cublas|cublasLt|nvblas|nvrtc|nvrtc-builtins|nvJitLink|nvfatbin|nvjpeg|npp[a-z]+|cupti)"
)
_MAJORS: Mapping[str, Mapping[int, frozenset[int]]] = MappingProxyType(
    {
        "libcufft": {10: frozenset({11}), 11: frozenset({12}), 12: frozenset({13})},
        "libcufftw": {10: frozenset({11}), 11: frozenset({12}), 12: frozenset({13})},
        "libcusolver": {11: frozenset({11, 12}), 12: frozenset({13})},
        "libcusolverMg": {11: frozenset({11, 12}), 12: frozenset({13})},
        "libcusparse": {11: frozenset({11}), 12: frozenset({12, 13})},
    }
)

# Functions that only the library itself exports all of.
_SIGNATURES: tuple[tuple[Owner, str, tuple[str, ...]], ...] = (
    (
        Owner.DRIVER,
        "libcuda",
        ("cuInit", "cuCtxPopCurrent_v2", "cuGetExportTable", "cuIpcOpenEventHandle", "cuModuleLoadFatBinary"),
    ),
    (
        Owner.DRIVER,
        "libnvidia-ml",
        ("nvmlInit_v2", "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetInforomVersion", "nvmlUnitGetCount"),
    ),
    (
        Owner.CUDA,
        "libcudart",
        ("cudaMalloc", "cudaGetExportTable", "cudaIpcOpenEventHandle", "cudaMallocPitch", "cudaUserObjectCreate"),
    ),
    (
        Owner.CUDA,
        "libcublas",
        ("cublasCreate_v2", "cublasChpmv_v2", "cublasDrotmg_v2", "cublasSsyrkx", "cublasZtrttp"),
    ),
    (
        Owner.CUDA,
        "libcublasLt",
        ("cublasLtCreate", "cublasLtMatmul", "cublasLtMatmulAlgoCapGetAttribute", "cublasLtMatrixTransform"),
    ),
    (Owner.CUDA, "libcudnn", ("cudnnCreate", "cudnnBackendExecute", "cudnnGetProperty", "cudnnQueryRuntimeError")),
    (Owner.CUDA, "libnccl", ("ncclAllReduce", "ncclCommAbort", "ncclGetUniqueId", "ncclRedOpCreatePreMulSum")),
    (Owner.CUDA, "libcufft", ("cufftCreate", "cufftEstimate3d", "cufftExecZ2D", "cufftXtQueryPlan")),
    (
        Owner.CUDA,
        "libcusolver",
        ("cusolverDnCreate", "cusolverDnCgeqrf", "cusolverSpDcsrlsvchol", "cusolverDnZheevd"),
    ),
    (
        Owner.CUDA,
        "libcusparse",
        ("cusparseCreate", "cusparseCbsrmv", "cusparseGetErrorName", "cusparseZgtsv2StridedBatch"),
    ),
    (
        Owner.CUDA,
        "libcurand",
        ("curandCreateGenerator", "curandGeneratePoisson", "curandGetScrambleConstants64", "curandDestroyDistribution"),
    ),
    (Owner.CUDA, "libnvrtc", ("nvrtcCompileProgram", "nvrtcGetLTOIR", "nvrtcGetNumSupportedArchs", "nvrtcVersion")),
    (Owner.CUDA, "libnvjpeg", ("nvjpegCreateSimple", "nvjpegBufferDeviceCreate", "nvjpegEncoderStateCreate")),
    (
        Owner.TORCH,
        "libtorch_cpu",
        (
            *("aoti_torch_delete_tensor_object", "aoti_torch_empty_strided", "aoti_torch_get_data_ptr"),
            "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
        ),
    ),
    (Owner.TORCH, "libc10", ("_ZN3c1010TensorImplD2Ev", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_")),
    (
        Owner.TORCH,
        "libc10_cuda",
        ("_ZN3c104cuda12device_countEv", "_ZN3c104cuda14current_deviceEv", "_ZN3c104cuda9DriverAPI3getEv"),
    ),
)


def stem(name: str) -> str:
    """A name up to its first dot, without a repair tool's hash: ``libcudart-1a2b3c4d.so.13`` -> ``libcudart``."""
    text = name.partition(".")[0]
    end = len(text)
    while _HASH.fullmatch(text, max(end - _HASH_LENGTH, 0), end):
        end -= _HASH_LENGTH
    return text[:end]


def renamed(name: str) -> bool:
    """Whether a name bears a repair tool's hash, so that nobody but the wheel itself can bring the library.

    Eight digits without a letter may be a date or a version, and are taken for no hash.
    """
    text, *rest = name.split(".")
    if "so" not in rest or "/" in name:
        return False
    places = (text[-_HASH_LENGTH:], *(f"-{part}" for part in rest[: rest.index("so")]))
    return any(_HASH.fullmatch(place) and not place[1:].isdigit() for place in places)


@lru_cache(maxsize=1024)
def by_name(name: str) -> Known | None:
    """Whose library a name says it is; None for anybody else's."""
    base = name.rpartition("/")[2]
    plain = stem(base)
    if not re.search(r"\.so(?:\.|$)", base):
        return None
    if _DRIVER.fullmatch(plain):
        return Known(Owner.DRIVER, plain, base)
    if _CUDA.fullmatch(plain):
        return Known(Owner.CUDA, plain, base)
    return Known(Owner.TORCH, plain, base) if plain in _TORCH else None


def bundled(member: Member) -> Known | None:
    """Whose library a member is: by its file name, its soname, or by what it exports; None for the wheel's own.

    An extension module, which only Python loads, is nobody's library, whatever it exports.
    """
    elf = member.elf
    if elf is None or elf.python_inits or elf.type != "dyn":
        return None
    if known := by_name(member.path) or (by_name(elf.soname) if elf.soname else None):
        return known
    for owner, name, symbols in _SIGNATURES:
        if all(_among(symbol, elf.exports) for symbol in symbols):
            return Known(owner, name, f"its exports {symbols[0]} and {symbols[-1]}")
    return None


def _among(name: str, ordered: Sequence[str]) -> bool:
    place = bisect_left(ordered, name)
    return place < len(ordered) and ordered[place] == name


def provided_as(name: str) -> Owner | None:
    """Who brings what a DT_NEEDED entry asks for, by its exact soname; None where it is nobody's soname.

    ``libcuda.so`` and ``libcudart.so`` without a number are links of the development packages: no run time has them.
    """
    known = None if renamed(name) else by_name(name)
    if known is None:
        return None
    if known.owner is Owner.TORCH:
        return Owner.TORCH if name == f"{known.stem}.so" else None
    return known.owner if re.fullmatch(r"\.so(?:\.[0-9]+)+", name.removeprefix(known.stem)) else None


def is_libpython(name: str) -> bool:
    """Whether a soname is that of Python's own library."""
    return _PYTHON.fullmatch(name) is not None


def cuda_majors(name: str) -> frozenset[int]:
    """The CUDA majors whose toolkit has a library of this name; empty where the name doesn't tell."""
    known = by_name(name)
    match = re.search(r"\.so\.([0-9]{1,3})(?:\.|$)", name)
    if known is None or known.owner is not Owner.CUDA or match is None:
        return frozenset()
    number = int(match[1])
    if _OWN_MAJOR.fullmatch(known.stem):
        return frozenset({number})
    return _MAJORS.get(known.stem, {}).get(number, frozenset())


def names_of(member: Member) -> tuple[str, ...]:
    """The names under which a loader can find a member: its file's, and its soname."""
    elf: Elf | None = member.elf
    base = member.path.rpartition("/")[2]
    return (base,) if elf is None or elf.soname in ("", base) else (base, elf.soname)
