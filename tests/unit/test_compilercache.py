"""The compiler cache: what switches it on, which compilers it calls, and what its own log counts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders.compilercache import CacheUse, cache_use, cache_variables, counted, number_of
from builders.engines import Outcome, Room, Say, Step
from builders.engines.local import LocalEngine
from qualify.matrix.local import CompilerCache, LocalSettings
from tests.support.engines import Act, Heard, ScriptedEngine, request, shell


def plan(*tools: str, machine: str = "x86_64", cache: str = "ccache") -> Any:
    return SimpleNamespace(
        compiler_cache=cache, tools=tuple(SimpleNamespace(name=name) for name in tools), machine=machine
    )


def saying(*lines: str, code: int = 0) -> Act:
    """A room whose ccache prints these lines."""

    def act(room: Room, step: Step, say: Say) -> int:
        if "--version" in step.command[-1]:
            for line in lines:
                say(line)
            return code
        for name in step.command[4:]:
            if not name.endswith("ptxas"):
                say(name)
        return 0

    return act


def variables_of(tmp_path: Path, plan: Any, *said: str, given: dict[str, str] | None = None) -> dict[str, str]:
    engine = ScriptedEngine(tmp_path / "engine", {"ccache": saying(*said, code=0 if said else 127)})
    with engine.open(request("x86_64"), Heard()) as room:
        found = cache_variables(plan, room, LocalSettings(), tmp_path / "work", given)
        if "PYTORCH_NVCC" in found:
            shutil.copytree(Path(found["PYTORCH_NVCC"]).parent, tmp_path / "wrappers")
    return found


def test_a_place_without_ccache_or_a_plan_without_a_cache_gets_none(tmp_path: Path) -> None:
    assert variables_of(tmp_path / "a", plan("cmake")) == {}
    assert variables_of(tmp_path / "b", plan("cmake", cache=""), "ccache version 4.9") == {}


@pytest.mark.parametrize(("version", "taken"), [("3.7.7", False), ("4.3", False), ("4.4.2", True), ("4.11.2", True)])
def test_a_ccache_that_does_not_count_by_itself_is_not_used(tmp_path: Path, version: str, taken: bool) -> None:
    assert bool(variables_of(tmp_path, plan("cmake"), f"ccache version {version}")) == taken


def test_cmake_is_told_by_its_launchers_and_one_that_is_named_stays(tmp_path: Path) -> None:
    given = {"CMAKE_CXX_COMPILER_LAUNCHER": "distcc"}
    found = variables_of(tmp_path, plan("cmake"), "ccache version 4.9", given=given)
    assert found["CMAKE_CUDA_COMPILER_LAUNCHER"] == "ccache"
    assert "CMAKE_CXX_COMPILER_LAUNCHER" not in found
    assert "CC" not in found


def test_a_builder_without_launchers_calls_the_compilers_that_were_named(tmp_path: Path) -> None:
    given = {"CXX": "g++-13 -m64", "CUDA_HOME": "/cuda"}
    variables_of(tmp_path, plan(), "ccache version 4.9", given=given)
    wrappers = tmp_path / "wrappers"
    assert (wrappers / "cc").read_text().splitlines()[1] == 'exec ccache gcc "$@"'
    assert (wrappers / "c++").read_text().splitlines()[1] == 'exec ccache g++-13 -m64 "$@"'
    assert (wrappers / "nvcc").read_text().splitlines()[-1] == 'exec ccache "$CUDA_HOME/bin/nvcc" "$@"'
    assert (wrappers / "nvcc").stat().st_mode & 0o111


def test_a_cross_build_calls_the_compilers_of_its_target(tmp_path: Path) -> None:
    variables_of(tmp_path, plan(machine="aarch64"), "ccache version 4.9")
    assert "ccache aarch64-linux-gnu-gcc" in (tmp_path / "wrappers" / "cc").read_text()
    assert "ccache aarch64-linux-gnu-g++" in (tmp_path / "wrappers" / "c++").read_text()


def test_what_nvcc_calls_counts_too_as_far_as_it_is_there(tmp_path: Path) -> None:
    found = variables_of(tmp_path, plan("cmake"), "ccache version 4.9", given={"CUDA_HOME": "/cuda"})
    parts = found["CCACHE_EXTRAFILES"].split(":")
    assert "/cuda/nvvm/bin/cicc" in parts
    assert "/cuda/bin/ptxas" not in parts  # the script says that it is not there
    assert "CCACHE_EXTRAFILES" not in variables_of(tmp_path / "b", plan("cmake"), "ccache version 4.9")


def test_versions_are_read_as_far_as_they_matter() -> None:
    assert number_of("4.8+really4.7.5") == (4, 8)
    assert number_of("4.11.2") > (4, 7) > number_of("3.7.7")


def test_its_log_counts_each_call_once() -> None:
    log = [
        *("# a.cpp", "cache_miss", "direct_cache_miss", "local_storage_write", "preprocessed_cache_miss"),
        *("# b.cu", "direct_cache_hit", "local_storage_hit"),
        *("# c.cu", "preprocessed_cache_hit", "remote_storage_error"),
        *("# a.so", "called_for_link", ""),
    ]
    assert counted(log, "ccache 4.9") == CacheUse("ccache 4.9", 2, 1, 1)
    assert counted(log, "ccache 4.9", "redis").why == "the shared cache did not answer 1 times"
    assert counted([], "ccache 4.9") == CacheUse("ccache 4.9")


def test_without_a_cache_it_says_why(tmp_path: Path) -> None:
    with LocalEngine(tmp_path).open(request(), Heard()) as room:
        assert cache_use(plan(cache=""), room, {}).why == "the plan wants none"
        assert cache_use(plan(), room, {}).why.startswith("no ccache 4.4 or newer")


def test_a_room_that_does_not_say_which_compilers_cuda_has_is_not_guessed_at(tmp_path: Path) -> None:
    from qualify.errors import UnavailableError

    def broken(room: Room, step: Step, say: Say) -> int:
        if "--version" in step.command[-1]:
            say("ccache version 4.9")
            return 0
        return 1

    engine = ScriptedEngine(tmp_path / "engine", {"ccache": broken})
    with engine.open(request("x86_64"), Heard()) as room, pytest.raises(UnavailableError, match="which compilers"):
        cache_variables(plan("cmake"), room, LocalSettings(), tmp_path / "work", {"CUDA_HOME": "/cuda"})


def run(room: Room, text: str, variables: dict[str, str]) -> Outcome:
    variables = {**variables, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    return room.run(replace(shell(text, environment=variables), folder=room.paths.source), print)


@pytest.mark.skipif(shutil.which("ccache") is None or shutil.which("g++") is None, reason="no ccache or no g++ here")
def test_the_second_compile_is_a_hit_and_another_cicc_is_none(tmp_path: Path) -> None:
    """With the real ccache; the CUDA toolkit is a folder with one part."""
    cuda = tmp_path / "cuda"
    (cuda / "nvvm" / "bin").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.cpp").write_text("int a() { return 1; }\n")
    local = LocalSettings(compiler_cache=CompilerCache(server="redis://cache.example:6379"))  # a Docker room's alone
    uses = []
    for number, cicc in enumerate(("one", "one", "another")):
        (cuda / "nvvm" / "bin" / "cicc").write_text(cicc)
        with LocalEngine(tmp_path / "engine").open(request(), Heard()) as room:
            room.put(tmp_path / "tree", room.paths.source)
            given = {"CUDA_HOME": str(cuda)}
            found = cache_variables(plan(machine=room.machine), room, local, tmp_path / f"work{number}", given)
            assert run(room, "$CXX -c a.cpp -o a.o && test -s a.o", found).code == 0
            uses.append(cache_use(plan(), room, found))
    assert [(use.hits, use.misses) for use in uses] == [(0, 1), (1, 0), (0, 1)]
    assert {use.server for use in uses} == {""}
