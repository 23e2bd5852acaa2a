"""The stations in their order, on an engine whose steps are functions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from builders import pipeline, proof_collector, receipts
from builders.engines import EngineInfo, Room, Say, Step
from builders.host import process_mark
from builders.pipeline import BuildRequest, Built, build, room_machine
from builders.plan import Plan
from builders.planning import make_plan
from qualify.errors import BuildError, PreflightError, UnavailableError, UsageError
from qualify.matrix import LoadedMatrix
from qualify.opening import read_wheel
from tests.support.engines import ScriptedEngine
from tests.support.wheel import extension, write_wheel
from tests.unit.builders_support import facts, sdist_matrix

PREPARED = {
    "python": "/env/venv/bin/python",
    "python_version": "3.12.7",
    "purelib": "/env/venv/lib/python3.12/site-packages",
    "cuda_home": "/env/cuda",
    "distributions": {"setuptools": "80.9.0", "nvidia-cuda-nvcc": "13.0.88"},
    "provided_libraries": [],
    "hashes": {"setuptools": "5" * 64},
    "repair_python": "",
    "reused": False,
}
TARGET = "x86_64-sm90"
Act = Callable[[Room, Step, Say], int]
SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def prints(document: Mapping[str, Any]) -> Act:
    def act(room: Room, step: Step, say: Say) -> int:
        say("something for the log")
        say(json.dumps(document))
        return 0

    return act


def makes_wheel(**options: Any) -> Act:
    def act(room: Room, step: Step, say: Say) -> int:
        say("[1/2] Building CUDA object a.o")
        say("[2/2] Linking CXX shared module _C.abi3.so")
        settings = {
            "name": "tiny",
            "version": "1.0",
            "tag": "cp312-cp312-linux_x86_64",
            "commit": "g4ba787ec9",
            **options,
        }
        write_wheel(Path(room.paths.out), **settings)
        return 0

    return act


def fails(*lines: str, code: int = 1) -> Act:
    def act(room: Room, step: Step, say: Say) -> int:
        for line in lines:
            say(line)
        return code

    return act


def proves(room: Room, step: Step, say: Say) -> int:
    """Runs the collector for real, as if one object that was compiled here defined all that the wheel exports."""
    request = json.loads(step.command[-1])
    found = proof_collector.collect(request["tree"], request["out"], 0.0)
    for member in found["members"]:
        member.update(twin="build/lib/" + member["name"], exports=1, exports_missing=[], exports_missing_count=0)
        member.update(containers_missing=0, problem="")
    found["objects"] = [{"path": "build/temp/a.o", "sha256": "6" * 64}]
    say(json.dumps(found))
    return 0


def ready(**script: Act) -> dict[str, Act]:
    return {
        "environment": prints(PREPARED),
        "preflight": prints(good_facts()),
        "clock": lambda room, step, say: say("1796000000.5") or 0,
        "ccache": fails(code=1),
        "compile": makes_wheel(),
        "proof": proves,
        **script,
    }


def good_facts(**changes: Any) -> dict[str, Any]:
    hook = {"requirements": [], "failed": "", "seconds": 0.1}
    return facts(**{"hook": hook, **changes})


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedMatrix:
    (tmp_path / "matrix").mkdir()
    copy = tmp_path / "thing"
    (copy / "sub").mkdir(parents=True)
    (copy / "sub" / "file").write_text("x")
    (tmp_path / "matrix" / "matrix.local.yaml").write_text(f"version: 1\nexternal_sources: {{thing: {copy}}}\n")
    return sdist_matrix(tmp_path / "matrix")


class Builder:
    def __init__(self, loaded: LoadedMatrix, folder: Path) -> None:
        self.loaded = loaded
        self.folder = folder
        self.out = folder / "out"
        self.stderr = io.StringIO()
        self.engine = ScriptedEngine(folder / "engine")

    def __call__(self, script: Mapping[str, Act], target: str = TARGET, **options: Any) -> Built:
        self.engine = ScriptedEngine(self.folder / "engine", script)
        request = BuildRequest(target=target, out=self.out, **options)
        return build(self.loaded, request, self.stderr, self.engine)

    @property
    def steps(self) -> list[str]:
        return [step.name for step in self.engine.ran]

    @property
    def compiled(self) -> Step:
        return next(step for step in self.engine.ran if step.name == "compile")

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir())


@pytest.fixture
def builder(loaded: LoadedMatrix, tmp_path: Path) -> Builder:
    return Builder(loaded, tmp_path)


def test_a_wheel_its_log_and_its_receipt(builder: Builder) -> None:
    built = builder(ready())
    steps = ["preflight", "environment", "clock", "preflight", "preflight", "ccache", "measure", "compile", "proof"]
    assert builder.steps == steps
    name = "tiny-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert builder.left == sorted([name, f"{name}.log", f"{name}.receipt.json", f"{TARGET}.log"])
    assert read_wheel(built.wheel).problems == ()
    log = built.log.read_text()
    assert "[2/2] Linking CXX shared module _C.abi3.so" in log
    assert "== compile: " in log
    assert "[2/2] Linking" in builder.stderr.getvalue()


def test_the_receipt_says_what_it_was_made_from_and_what_came_out(builder: Builder) -> None:
    built = builder(ready(), overrides={"TINY_MORE": "1"})
    document = json.loads(built.receipt.read_text())
    facts = read_wheel(built.wheel)
    assert document["version"] == receipts.RECEIPT_VERSION
    assert document["wheel"] == {
        "filename": built.wheel.name,
        "sha256": facts.sha256,
        "size": facts.size,
        "made_as": "tiny-1.0-cp312-cp312-linux_x86_64.whl",
    }
    assert document["key"] == document["plan"]["key"]
    assert document["plan"]["source"]["commit"] == "4ba787ec9"
    assert document["architectures"] == [
        {
            "member": "tiny/_C.abi3.so",
            "requested": ["9.0"],
            "emitted": {"sm_90 (cubin)": "compiled for it"},
            "served": {"9.0": "sm_90 (cubin): compiled for it"},
            "toolkits": ["13.0"],
        }
    ]
    assert document["versions"]["commit"] == "same"
    assert document["environment"]["distributions"] == {
        "nvidia-cuda-nvcc": {"version": "13.0.88", "sha256": ""},
        "setuptools": {"version": "80.9.0", "sha256": "5" * 64},
    }
    assert document["proof"]["members"][0]["provenance"] == "compiled here"
    jsonschema.validate(document, json.loads((SCHEMAS / "receipt.schema.json").read_text()))
    assert document["tools"]["nvcc"] == {"path": "/cuda/bin/nvcc", "version": "release 13.0, V13.0.88"}
    assert document["engine"]["name"] == "scripted"
    assert document["engine"]["image"] == "sha256:" + "5" * 64
    assert document["deviations"] == ["--set TINY_MORE"]
    assert document["log"] == built.log.name
    assert set(document["seconds"]) >= {"source", "environment", "preflight", "compile"}


def test_the_compile_has_the_plans_variables_and_no_network(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLERS_OWN", "1")
    builder(ready())
    step = builder.compiled
    assert not step.prepares
    assert step.command[0] == PREPARED["python"]
    assert "--no-build-isolation" in step.command
    assert "--no-index" in step.command
    variables = step.environment
    assert variables["CUDA_HOME"] == "/env/cuda"
    assert variables["CUDACXX"] == "/env/cuda/bin/nvcc"
    assert variables["PATH"].startswith("/env/venv/bin:/env/cuda/bin:/usr/local/sbin:")
    assert variables["TORCH_CUDA_ARCH_LIST"] == "9.0"
    assert variables["TINY_DEVICE"] == "cuda"
    assert "CALLERS_OWN" not in variables
    assert int(variables["MAX_JOBS"]) >= 1
    assert [s.name for s in builder.engine.ran if s.prepares] == ["environment"]


def test_a_local_copy_of_an_external_source_lies_in_the_room(builder: Builder) -> None:
    seen: list[str] = []

    def compile_(room: Room, step: Step, say: Say) -> int:
        seen.append((Path(step.environment["THING_SRC_DIR"]) / "sub" / "file").read_text())
        return makes_wheel()(room, step, say)

    builder(ready(compile=compile_))
    assert seen == ["x"]


def test_nothing_is_compiled_twice(builder: Builder) -> None:
    first = builder(ready())
    again = builder(ready(compile=fails("not to be reached")))
    assert (again.wheel, again.reused, builder.steps) == (first.wheel, True, [])
    assert "nothing to do" in builder.stderr.getvalue()


@pytest.mark.parametrize("options", [{"rebuild": True}, {"arch_list": "9.0a"}, {"overrides": {"X": "1"}}])
def test_it_is_compiled_again_when_asked_or_when_the_plan_is_another(builder: Builder, options: dict[str, Any]) -> None:
    builder(ready())
    assert not builder(ready(), **options).reused


def test_it_is_compiled_again_when_the_wheel_is_not_the_receipts(builder: Builder) -> None:
    built = builder(ready())
    built.wheel.write_bytes(built.wheel.read_bytes() + b" ")
    assert not builder(ready()).reused
    built.receipt.write_text("{}")
    assert not builder(ready()).reused


def test_the_preflight_refuses_before_anything_is_installed(builder: Builder) -> None:
    lacking = good_facts()
    lacking["tools"]["git"] = {"on_path": [], "elsewhere": []}
    with pytest.raises(PreflightError) as caught:
        builder(ready(preflight=prints(lacking)))
    assert caught.value.exit_code == 8
    assert "git: absent" in caught.value.what
    assert builder.steps == ["preflight"]
    assert builder.left == [f"{TARGET}.log"]


def test_what_the_plan_refuses_is_told_at_once_before_anything_is_fetched_or_made(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(*arguments: Any, **options: Any) -> None:
        raise AssertionError("nothing is fetched for a build that can't begin")

    monkeypatch.setenv("TINY_USE_PRECOMPILED", "1")
    monkeypatch.setattr(pipeline, "prefetch", fetched)
    copy = builder.folder / "thing" / "sub"
    (copy / "file").unlink()
    copy.rmdir()
    planned = make_plan

    def with_unread(*arguments: Any, **options: Any) -> Plan:
        return replace(planned(*arguments, **options), unread=("CMakeLists.txt:7: a name that is computed",))

    monkeypatch.setattr(pipeline, "make_plan", with_unread)
    with pytest.raises(PreflightError) as caught:
        builder(ready())
    assert caught.value.exit_code == 8
    first, *said = caught.value.what.split("\n")
    assert first == "3 things are not as the build needs them; nothing was compiled"
    assert [line.split(": ")[0].strip() for line in said] == [
        "TINY_USE_PRECOMPILED",
        "external source thing",
        "CMakeLists.txt",
    ]
    assert builder.engine.asked == []
    assert builder.steps == []


def test_what_only_the_place_tells_is_told_there(builder: Builder) -> None:
    with pytest.raises(PreflightError, match="OTHER"):
        builder(ready(preflight=prints(good_facts(environment={"OTHER": "1"}))))
    assert len(builder.engine.asked) == 1


def test_an_environment_that_cannot_be_made_is_no_failed_compile(builder: Builder) -> None:
    script = ready(environment=fails("ERROR: Could not find a version that satisfies the requirement torch==2.14.0"))
    with pytest.raises(PreflightError, match=r"torch==2\.14\.0"):
        builder(script)
    script = ready(
        environment=fails("WARNING: NewConnectionError … Temporary failure in name resolution", "ERROR: none")
    )
    with pytest.raises(UnavailableError, match="package index"):
        builder(script)
    script = ready(environment=fails("Could not fetch URL http://x/a/: 502 Server Error: Bad Gateway", "ERROR: none"))
    with pytest.raises(UnavailableError, match="package index"):
        builder(script)


def test_who_prepares_the_same_environment_is_told_while_a_build_waits_and_when_it_no_longer_does(
    builder: Builder,
) -> None:
    waiting = "environment: waiting for the build of process h/1/2, since 12:00, which prepares it"

    def waits(room: Room, step: Step, say: Say) -> int:
        say(waiting)
        return prints(PREPARED)(room, step, say)

    builder(ready(environment=waits))
    assert waiting in builder.stderr.getvalue()
    request = json.loads(next(step for step in builder.engine.ran if step.name == "environment").command[-1])
    assert process_mark() in request["holder"]
    assert request["wait"] > 0
    with pytest.raises(UnavailableError, match="another build prepares the environment: h/1/2") as caught:
        builder(ready(environment=fails(waiting, "environment: h/1/2 prepares it", code=75)), rebuild=True)
    assert caught.value.exit_code == 4
    assert caught.value.expected == "its end within 6 h"


def test_a_failed_compile_names_the_cause_and_the_log(builder: Builder) -> None:
    script = ready(compile=fails("[1/2] nvcc", "a.cu:1:1: fatal error: x.h: No such file", "ninja: build stopped"))
    with pytest.raises(BuildError) as caught:
        builder(script)
    error = caught.value
    assert error.exit_code == 5
    assert error.what == "missing header: a.cu:1:1: fatal error: x.h: No such file"
    assert f"{TARGET}: compile, line 2" in error.where
    assert str(builder.out / f"{TARGET}.log") in error.action
    assert builder.left == [f"{TARGET}.log"]
    assert "fatal error: x.h" in (builder.out / f"{TARGET}.log").read_text()


def test_killed_for_memory_is_said_as_that(builder: Builder) -> None:
    with pytest.raises(BuildError, match="killed for memory with"):
        builder(ready(compile=fails("c++: fatal error: Killed signal terminated program cc1plus")))


def test_a_build_that_leaves_no_wheel_failed(builder: Builder) -> None:
    with pytest.raises(BuildError, match="left 0 wheels"):
        builder(ready(compile=fails("done", code=0)))


def test_a_wheel_of_another_commit_is_not_delivered(builder: Builder) -> None:
    with pytest.raises(BuildError, match="abcdef123"):
        builder(ready(compile=makes_wheel(commit="gabcdef123")))
    assert builder.left == [f"{TARGET}.log"]


def test_a_wheel_that_says_no_commit_is_delivered_and_said_so(builder: Builder) -> None:
    built = builder(ready(compile=makes_wheel(commit=None)))
    assert json.loads(built.receipt.read_text())["versions"]["commit"] == "cannot tell"
    assert "doesn't say which commit" in builder.stderr.getvalue()


def test_a_floor_above_the_ceiling_is_said(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    from builders import tagging

    monkeypatch.setattr(
        tagging, "true_tag", lambda *_: tagging.Tagging("manylinux_2_38_x86_64", {"GLIBC": "2.38"}, "so")
    )
    assert "manylinux_2_38" in builder(ready()).wheel.name
    assert "it will not qualify" in builder.stderr.getvalue()


def test_a_cross_build_runs_on_the_engines_machine_and_gets_the_label(builder: Builder) -> None:
    toolchains: list[str] = []

    def compile_(room: Room, step: Step, say: Say) -> int:
        toolchains.append(Path(step.environment["CMAKE_TOOLCHAIN_FILE"]).read_text())
        return makes_wheel(tag="cp312-cp312-linux_aarch64", extensions={"tiny/_C": {"sm_121": ["k"]}})(room, step, say)

    found = good_facts()
    built = builder(ready(compile=compile_, preflight=prints(found)), target="aarch64-sm121")
    assert built.wheel.name == "tiny-1.0+sm121-cp312-cp312-manylinux_2_28_aarch64.whl"
    assert builder.engine.asked[0].role == "cross"
    assert builder.engine.asked[0].machine == "x86_64"
    assert "set(CMAKE_SYSTEM_PROCESSOR aarch64)" in toolchains[0]
    variables = builder.compiled.environment
    assert variables["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
    assert variables["CUDAHOSTCXX"] == "aarch64-linux-gnu-g++"
    request = json.loads(next(step for step in builder.engine.ran if step.name == "environment").command[-1])
    assert request["target_platforms"] == ["manylinux2014_aarch64", "manylinux_2_28_aarch64"]
    assert "nvidia-cuda-runtime==13.0.96" in request["target_requirements"]


@pytest.mark.parametrize(
    ("how", "machines", "expected"),
    [
        ("cross", ("x86_64",), "x86_64"),
        ("cross", ("aarch64",), "aarch64"),
        ("native", ("aarch64",), "aarch64"),
        ("emulate", ("x86_64",), "aarch64"),
        ("native", ("x86_64",), ""),
        ("cross", ("riscv64",), ""),
    ],
)
def test_whose_programs_run(loaded: LoadedMatrix, how: Any, machines: tuple[str, ...], expected: str) -> None:
    plan = make_plan(loaded, "aarch64-sm121", how=how)
    info = EngineInfo("docker", "1", machines)
    if expected:
        assert room_machine(plan, info) == expected
    else:
        with pytest.raises(UnavailableError, match=machines[0]):
            room_machine(plan, info)


def test_a_wheel_without_the_device_code_that_was_planned_is_not_delivered(builder: Builder) -> None:
    with pytest.raises(BuildError, match="its wheel holds no device code") as caught:
        builder(ready(compile=makes_wheel(extensions={"tiny/_C": {}})))
    assert caught.value.expected == "code for 9.0"
    assert builder.left == [f"{TARGET}.log"]


def test_a_wheel_for_another_gpu_that_was_asked_for_is_delivered_and_said_so(builder: Builder) -> None:
    builder(ready(compile=makes_wheel(extensions={"tiny/_C": {"sm_120": ["k"]}})), arch_list="12.0")
    assert "nothing in it runs on compute capability 9.0 (sm_120): it will not qualify" in builder.stderr.getvalue()


def test_an_architecture_that_the_build_dropped_is_named(builder: Builder) -> None:
    with pytest.raises(BuildError, match=r"the build dropped 9\.0: nothing in its wheel serves it; it holds sm_120"):
        builder(ready(compile=makes_wheel(extensions={"tiny/_C": {"sm_120": ["k"]}})))
    assert builder.left == [f"{TARGET}.log"]


def test_an_output_folder_that_is_a_file(builder: Builder) -> None:
    builder.out.write_text("here")
    with pytest.raises(UsageError, match="no folder"):
        builder(ready())


def test_a_wheel_of_another_project_is_not_delivered(builder: Builder) -> None:
    with pytest.raises(BuildError, match="the build made a wheel of other"):
        builder(ready(compile=makes_wheel(name="other")))
    assert builder.left == [f"{TARGET}.log"]


def test_a_cross_build_that_made_this_machines_code_is_not_delivered(builder: Builder) -> None:
    code = {"tiny/_C": extension({"sm_121": ["k"]}, machine="x86_64")}
    made = makes_wheel(tag="cp312-cp312-linux_aarch64", extensions=code)
    with pytest.raises(BuildError, match=r"tiny/_C\.abi3\.so is for x86_64"):
        builder(ready(compile=made), target="aarch64-sm121")
    assert builder.left == ["aarch64-sm121.log"]


def test_one_job_killed_for_memory_needs_more_of_it(builder: Builder) -> None:
    killed = fails("c++: fatal error: Killed signal terminated program cc1plus")
    with pytest.raises(BuildError, match="killed for memory with 1 job:") as caught:
        builder(ready(compile=killed), overrides={"MAX_JOBS": "1"})
    assert caught.value.action.startswith("give it more memory; the build folder is kept")
