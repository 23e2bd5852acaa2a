"""The example, changed by a patch: what copies a binary into the build, strips its own, or takes too much memory."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.docker,
    pytest.mark.network,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on PATH"),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "axpy"
INSTALL = "            subprocess.check_call(install, cwd=self.build_temp)\n"
TARGET = "x86_64-sm90"


def build(folder: Path, file: str, before: str, after: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the example with one change, as a patch of its pin."""
    text = (EXAMPLE / "source" / file).read_text(encoding="utf-8")
    assert text.count(before) == 1
    lines = [each.splitlines(keepends=True) for each in (text, text.replace(before, after))]
    patch = "".join(difflib.unified_diff(lines[0], lines[1], f"a/{file}", f"b/{file}"))
    (folder / "change.patch").write_text(patch, encoding="utf-8")
    shutil.copy(EXAMPLE / "axpy.bundle", folder)
    sha256 = hashlib.sha256(patch.encode()).hexdigest()
    matrix = (EXAMPLE / "matrix.yaml").read_text(encoding="utf-8")
    pinned = "  build_modes: [source, unstated]\n"
    assert pinned in matrix
    patches = f"  patches: [{{file: change.patch, sha256: {sha256}, reason: a change for this test}}]\n"
    (folder / "matrix.yaml").write_text(matrix.replace(pinned, pinned + patches), encoding="utf-8")
    command = [sys.executable, "-m", "builders", "build", TARGET, "--engine", "docker"]
    command += ["--matrix", str(folder / "matrix.yaml"), "--out", str(folder / "out")]
    return subprocess.run([*command, *options], capture_output=True, text=True, timeout=900, check=False)


def prebuilt(folder: Path) -> bytes:
    """A module of the same name that was compiled elsewhere."""
    (folder / "host.c").write_text("int PyInit__host(void) { return 0; }\n")
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-s", "host.c", "-o", "host.so"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "host.so").read_bytes()


def test_a_prebuilt_library_that_is_copied_into_the_build(tmp_path: Path) -> None:
    content = base64.b64encode(prebuilt(tmp_path)).decode()
    copy = (
        '            if target == "_host":\n'
        "                import base64\n"
        f'                (prefix / "axpy" / "_host.abi3.so").write_bytes(base64.b64decode("{content}"))\n'
    )
    done = build(tmp_path, "setup.py", INSTALL, INSTALL + copy)
    assert done.returncode == 5, done.stderr
    assert "rejected: not compiled here: axpy/_host.abi3.so: " in done.stderr
    assert "PyInit__host" in done.stderr
    assert "axpy/_C.abi3.so:" not in done.stderr, "the other one was compiled"
    assert not list((tmp_path / "out").glob("*.whl"))


def test_its_own_library_that_is_stripped(tmp_path: Path) -> None:
    strip = '            subprocess.check_call(["strip", str(prefix / "axpy" / f"{target}.abi3.so")])\n'
    done = build(tmp_path, "setup.py", INSTALL, INSTALL + strip)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "out").glob("*.receipt.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["source"]["patches"] == {
        "change.patch": hashlib.sha256((tmp_path / "change.patch").read_bytes()).hexdigest()
    }
    members = document["proof"]["members"]
    assert [member["provenance"] for member in members] == ["compiled here"] * 2
    assert all("1 of 1 symbols" in member["why"] for member in members)


def test_a_part_that_cmake_says_it_leaves_out(tmp_path: Path) -> None:
    text = (EXAMPLE / "source" / "CMakeLists.txt").read_text(encoding="utf-8")
    last = text.splitlines(keepends=True)[-1]
    said = 'message(STATUS "Not building axpy_fp4 as no compatible archs found in CUDA target architectures")\n'
    done = build(tmp_path, "CMakeLists.txt", text, text.removesuffix(last) + last.rstrip("\n") + "\n" + said)
    assert done.returncode == 5, done.stderr
    assert "Not building axpy_fp4 as no compatible archs" in done.stderr
    assert "build.configure.expected and the target's not_built" in done.stderr


def test_two_steps_that_have_no_room_beside_each_other(tmp_path: Path) -> None:
    """Killed with two jobs, and built with one in the same command and the same build folder."""
    last = "axpy_extension(_host csrc/host.cpp)\n"
    eat = "b = b'x' * 800_000_000; __import__('time').sleep(4)"
    hungry = "".join(
        f'add_custom_target(eat{index} COMMAND python3 -c "{eat}" VERBATIM)\nadd_dependencies(_C eat{index})\n'
        for index in (1, 2)
    )
    done = build(tmp_path, "CMakeLists.txt", last, last + hungry, "--jobs", "2", "--memory", "1.2")
    assert done.returncode == 0, done.stderr
    assert "killed for memory with 2 jobs, at a peak of 1.2 GB; again in the same build folder with 1" in done.stderr
    (path,) = (tmp_path / "out").glob("*.receipt.json")
    tries = json.loads(path.read_text(encoding="utf-8"))["tries"]
    assert [(each["jobs"], each["killed_for_memory"], each["code"] == 0) for each in tries] == [
        (2, True, False),
        (1, False, True),
    ]
