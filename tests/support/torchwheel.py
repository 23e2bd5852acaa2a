"""The exports of a torch of four libraries, and symbols that are in it and that are not."""

from __future__ import annotations

from qualify.linking.index import ExportIndex

NEW = "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD = "_ZN5torch3jit11parseSchemaERKSs"  # the same function, of the string from before C++11
SIZES = "_ZNK3c1010TensorImpl5sizesEv"
LOGGER = "_ZN3c1013MessageLoggerC1EPKcii"  # as torch 2.9 had it
LOGGER_NOW = "_ZN3c1013MessageLoggerC1ENS_14SourceLocationEib"
INITV = "_ZSt21ios_base_library_initv"  # GLIBCXX_3.4.32
SHIM, SHIM_210, SHIM_211 = "aoti_torch_get_sizes", "torch_call_dispatcher", "torch_from_blob"


def torch(version: str = "2.14.0", machine: str = "x86_64") -> ExportIndex:
    """What such a wheel exports, and what its libraries depend on."""
    libraries = {
        "libc10.so": frozenset({SIZES, LOGGER_NOW, INITV}),
        "libtorch_cpu.so": frozenset({NEW, SHIM, SHIM_210, SHIM_211}),
        "libtorch_python.so": frozenset({"THPVariableClass"}),
        "libtorch_global_deps.so": frozenset[str](),
    }
    needed = {
        "libc10.so": ("libstdc++.so.6", "libc.so.6"),
        "libtorch_cpu.so": ("libc10.so", "libdl.so.2"),
        "libtorch_python.so": ("libtorch_cpu.so",),
        "libtorch_global_deps.so": ("libcublas.so.13", "libcusparse.so.12"),
    }
    name = f"torch-{version}-cp312-cp312-manylinux_2_28_{machine}.whl"
    return ExportIndex(name, "0" * 64, "torch", version, machine, libraries, needed)
