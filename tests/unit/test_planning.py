"""What of matrix, tree and caller a plan takes up: variables, threads, bases, patches, forks; and how it is printed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import planning
from builders.bases import read_lock
from builders.cli import main
from builders.commands.plan import lines
from builders.plan import BasePlan
from builders.planning import allowed, base_plan, make_plan, threads_of
from builders.source_model import Source
from builders.toolsearch import Host
from qualify.errors import ConfigurationError
from qualify.matrix import LoadedMatrix, load
from qualify.matrix.model import Base, Build
from tests.unit.builders_support import FILES, git, make_repository, sdist_matrix, write_matrix, write_tree
from tests.unit.test_cargo_locks import LOCK

GB = 10**9
HOST = Host("x86_64", 16, 64 * GB)
TARGET = "x86_64-sm90"


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def with_build(loaded: LoadedMatrix, text: str) -> LoadedMatrix:
    """The matrix with further lines under ``build``."""
    loaded.path.write_text(loaded.path.read_text().replace("  torch: true\n", f"  torch: true\n{text}"))
    return load(loaded.path)


def test_of_the_caller_s_variables_those_of_the_list_reach_the_build(tmp_path: Path) -> None:
    loaded = with_build(sdist_matrix(tmp_path), "  allowed_environment: [TINY_*, CXXFLAGS]\n")
    caller = {"TINY_DEVICE": "cpu", "TINY_USE_PRECOMPILED": "1", "TINY_MORE": "x", "CXXFLAGS": "-O1", "LD_PRELOAD": "y"}
    assert allowed(loaded.matrix.build, caller) == {"TINY_DEVICE": "cpu", "TINY_MORE": "x", "CXXFLAGS": "-O1"}
    plan = make_plan(loaded, TARGET, host=HOST, caller=caller, overrides={"CXXFLAGS": "-O2"})
    assert plan.environment["TINY_MORE"] == "x"
    assert plan.environment["TINY_DEVICE"] == "cuda"  # what the matrix says wins over the caller
    assert plan.environment["CXXFLAGS"] == "-O2"  # and --set over both
    assert "LD_PRELOAD" not in plan.environment
    assert "TINY_USE_PRECOMPILED" not in plan.environment
    assert plan.key() != make_plan(loaded, TARGET, host=HOST, caller={}, overrides={"CXXFLAGS": "-O2"}).key()


@pytest.mark.parametrize(
    ("text", "threads"), [("4", 4), ("", 1), ("0", 1), ("-2", 1), ("x", 1), ("4.5", 1), ("²", 1), ("1000", 1)]
)
def test_threads_of_a_compiler(text: str, threads: int) -> None:
    build = Build(threads_variable="NVCC_THREADS")
    assert threads_of(build, {"NVCC_THREADS": text}) == threads
    assert threads_of(build, {}) == 1
    assert threads_of(Build(), {"NVCC_THREADS": text, "": "7"}) == 1


def test_memory_is_for_each_thread_of_a_compiler(tmp_path: Path) -> None:
    loaded = with_build(sdist_matrix(tmp_path), "  memory_per_job: 5\n  threads_variable: NVCC_THREADS\n")
    one = make_plan(loaded, TARGET, host=HOST)
    assert (one.memory_per_job, one.jobs) == (5 * GB, 12)
    four = make_plan(loaded, TARGET, host=HOST, overrides={"NVCC_THREADS": "4"})
    assert (four.memory_per_job, four.jobs) == (20 * GB, 3)
    assert make_plan(loaded, TARGET, host=replace(HOST, memory=6 * GB), overrides={"NVCC_THREADS": "4"}).jobs == 1
    assert make_plan(loaded, TARGET, host=HOST, jobs=2).key() == one.key()


def test_an_image_is_planned_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "sha256:" + "ab" * 32
    path = tmp_path / "bases.lock.yaml"
    path.write_text(f"version: 1\nimages: {{some/image:1@x86_64: '{digest}'}}\n")
    monkeypatch.setattr(planning, "read_lock", lambda: read_lock(path))
    target = sdist_matrix(tmp_path).matrix.targets[TARGET]
    other = target.model_copy(update={"base": Base(image="some/image:1")})
    assert base_plan(other, "x86_64") == BasePlan("some/image:1", "", digest)
    assert base_plan(other, "aarch64").digest == ""
    assert base_plan(target, "x86_64") == BasePlan("", "debian-13", "")


CHANGES = """\
  rust: {locks: [rust/Cargo.lock]}
  requirements:
    add: [{requirement: numpy>=2, reason: setup.py imports it}]
    remove: [{name: wheel, reason: setuptools has it itself}]
    replace: [{name: setuptools, requirement: setuptools==80, reason: a later one fails}]
