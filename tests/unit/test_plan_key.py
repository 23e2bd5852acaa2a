"""The key of a plan: each field that decides bytes changes it, no other does, and a difference is always shown."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.externals import External
from builders.plan import BasePlan, CratesPlan, ForkPlan, PatchPlan, Plan, SourcePlan, ToolkitPlan
from builders.plan_diff import changes
from builders.requirements import Backend
from builders.toolsearch import Host, ToolDemand

PLAN = Plan(
    version=2,
    project="tiny",
    target="x86_64-sm90",
    machine="x86_64",
    compute_capability="9.0",
    python=("3.12",),
    how="native",
    engine="docker",
    shape="a shape",
    expects_device_code=True,
    label="label",
    arch_variable="TORCH_CUDA_ARCH_LIST",
    arch_list="9.0",
    architectures=("9.0",),
    source=SourcePlan("git", "c" * 40, "HEAD", "1.0", "https://example.org/tiny", ""),
    patches=(PatchPlan("a.patch", "a" * 64), PatchPlan("b.patch", "b" * 64)),
    fork=ForkPlan("https://example.org/up", "b" * 40, ("c0 first", "c1 second"), 12),
    crates=(CratesPlan("Cargo.lock", "d" * 64, 621, 3),),
    base=BasePlan("quay.io/x", "", "sha256:" + "e" * 64),
    toolkit=ToolkitPlan("13.0.3", "cuda-toolkit==13.0.3", ("nvidia-nvvm==13.0.88",)),
    torch="torch==2.14.0",
    torch_cuda=True,
    backend=Backend("setuptools.build_meta", ("x",), ("wheel",)),
    requirements=("wheel", "torch==2.14.0"),
    without={"rust": "a reason"},
    overrides=("added x: a reason",),
    locked=("3.12: wheel==1 sha256:" + "f" * 64,),
    environment={"A": "1", "B": "2"},
    refused_environment=("BAD_*",),
    tools=(ToolDemand("nvcc", ("nvcc",), "12.9", "kernels"),),
    externals=(
        External("one", "https://example.org/one", "v1", ("sub",), "ONE_DIR", "a.cmake:1", "X", True, commit="1" * 40),
        External("two", "https://example.org/two", "v2", (), "", "a.cmake:9", "", False, copy="/c", fault="f"),
    ),
    unread=("b.cmake:1: why",),
    repair="auditwheel",
    compiler_cache="ccache",
    notes=("a note",),
    jobs=8,
    memory_per_job=5 * 10**9,
    disk=10 * 10**9,
    host=Host("x86_64", 8, 64),
)

OUTSIDE = {
    *("jobs", "memory_per_job", "disk", "host", "unread", "notes", "overrides", "compiler_cache"),
    *("refused_environment", "fork.behind"),
    *(f"externals.{name}" for name in ("copy", "fault", "fetched_from")),
}


def others(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The value with one thing in it changed, and where: every field of what is nested in it, too."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for where, other in others(getattr(value, field.name), f"{path}.{field.name}".lstrip(".")):
                yield where, replace(value, **{field.name: other})
    elif isinstance(value, Mapping):
        name, first = next(iter(value.items()))
        yield path, {**value, name: f"{first}x"}
        yield path, {other: text for other, text in value.items() if other != name}
        yield path, {**value, "NEW": ""}
    elif isinstance(value, tuple):
        for where, other in others(value[0], path) if value else ():
            yield where, (other, *value[1:])
        if len(value) > 1:
            yield path, (*value[1:], value[0])
            yield path, value[:1]
        yield path, () if value else ("new",)
    elif isinstance(value, bool):
        yield path, not value
    else:
        assert isinstance(value, str | int), (path, value)
        yield path, f"{value}x" if isinstance(value, str) else 2 * value + 1


MUTANTS = list(others(PLAN, ""))


def outside(where: str) -> bool:
    return where in OUTSIDE or where.split(".")[0] in OUTSIDE


def test_every_field_is_tried() -> None:
    tried = {where.split(".")[0] for where, _ in MUTANTS}
    assert tried == {field.name for field in fields(Plan)}
    assert {where for where, _ in MUTANTS} > {"source.commit", "fork.behind", "externals.commit", "base.digest"}


@pytest.mark.parametrize(("where", "mutant"), MUTANTS, ids=[f"{n}-{where}" for n, (where, _) in enumerate(MUTANTS)])
def test_the_key_counts_what_decides_bytes_and_nothing_else(where: str, mutant: Plan) -> None:
    assert mutant != PLAN
    assert (mutant.key() == PLAN.key()) == outside(where)
    was, now = (json.loads(json.dumps(plan.to_json())) for plan in (PLAN, mutant))
    found = changes(was, now, Plan.outside_key())
    assert found
    assert any(change.in_key for change in found) != outside(where)
    assert changes(now, was, Plan.outside_key())


def test_what_is_null_differs_from_what_is_there() -> None:
    for name in ("fork", "toolkit"):
        mutant = replace(PLAN, **{name: None})
        was, now = (json.loads(json.dumps(plan.to_json())) for plan in (PLAN, mutant))
        assert mutant.key() != PLAN.key()
        assert all(
            change.now is None and change.in_key
            for change in changes(was, now, Plan.outside_key())
            if change.field != "fork.behind"
        )


TEXT = st.text(max_size=8)


@given(st.dictionaries(TEXT, TEXT, max_size=4), st.dictionaries(TEXT, TEXT, max_size=4), st.randoms())
def test_environments_have_one_key_each_in_whatever_order(
    one: dict[str, str], two: dict[str, str], order: random.Random
) -> None:
    keys = [replace(PLAN, environment=environment).key() for environment in (one, two)]
    assert (keys[0] == keys[1]) == (one == two)
    items = list(one.items())
    order.shuffle(items)
    assert replace(PLAN, environment=dict(items)).key() == keys[0]


@given(st.lists(TEXT, max_size=3), st.lists(TEXT, max_size=3))
def test_texts_never_run_into_each_other(one: list[str], two: list[str]) -> None:
    keys = [replace(PLAN, requirements=tuple(texts)).key() for texts in (one, two)]
    assert (keys[0] == keys[1]) == (one == two)


def test_the_key_is_what_it_was_when_it_was_written_down() -> None:
    written = json.loads(json.dumps(PLAN.to_json()))
    assert written["key"] == PLAN.key()
    assert len(PLAN.key()) == 64
    assert changes(written, json.loads(json.dumps(PLAN.to_json())), Plan.outside_key()) == ()


def test_a_fork_says_how_far_it_is() -> None:
    assert PLAN.fork is not None
    assert PLAN.fork.words() == "2 overlay, 12 behind upstream"
    assert replace(PLAN.fork, behind=-1).words() == "2 overlay, how far behind upstream is not known"
