"""Every undefined symbol of a binary, and who defines it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from qualify.facts import Import, Member
from qualify.linking.names import identifier, is_python, is_shim, is_std, is_torch_cxx, namespace
from qualify.linking.scope import Scope, Wheel
from qualify.linking.tables import host_libraries
from qualify.linking.torchuse import is_torch_library
from qualify.sonames import Owner, by_name, is_libpython, stem


class Provider(StrEnum):
    """Who defines a symbol."""

    WHEEL = "this wheel"
    TORCH = "torch"
    CUDA = "CUDA and the driver"
    HOST = "the C and C++ libraries"
    PYTHON = "the interpreter"
    OTHER = "other libraries, by symbol version"
    WEAK = "nobody needs to: weak"


class Lack(StrEnum):
    """Why nobody was found."""

    TORCH = "torch's, and the torch wheel doesn't export it"
    REACH = "exported by a library that is not reached"
    NOBODY = "defined by nobody"
    UNLOOKED = "perhaps of a library that was not looked at"
    NO_TORCH = "perhaps torch's, and no torch wheel was given"


@dataclass(frozen=True, slots=True)
class Miss:
    """One symbol without a definition."""

    name: str  # mangled
    lack: Lack
    where: str = ""  # REACH: the library that exports it; UNLOOKED: those that might
    own: bool = False  # the wheel's own: of a namespace that it defines names in, or of its project's name


@dataclass(frozen=True, slots=True)
class Hidden:
    """A symbol without a version that only the host's C++ library defines, from a version on."""

    name: str
    version: str  # "GLIBCXX_3.4.32"


@dataclass(frozen=True, slots=True)
class Resolution:
    """One binary's undefined symbols."""

    member: str
    counts: Mapping[Provider, int]
    misses: tuple[Miss, ...]
    hidden: tuple[Hidden, ...]