"""


def patched(tmp_path: Path) -> LoadedMatrix:
    """A fork with two commits on top of its upstream, a patch, crates, and other requirements than the tree's."""
    make_repository(tmp_path / "up", {**FILES, "rust/Cargo.lock": LOCK})
    base = git(tmp_path / "up", "rev-parse", "HEAD")
    git(tmp_path, "clone", "-q", str(tmp_path / "up"), str(tmp_path / "fork"))
    for number in (1, 2):
        write_tree(tmp_path / "fork", {f"own{number}.txt": "own\n"})
        git(tmp_path / "fork", "add", ".")
        git(tmp_path / "fork", "commit", "-qm", f"own change {number}")
    write_tree(tmp_path / "up", {"later.txt": "later\n"})
    git(tmp_path / "up", "add", ".")
    git(tmp_path / "up", "commit", "-qm", "upstream goes on")
    head = git(tmp_path / "fork", "rev-parse", "HEAD")
    write_tree(tmp_path / "fork", {"own1.txt": "patched\n"})
    change = git(tmp_path / "fork", "diff") + "\n"
    git(tmp_path / "fork", "checkout", "-q", "own1.txt")
    (tmp_path / "own.patch").write_text(change)
    sha256 = hashlib.sha256(change.encode()).hexdigest()
    loaded = write_matrix(tmp_path, "{git: fork}", head)
    extra = (
        f"  upstream: {{repository: up, base: {base}}}\n"
        f"  patches: [{{file: own.patch, sha256: {sha256}, reason: it is better so}}]\n"
    )
    loaded.path.write_text(loaded.path.read_text().replace("build:\n", f"{extra}build:\n", 1))
    return with_build(loaded, CHANGES)


def test_a_fork_and_its_patches_are_in_the_plan_and_how_far_it_is_behind_is_in_no_key(tmp_path: Path) -> None:
    loaded = patched(tmp_path)
    plan = make_plan(loaded, TARGET, host=HOST)
    assert [patch.file for patch in plan.patches] == ["own.patch"]
    assert plan.fork is not None
    assert plan.fork.words() == "2 overlay, 1 behind upstream"
    assert [text.split(" ", 1)[1] for text in plan.fork.overlay] == ["own change 1", "own change 2"]
    git(tmp_path / "up", "commit", "-q", "--allow-empty", "-m", "and on")
    later = make_plan(loaded, TARGET, host=HOST)
    assert later.fork is not None
    assert later.fork.behind == 2
    assert later.key() == plan.key()
    printed = "\n".join(lines(plan, ()))
    assert "fork       2 overlay, 1 behind upstream (up, base " in printed
    assert "own change 2" in printed
    assert "patch      own.patch (sha256 " in printed
    assert "locked     no: what is newest counts" in printed
    assert "crates     rust/Cargo.lock: 2 of a registry, 1 of git" in printed
    assert "requires   setuptools==80, torch==2.14.0, numpy>=2" in printed


def test_a_patch_that_changes_changes_the_key(tmp_path: Path) -> None:
    loaded = patched(tmp_path)
    before = make_plan(loaded, TARGET, host=HOST)
    path = tmp_path / "own.patch"
    text = path.read_text()
    other = text.replace("+patched", "+otherwise")
    path.write_text(other)
    matrix = loaded.path.read_text()
    for old, new in ((text, other),):
        matrix = matrix.replace(hashlib.sha256(old.encode()).hexdigest(), hashlib.sha256(new.encode()).hexdigest())
    loaded.path.write_text(matrix)
    assert make_plan(load(loaded.path), TARGET, host=HOST).key() != before.key()


def test_overrides_that_match_nothing_refuse_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = with_build(sdist_matrix(tmp_path), "  requirements: {remove: [{name: numpy, reason: it is not needed}]}\n")
    with pytest.raises(ConfigurationError, match="the tree asks for no numpy"):
        make_plan(loaded, TARGET, host=HOST)
    assert main(["plan", TARGET, "--matrix", str(loaded.path)]) == 2
    said = capsys.readouterr().err
    assert "build.requirements.remove" in said
    assert "expected: one of setuptools, torch, wheel" in said


def test_what_a_plan_says_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = with_build(
        sdist_matrix(tmp_path),
        "  requirements: {replace: [{name: wheel, requirement: wheel==0.45, reason: the newer one fails}]}\n"
        "  compiler_cache: ''\n  repair: tag\n",
    )
    assert main(["plan", TARGET, "--matrix", str(loaded.path)]) == 0
    said = capsys.readouterr().out
    for line in (
        "requires   setuptools>=77, torch==2.14.0, wheel==0.45",
        "override   replaced wheel by wheel==0.45: the newer one fails",
        "base       debian-13",
        "repair     tag",
        "cache      none",
        "arch list  TORCH_CUDA_ARCH_LIST=9.0",
        "external   thing: https://example.org/thing.git at v1.2 with sub",
        "hole       external source thing: https://example.org/thing.git at v1.2",
    ):
        assert f"  {line}" in said, line


def test_a_tag_of_the_lock_is_shown_with_its_commit(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    before = make_plan(loaded, TARGET, host=HOST)
    commit = "7" * 40
    text = f"version: 1\ntags:\n  https://example.org/thing.git@v1.2: {commit!r}\n"
    (tmp_path / "externals.lock.yaml").write_text(text)
    plan = make_plan(loaded, TARGET, host=HOST)
    assert f"  external   thing: https://example.org/thing.git at v1.2 ({commit}) with sub" in lines(plan, ())
    assert plan.key() != before.key()


def test_source_is_taken_as_it_is(tmp_path: Path) -> None:
    from builders.source import open_source

    loaded = sdist_matrix(tmp_path)
    source: Source = open_source(loaded, tmp_path / "work")
    said: list[Any] = []
    make_plan(loaded, TARGET, source=source, host=HOST, progress=said.append)
    assert said == []  # nothing was fetched again
