"""What pip would install on another machine and Python: real wheels in a folder, and the pip of this interpreter."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.markers import Marker

from builders.requirements_resolve import PIP_ELSEWHERE, distributions_of, glibc_of, markers_of, platforms, resolve
from qualify.errors import PreflightError, UnavailableError
from tests.support.wheel import write_wheel
from tests.unit.builders_support import sdist_matrix


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of wheels with requirements that differ by machine and Python."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    requires = [
        "onlyx86; platform_machine == 'x86_64'",
        "onlyarm; platform_machine == 'aarch64'",
        "older; python_version < '3.12'",
        "windows; sys_platform == 'win32'",
    ]
    write_wheel(folder, "app", "1.0", "py3-none-any", {}, requires=requires)
    write_wheel(folder, "onlyx86", "1.0", "py3-none-manylinux_2_28_x86_64", {})
    write_wheel(folder, "onlyarm", "1.0", "py3-none-manylinux_2_28_aarch64", {})
    write_wheel(folder, "older", "1.0", "cp311-cp311-manylinux2014_aarch64", {})
    write_wheel(folder, "older", "1.0", "cp311-cp311-manylinux2014_x86_64", {})
    write_wheel(folder, "glib", "1.0", "py3-none-manylinux_2_28_x86_64", {})
    write_wheel(folder, "glib", "2.0", "py3-none-manylinux_2_39_x86_64", {})
    write_wheel(folder, "stable", "1.0", "cp39-abi3-manylinux_2_17_x86_64", {})
    return folder


def only(folder: Path) -> dict[str, str]:
    """pip's variables under which it sees that folder alone."""
    return {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


def names(lines: tuple[str, ...]) -> list[str]:
    return [line.split()[0] for line in lines]


@pytest.mark.parametrize(
    ("python", "machine", "expected"),
    [
        ("3.11", "x86_64", ["app==1.0", "older==1.0", "onlyx86==1.0"]),
        ("3.12", "x86_64", ["app==1.0", "onlyx86==1.0"]),
        ("3.11", "aarch64", ["app==1.0", "older==1.0", "onlyarm==1.0"]),
        ("3.14", "aarch64", ["app==1.0", "onlyarm==1.0"]),
    ],
)
def test_the_markers_are_those_of_the_place_that_is_meant(
    index: Path, python: str, machine: str, expected: list[str]
) -> None:
    assert names(resolve(["app"], python, machine, glibc="2.36", environment=only(index))) == expected


def test_each_line_has_the_sha256_of_its_file(index: Path) -> None:
    (line,) = resolve(["stable"], "3.12", "x86_64", glibc="2.17", environment=only(index))
    data = (index / "stable-1.0-cp39-abi3-manylinux_2_17_x86_64.whl").read_bytes()
    assert line == f"stable==1.0 sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize(("glibc", "version"), [("2.36", "1.0"), ("2.41", "2.0")])
def test_no_wheel_asks_for_a_newer_glibc_than_the_image_has(index: Path, glibc: str, version: str) -> None:
    assert names(resolve(["glib"], "3.12", "x86_64", glibc=glibc, environment=only(index))) == [f"glib=={version}"]


def test_without_dependencies_only_what_is_asked_for(index: Path) -> None:
    found = resolve(["app"], "3.12", "x86_64", glibc="2.36", with_dependencies=False, environment=only(index))
    assert names(found) == ["app==1.0"]
    assert resolve([], "3.12", "x86_64", glibc="2.36", environment=only(index)) == ()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["nowhere>=3"], "nowhere>=3"),
        (["onlyarm"], "onlyarm"),  # there, and for another machine
        (["glib==1.0", "glib==2.0"], "conflict"),
    ],
)
def test_what_can_t_be_had_is_named(index: Path, asked: list[str], said: str) -> None:
    with pytest.raises(PreflightError, match=said) as caught:
        resolve(asked, "3.12", "x86_64", glibc="2.36", environment=only(index))
    assert caught.value.where == "Python 3.12 on x86_64"
    assert caught.value.action


def test_an_index_that_does_not_answer_is_the_network_s_fault(tmp_path: Path) -> None:
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
    }
    with pytest.raises(UnavailableError, match="the package index does not answer"):
        resolve(["app"], "3.12", "x86_64", glibc="2.36", environment=variables)


def fake_pip(folder: Path, evaluate: str) -> dict[str, str]:
    """An interpreter's variables with a pip that evaluates markers in its own way."""
    package = folder / "pip" / "_vendor" / "packaging"
    package.mkdir(parents=True)
    for place in (folder / "pip", package.parent, package):
        (place / "__init__.py").write_text("")
    (package / "markers.py").write_text(
        "def default_environment(): return {}\n"
        f"class Marker:\n    def __init__(self, text): pass\n    def evaluate(self): return {evaluate}\n"
    )
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_a_pip_that_evaluates_markers_for_its_own_machine_is_refused(tmp_path: Path) -> None:
    variables = fake_pip(tmp_path, "False")
    with pytest.raises(PreflightError, match="this pip evaluates markers for the machine that it runs on"):
        resolve(["app"], "3.12", "x86_64", glibc="2.36", environment=variables)


def test_an_interpreter_without_pip_is_named(tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text("")
    with pytest.raises(PreflightError, match="has no pip"):
        resolve(["app"], "3.12", "x86_64", glibc="2.36", environment={**os.environ, "PYTHONPATH": str(tmp_path)})


def test_the_program_runs_pip_itself() -> None:
    command = [sys.executable, str(PIP_ELSEWHERE), json.dumps(markers_of("3.12", "aarch64")), "--version"]
    assert subprocess.check_output(command, text=True).startswith("pip ")


def test_every_marker_of_the_standard_is_known() -> None:
    from packaging.markers import default_environment

    assert markers_of("3.12", "aarch64").keys() == dict(default_environment()).keys()
    own = markers_of(f"{sys.version_info.major}.{sys.version_info.minor}", os.uname().machine)
    here = dict(default_environment())
    told_apart = {"implementation_version", "platform_release", "platform_version", "python_full_version"}
    assert {name: own[name] for name in own.keys() - told_apart} == {
        name: here[name] for name in here.keys() - told_apart
    }
    assert Marker("python_full_version >= '3.12.0'").evaluate(markers_of("3.12", "x86_64"))


def test_a_distribution_without_a_sha256_is_refused() -> None:
    item = {"metadata": {"name": "X", "version": "1"}, "download_info": {"vcs_info": {}}}
    with pytest.raises(PreflightError, match="x 1 comes without a sha256"):
        distributions_of({"install": [item]})


def test_platforms_reach_from_the_image_s_glibc_to_the_oldest_of_the_machine() -> None:
    policies = ("manylinux_2_18", "manylinux_2_17", "manylinux2014", "linux")
    assert platforms("aarch64", "2.18") == [f"{name}_aarch64" for name in policies]
    assert "manylinux1_x86_64" in platforms("x86_64", "2.36")
    assert "manylinux2014_x86_64" not in platforms("x86_64", "2.12")


def test_the_glibc_of_a_target_is_that_of_its_base(tmp_path: Path) -> None:
    targets = sdist_matrix(tmp_path).matrix.targets
    assert glibc_of(targets["x86_64-sm90"]) == "2.41"  # Debian 13
    assert glibc_of(targets["aarch64-sm121"]) == "2.28"  # manylinux_2_28
    other = targets["x86_64-sm90"].model_copy(
        update={"base": targets["x86_64-sm90"].base.model_copy(update={"image": "some/image:1", "bootstrap": ""})}
    )
    assert glibc_of(other) == "2.28"  # the ceiling: no older system has to run it
