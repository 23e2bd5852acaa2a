"""Repair with the real auditwheel: what is bundled, what is left to torch and the driver, and when the bytes stay."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builders.engines.local import LocalEngine, LocalRoom
from builders.environment import Prepared
from builders.plan import Plan
from builders.planning import make_plan
from builders.progress import BuildLog
from builders.repair import DRIVER, FOLDER, excluded, repair_in
from qualify.errors import BuildError, UnavailableError
from qualify.opening import read_wheel
from tests.support.engines import Heard, request
from tests.support.wheel import write_wheel
from tests.unit.builders_support import sdist_matrix

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64", reason="a compiler for x86_64 is needed"
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(sdist_matrix(tmp_path), "x86_64-sm90")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[LocalRoom]:
    with LocalEngine(tmp_path / "engine").open(request(), Heard()) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BuildLog]:
    with (tmp_path / "stderr").open("w") as stderr, BuildLog(tmp_path / "log", stderr) as opened:
        yield opened


def prepared(*provided: str, python: str = sys.executable) -> Prepared:
    tools = {"auditwheel": "6.8.2"}
    return Prepared("python", "3.12", "", "", {}, provided, False, repair_python=python, repair_tools=tools)


def linked_wheel(room: LocalRoom, folder: Path) -> Path:
    """A wheel whose extension needs ``libfoo.so.1``, which lies outside it."""
    folder.mkdir()
    (folder / "foo.c").write_text("int foo(void) { return 1; }\n")
    (folder / "ext.c").write_text(
        'int foo(void); int puts(const char *); int PyInit__ext(void) { return puts("x") + foo(); }\n'
    )
    gcc = ["gcc", "-fPIC", "-shared"]
    subprocess.run([*gcc, "foo.c", "-Wl,-soname,libfoo.so.1", "-o", "libfoo.so.1"], cwd=folder, check=True)
    link = [*gcc, "ext.c", "-o", "_ext.abi3.so", "-L.", "-l:libfoo.so.1", f"-Wl,-rpath,{folder}"]
    subprocess.run(link, cwd=folder, check=True)
    files = {"tiny/_ext.abi3.so": (folder / "_ext.abi3.so").read_bytes()}
    made = write_wheel(folder, name="tiny", version="1.0", tag="cp312-cp312-linux_x86_64", extensions={}, files=files)
    return shutil.copy(made, Path(room.paths.out) / made.name)


def test_a_library_that_nobody_brings_is_bundled(room: LocalRoom, plan: Plan, log: BuildLog, tmp_path: Path) -> None:
    linked_wheel(room, tmp_path / "made")
    done = repair_in(room, prepared(), plan, log)
    assert done.tool == "auditwheel 6.8.2"
    (bundled,) = done.bundled
    assert bundled.startswith("tiny.libs/libfoo-")
    assert done.file.startswith(f"{FOLDER}/tiny-1.0-")
    assert (Path(room.paths.out) / done.file).is_file()


def test_what_torch_brings_is_left_to_it_and_the_bytes_stay(
    room: LocalRoom, plan: Plan, log: BuildLog, tmp_path: Path
) -> None:
    linked_wheel(room, tmp_path / "made")
    done = repair_in(room, prepared("libfoo.so.1"), plan, log)
    assert (done.bundled, done.file) == ((), "")
    assert done.excluded == len(DRIVER) + 1
    assert "the bytes stay as they were compiled" in done.said


def test_the_driver_s_libraries_are_never_bundled() -> None:
    assert excluded(("libtorch.so", "libc10.so", "libtorch.so")) == [*DRIVER, "libc10.so", "libtorch.so"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"repair": "tag"}, "the true tag alone"),
        ({"machine": "aarch64"}, "a cross build"),
    ],
)
def test_where_it_is_not_done_and_why(
    room: LocalRoom, plan: Plan, log: BuildLog, change: dict[str, str], said: str
) -> None:
    done = repair_in(room, prepared(), replace(plan, **change), log)  # type: ignore[arg-type]
    assert done.tool == ""
    assert said in done.said


def test_a_host_s_environment_gets_no_auditwheel(room: LocalRoom, plan: Plan, log: BuildLog) -> None:
    done = repair_in(room, prepared(python=""), plan, log)
    assert "no auditwheel was installed" in done.said


def test_a_wheel_that_auditwheel_cannot_read_stops_the_build(room: LocalRoom, plan: Plan, log: BuildLog) -> None:
    Path(room.paths.out, "tiny-1.0-cp312-cp312-linux_x86_64.whl").write_bytes(b"no archive")
    with pytest.raises(BuildError, match=r"auditwheel failed: .*not a zip file") as caught:
        repair_in(room, prepared(), plan, log)
    assert "`repair: tag`" in caught.value.action


def test_a_library_that_is_nowhere_stops_the_build(room: LocalRoom, plan: Plan, log: BuildLog, tmp_path: Path) -> None:
    linked_wheel(room, tmp_path / "made")
    (tmp_path / "made" / "libfoo.so.1").unlink()
    with pytest.raises(BuildError) as caught:
        repair_in(room, prepared(), plan, log)
    assert caught.value.what == 'the wheel can\'t be repaired: required library "libfoo.so.1" could not be located'
    assert "install it in the base image" in caught.value.action


def test_a_wheel_without_binaries_stays_as_it_is(room: LocalRoom, plan: Plan, log: BuildLog) -> None:
    write_wheel(Path(room.paths.out), name="tiny", version="1.0", tag="cp312-cp312-linux_x86_64", extensions={})
    done = repair_in(room, prepared(), plan, log)
    assert done.said.startswith("auditwheel would not: ")
    assert "does not look like a platform wheel" in done.said
    assert done.file == ""


def test_no_auditwheel_is_the_environment_s_fault(room: LocalRoom, plan: Plan, log: BuildLog) -> None:
    with pytest.raises(UnavailableError, match=r"did not start|auditwheel gave no answer"):
        repair_in(room, prepared(python="/nonexistent/python"), plan, log)
    write_wheel(Path(room.paths.out), name="tiny", version="1.0", extensions={})
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is not None and subprocess.run([python, "-I", "-c", "import auditwheel"], check=False).returncode:
        with pytest.raises(BuildError, match="No module named auditwheel"):
            repair_in(room, prepared(python=python), plan, log)


def test_a_repair_that_an_earlier_try_left_is_not_taken(
    room: LocalRoom, plan: Plan, log: BuildLog, tmp_path: Path
) -> None:
    linked_wheel(room, tmp_path / "made")
    assert repair_in(room, prepared(), plan, log).bundled
    assert repair_in(room, prepared("libfoo.so.1"), plan, log).file == ""


def test_the_repaired_wheel_is_the_same_under_its_new_tag(
    room: LocalRoom, plan: Plan, log: BuildLog, tmp_path: Path
) -> None:
    linked_wheel(room, tmp_path / "made")
    done = repair_in(room, prepared(), plan, log)
    facts = read_wheel(Path(room.paths.out) / done.file)
    assert facts.problems == ()
    assert all(tag.startswith("cp312-cp312-manylinux") for tag in facts.tags), facts.tags
    assert set(done.bundled) < {member.path for member in facts.members}
