"""Held against pin, target, proof and parts, then tagged, labelled and given its bill: real wheels, without a build."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.finishing import Finished, Made, finish, only_wheel
from builders.holding import missing_members
from builders.optional import NO_RUST, declared_optional, failed_optional
from builders.planning import make_plan
from builders.receipts.sbom import FILE
from builders.repair import Repaired
from qualify.errors import BuildError, UnverifiedError
from qualify.matrix import LoadedMatrix
from qualify.opening import read_wheel
from tests.support.wheel import extension, write_wheel
from tests.unit.builders_support import sdist_matrix

TARGET = "x86_64-sm90"
STAYED = Repaired("auditwheel 6.8.2", (), 0, "nothing to bundle")


class Bench:
    """A plan, and wheels that are finished by it."""

    def __init__(self, folder: Path) -> None:
        (folder / "matrix").mkdir()
        (folder / "out").mkdir()
        self.loaded: LoadedMatrix = sdist_matrix(folder / "matrix")
        self.plan = make_plan(self.loaded, TARGET)
        self.out = folder / "out"
        self.said: list[str] = []

    def wheel(self, **options: Any) -> Path:
        settings = {"name": "tiny", "version": "1.0", "tag": "cp312-cp312-linux_x86_64", "commit": "g4ba787ec9"}
        return write_wheel(self.out, **{**settings, **options})

    def made(self, wheel: Path, **changes: Any) -> Made:
        members = [
            {
                "name": member.path,
                "sha256": member.sha256,
                "build_id": "",
                "twin": f"build/lib/{member.path}",
                "same": "bytes",
                "cargo": "",
                "problem": "",
                "exports": 1,
                "exports_missing": [],
                "exports_missing_count": 0,
                "differing": [],
                "differing_count": 0,
                "containers": 1,
                "containers_missing": 0,
                "libraries": [],
            }
            for member in read_wheel(wheel).members
            if member.elf is not None
        ]
        proof = {
            "members": members,
            "objects": [{"path": "build/a.o", "sha256": "6" * 64}],
            "unread": [],
            "compilers": {"GCC: 14": 1},
            "ninja": [],
            "truncated": False,
            "intermediate": 0,
        }
        made = Made("", (), proof, STAYED, (), (), {"setuptools": "80.9.0"}, {})
        return replace(made, **changes)

    def finish(self, wheel: Path, **changes: Any) -> Finished:
        return finish(wheel, self.plan, self.loaded, self.made(wheel, **changes), self.said.append)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_finished_wheel(bench: Bench) -> None:
    done = bench.finish(bench.wheel(), output=("-- Found Torch",))
    assert done.wheel.name == "tiny-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert done.made_as == "tiny-1.0-cp312-cp312-linux_x86_64.whl"
    assert done.facts.problems == ()
    assert done.commit == "same"
    assert done.sbom == f"tiny-1.0.dist-info/{FILE}"
    with zipfile.ZipFile(done.wheel) as archive:
        assert json.loads(archive.read(done.sbom))["metadata"]["component"]["name"] == "tiny"
    assert [path.name for path in bench.out.iterdir()] == [done.wheel.name]


def test_the_finished_wheel_installs_with_its_bill(bench: Bench, tmp_path: Path) -> None:
    done = bench.finish(bench.wheel(extensions={"tiny/_C": {"sm_90": ["k"]}}))
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(tmp_path / "there")]
    platform = ["--only-binary", ":all:", "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64"]
    subprocess.run([*command, *platform, str(done.wheel)], check=True, capture_output=True)
    assert (tmp_path / "there" / done.sbom).is_file()


def test_a_label_enters_name_and_bill(bench: Bench) -> None:
    bench.plan = replace(bench.plan, label="sm90")
    done = bench.finish(bench.wheel())
    assert done.wheel.name.startswith("tiny-1.0+sm90-")
    with zipfile.ZipFile(done.wheel) as archive:
        assert json.loads(archive.read(done.sbom))["metadata"]["component"]["version"] == "1.0+sm90"


def edited(member: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(proof: dict[str, Any]) -> None:
        for item in proof["members"]:
            if item["name"] == member:
                item.update(changes)

    return change


def forgotten(proof: dict[str, Any]) -> None:
    proof["members"] = [item for item in proof["members"] if "_host" not in item["name"]]


def truncated(proof: dict[str, Any]) -> None:
    edited("tiny/_C.abi3.so", twin="")(proof)
    proof["truncated"] = True


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            edited("tiny/_C.abi3.so", twin=""),
            "not compiled here: tiny/_C.abi3.so: no file that was made since the build",
        ),
        (
            edited("tiny/_C.abi3.so", differing=["PyInit__C"], differing_count=1),
            "not compiled here: tiny/_C.abi3.so: 1 of its functions have another size in the objects: PyInit__C",
        ),
        (
            edited("tiny/_host.abi3.so", sha256="0" * 64),
            "tiny/_host.abi3.so is not what the build folder was looked at",
        ),
        (forgotten, "not compiled here: tiny/_host.abi3.so is not what the build folder was looked at for"),
        (truncated, "not shown to be compiled here: tiny/_C.abi3.so: the build folder holds more files than"),
        (edited("tiny/_C.abi3.so", exports=0), "not shown to be compiled here: tiny/_C.abi3.so: it exports nothing"),
        (
            edited("tiny/_C.abi3.so", problem="cut off"),
            "not shown to be compiled here: tiny/_C.abi3.so: it can't be read",
        ),
    ],
)
def test_what_is_not_proven_is_not_delivered(bench: Bench, change: Callable[[dict[str, Any]], None], what: str) -> None:
    wheel = bench.wheel()
    made = bench.made(wheel)
    proof = json.loads(json.dumps(made.proof))
    change(proof)
    with pytest.raises(BuildError) as caught:
        bench.finish(wheel, proof=proof)
    assert caught.value.what.startswith("rejected: ")
    assert what in caught.value.what
    assert caught.value.where == wheel.name
    assert caught.value.expected
    assert caught.value.action


def test_a_repaired_wheel_may_differ_in_bytes_and_bring_what_was_bundled(bench: Bench) -> None:
    library = "tiny.libs/libnuma-1234abcd.so.1"
    wheel = bench.wheel(files={library: extension({}, machine="x86_64")})
    made = bench.made(wheel)
    proof = json.loads(json.dumps(made.proof))
    proof["members"] = [{**item, "sha256": "0" * 64} for item in proof["members"] if item["name"] != library]
    repaired = Repaired("auditwheel 6.8.2", (library,), 0, "bundled 1 libraries", f"repaired/{wheel.name}")
    done = bench.finish(wheel, proof=proof, repaired=repaired)
    assert done.repaired.bundled == (library,)
    wheel = bench.wheel(files={library: extension({}, machine="x86_64")})
    proof = {**made.proof, "members": [item for item in made.proof["members"] if item["name"] != library]}
    with pytest.raises(BuildError, match="libnuma-1234abcd"):
        bench.finish(wheel, proof=proof)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("tiny.libs/libtorch_cuda-12345678.so", "torch"),
        ("tiny.libs/libcudart-9a8b7c6d.so.13.0.96", "CUDA"),
        ("tiny.libs/libcuda-0a1b2c3d.so.1", "the driver"),
    ],
)
def test_what_must_not_be_bundled_under_hashed_names_too(
    bench: Bench, shared_object: bytes, name: str, owner: str
) -> None:
    wheel = bench.wheel(files={name: shared_object})
    with pytest.raises(BuildError) as caught:
        bench.finish(wheel)
    assert caught.value.what == f"the wheel bundles {name}, which is {owner}'s"


@pytest.fixture
def shared_object(tmp_path: Path) -> bytes:
    """A shared library that is no extension module, by a real compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on PATH")
    path = tmp_path / "x.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=b"int some(void) { return 1; }\n", check=True)
    return path.read_bytes()


