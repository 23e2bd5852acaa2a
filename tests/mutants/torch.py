"""Wheels with one fault that the checks TOR are for."""

from __future__ import annotations

from collections.abc import Sequence

from qualify.facts import WheelFacts
from qualify.matrix.model import Profile
from tests.mutants.case import Case
from tests.support.torchwheel import INITV, LOGGER, LOGGER_NOW, NEW, OLD, SHIM, SHIM_210, SHIM_211, SIZES, torch
from tests.unit.judging_support import ARM_TAG, SPARK, code, member, wheel

OWN = "_ZN4axpy4gemm11launch_sm90EPKfPf"
LIBRARY = {"axpy/libaxpy": {"code": "host"}}


def calling(
    *undefined: str,
    needed: Sequence[str] = ("libtorch_cpu.so", "libc.so.6"),
    requires: Sequence[str] = ("torch==2.14.0",),
    **options: object,
) -> WheelFacts:
    """The good wheel, of which ``axpy/_C`` has these undefined symbols."""
    binary = member(code("sm_90"), undefined=undefined, needed=needed, **options)
    return wheel({"axpy/_C": binary, "axpy/_host": {}}, requires=requires)


def unlinked(*undefined: str, requires: Sequence[str]) -> WheelFacts:
    """The good wheel, of which ``axpy/_C`` calls torch without a dependency on it."""
    return calling(*undefined, needed=("libc.so.6",), requires=requires)


def beside(*undefined: str, linked: bool) -> WheelFacts:
    """The good wheel and a library of its own that defines ``OWN``, which ``axpy/_C`` needs."""
    needed = ("libaxpy.so", "libc.so.6") if linked else ("libc.so.6",)
    binary = member(code("sm_90"), undefined=undefined, needed=needed, runpath="$ORIGIN")
    library = member(defined=(OWN,), soname="libaxpy.so")
    return wheel({"axpy/_C": binary, "axpy/_host": {}}, files={"axpy/libaxpy.so": library})


MUTANTS = (
    Case("a torch whose constructor takes other parameters", lambda: calling(LOGGER), "TOR001", torch=torch),
    Case("a stable function that this torch has not yet", lambda: calling("torch_has_storage"), "TOR001", torch=torch),
    Case("the binding's class, which this torch renamed", lambda: calling("THPGone"), "TOR001", torch=torch),
    Case("the string from before C++11", lambda: calling(OLD), "TOR002", torch=torch),
    Case("an own function of a file that was left out", lambda: calling(OWN), "TOR003", torch=torch),
    Case(
        "an own function left out, without a torch",
        lambda: beside(OWN + "x", linked=True),
        "TOR003",
        extensions=LIBRARY,
    ),
    Case(
        "an own function of no namespace, which takes a tensor",
        lambda: calling("_Z12moe_mm_sm100RN2at6TensorE"),
        "TOR003",
        torch=torch,
    ),
    Case(
        "a function of the driver, which nothing brings in",
        lambda: calling("cuTensorMapEncodeTiled"),
        "TOR003",
        torch=torch,
    ),
    Case("an own library that is not linked", lambda: beside(OWN, linked=False), "TOR004", extensions=LIBRARY),
    Case("torch's binding, not linked", lambda: calling("THPVariableClass"), "TOR004", torch=torch),
    Case(
        "a newer libstdc++, hidden by a lost version",
        lambda: calling(INITV, needed=("libstdc++.so.6", "libc.so.6"), requires=()),
        "TOR005",
    ),
    Case("a torch that METADATA excludes", lambda: calling(SHIM), "TOR006", torch=lambda: torch("2.13.0")),
    Case("torch called, and none asked for", lambda: unlinked(SHIM, requires=()), "TOR007"),
    Case("torch for an extra alone", lambda: unlinked(SHIM, requires=["torch==2.14.0; extra == 'gpu'"]), "TOR007"),
    Case("torch for another system", lambda: unlinked(SIZES, requires=["torch; sys_platform == 'win32'"]), "TOR007"),
    Case("a torch without what is called", lambda: calling(SHIM_211, requires=["torch==2.10.0"]), "TOR008"),
    Case("a torch among others without what is called", lambda: calling(SHIM_211, requires=["torch>=2.10"]), "TOR009"),
    Case("C++ of torch, and any torch", lambda: calling(SIZES, requires=["torch>=2.9"]), "TOR010"),
    Case("C++ of torch, and any torch of two", lambda: calling(SIZES, requires=["torch>=2.13,<2.15"]), "TOR010"),
    Case("a function that no release known here has", lambda: calling("torch_of_tomorrow"), "TOR011"),
    Case("torch called, and none to look in", lambda: calling(SIZES), "TOR012"),
    Case("the stable interface, and one torch alone", lambda: calling(SHIM_210), "TOR013"),
    Case(
        "a library that nobody knows",
        lambda: calling("heif_context_alloc", needed=("libz.so.1", "libc.so.6"), requires=()),
        "TOR014",
    ),
    Case(
        "a CUDA runtime of another major than torch's",
        lambda: calling(SIZES, needed=("libtorch_cpu.so", "libcudart.so.12", "libc.so.6")),
        "TOR015",
        torch=torch,
    ),
)

NEAR_MISSES = (
    Case("every symbol of torch's in its place", lambda: calling(SIZES, NEW, LOGGER_NOW, SHIM), torch=torch),
    Case("a missing symbol that is weak", lambda: calling(SHIM, weak=[LOGGER, "torch_of_tomorrow"]), torch=torch),
    Case("a missing symbol of a wheel whose library defines it", lambda: beside(OWN, linked=True), extensions=LIBRARY),
    Case("a newer libstdc++'s symbol, which torch exports", lambda: calling(SHIM, INITV), torch=torch),
    Case("CUDA's, of a library that torch brings in", lambda: calling("cublasHgemm"), torch=torch),
    Case("the system's, without a version", lambda: calling("dlopen", "__tls_get_addr", SHIM), torch=torch),
    Case("one release of torch, with a local part", lambda: calling(SIZES, requires=["torch==2.14.0+cu130"])),
    Case("one minor of torch", lambda: calling(SIZES, requires=["torch>=2.14.0,<2.15"])),
    Case("the stable interface from its release on", lambda: calling(SHIM_211, requires=["torch>=2.11"])),
    Case(
        "a torch of CUDA, as METADATA asks for its release",
        lambda: calling(SIZES),
        torch=lambda: torch("2.14.0+cu130"),
    ),
    Case(
        "libraries of torch's CUDA, whatever number is theirs",
        lambda: calling(SIZES, needed=("libtorch_cpu.so", "libcudart.so.13", "libcusparse.so.12", "libcusolver.so.12")),
        torch=torch,
    ),
    Case("torch of the other machine", lambda: arm(SHIM), target=SPARK, torch=lambda: torch(machine="aarch64")),
    Case(
        "torch without a requirement, of someone else's", lambda: calling(SHIM, requires=()), profile=Profile.UPSTREAM
    ),
)


def arm(*undefined: str) -> WheelFacts:
    binary = member(code("sm_120"), machine="aarch64", undefined=undefined, needed=("libtorch_cpu.so", "libc.so.6"))
    return wheel({"axpy/_C": binary, "axpy/_host": {}}, tag=ARM_TAG, requires=["torch==2.14.0"])
