"""Laws that the rules of compatibility obey for every architecture and device, known or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qualify.arch import (
    ARCHITECTURES,
    PTX_OF_CUDA,
    ComputeCapability,
    DriverAnswer,
    RealArchitecture,
    Suffix,
    Support,
    VirtualArchitecture,
    driver_runs_cubin,
    driver_runs_ptx,
    support,
)

known = st.sampled_from(sorted(ARCHITECTURES)).map(lambda number: ComputeCapability(*divmod(number, 10)))
anything = st.builds(ComputeCapability, st.integers(1, 20), st.integers(0, 9))
capabilities = known | anything
suffixes: st.SearchStrategy[Suffix] = st.sampled_from(("", "a", "f"))
real = st.builds(RealArchitecture, capabilities, suffixes)
virtual = st.builds(VirtualArchitecture, capabilities, suffixes)
versions = st.sampled_from(sorted(PTX_OF_CUDA)) | st.tuples(st.integers(8, 16), st.integers(0, 9))


def dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@given(real | virtual)
def test_names_read_back(code: RealArchitecture | VirtualArchitecture) -> None:
    assert type(code).parse(str(code)) == code


@given(capabilities, suffixes)
def test_a_cubin_runs_on_its_own_device(device: ComputeCapability, suffix: Suffix) -> None:
    assert support(RealArchitecture(device, suffix), device) is Support.EXACT


@given(real, capabilities)
def test_a_cubin_never_leaves_its_major_nor_goes_back(code: RealArchitecture, device: ComputeCapability) -> None:
    if device.major != code.capability.major or device < code.capability:
        assert support(code, device) is Support.NONE


@given(real, capabilities)
def test_a_cubin_is_never_compiled_by_the_driver(code: RealArchitecture, device: ComputeCapability) -> None:
    assert support(code, device) is not Support.JIT


@given(virtual, capabilities)
def test_ptx_is_never_native(code: VirtualArchitecture, device: ComputeCapability) -> None:
    assert not support(code, device).native


@given(capabilities, capabilities)
def test_an_a_runs_on_one_compute_capability_alone(own: ComputeCapability, device: ComputeCapability) -> None:
    for code in (RealArchitecture(own, "a"), VirtualArchitecture(own, "a")):
        assert (support(code, device) is Support.NONE) == (own != device)


@given(capabilities, capabilities, capabilities)
def test_plain_ptx_runs_from_its_own_capability_on(
    own: ComputeCapability, device: ComputeCapability, later: ComputeCapability
) -> None:
    code = VirtualArchitecture(own)
    assert (support(code, device) is Support.JIT) == (own <= device)
    if support(code, device) is Support.JIT and later >= device:
        assert support(code, later) is Support.JIT


@given(capabilities, capabilities)
def test_a_suffix_never_widens(own: ComputeCapability, device: ComputeCapability) -> None:
    """What the ``a`` of an architecture runs on, its ``f`` runs on; what its ``f`` runs on, plain code runs on."""
    plain, family, one = (support(RealArchitecture(own, suffix), device) for suffix in ("", "f", "a"))
    if one.native:
        assert family.native
    if family.native:
        assert plain.native
    plain_ptx, family_ptx, one_ptx = (support(VirtualArchitecture(own, suffix), device) for suffix in ("", "f", "a"))
    if one_ptx is Support.JIT:
        assert family_ptx is Support.JIT
    if family_ptx is Support.JIT:
        assert plain_ptx is Support.JIT


@given(capabilities, capabilities, capabilities)
def test_binary_compatibility_is_transitive(a: ComputeCapability, b: ComputeCapability, c: ComputeCapability) -> None:
    """Where code of ``a`` runs on ``b``, whatever code of ``b`` runs on, code of ``a`` runs on."""
    suffix: Suffix
    for suffix in ("", "f"):
        if support(RealArchitecture(a, suffix), b).native and support(RealArchitecture(b, suffix), c).native:
            assert support(RealArchitecture(a, suffix), c).native


@given(anything, capabilities, suffixes)
def test_what_no_table_knows_is_at_most_unknown(
    own: ComputeCapability, device: ComputeCapability, suffix: Suffix
) -> None:
    if own.number not in ARCHITECTURES and own != device:
        assert support(RealArchitecture(own, suffix), device) in (Support.UNKNOWN, Support.NONE)


@given(versions, versions, versions)
def test_a_newer_driver_takes_whatever_an_older_one_takes(
    code: tuple[int, int], older: tuple[int, int], newer: tuple[int, int]
) -> None:
    older, newer = sorted((older, newer))
    for rule in (driver_runs_ptx, driver_runs_cubin):
        if rule(dotted(code), dotted(older)) is DriverAnswer.YES:
            assert rule(dotted(code), dotted(newer)) is DriverAnswer.YES
        if rule(dotted(code), dotted(newer)) is DriverAnswer.NO:
            assert rule(dotted(code), dotted(older)) is DriverAnswer.NO


@given(versions, versions, versions)
def test_a_driver_that_takes_newer_ptx_takes_older(
    older: tuple[int, int], newer: tuple[int, int], driver: tuple[int, int]
) -> None:
    older, newer = sorted((older, newer))
    if driver_runs_ptx(dotted(newer), dotted(driver)) is DriverAnswer.YES:
        assert driver_runs_ptx(dotted(older), dotted(driver)) is DriverAnswer.YES