def test_the_versions_have_to_agree(bench: Bench) -> None:
    with pytest.raises(BuildError) as caught:
        bench.finish(bench.wheel(), computed="1.1.dev2+g4ba787ec9")
    assert caught.value.expected == "the version that setuptools-scm computed from the clean tree, 1.1.dev2+g4ba787ec9"


def test_a_library_that_nobody_has_leaves_the_tag(bench: Bench) -> None:
    wheel = bench.wheel(extensions={"tiny/_C": extension({"sm_90": ["k"]}, needed=("libc.so.6", "libodd.so.1"))})
    done = bench.finish(wheel)
    assert done.wheel.name.endswith("linux_x86_64.whl")
    assert any("not tagged: it needs libodd.so.1" in line for line in bench.said)
    wheel = bench.wheel(extensions={"tiny/_C": extension({"sm_90": ["k"]}, needed=("libc.so.6", "libodd.so.1"))})
    assert "manylinux" in bench.finish(wheel, provided=("libodd.so.1",)).wheel.name


@pytest.mark.parametrize("names", [(), ("a-1-py3-none-any.whl", "b-1-py3-none-any.whl")])
def test_one_wheel_is_what_a_build_leaves(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(BuildError, match=f"left {len(names)} wheels"):
        only_wheel(tmp_path, tmp_path / "log")


SETUP = """\
from setuptools import Extension, setup
import os
def cmake(name, **more): return Extension(name, [], **more)
modules = [Extension("tiny._C", ["a.c"]), Extension("tiny._maybe", ["b.c"], optional=True)]
if os.environ.get("X"):
    modules.append(cmake(name="tiny.sub._also", optional=True))
modules.append(cmake(name=os.environ["Y"], optional=True))
modules.append(cmake("tiny._never", optional=False))
modules.append(cmake("tiny._asked", optional=os.environ["Z"]))
setup(ext_modules=modules)
"""


def test_what_a_tree_declares_optional(tmp_path: Path) -> None:
    assert declared_optional(tmp_path) == ()
    (tmp_path / "setup.py").write_text(SETUP)
    assert set(declared_optional(tmp_path)) == {"tiny/_maybe", "tiny/sub/_also"}


@pytest.mark.parametrize("data", [b"print 'two'\n", b"\0", b"# -*- coding: nothing -*-\nx = '\xff'\n"])
def test_a_setup_py_that_cannot_be_read_is_said_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "setup.py").write_bytes(data)
    with pytest.raises(UnverifiedError, match=r"setup\.py"):
        declared_optional(tmp_path)