_GLIBC = frozenset(
    {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2"}
)
_GCC = frozenset({"libstdc++.so.6", "libgcc_s.so.1"})
_DEVICE_LINK = "__cudaRegisterLinkedBinary_"
_LOADER = re.compile(r"ld-linux[a-z0-9_-]*\.so\.[0-9]+|ld64\.so\.[0-9]+")

# What the functions of the driver's and CUDA's libraries are called, by their headers.
_PREFIXES: Mapping[str, re.Pattern[str]] = {
    stem_: re.compile(pattern)
    for stem_, pattern in {
        "libcuda": r"cu(?:dbg)?[A-Z]",
        "libnvidia-ml": r"nvml[A-Z]",
        "libcudart": r"cuda[A-Z]|__cuda[A-Z]",
        "libcublas": r"cublas(?!Lt)[A-Z]|cublas[a-z]*_",
        "libcublasLt": r"cublasLt[A-Z]",
        "libcudnn": r"cudnn[A-Z]",
        "libcufft": r"cufft[A-Z]",
        "libcufile": r"cuFile[A-Z]",
        "libcurand": r"curand[A-Z]",
        "libcusolver": r"cusolver[A-Z]",
        "libcusolverMg": r"cusolverMg[A-Z]",
        "libcusparse": r"cusparse(?!Lt)[A-Z]",
        "libcusparseLt": r"cusparseLt[A-Z]",
        "libcutensor": r"cutensor[A-Z]",
        "libcudss": r"cudss[A-Z]",
        "libcupti": r"cupti[A-Z]",
        "libnccl": r"p?nccl[A-Z]",
        "libnvJitLink": r"_*nvJitLink[A-Z]",
        "libnvfatbin": r"nvFatbin[A-Z]",
        "libnvrtc": r"nvrtc[A-Z]",
        "libnvshmem_host": r"nvshmemx?(?:id?_|_)",
        "libnvjpeg": r"nvjpeg[A-Z]",
        "libnvToolsExt": r"nvtx[A-Z]",
    }.items()
}
# Outermost namespaces that torch's own libraries export beside torch's (2.14.0): libraries linked into it.
_BESIDE_TORCH = frozenset(
    {"google", "fmt", "onnx", "onnx_torch", "gloo", "tensorpipe", "fbgemm", "dnnl", "kineto", "libkineto", "nlohmann"}
    | {"pybind11", "ideep", "asmjit", "tinyxml2", "sentencepiece", "opentelemetry", "mz_zip", "cpuinfo", "cutlass"}
    | {"thrust", "cub", "cudnn_frontend", "nvfuser", "caffe2", "qnnpack", "xnnpack", "re2", "absl", "flatbuffers"}
)


@dataclass(frozen=True)
class Resolver:
    """Resolves the binaries of one wheel against one torch wheel, or without one."""

    wheel: Wheel

    def resolve(self, member: Member) -> Resolution:
        """Every undefined symbol of one binary."""
        scope = self.wheel.scope(member)
        own = {each.path for each in scope.own} - {member.path}
        torch = self.wheel.torch
        libraries = [torch.libraries[name] for name in scope.torch] if torch is not None else []
        cuda = _cuda_prefixes(scope.others)
        counts: Counter[Provider] = Counter()
        misses: list[Miss] = []
        hidden: list[Hidden] = []
        for wanted in member.elf.imports if member.elf is not None else ():
            name = wanted.name
            provider: Provider | None
            if name.startswith(_DEVICE_LINK):
                continue  # device code that was never linked: said where device code is read
            if wanted.weak or not name:
                provider = Provider.WEAK
            elif self._in_wheel(name, scope, own):
                provider = Provider.WHEEL
            elif any(name in names for names in libraries):
                provider = Provider.TORCH
            else:
                provider = self._outside(wanted, scope, cuda)
            if provider is not None:
                counts[provider] += 1
                if provider is Provider.HOST and not wanted.version and (version := _cxx_version(name)):
                    hidden.append(Hidden(name, version))
            else:
                misses.append(self._miss(name, scope))
        unasked = torch is None and any(map(is_torch_library, scope.others))
        return Resolution(member.path, counts, tuple(misses), () if unasked else tuple(hidden))

    def _in_wheel(self, name: str, scope: Scope, own: set[str]) -> bool:
        """Whether a member in reach exports a name."""
        if name not in self.wheel.exporters:
            return False
        if self.wheel.exporters[name] in own:
            return True
        # Several may export it, of which another than the first is in reach.
        self.wheel.step(len(own))
        return any(each.path in own and name in self.wheel.exports[each.path] for each in scope.own)

    def _outside(self, wanted: Import, scope: Scope, cuda: Iterable[re.Pattern[str]]) -> Provider | None:
        """Who defines a symbol that neither this wheel's libraries nor torch's do."""
        held = self.wheel.by_name.keys() | (
            self.wheel.torch.libraries.keys() if self.wheel.torch is not None else set()
        )
        if wanted.version and wanted.library not in held:
            return _by_library(wanted.library)
        if any(pattern.match(wanted.name) for pattern in cuda):
            return Provider.CUDA
        if _on_host(wanted.name, scope.others):
            return Provider.HOST
        return Provider.PYTHON if is_python(wanted.name) else None

    def _miss(self, name: str, scope: Scope) -> Miss:
        wheel = self.wheel
        if name in wheel.exporters:
            return Miss(name, Lack.REACH, wheel.exporters[name])
        if name in wheel.torch_exporters:
            return Miss(name, Lack.REACH, wheel.torch_exporters[name])
        if is_shim(name) or is_torch_cxx(name):
            return Miss(name, Lack.TORCH if wheel.torch is not None else Lack.NO_TORCH)
        torch_unlooked = any(map(is_torch_library, scope.others))
        unlooked = sorted(each for each in scope.others if not _known(each))
        own = self._is_own(name, strict=bool(unlooked))
        if torch_unlooked and not own:
            return Miss(name, Lack.NO_TORCH)
        if unlooked and not own:
            return Miss(name, Lack.UNLOOKED, ", ".join(unlooked))
        return Miss(name, Lack.NOBODY, own=own)

    def _is_own(self, name: str, *, strict: bool) -> bool:
        """Whether a C++ name can be nobody's but this wheel's.

        :param strict: libraries that nobody looked at are in reach; only the project's own name proves anything then.
        """
        outer = namespace(name)
        project = self._project
        if outer and _plain(outer).startswith(project):
            return True
        if strict or is_std(name):
            return False
        if outer:
            return outer in self.wheel.namespaces and outer not in _BESIDE_TORCH
        # Of no namespace: no library that C++ programs share defines such functions, torch's binding apart.
        return bool(identifier(name))

    @cached_property
    def _project(self) -> str:
        return _plain(self.wheel.facts.name) or "\0"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _cuda_prefixes(others: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    stems = {known.stem for name in others if (known := by_name(name)) is not None and known.owner is not Owner.TORCH}
    return tuple(_PREFIXES[each] for each in sorted(stems) if each in _PREFIXES)


def _by_library(library: str) -> Provider:
    known = by_name(library)
    if known is not None:
        return Provider.TORCH if known.owner is Owner.TORCH else Provider.CUDA
    if library in _GLIBC or library in _GCC or _LOADER.fullmatch(library):
        return Provider.HOST
    return Provider.OTHER


def _on_host(name: str, others: frozenset[str]) -> bool:
    """Whether a library of glibc or GCC that is in reach exports a name.

    glibc 2.34 put libdl, libpthread and the rest into libc; before it, each name was in one of them.
    """
    return any(
        library in others or library == "ld.so" or (library in _GLIBC and not others.isdisjoint(_GLIBC))
        for library, _ in host_libraries().get(name, ())
    )


def _cxx_version(name: str) -> str:
    """The version of libstdc++ that brought a name; "" where it is none of its."""
    return next((v for library, v in host_libraries().get(name, ()) if library == "libstdc++.so.6"), "")


def _known(soname: str) -> bool:
    """Whether what a library exports is known, by table or by prefix."""
    if soname in _GLIBC or soname in _GCC or _LOADER.fullmatch(soname) or is_libpython(soname):
        return True
    known = by_name(soname)
    return known is not None and (known.owner is Owner.TORCH or stem(soname) in _PREFIXES)
