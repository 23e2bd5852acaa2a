"""Wheels that lost something since their control."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qualify.facts import WheelFacts
from tests.mutants.case import Case
from tests.support.fatbin import containers, device_code
from tests.unit.judging_support import member, wheel

_REQUIRED: Mapping[str, object] = {"control__wheel": "axpy==0.0.9", "control__required": True}
_GIVEN: Mapping[str, object] = {"control__wheel": "axpy==0.0.9"}


def _control(kernels: Any = None, **options: Any) -> WheelFacts:
    """The wheel before: another version, with two kernels unless it is said otherwise."""
    held = {"sm_90": ["axpy_kernel", "second"]} if kernels is None else kernels
    return wheel({"axpy/_C": held, "axpy/_host": {}}, version="0.0.9", **options)


def _now(kernels: Any = None, **options: Any) -> WheelFacts:
    held = {"sm_90": ["axpy_kernel", "second"]} if kernels is None else kernels
    return wheel({"axpy/_C": held, "axpy/_host": {}}, **options)


def _units(*units: Mapping[str, list[str]]) -> bytes:
    """A member of several translation units."""
    return member(sections={".nv_fatbin": containers(*(device_code(unit) for unit in units))})


_GAP = _units({"sm_90": ["axpy_kernel"]}, {"sm_80": ["axpy_kernel"], "sm_90": ["second"]})
_NO_GAP = _units({"sm_90": ["axpy_kernel"]}, {"sm_90": ["axpy_kernel", "second"]})


def _hashed(first: str, second: str) -> str:
    identifier = f"_GLOBAL__N__{first}_4_a_cu_{second}"
    return f"_ZN{len(identifier)}{identifier}1kEv"


MUTANTS = (
    Case(
        "a kernel that the required control runs is gone",
        lambda: _now({"sm_90": ["axpy_kernel"]}),
        "CTL001",
        control=_control,
        matrix=_REQUIRED,
    ),
    Case(
        "a kernel that the required control runs is compiled for another GPU",
        lambda: _now(_units({"sm_90": ["axpy_kernel"]}, {"sm_100": ["second"]})),
        "CTL001",
        control=_control,
        matrix=_REQUIRED,
    ),
    Case(
        "an extension of the required control is gone",
        _now,
        "CTL002",
        control=lambda: _control(more={"axpy/_more": {}}),
        matrix=_REQUIRED,
    ),
    Case(
        "a translation unit without native code that the required control has in each",
        lambda: _now(_GAP),
        "CTL003",
        control=lambda: _control(_NO_GAP),
        matrix=_REQUIRED,
    ),
    Case(
        "PTX where the required control is native, and PTX is enough",
        lambda: _now(more={"axpy/_fast": {"compute_80": ["k"]}}),
        "CTL004",
        control=lambda: _control(more={"axpy/_fast": {"sm_90": ["k"]}}),
        matrix=_REQUIRED,
    ),
    Case("a required control that was not given", _now, "CTL005", matrix=_REQUIRED),
    Case("this very wheel as its required control", _now, "CTL005", control=_now, matrix=_REQUIRED),
    Case(
        "another project's wheel as the required control",
        _now,
        "CTL005",
        control=lambda: wheel({"other/_C": {"sm_90": ["k"]}}, name="other"),
        matrix=_REQUIRED,
    ),
    Case(
        "more kernels than the control has",
        lambda: _now({"sm_90": ["axpy_kernel", "second", "third"]}),
        "CTL006",
        control=_control,
        matrix=_REQUIRED,
    ),
    Case(
        "fewer kernels than a control that nothing requires",
        lambda: _now({"sm_90": ["axpy_kernel"]}),
        "CTL007",
        control=_control,
        matrix=_GIVEN,
    ),
    Case("this very wheel as a control that nothing requires", _now, "CTL007", control=_now, matrix=_GIVEN),
    Case(
        "another project's wheel as a control that nothing requires",
        _now,
        "CTL007",
        control=lambda: wheel({"other/_C": {"sm_90": ["k"]}}, name="other"),
        matrix=_GIVEN,
    ),
    Case(
        "fewer kernels in an extension that may hold anything",
        lambda: _now(more={"axpy/_any": {"sm_90": ["a"]}}),
        "CTL007",
        control=lambda: _control(more={"axpy/_any": {"sm_90": ["a", "b"]}}),
        matrix=_REQUIRED,
    ),
)

NEAR_MISSES = (
    Case("the same kernels as the required control", _now, control=_control, matrix=_REQUIRED),
    Case(
        "code for one GPU, of the control's three",
        _now,
        control=lambda: _control(
            {"sm_80": ["axpy_kernel"], "sm_90": ["axpy_kernel", "second"], "sm_100": ["blackwell"]}
        ),
        matrix=_REQUIRED,
    ),
    Case(
        "a kernel whose name has the hash of another build's folder",
        lambda: _now({"sm_90": ["axpy_kernel", _hashed("0123abcd", "00000001_17")]}),
        control=lambda: _control({"sm_90": ["axpy_kernel", _hashed("fedc9876", "00000001_4242")]}),
        matrix=_REQUIRED,
    ),
    Case(
        "a kernel of the control that its target never ran",
        _now,
        control=lambda: _control(_units({"sm_90": ["axpy_kernel", "second"]}, {"sm_100": ["blackwell"]})),
        matrix=_REQUIRED,
    ),
    Case(
        "an optional extension of the control that is gone",
        _now,
        control=lambda: _control(more={"axpy/_any": {"sm_90": ["a"]}}),
        matrix=_REQUIRED,
    ),
    Case("no control, and none required", _now, matrix=_GIVEN),
)