def with_setuptools() -> str | None:
    """An interpreter of this host that can build extensions."""
    for python in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if (
            python
            and not subprocess.run([python, "-c", "import setuptools"], capture_output=True, check=False).returncode
        ):
            return python
    return None


def test_an_optional_extension_that_really_failed(tmp_path: Path) -> None:
    """setuptools itself: exit code 0, a warning, and no extension."""
    if shutil.which("gcc") is None or (python := with_setuptools()) is None:
        pytest.skip("no gcc on PATH, or no interpreter with setuptools and Python.h")
    (tmp_path / "b.c").write_text("#error not today\n")
    (tmp_path / "setup.py").write_text(
        "from setuptools import Extension, setup\n"
        "setup(name='tiny', ext_modules=[Extension('tiny._maybe', ['b.c'], optional=True)])\n"
    )
    command = [python, "setup.py", "build_ext", "--build-lib", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    output = (done.stdout + done.stderr).splitlines()
    assert failed_optional(output) == declared_optional(tmp_path) == ("tiny/_maybe",)


def test_rust_that_was_left_out() -> None:
    lines = ["error: can't find Rust compiler", "build_rust: optional Rust extension tiny.tiny-rs failed"]
    assert failed_optional(lines) == (NO_RUST, "tiny/tiny-rs")


def test_a_declared_part_that_is_missing_needs_a_reason(bench: Bench) -> None:
    wheel = bench.wheel()
    with pytest.raises(BuildError, match="its wheel lacks tiny/_maybe") as caught:
        bench.finish(wheel, optional=("tiny/_maybe", "tiny/_C"))
    assert "build.optional_members" in caught.value.action
    build = bench.loaded.matrix.build.model_copy(update={"optional_members": {"tiny/_may*": "not for this GPU at all"}})
    matrix = bench.loaded.matrix.model_copy(update={"build": build})
    found = missing_members(
        read_wheel(wheel), replace(bench.loaded, matrix=matrix), bench.plan, (), ("tiny/_maybe", "tiny/_C")
    )
    assert found == {"tiny/_maybe": "not for this GPU at all"}


def test_a_shell_without_device_code_lacks_nothing(bench: Bench) -> None:
    plan = replace(bench.plan, expects_device_code=False)
    wheel = bench.wheel(extensions={})
    assert missing_members(read_wheel(wheel), bench.loaded, plan, (NO_RUST,), ("tiny/_maybe",)) == {}
