"""The line's own promises: fewer jobs after a kill, a kept folder, one build per plan, nothing foreign or left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from builders.engines import Room, Say, Step
from builders.store import store_of
from builders.store.claims import claimed
from qualify.errors import BuildError, PreflightError, UnavailableError
from qualify.matrix import LoadedMatrix, load
from tests.support.engines import TIMED_OUT
from tests.unit.test_pipeline import TARGET, Act, Builder, fails, loaded, makes_wheel, proves, ready

__all__ = ["loaded"]

KILLED = "c++: fatal error: Killed signal terminated program cc1plus"


@pytest.fixture
def builder(loaded: LoadedMatrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Builder(loaded, tmp_path)


def in_turn(acts: Iterable[Act]) -> Act:
    waiting = list(acts)
    return lambda room, step, say: waiting.pop(0)(room, step, say)


def jobs_of(builder: Builder) -> list[str]:
    return [step.environment["MAX_JOBS"] for step in builder.engine.ran if step.name == "compile"]


def receipt(builder: Builder) -> dict[str, object]:
    (path,) = builder.out.glob("*.receipt.json")
    document: dict[str, object] = json.loads(path.read_text())
    return document


def test_killed_for_memory_goes_on_in_the_same_folder_with_fewer_jobs(builder: Builder) -> None:
    folders: list[str] = []

    def noted(act: Act) -> Act:
        def run(room: Room, step: Step, say: Say) -> int:
            folders.append(step.folder)
            return act(room, step, say)

        return run

    acts = [noted(fails(KILLED)), noted(fails(KILLED)), noted(makes_wheel())]
    builder(ready(compile=in_turn(acts)), jobs=8)
    assert jobs_of(builder) == ["8", "4", "2"]
    assert len(set(folders)) == 1
    tries = receipt(builder)["tries"]
    assert isinstance(tries, list)
    assert [(each["jobs"], each["killed_for_memory"]) for each in tries] == [(8, True), (4, True), (2, False)]
    assert "killed for memory with 8 jobs" in builder.stderr.getvalue()


def test_killed_three_times_is_the_end(builder: Builder) -> None:
    with pytest.raises(BuildError, match="killed for memory with 8 jobs, then 4 jobs, then 2 jobs") as caught:
        builder(ready(compile=fails(KILLED)), jobs=8)
    assert jobs_of(builder) == ["8", "4", "2"]
    assert "the build folder is kept" in caught.value.action


def test_another_failure_is_not_tried_again(builder: Builder) -> None:
    with pytest.raises(BuildError, match="missing header"):
        builder(ready(compile=fails("a.cpp:1:10: fatal error: gone.h: No such file or directory")), jobs=8)
    assert jobs_of(builder) == ["8"]


def test_a_failed_build_keeps_its_folder_and_the_next_goes_on_in_it(builder: Builder) -> None:
    def leaves(room: Room, step: Step, say: Say) -> int:
        Path(step.folder, "half.o").write_text("compiled")
        return 1

    with pytest.raises(BuildError):
        builder(ready(compile=leaves))
    seen: list[bool] = []

    def goes_on(room: Room, step: Step, say: Say) -> int:
        seen.append(Path(step.folder, "half.o").exists())
        return makes_wheel()(room, step, say)

    builder(ready(compile=goes_on))
    assert seen == [True]
    assert "clock" not in builder.steps, "the folder is as the first try left it"
    assert receipt(builder)["resumed"] is True
    assert list((builder.folder / "engine" / "builds").iterdir()) == [], "a build that ended well keeps none"


def test_a_step_that_takes_too_long_is_told_as_that(builder: Builder) -> None:
    with pytest.raises(BuildError, match="timed out after 2 min") as caught:
        builder(ready(compile=fails(code=TIMED_OUT)), timeout=120.0)
    assert "--timeout MINUTES gives more" in caught.value.action


def test_a_second_starter_leaves_with_the_first_one_s_log(builder: Builder, tmp_path: Path) -> None:
    builder(ready())
    key = str(receipt(builder)["key"])
    log = tmp_path / "their.log"
    store = store_of(builder.loaded)
    with (
        claimed(store.claims, key, target=TARGET, log=log, wait=True, say=print),
        pytest.raises(UnavailableError, match="builds this since") as caught,
    ):
        builder(ready(), rebuild=True, wait=False)
    assert str(log) in caught.value.action
    assert "compile" not in builder.steps


def foreign(change: Callable[[dict[str, object]], None]) -> Act:
    def act(room: Room, step: Step, say: Say) -> int:
        lines: list[str] = []
        proves(room, step, lines.append)
        found = json.loads(lines[-1])
        for member in found["members"]:
            if member["name"] == "tiny/_C.abi3.so":
                change(member)
        say(json.dumps(found))
        return 0

    return act


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"twin": ""}, "no file that was made since the build began has its bytes"),
        ({"exports": 1, "exports_missing": ["PyInit__C"], "exports_missing_count": 1}, "PyInit__C"),
        ({"containers": 2, "containers_missing": 2}, "has 2 of its 2 containers of device code"),
    ],
)
def test_what_was_not_compiled_here_is_not_delivered(builder: Builder, change: dict[str, object], why: str) -> None:
    with pytest.raises(BuildError, match=r"rejected: not compiled here: tiny/_C\.abi3\.so: ") as caught:
        builder(ready(proof=foreign(lambda member: member.update(change))))
    assert why in caught.value.what
    assert not list(builder.out.glob("*.whl"))


def with_matrix(builder: Builder, more: str) -> None:
    path = builder.loaded.path
    path.write_text(path.read_text().replace("  shapes:", f"{more}  shapes:"))
    builder.loaded = load(path)


def leaves_out(*lines: str) -> Act:
    def act(room: Room, step: Step, say: Say) -> int:
        for line in lines:
            say(line)
        return makes_wheel()(room, step, say)

    return act


def test_a_part_that_nothing_expects_to_be_left_out_fails_the_build(builder: Builder) -> None:
    said = "-- Not building Machete kernels as no compatible archs found"
    with pytest.raises(BuildError, match="line 2: Not building Machete kernels") as caught:
        builder(ready(compile=leaves_out("-- Building other kernels", said)))
    assert "build.configure.expected" in caught.value.expected
    with_matrix(builder, '  configure: {expected: [{pattern: "Not building Machete*", reason: for Hopper alone}]}\n')
    builder(ready(compile=leaves_out(said)))
    assert receipt(builder)["left_out"] == [
        {
            "text": "Not building Machete kernels as no compatible archs found",
            "line": 1,
            "reason": "for Hopper alone",
        }
    ]


def test_an_optional_extension_that_failed_fails_the_build(builder: Builder) -> None:
    said = 'WARNING: building extension "tiny._extra" failed: command failed'
    with pytest.raises(BuildError, match="its wheel lacks tiny/_extra"):
        builder(ready(compile=leaves_out(said)))
    with_matrix(builder, "  optional_members: {tiny/_extra: needs a library that this target lacks}\n")
    builder(ready(compile=leaves_out(said)))
    assert receipt(builder)["missing"] == {"tiny/_extra": "needs a library that this target lacks"}


def test_what_the_backend_asks_for_is_installed_too(builder: Builder) -> None:
    from tests.unit.test_pipeline import PREPARED, good_facts, prints

    asking = good_facts(hook={"requirements": ["setuptools>=77", "extra-tool>=2"], "failed": "", "seconds": 0.1})
    satisfied = json.loads(json.dumps(asking))
    satisfied["interpreter"]["distributions"].append({"name": "extra-tool", "version": "2.1", "requires": []})
    answers = [asking, asking, asking, satisfied, satisfied]
    script = ready(environment=prints(PREPARED), preflight=in_turn([prints(answer) for answer in answers]))
    builder(script)
    requests = [json.loads(step.command[-1]) for step in builder.engine.ran if step.name == "environment"]
    assert [request["also"] for request in requests] == [[], ["extra-tool>=2"]]


def test_offline_with_a_hole_lists_every_hole(builder: Builder) -> None:
    local = builder.loaded.path.with_name("matrix.local.yaml")
    local.write_text("version: 1\n")
    builder.loaded = load(builder.loaded.path)
    with pytest.raises(UnavailableError, match="1 source is not in the store; nothing was compiled") as caught:
        builder(ready(), offline=True)
    assert "external source thing: https://example.org/thing.git at v1.2" in caught.value.what
    assert builder.steps == []


def test_nothing_is_compiled_when_the_place_refuses(builder: Builder) -> None:
    from tests.unit.test_pipeline import good_facts, prints

    broken = good_facts()
    broken["tools"]["c++"]["on_path"] = []
    broken["tools"]["c++"]["elsewhere"] = []
    with pytest.raises(PreflightError, match="nothing was compiled"):
        builder(ready(preflight=prints(broken)))
    assert "compile" not in builder.steps
