"""The judgement: one item for each thing, each with its own word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.plan import Plan
from builders.planning import make_plan
from builders.preflight import Item, Status, collect, judge, refuse_if_unmet, request_for
from builders.preflight_tools import at_least, version_of
from builders.source import open_source
from builders.toolsearch import Host, Request
from qualify.errors import ExitCode, PreflightError, UnavailableError
from tests.unit.builders_support import facts, sdist_matrix, seen

HOST = Host("x86_64", 8, 64 << 30)
HEADER = {"path": "/usr/include/python3.12/Python.h", "version": "3.12.7"}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    folder = tmp_path_factory.mktemp("plans")
    loaded = sdist_matrix(folder)
    source = open_source(loaded, folder / "work")
    empty = make_plan(loaded, "x86_64-sm90", source=source, host=HOST, overrides={"TINY_DEVICE": "empty"})
    return {
        "sm90": make_plan(loaded, "x86_64-sm90", source=source, host=HOST),
        "sm121": make_plan(loaded, "aarch64-sm121", source=source, host=HOST),
        "empty": empty,
    }


@pytest.fixture
def plan(plans: dict[str, Plan]) -> Plan:
    return plans["sm90"]


def items(plan: Plan, *, follows: bool = False, **changes: Any) -> dict[str, Item]:
    found = judge(plan, facts(**changes), environment_follows=follows)
    assert len({item.name for item in found}) == len(found)
    return {item.name: item for item in found}


def refusing(plan: Plan, **changes: Any) -> dict[str, Status]:
    return {name: item.status for name, item in items(plan, **changes).items() if item.refuses}


def tools(**changes: dict[str, Any]) -> dict[str, Any]:
    return {**facts()["tools"], **changes}


def interpreter(**changes: Any) -> dict[str, Any]:
    return {**facts()["interpreter"], **changes}


def installed(**versions: str) -> dict[str, Any]:
    return interpreter(distributions=[{"name": n, "version": v, "requires": []} for n, v in versions.items()])


def test_where_everything_is_right_nothing_refuses(plan: Plan) -> None:
    found = items(plan)
    assert {item.status for item in found.values()} == {Status.FOUND}
    assert {"machine", "python", "nvcc", "ninja", "cmake", "c++", "git", "Python.h", "setuptools", "torch"} <= set(
        found
    )
    assert {"torch with CUDA", "external source thing", "memory", "disk"} <= set(found)
    refuse_if_unmet(tuple(found.values()))


def test_four_absences_are_told_apart(plan: Plan) -> None:
    found = items(
        plan,
        tools=tools(
            ninja={"on_path": [], "elsewhere": [seen("/opt/tools/bin/ninja", "1.12.1")]},
            nvcc={
                "on_path": [],
                "elsewhere": [seen("/usr/local/cuda/bin/nvcc", "release 13.0, V13.0.88", code=["sm_90"])],
            },
            cmake={"on_path": [], "elsewhere": []},
        ),
        headers={"own": [], "own_folders": ["/usr/include/python3.12"], "told": [], "elsewhere": []},
        interpreter=installed(setuptools="80.9.0", torch="2.14.0"),
    )
    assert (found["ninja"].status, found["ninja"].path) == (Status.NOT_ON_PATH, "/opt/tools/bin/ninja")
    assert found["ninja"].action == 'export PATH="/opt/tools/bin:$PATH"'
    assert found["nvcc"].status is Status.NOT_ON_PATH
    assert 'CUDACXX="/usr/local/cuda/bin/nvcc" CUDA_HOME="/usr/local/cuda"' in found["nvcc"].action
    assert found["cmake"].status is Status.ABSENT
    assert "install cmake" in found["cmake"].action
    assert found["Python.h"].status is Status.ABSENT
    assert "python3.12-dev" in found["Python.h"].action
    assert (found["wheel"].status, found["wheel"].action) == (Status.UNMET, "/venv/bin/python -m pip install 'wheel'")
    hook = found["requirements of the build backend"]
    assert (hook.status, hook.action) == (Status.NOT_LOOKED_AT, "because wheel is missing")


@pytest.mark.parametrize(
    ("on_path", "elsewhere", "status", "action"),
    [
        ([seen("/a/cmake", "cmake version 3.25.1")], [], Status.WRONG_VERSION, "3.25.1 is older than 3.26.1"),
        (
            [seen("/a/cmake", "cmake version 3.25.1")],
            [seen("/b/cmake", "cmake version 3.28.0")],
            Status.NOT_ON_PATH,
            "/a",
        ),
        ([], [seen("/b/cmake", "cmake version 3.25.1")], Status.WRONG_VERSION, "it is not on PATH"),
        ([seen("/a/cmake", "no number")], [], Status.WRONG_VERSION, "does not say its version"),
        ([{**seen("/a/cmake", "pyenv: cmake: command not found"), "status": 127}], [], Status.ABSENT, "does not run"),
        (
            [],
            [{**seen("/b/cmake", "error: no version of cmake is chosen"), "status": 1}],
            Status.ABSENT,
            "/b/cmake does not run (error: no version of cmake is chosen); install",
        ),
        (
            [{**seen("/a/cmake", "torn"), "status": 1}],
            [seen("/b/cmake", "cmake version 4.0.1")],
            Status.NOT_ON_PATH,
            "torn",
        ),
        ([seen("/a/cmake", "cmake version 3.26.1")], [seen("/b/cmake", "x")], Status.FOUND, ""),
    ],
)
def test_one_tool(
    plan: Plan, on_path: list[dict[str, Any]], elsewhere: list[dict[str, Any]], status: Status, action: str
) -> None:
    found = items(plan, tools=tools(cmake={"on_path": on_path, "elsewhere": elsewhere}))["cmake"]
    assert found.status is status
    assert action in found.action


def test_the_toolkit_itself_before_a_script_that_calls_its_nvcc(plan: Plan) -> None:
    script = {**seen("/usr/local/bin/nvcc", "release 13.0, V13.0.88", code=["sm_90"]), "marked": False}
    whole = seen("/usr/local/cuda/bin/nvcc", "release 13.0, V13.0.88", code=["sm_90"])
    both = items(plan, tools=tools(nvcc={"on_path": [], "elsewhere": [script, whole]}))["nvcc"]
    assert both.path == "/usr/local/cuda/bin/nvcc"
    alone = items(plan, tools=tools(nvcc={"on_path": [], "elsewhere": [script]}))["nvcc"]
    assert alone.action == 'export PATH="/usr/local/bin:$PATH" CUDACXX="/usr/local/bin/nvcc"'


def test_a_tool_that_the_collector_did_not_answer_for(plan: Plan) -> None:
    others = {name: found for name, found in facts()["tools"].items() if name != "ninja"}
    assert refusing(plan, tools=others) == {"ninja": Status.NOT_LOOKED_AT}


@pytest.mark.parametrize(
    ("output", "lists", "what"),
    [
        ("release 12.8, V12.8.93", {"code": ["sm_90"]}, "older than 12.9"),
        ("release 13.1, V13.1.20", {"code": ["sm_90"]}, "its CUDA is 13.1.20, the target's 13.0.3"),
        ("release 13.0, V13.0.88", {"code": ["sm_100", "sm_90a"]}, "does not know sm_90; it knows sm_100, sm_90a"),
        ("release 13.0, V13.0.88", {}, "does not list its architectures"),
        ("something else", {"code": ["sm_90"]}, "does not say its version"),
    ],
)
def test_an_nvcc_that_does_not_fit(plan: Plan, output: str, lists: dict[str, list[str]], what: str) -> None:
    found = items(plan, tools=tools(nvcc={"on_path": [seen("/c/nvcc", output, **lists)], "elsewhere": []}))["nvcc"]
    assert found.status is Status.WRONG_VERSION
    assert what in found.action


@pytest.mark.parametrize(
    ("tool", "output", "version"),
    [
        ("c++", "c++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022 Free", "12.2.0"),
        ("c++", "g++ (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0", "13.3.0"),
        ("c++", "g++ (GCC) 13.3.1 20240611 (Red Hat 13.3.1-2)", "13.3.1"),
        ("c++", "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu", "14.0.6"),
        ("cmake", "cmake version 3.31.6\n\nCMake suite", "3.31.6"),
        ("ninja", "1.11.1.git.kitware.jobserver-1", "1.11.1"),
        ("git", "git version 2.39.5", "2.39.5"),
        ("cargo", "cargo 1.95.0 (f2d3ce0bd 2026-03-21)", "1.95.0"),
        ("nvcc", "Built on Wed\nCuda compilation tools, release 13.0, V13.0.88\nBuild x", "13.0.88"),
        ("nvcc", "release 13.0", "13.0"),
        ("nvcc", "cicc 13.0", ""),
        ("cmake", "", ""),
    ],
)
def test_versions_in_what_tools_print(tool: str, output: str, version: str) -> None:
    assert version_of(tool, output) == version


@pytest.mark.parametrize(
    ("version", "minimum", "answer"),
    [("3.26.1", "3.26.1", True), ("3.9", "3.26", False), ("13", "13.0", True), ("x", "1", False), ("1", "x", False)],
)
def test_versions_are_compared_as_numbers(version: str, minimum: str, answer: bool) -> None:
    assert at_least(version, minimum) is answer


def test_clang_is_not_measured_by_gccs_numbers(plan: Plan) -> None:
    clang = {"on_path": [seen("/usr/bin/c++", "Debian clang version 11.0.6")], "elsewhere": []}
    assert refusing(plan, tools=tools(**{"c++": clang})) == {}
    gcc = {"on_path": [seen("/usr/bin/c++", "c++ (Debian 12.2.0-14) 12.2.0")], "elsewhere": []}
    assert refusing(plan, tools=tools(**{"c++": gcc})) == {"c++": Status.WRONG_VERSION}


def test_a_compiler_that_compiles_nothing(plan: Plan) -> None:
    torn = {**seen("/usr/bin/c++", "c++ (Debian 13.2.0-1) 13.2.0"), "compiles": {"status": 1, "output": "no vector"}}
    found = items(plan, tools=tools(**{"c++": {"on_path": [torn], "elsewhere": []}}))["c++"]
    assert found.status is Status.WRONG_VERSION
    assert found.action.startswith("it compiles nothing: no vector; give it what it misses")


def test_an_emulator_that_containers_do_not_see(plans: dict[str, Plan]) -> None:
    plan = replace(plans["sm121"], how="emulate")
    seen_there = items(plan, emulated=["aarch64"], emulated_in_containers=["aarch64"])["machine"]
    assert (seen_there.status, seen_there.version) == (Status.FOUND, "x86_64, emulating aarch64")
    outside = items(plan, emulated=["aarch64"], emulated_in_containers=[])["machine"]
    assert outside.status is Status.UNMET
    assert "flag F" in outside.action


def test_a_compiler_that_a_variable_names_and_that_is_not_there(plan: Plan) -> None:
    found = items(plan, tools=tools(**{"c++": {"named": "g++-99", "on_path": [], "elsewhere": []}}))["c++"]
    assert found.status is Status.ABSENT
    assert found.action.startswith("CXX names g++-99, which is not there; unset it, or install")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"own": [HEADER]}, Status.FOUND),
        ({"told": [HEADER]}, Status.FOUND),
        ({"elsewhere": [HEADER]}, Status.NOT_ON_PATH),
        ({"own": [{**HEADER, "version": "3.11.2"}]}, Status.WRONG_VERSION),
        ({"own": [{**HEADER, "version": "3.11.2"}], "elsewhere": [HEADER]}, Status.NOT_ON_PATH),
        ({"elsewhere": [{**HEADER, "version": "3.11.2"}]}, Status.ABSENT),
        ({"own": [{**HEADER, "version": "3.120.1"}]}, Status.WRONG_VERSION),
    ],
)
def test_headers(plan: Plan, headers: dict[str, Any], status: Status) -> None:
    whole = {"own": [], "own_folders": ["/usr/include/python3.12"], "told": [], "elsewhere": [], **headers}
    assert items(plan, headers=whole)["Python.h"].status is status


def test_no_interpreter(plan: Plan) -> None:
    found = refusing(plan, interpreter=None, interpreter_problem="no such file")
    assert found["python"] is Status.ABSENT
    assert found["Python.h"] is Status.NOT_LOOKED_AT
    assert found["setuptools"] is Status.NOT_LOOKED_AT
    assert found["torch with CUDA"] is Status.NOT_LOOKED_AT


def test_a_python_that_the_target_is_not_for(plan: Plan) -> None:
    assert refusing(plan, interpreter=interpreter(version="3.10.4"))["python"] is Status.WRONG_VERSION


@pytest.mark.parametrize(
    ("change", "status", "what"),
    [
        ({"cuda": None, "version": "2.14.0+cpu"}, Status.WRONG_VERSION, "has no CUDA"),
        ({"cuda": "12.9"}, Status.WRONG_VERSION, "torch's CUDA is 12.9, the toolkit's 13.0.3"),
        ({"stated": False}, Status.NOT_LOOKED_AT, "does not say"),
    ],
)
def test_a_torch_that_does_not_fit(plan: Plan, change: dict[str, Any], status: Status, what: str) -> None:
    torch = {**facts()["interpreter"]["torch"], **change}
    found = items(plan, interpreter=interpreter(torch=torch))["torch with CUDA"]
    assert found.status is status
    assert what in found.action


def test_no_torch(plan: Plan) -> None:
    assert refusing(plan, interpreter=interpreter(torch=None)) == {"torch with CUDA": Status.ABSENT}


def test_requirements_are_listed_all_at_once_with_versions(plan: Plan) -> None:
    found = items(plan, interpreter=installed(setuptools="66.1.1"), hook=None)
    assert (found["setuptools"].status, found["setuptools"].version) == (Status.UNMET, "66.1.1")
    assert (found["torch"].status, found["torch"].expected) == (Status.UNMET, "torch==2.14.0")
    assert found["wheel"].status is Status.UNMET
    assert found["requirements of the build backend"].action == "because setuptools, torch, wheel are missing"


def test_a_requirement_of_a_requirement_says_who_needs_it(plan: Plan) -> None:
    distributions = [*facts()["interpreter"]["distributions"]]
    distributions[0] = {**distributions[0], "requires": ["jaraco-x>=2"]}
    found = items(plan, interpreter=interpreter(distributions=distributions))["jaraco-x"]
    assert found.expected == "jaraco-x>=2 (needed by setuptools>=77)"


def test_a_requirement_that_is_named_like_a_tool_has_a_name_of_its_own(plan: Plan) -> None:
    found = items(replace(plan, requirements=("ninja",)), interpreter=installed())
    assert found["ninja"].status is Status.FOUND
    assert found["ninja (requirement)"].status is Status.UNMET


@pytest.mark.parametrize(
    ("hook", "asked", "expected"),
    [
        ({"requirements": ["gone>=1"], "failed": "", "seconds": 1}, True, {"gone": Status.UNMET}),
        (
            {"requirements": [], "failed": "a\ntorn", "seconds": 1},
            True,
            "because get_requires_for_build_wheel failed: torn",
        ),
        (None, True, "the hook gave no answer"),
    ],
)
def test_what_the_backend_asks_for_besides(plan: Plan, hook: Any, asked: bool, expected: Any) -> None:
    found = {name: item for name, item in items(plan, hook=hook, hook_asked=asked).items() if item.refuses}
    if isinstance(expected, dict):
        assert {name: item.status for name, item in found.items()} == expected
    else:
        assert [item.action for item in found.values()] == [expected]


def test_a_hook_that_was_not_to_run_does_not_refuse(plan: Plan) -> None:
    found = items(plan, hook=None, hook_asked=False)["requirements of the build backend"]
    assert (found.status, found.refuses) == (Status.NOT_LOOKED_AT, False)


def test_variables_that_replace_compiled_code(plan: Plan) -> None:
    found = items(plan, environment={"TINY_USE_PRECOMPILED": "1"})["TINY_USE_PRECOMPILED"]
    assert (found.status, found.expected) == (Status.UNMET, "not set")
    assert found.action.startswith("unset TINY_USE_PRECOMPILED")


def test_external_sources(plan: Plan, tmp_path: Path) -> None:
    name = "external source thing"
    url = "https://example.org/thing.git"
    silent = items(plan, remotes={url: {"answers": False, "said": "could not resolve"}})[name]
    assert silent.status is Status.ABSENT
    assert silent.expected == f"{url} at v1.2"
    assert "external_sources: {thing: FOLDER}" in silent.action
    assert "THING_SRC_DIR" in silent.action
    assert "could not resolve" in silent.action
    assert refusing(plan, remotes={}) == {name: Status.ABSENT}
    copied = replace(plan, externals=(replace(plan.externals[0], copy="/x"),))
    assert items(copied, remotes={})[name].path == "/x"
    faulty = replace(plan, externals=(replace(plan.externals[0], copy="/x", fault="is at commit 1"),))
    assert refusing(faulty, remotes={}) == {name: Status.UNMET}


def test_cmake_that_was_not_read_refuses(plan: Plan) -> None:
    assert refusing(replace(plan, unread=("a.cmake:3: torn",))) == {"a.cmake": Status.NOT_LOOKED_AT}


@pytest.mark.parametrize(
    ("memory", "refused"),
    [
        ({"total": 64 << 30, "available": 2 << 30, "limit": None}, {"memory": Status.UNMET}),
        ({"total": 64 << 30, "available": 60 << 30, "limit": 1 << 30}, {"memory": Status.UNMET}),
        ({"total": None, "available": None, "limit": None}, {"memory": Status.NOT_LOOKED_AT}),
    ],
)
def test_memory(plan: Plan, memory: dict[str, Any], refused: dict[str, Status]) -> None:
    assert refusing(plan, memory=memory) == refused


def test_disk(plan: Plan) -> None:
    assert refusing(plan, disk={"/scratch": 1000}) == {"disk": Status.UNMET}
    assert refusing(plan, disk={"/scratch": None}) == {"disk": Status.NOT_LOOKED_AT}


@pytest.mark.parametrize(
    ("how", "machine", "emulated", "status", "what"),
    [
        ("native", "x86_64", [], Status.UNMET, "a native build for aarch64 cannot happen on this x86_64 machine"),
        ("native", "aarch64", [], Status.FOUND, ""),
        ("emulate", "x86_64", ["aarch64"], Status.FOUND, ""),
        ("emulate", "x86_64", ["arm"], Status.ABSENT, "register qemu-aarch64"),
        ("emulate", "aarch64", [], Status.FOUND, ""),
        ("cross", "x86_64", [], Status.FOUND, ""),
    ],
)
def test_machines(
    plans: dict[str, Plan], how: Any, machine: str, emulated: list[str], status: Status, what: str
) -> None:
    plan = replace(plans["sm121"], how=how)
    found = items(plan, machine=machine, emulated=emulated)["machine"]
    assert found.status is status
    assert what in found.action


def test_a_cross_build_looks_for_its_own_compiler(plans: dict[str, Plan]) -> None:
    found = items(plans["sm121"], tools=tools(**{"c++": {"on_path": [], "elsewhere": []}}))["c++"]
    assert found.action.startswith("install aarch64-linux-gnu-g++")


def test_the_empty_shape_demands_neither_cuda_nor_torch_nor_sources(plans: dict[str, Plan]) -> None:
    found = items(plans["empty"], tools={"git": facts()["tools"]["git"]}, remotes={})
    assert not [item for item in found.values() if item.refuses]
    assert not {"nvcc", "c++", "ninja", "Python.h", "torch with CUDA", "external source thing"} & set(found)


def test_before_the_isolated_environment_is_made_what_it_brings_does_not_refuse(plan: Plan) -> None:
    bare = tools(nvcc={"on_path": [], "elsewhere": []})
    found = items(replace(plan, requirements=("ninja", "torch==2.14.0")), follows=True, tools=bare, hook=None)
    for name in ("nvcc", "ninja", "torch", "torch with CUDA"):
        assert (found[name].status, found[name].refuses) == (Status.NOT_LOOKED_AT, False), name
    assert not [item for item in found.values() if item.refuses]


def test_the_refusal_holds_the_whole_list(plan: Plan) -> None:
    found = judge(plan, facts(environment={"TINY_USE_PRECOMPILED": "1"}, disk={"/s": 5}, interpreter=installed()))
    with pytest.raises(PreflightError) as caught:
        refuse_if_unmet(found)
    assert caught.value.exit_code is ExitCode.PREFLIGHT
    for text in (
        "5 things are not as the build needs them;",
        "TINY_USE_PRECOMPILED: unmet",
        "setuptools: unmet",
        "torch: unmet",
        "disk: unmet",
    ):
        assert text in str(caught.value)


def test_one_line_for_each_item() -> None:
    item = Item("cmake", Status.WRONG_VERSION, "/usr/bin/cmake", "3.25.1", "3.26.1 or newer", "install one")
    assert item.render() == "cmake: wrong version (3.25.1 at /usr/bin/cmake); expected 3.26.1 or newer; install one"
    assert {"name", "status", "path", "version", "action"} <= set(item.to_json())


class Place:
    """A place that answers with prepared facts, and remembers what it was asked."""

    def __init__(self, **changes: Any) -> None:
        self.facts = facts(hook=None, **changes)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, arguments: Sequence[str]) -> str:
        assert arguments[0] == "-c"
        self.asked.append(json.loads(arguments[2]))
        answer = {"requirements": ["gone"], "failed": "", "seconds": 0} if self.asked[-1]["hook"] else None
        return "noise\n" + json.dumps({**self.facts, "hook": answer}) + "\n"


def test_the_hook_is_asked_once_the_static_requirements_are_met(plan: Plan) -> None:
    place = Place()
    found = collect(request_for(plan, tree="/src", caller={}), place)
    assert [bool(asked["hook"]) for asked in place.asked] == [False, True]
    assert place.asked[1]["hook"] == {"tree": "/src", "backend": "setuptools.build_meta", "backend_path": []}
    assert found["hook"]["requirements"] == ["gone"]


def test_the_hook_is_not_asked_while_one_is_missing(plan: Plan) -> None:
    place = Place(interpreter=installed(setuptools="80"))
    found = collect(request_for(plan, tree="/src", caller={}), place)
    assert len(place.asked) == 1
    assert (found["hook"], found["hook_asked"]) == (None, True)


def test_the_hook_is_not_asked_without_a_tree(plan: Plan) -> None:
    place = Place()
    assert collect(request_for(plan, caller={}), place)["hook_asked"] is False
    assert len(place.asked) == 1


@pytest.mark.parametrize("answer", ["", "Traceback\n", "[]\n", '{"version": 99}\n'])
def test_a_place_that_gives_no_facts(answer: str) -> None:
    with pytest.raises(UnavailableError, match="gave no facts"):
        collect(Request(), lambda _: answer)


def test_the_request_holds_the_plan_and_the_callers_refused_variables(plan: Plan) -> None:
    caller = {"TINY_USE_PRECOMPILED": "1", "TINY_OTHER": "x"}
    request = request_for(plan, python="/p", look_in=["/t"], environment={"PATH": "/e"}, caller=caller)
    assert request.environment["PATH"] == "/e"
    assert request.environment["TINY_USE_PRECOMPILED"] == "1"
    assert "TINY_OTHER" not in request.environment
    assert request.environment["TORCH_CUDA_ARCH_LIST"] == "9.0"
    assert request.watch == ("TINY_USE_PRECOMPILED*",)
    assert request.look_in[:2] == ("/t", "/t/bin")
    assert [tool["name"] for tool in request.tools] == ["nvcc", "ninja", "cmake", "c++", "git"]
    assert request.remotes == ("https://example.org/thing.git",)
    assert request_for(plan, network=False, caller={}).remotes == ()
