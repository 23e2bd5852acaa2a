"""Undefined symbols against what is exported: scopes, providers, string ABIs, near exports and hostile names."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from qualify.errors import MalformedError, UnverifiedError
from qualify.facts import Depth, Problem, ProblemKind, WheelFacts
from qualify.judging import judge
from qualify.linking import nearest, scope
from qualify.linking.index import ExportIndex, decode, encode, index_of
from qualify.linking.link import Link
from qualify.linking.names import (
    demangled,
    identifier,
    is_new_string_abi,
    is_old_string_abi,
    is_python,
    is_shim,
    is_std,
    is_torch_cxx,
    namespace,
    shown,
    without_string_abi,
)
from qualify.linking.nearest import Nearest
from qualify.linking.resolve import Lack, Provider
from qualify.linking.tables import host_libraries, release_of, stable_functions
from qualify.linking.torchpin import torch_pin
from qualify.linking.torchuse import torch_use
from tests.support.elf import host_elf
from tests.support.torchwheel import INITV, LOGGER, LOGGER_NOW, NEW, OLD, SHIM, SIZES, torch
from tests.unit.judging_support import context, member, wheel


def linked(
    binaries: dict[str, bytes], against: ExportIndex | None = None, name: str = "axpy"
) -> dict[str, tuple[dict[Provider, int], dict[str, Lack]]]:
    """Path -> the counts by provider, and each missing symbol with why."""
    link = Link(wheel({}, files=binaries, name=name), against)
    return {
        each.member: (dict(each.counts), {miss.name: miss.lack for miss in each.misses}) for each in link.resolutions
    }


def library(soname: str, defined: Sequence[str] = (), needed: Sequence[str] = ("libc.so.6",), **more: object) -> bytes:
    return host_elf(soname=soname, defined=defined, needed=needed, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "outer"),
    [
        (SIZES, "c10"),
        (NEW, "torch"),
        ("_ZTVN5torch2nn6ModuleE", "torch"),
        ("_ZTIN3c105ErrorE", "c10"),
        ("_ZGVZN2at6globalEvE1x", ""),
        ("_ZThn16_N2at6TensorD0Ev", "at"),
        ("_ZNKR2at6Tensor3fooEv", "at"),
        ("_ZSt4cout", ""),
        ("_ZN9999999999999999at", ""),
        ("_ZN50at", ""),
        ("memcpy", ""),
        ("", ""),
    ],
)
def test_the_outermost_namespace(name: str, outer: str) -> None:
    assert namespace(name) == outer


def test_whose_a_name_is() -> None:
    assert is_torch_cxx(SIZES)
    assert is_torch_cxx("THPVariableClass")
    assert is_torch_cxx("_Z16THPVariable_WrapRKN2at10TensorBaseE")
    assert not is_torch_cxx("_ZN5torch6stable6detail3fooEv"), "headers alone, compiled into the extension"
    assert not is_torch_cxx("_ZN5torch10headeronly3fooEv")
    assert not is_torch_cxx("_Z12moe_mm_sm100RN2at6TensorE"), "a function of no namespace, whatever it takes"
    assert not is_torch_cxx("_ZN7cutlass3fooEN2at6TensorE")
    assert is_shim("aoti_torch_get_sizes")
    assert not is_shim("_ZN5torch_x")
    assert is_python("_Py_NoneStruct")
    assert is_python("PyObject_Call")
    assert not is_python("Pyramid")
    assert all(map(is_std, ("_ZSt4cout", "_ZNSt6vectorE", "_ZNKSs4sizeEv", "_Znwm", "__cxa_throw", INITV)))
    assert not is_std("_ZN7cutlass3fooESt6vector")
    assert identifier("_Z12moe_mm_sm100RN2at6TensorE") == "moe_mm_sm100"


def test_names_are_read_and_never_trusted() -> None:
    assert demangled(OLD) == "torch::jit::parseSchema(std::string const&)"
    assert demangled("_RNvCs_3foo3bar") == "foo::bar"
    assert demangled("memcpy") == "memcpy"
    bomb = "_Z1fSt4pairIiiES_IS0_S0_E" + "".join(f"S_IS{i}_S{i}_E" for i in range(1, 10))
    bomb += "".join(f"S_ISA_S{letter}_E" for letter in "ABCDEFGHIJ")
    started = time.monotonic()
    for name in ("_ZN" * 100_000, "_Z1f" + "P" * 4000 + "i", "_Z" + "9" * 4000, bomb, "_Z1fI" * 800, "_ZX" * 1300):
        assert len(shown(name)) <= 240
        namespace(name)
    assert time.monotonic() - started < 5


def test_both_string_abis_read_the_same_once_they_are_left_out() -> None:
    assert without_string_abi(demangled(OLD)) == without_string_abi(demangled(NEW))
    tagged = "_ZN5torch4nameB5cxx11Ev"
    assert without_string_abi(demangled(tagged)) == "torch::name()"
    assert is_new_string_abi(NEW)
    assert is_new_string_abi(tagged)
    assert is_old_string_abi(OLD)
    assert not is_old_string_abi(NEW)
    assert not is_new_string_abi(OLD)


def test_the_nearest_export_is_the_same_function_with_other_parameters() -> None:
    near = Nearest(torch())
    assert near.nearest(LOGGER) == (LOGGER_NOW, False)
    assert near.nearest(OLD) == (NEW, True)
    assert near.nearest("_ZN3c105otherEv") == ("", False)
    assert near.nearest("aoti_torch_get_sizez") == ("aoti_torch_get_sizes", False)
    assert near.nearest("wholly_unlike") == ("", False)


def test_near_exports_are_looked_for_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "MOST_NAMES", 1)
    near = Nearest(torch())
    assert near.nearest(LOGGER)[0]
    assert near.nearest(OLD) == ("", False)
    assert near.nearest(LOGGER)[0], "what was found is kept"


def test_the_other_string_abi_is_told_apart_in_both_directions() -> None:
    older = ExportIndex("t.whl", "0" * 64, "torch", "2.5.0", "x86_64", {"libtorch_cpu.so": frozenset({OLD})}, {})
    binary = member(undefined=[NEW], needed=("libtorch_cpu.so", "libc.so.6"))
    facts = wheel({"axpy/_C": {"sm_90": ["k"]}, "axpy/_host": binary}, requires=["torch==2.5.0"])
    [finding] = [each for each in judge(facts, context(torch=older)).findings if each.code == "TOR002"]
    assert "std::__cxx11::basic_string" in finding.found
    assert "_GLIBCXX_USE_CXX11_ABI=0" in finding.action


def test_a_library_is_reached_through_others() -> None:
    found = linked(
        {
            "axpy/_a.abi3.so": member(undefined=["deep"], needed=("libone.so",)),
            "axpy/libone.so": library("libone.so", needed=("libtwo.so",)),
            "axpy/libtwo.so": library("libtwo.so", ["deep"]),
            "axpy/_b.abi3.so": member(undefined=["deep"]),
        }
    )
    assert found["axpy/_a.abi3.so"] == ({Provider.WHEEL: 1}, {})
    assert found["axpy/_b.abi3.so"] == ({}, {"deep": Lack.REACH})


def test_a_library_without_a_soname_goes_by_its_file_name() -> None:
    found = linked(
        {
            "axpy/_a.abi3.so": member(undefined=["deep"], needed=("libplain.so",)),
            "axpy/libplain.so": library("", ["deep"]),
        }
    )
    assert found["axpy/_a.abi3.so"] == ({Provider.WHEEL: 1}, {})


def test_a_library_that_another_brings_in_is_searched_for_in_that_ones_dependencies() -> None:
    files = {
        "axpy/_a.abi3.so": member(needed=("libplugin.so", "libcore.so")),
        "axpy/libplugin.so": library("libplugin.so", undefined=["core"]),
        "axpy/libcore.so": library("libcore.so", ["core"]),
    }
    assert linked(files)["axpy/libplugin.so"] == ({Provider.WHEEL: 1}, {})
    del files["axpy/_a.abi3.so"]
    assert linked(files)["axpy/libplugin.so"] == ({}, {"core": Lack.REACH})


def test_dependencies_in_a_circle_end() -> None:
    found = linked(
        {
            "axpy/_a.abi3.so": member(undefined=["one"], needed=("libone.so",)),
            "axpy/libone.so": library("libone.so", ["one"], ("libtwo.so",), undefined=["two"]),
            "axpy/libtwo.so": library("libtwo.so", ["two"], ("libone.so",), undefined=["one"]),
        }
    )
    assert not any(lacks for _, lacks in found.values())


def test_an_executable_gets_nothing_of_torch_that_it_is_not_linked_with() -> None:
    found = linked({"axpy/tool": host_elf(elf_type="exec", undefined=[SIZES, "cublasHgemm"])}, torch())
    assert found["axpy/tool"][1] == {SIZES: Lack.REACH, "cublasHgemm": Lack.NOBODY}


def test_who_defines_a_symbol() -> None:
    wanted = ["memcpy@GLIBC_2.14", "av_log@LIBAVUTIL_58", SIZES, "cudaMalloc", "PyObject_Call", "dlopen", "cuMemMap"]
    needs = {"libc.so.6": ["GLIBC_2.14"], "libavutil.so.58": ["LIBAVUTIL_58"]}
    needed = ("libtorch_cpu.so", "libcudart.so.13", "libcuda.so.1", "libavutil.so.58", "libc.so.6")
    binary = member(undefined=wanted, weak=["__gmon_start__"], needed=needed, version_needs=needs)
    counts, lacks = linked({"axpy/_a.abi3.so": binary}, torch())["axpy/_a.abi3.so"]
    assert lacks == {}
    assert counts == {
        Provider.HOST: 2,
        Provider.OTHER: 1,
        Provider.TORCH: 1,
        Provider.CUDA: 2,
        Provider.PYTHON: 1,
        Provider.WEAK: 1,
    }


def test_a_version_does_not_excuse_a_library_that_was_looked_at() -> None:
    needs = {"libgomp.so.1": ["GOMP_4.0"]}
    binary = member(undefined=["GOMP_gone@GOMP_4.0"], needed=("libgomp.so.1",), version_needs=needs)
    bundled = {"axpy/_a.abi3.so": binary, "axpy/libgomp.so.1": library("libgomp.so.1", ["GOMP_parallel"])}
    assert linked(bundled)["axpy/_a.abi3.so"][1] == {"GOMP_gone": Lack.NOBODY}
    assert linked({"axpy/_a.abi3.so": binary})["axpy/_a.abi3.so"] == ({Provider.OTHER: 1}, {})


def test_whose_a_missing_symbol_is() -> None:
    own = "_ZN6kernel5startEv"
    binaries = {
        "axpy/_a.abi3.so": member(undefined=[own, "lost", "_ZN4axpy1xEv"], defined=["_ZN6kernel3endEv", "PyInit__a"]),
        "axpy/_b.abi3.so": member(undefined=[own, "lost", "_ZN4axpy1xEv"], needed=("libfar.so", "libc.so.6")),
        "axpy/_c.abi3.so": member(undefined=[own, "lost", "_ZN6google1xEv"], needed=("libtorch.so", "libc.so.6")),
    }
    found = {path: lacks for path, (_, lacks) in linked(binaries).items()}
    assert set(found["axpy/_a.abi3.so"].values()) == {Lack.NOBODY}
    assert found["axpy/_b.abi3.so"] == {own: Lack.UNLOOKED, "lost": Lack.UNLOOKED, "_ZN4axpy1xEv": Lack.NOBODY}
    assert found["axpy/_c.abi3.so"] == {own: Lack.NOBODY, "lost": Lack.NO_TORCH, "_ZN6google1xEv": Lack.NO_TORCH}


def test_a_hidden_floor_is_known_once_torch_is() -> None:
    binary = member(undefined=[INITV], needed=("libtorch.so", "libstdc++.so.6", "libc.so.6"))
    facts = wheel({}, files={"axpy/_a.abi3.so": binary})
    [resolution] = Link(facts).resolutions
    assert resolution.hidden == (), "torch may export it"
    bare = ExportIndex("t.whl", "0" * 64, "torch", "2.9.0", "x86_64", {"libtorch.so": frozenset()}, {"libtorch.so": ()})
    [resolution] = Link(facts, bare).resolutions
    assert [hidden.version for hidden in resolution.hidden] == ["GLIBCXX_3.4.32"]


def test_a_torch_of_another_machine_says_nothing() -> None:
    facts = wheel({}, files={"axpy/_a.abi3.so": member(undefined=["lost"])})
    assert Link(facts, torch(machine="aarch64")).resolutions == ()


def test_a_wheel_made_to_exhaust_time_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"lib{number}.so" for number in range(40)]
    files = {f"axpy/{name}": library(name, needed=names) for name in names}
    facts = wheel(files=files, name="other")
    assert Link(facts).unlooked == ""
    monkeypatch.setattr(scope, "MOST_STEPS", 1000)
    link = Link(facts)
    assert "1000" in link.unlooked
    assert link.resolutions == ()
    assert {each.code for each in judge(facts, context()).findings} >= {"TOR011"}


def test_how_a_binary_uses_torch() -> None:
    def use(*undefined: str, weak: Sequence[str] = (), needed: Sequence[str] = ("libtorch.so",)):  # type: ignore[no-untyped-def]
        [binary] = Link(
            wheel({}, files={"axpy/_a.abi3.so": member(undefined=undefined, weak=weak, needed=needed)})
        ).wheel.binaries
        assert binary.elf is not None
        return torch_use(binary.elf, ())

    assert not use(needed=()).needs_torch
    assert use().needs_torch
    stable = use(SHIM, "torch_from_blob", weak=["torch_has_storage"])
    assert stable.stable
    assert stable.minimum() == ("2.11.0", ("torch_from_blob",)), "a weak reference asks for nothing"
    assert not use(SHIM, SIZES).stable
    assert use(SHIM, "_ZNSt6vectorIN2at6TensorESaIS1_EE9push_backEOS1_").unstable, "left to torch to instantiate"
    assert use(SHIM, "_ZNSt6vectorIN5torch6stable6TensorESaIS2_EE9push_backEOS2_").stable, "headers alone"
    assert use(SHIM, "torch_of_tomorrow").unknown == ("torch_of_tomorrow",)


@pytest.mark.parametrize(
    ("requirement", "below", "reaches", "exact"),
    [
        ("torch==2.14.0", "", True, True),
        ("torch==2.14.0+cu130", "", True, True),
        ("torch==2.14.*", "", True, True),
        ("torch>=2.14,<2.15", "", True, True),
        ("torch>=2.10", "2.12.3", True, False),
        ("torch", "2.12.3", True, False),
        ("torch==2.9.1", "2.9.1", False, True),
        ("torch<2.13", "2.12.3", False, False),
        ("torch===2.14.0.dev20260901+cu132", "", True, True),
        ("torch @ https://example.org/torch-2.14.0-cp312-cp312-linux_x86_64.whl", "2.12.3", True, True),
        ("torch (>=2.14.0)", "", True, False),
    ],
)
def test_what_a_requirement_admits(requirement: str, below: str, reaches: bool, exact: bool) -> None:
    pin = torch_pin([requirement], "x86_64", "3.12")
    assert pin is not None
    assert pin.reaches("2.13.0") is reaches
    assert pin.exact is exact
    if "@" not in requirement:
        assert pin.below("2.13.0") == below


def test_requirements_hold_together_and_by_their_markers() -> None:
    lines = ["Torch>=2.10", "torch<2.12; platform_machine == 'aarch64'", "torchvision==0.29.1", "torch ???", "numpy"]
    pin = torch_pin(lines, "aarch64", "3.12")
    assert pin is not None
    assert pin.text == "torch>=2.10, torch<2.12"
    assert not pin.admits("2.13.0")
    assert pin.admits("2.11.0+cu130")
    other = torch_pin(lines, "x86_64", "3.12")
    assert other is not None
    assert other.admits("2.13.0")
    assert torch_pin(["torch; extra == 'gpu'", "torch-tools"], "x86_64", "3.12") is None


def test_the_tables_hold_what_their_sources_say() -> None:
    assert host_libraries()["dlopen"][0][0] == "libc.so.6"
    assert (("libstdc++.so.6", "GLIBCXX_3.4.32")) in host_libraries()[INITV]
    assert host_libraries()["__tls_get_addr"][0][0] == "ld.so"
    releases = stable_functions()
    assert (releases[SHIM], releases["torch_call_dispatcher"], releases["torch_from_blob"]) == (
        "2.9.0",
        "2.10.0",
        "2.11.0",
    )
    assert releases["torch_new_stable_ivalue"] == "2.13.0"
    assert min(releases.values(), key=release_of) == "2.9.0"


def test_an_index_reads_back_as_it_was() -> None:
    index = torch()
    assert decode(encode(index)) == index
    empty = ExportIndex("t.whl", "0" * 64, "torch", "1", "x86_64", {"libtorch.so": frozenset()}, {"libtorch.so": ()})
    assert decode(encode(empty)) == empty


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]\n",
        b"null\na",
        b'{"magic": "wheel-assay exports", "version": 99}\n',
        b'{"magic": "wheel-assay exports", "version": 1, "libraries": 3}\n',
        encode(torch())[:-1],
        encode(torch())[:-40],
        encode(torch()) + b"\nmore",
        encode(torch()).replace(b'"count": 3', b'"count": -3'),
        encode(torch()).replace(b'"count": 3', b'"count": true'),
        encode(torch()).replace(b"0000", b"zzzz", 1),
        encode(torch()).replace(b"libdl", b"\xff\xfe\xff\xff\xff"),
        b"[" * 100_000,
    ],
)
def test_no_index_is_read_from_anything_else(data: bytes) -> None:
    try:
        assert decode(data) != torch()
    except MalformedError:
        return
    assert data == encode(torch())[:-1], "a name that is one letter short is for the checksum of its file to see"


def test_the_index_of_a_wheel() -> None:
    facts = wheel({}, files={"torch/lib/libtorch.so": library("libtorch.so", ["x"], ("libc.so.6",))}, name="torch")
    index = index_of(facts)
    assert (index.label, index.machine) == ("torch 0.1.0", "x86_64")
    assert index.libraries == {"libtorch.so": frozenset({"x"})}
    assert index.needed == {"libtorch.so": ("libc.so.6",)}
    assert facts.depth is Depth.KERNELS


def damaged(kind: ProblemKind, where: str) -> WheelFacts:
    import dataclasses

    facts = wheel({}, files={"torch/lib/libtorch.so": library("libtorch.so", ["x"])}, name="torch")
    return dataclasses.replace(facts, problems=(Problem(kind, "torch/lib/libtorch.so", where, "is damaged"),))


def test_a_library_that_cannot_be_read_makes_no_index() -> None:
    with pytest.raises(MalformedError, match="dynamic symbols"):
        index_of(damaged(ProblemKind.MALFORMED, "dynamic symbols"))
    with pytest.raises(UnverifiedError, match="stored bytes"):
        index_of(damaged(ProblemKind.UNREADABLE, "stored bytes"))
    assert index_of(damaged(ProblemKind.MALFORMED, ".nv_fatbin+0x0")).libraries, "device code is another matter"
    with pytest.raises(MalformedError, match="no shared library"):
        index_of(wheel({}, name="torch"))
