"""The plan: what is in it, what its key counts and what not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.plan import Plan
from builders.planning import jobs_for, make_plan
from builders.source import open_source
from builders.source_model import Source
from builders.toolkit import PINS
from builders.toolsearch import Host
from qualify.errors import UsageError
from qualify.matrix import LoadedMatrix, load
from tests.unit.builders_support import FILES, sdist_matrix, write_tree

GB = 10**9
HOST = Host("x86_64", 8, 64 * GB)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedMatrix, Source]:
    folder = tmp_path_factory.mktemp("plan")
    loaded = sdist_matrix(folder)
    return loaded, open_source(loaded, folder / "work")


def planned(opened: tuple[LoadedMatrix, Source], target: str = "x86_64-sm90", **changes: Any) -> Plan:
    loaded, source = opened
    return make_plan(loaded, target, **{"source": source, "host": HOST, **changes})


def test_everything_that_decides_the_bytes_is_in_it(opened: tuple[LoadedMatrix, Source]) -> None:
    facts = planned(opened).to_json()
    sha256 = facts["source"].pop("sha256")
    assert len(sha256) == 64
    expected = {
        "version": 2,
        "project": "tiny",
        "target": "x86_64-sm90",
        "machine": "x86_64",
        "compute_capability": "9.0",
        "python": ("3.11", "3.12", "3.13", "3.14"),
        "how": "native",
        "engine": "auto",
        "shape": "",
        "expects_device_code": True,
        "label": "",
        "arch_variable": "TORCH_CUDA_ARCH_LIST",
        "arch_list": "9.0",
        "source": {
            "kind": "sdist",
            "commit": "4ba787ec9",
            "commit_from": "tiny/_version.py",
            "version": "1.0",
            "origin": "tiny-1.0.tar.gz",
        },
        "architectures": ("9.0",),
        "patches": (),
        "fork": None,
        "crates": (),
        "base": {"image": "", "bootstrap": "debian-13", "digest": ""},
        "toolkit": {
            "version": "13.0.3",
            "requirement": "cuda-toolkit[nvcc,cudart,cccl]==13.0.3",
            "exact": tuple(f"{name}=={version}" for name, version in PINS["13.0.3"].items()),
        },
        "overrides": (),
        "locked": (),
        "repair": "auditwheel",
        "compiler_cache": "ccache",
        "notes": (),
        "torch": "torch==2.14.0",
        "torch_cuda": True,
        "requirements": ("setuptools>=77", "torch==2.14.0", "wheel"),
        "environment": {
            "SETUPTOOLS_SCM_PRETEND_METADATA": '{node="g4ba787ec9", dirty=false}',
            "TINY_DEVICE": "cuda",
            "TORCH_CUDA_ARCH_LIST": "9.0",
        },
        "jobs": 8,
        "unread": (),
    }
    assert {name: facts[name] for name in expected} == expected
    assert [external["name"] for external in facts["externals"]] == ["thing"]
    assert facts["holes"] == []  # of the plan itself; what the store lacks is looked up apart
    assert facts["key"] == planned(opened).key()
    json.dumps(facts)


def test_another_target(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened, "aarch64-sm121")
    assert (plan.machine, plan.how, plan.label, plan.arch_list) == ("aarch64", "cross", "sm121", "12.1")
    assert plan.toolkit is not None
    assert plan.toolkit.requirement == "cuda-toolkit[nvcc,cudart,cccl]==13.0.*"
    assert plan.base.image == "quay.io/pypa/manylinux_2_28_aarch64"
    assert next(tool for tool in plan.tools if tool.name == "c++").commands == ("aarch64-linux-gnu-g++",)


def test_an_unknown_target(opened: tuple[LoadedMatrix, Source]) -> None:
    with pytest.raises(UsageError, match="no target sm90") as caught:
        planned(opened, "sm90")
    assert caught.value.expected == "one of x86_64-sm90, aarch64-sm121"


def test_an_unknown_target_is_refused_before_anything_is_fetched(opened: tuple[LoadedMatrix, Source]) -> None:
    said: list[str] = []
    with pytest.raises(UsageError, match="no target sm90"):
        make_plan(opened[0], "sm90", progress=said.append)
    assert said == []


@pytest.mark.parametrize(
    "changes",
    [
        {"how": "emulate"},
        {"engine": "docker"},
        {"arch_list": "9.0a"},
        {"overrides": {"TINY_DEVICE": "cpu"}},
        {"overrides": {"CXXFLAGS": "-O1"}},
    ],
)
def test_the_key_changes_with_what_decides_the_bytes(
    opened: tuple[LoadedMatrix, Source], changes: dict[str, Any]
) -> None:
    assert planned(opened, **changes).key() != planned(opened).key()


def test_the_key_does_not_change_with_the_machine_that_runs_it(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened)
    assert planned(opened, host=Host("x86_64", 2, 4 * GB)).key() == plan.key()
    copied = replace(plan, externals=tuple(replace(e, copy="/somewhere", fault="x") for e in plan.externals))
    assert copied.key() == plan.key()


def test_the_key_does_not_change_with_the_folder_of_the_source(
    opened: tuple[LoadedMatrix, Source], tmp_path: Path
) -> None:
    loaded, _ = opened
    again = open_source(loaded, tmp_path / "elsewhere")
    assert make_plan(loaded, "x86_64-sm90", source=again, host=HOST).key() == planned(opened).key()


def test_a_source_is_opened_where_none_is_given(opened: tuple[LoadedMatrix, Source]) -> None:
    loaded, _ = opened
    assert make_plan(loaded, "x86_64-sm90", host=HOST).key() == planned(opened).key()


def test_the_builds_environment_has_the_jobs(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened)
    assert plan.build_environment() == {**plan.environment, "MAX_JOBS": "8"}


def test_nothing_of_the_callers_environment_gets_in(
    opened: tuple[LoadedMatrix, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = planned(opened)
    monkeypatch.setenv("TINY_DEVICE", "cpu")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "5.0")
    assert planned(opened) == before


def test_local_copies_come_from_the_local_settings(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    write_tree(tmp_path, {"copies/thing/sub/a.txt": "a"})
    local = tmp_path / "matrix.local.yaml"
    local.write_text("version: 1\nexternal_sources: {thing: copies/thing}\n", encoding="utf-8")
    plan = make_plan(load(loaded.path), "x86_64-sm90", host=HOST)
    assert plan.holes == ()
    assert [external.copy for external in plan.externals] == [str(tmp_path / "copies/thing")]
    (tmp_path / "copies/thing/sub/a.txt").unlink()
    (hole,) = make_plan(load(loaded.path), "x86_64-sm90", host=HOST).holes
    assert "git submodule update --init sub" in hole


def test_the_empty_shape_needs_neither_toolkit_nor_sources(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened, overrides={"TINY_DEVICE": "empty"})
    assert plan.shape == "the empty shell for tests"
    assert (plan.toolkit, plan.torch_cuda, plan.expects_device_code) == (None, False, False)
    assert [tool.name for tool in plan.tools] == ["git"]
    assert plan.needed_externals == ()
    assert plan.holes == ()
    assert plan.environment["TINY_RUST"] == "0"
    assert "TORCH_CUDA_ARCH_LIST" not in plan.environment


def test_what_is_set_by_hand_wins_over_a_shape(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened, overrides={"TINY_DEVICE": "empty", "TINY_RUST": "1"})
    assert plan.environment["TINY_RUST"] == "1"


def test_branches_of_cmake_follow_the_environment(tmp_path: Path) -> None:
    cmake = 'if(TINY_DEVICE STREQUAL "cpu")\nFetchContent_Declare(dnn GIT_REPOSITORY u GIT_TAG t)\nendif()\n'
    loaded = sdist_matrix(tmp_path, {**FILES, "CMakeLists.txt": cmake})
    assert make_plan(loaded, "x86_64-sm90", host=HOST).needed_externals == ()
    (external,) = make_plan(loaded, "x86_64-sm90", host=HOST, overrides={"TINY_DEVICE": "cpu"}).needed_externals
    assert external.name == "dnn"


@pytest.mark.parametrize(
    ("cores", "memory", "jobs"), [(16, 64 * GB, 16), (16, 12 * GB, 4), (2, 64 * GB, 2), (8, GB, 1), (1, 64 * GB, 1)]
)
def test_jobs_from_cores_and_memory(cores: int, memory: int, jobs: int) -> None:
    assert jobs_for(Host("x86_64", cores, memory), 3 * GB) == jobs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"arch_list": " "}, "the arch list is empty"),
        ({"arch_list": "9.0;sm_90"}, "'sm_90' is no architecture of TORCH_CUDA_ARCH_LIST"),
        ({"overrides": {"TORCH_CUDA_ARCH_LIST": ""}}, "the arch list is empty"),
        ({"overrides": {"TORCH_CUDA_ARCH_LIST": "bogus"}}, "'bogus' is no architecture of TORCH_CUDA_ARCH_LIST"),
    ],
)
def test_an_arch_list_that_names_nothing(
    opened: tuple[LoadedMatrix, Source], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        planned(opened, **options)


def test_the_variable_of_the_arch_list_set_by_hand_is_the_arch_list(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened, overrides={"TORCH_CUDA_ARCH_LIST": "8.0+PTX"}, arch_list="9.0")
    assert (plan.arch_list, plan.environment["TORCH_CUDA_ARCH_LIST"]) == ("8.0+PTX", "8.0+PTX")


def test_jobs_set_by_hand_are_the_jobs_and_no_other_build(opened: tuple[LoadedMatrix, Source]) -> None:
    plan = planned(opened, overrides={"MAX_JOBS": "1"})
    assert (plan.jobs, plan.build_environment()["MAX_JOBS"], plan.key()) == (1, "1", planned(opened).key())
    with pytest.raises(UsageError, match="'0' is no number of jobs"):
        planned(opened, overrides={"MAX_JOBS": "0"})
