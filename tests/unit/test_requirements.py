"""PEP 518 requirements, and what an interpreter lacks of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from build import check_dependency

from builders.requirements import LEGACY_BACKEND, Environment, read_backend, replaced, unmet
from builders.toolsearch import Request, collector_source, run_here
from qualify.errors import PreflightError
from tests.unit.builders_support import write_tree

MARKERS = {
    "python_version": "3.12",
    "sys_platform": "linux",
    "platform_machine": "aarch64",
    "python_full_version": "3.12.7",
}


def environment(**distributions: tuple[str, ...]) -> Environment:
    """``name=("1.0", "needs this", …)``."""
    return Environment({n.replace("_", "-"): (v[0], v[1:]) for n, v in distributions.items()}, MARKERS)


def missing(requirement: str, installed: Environment) -> list[tuple[str, str]]:
    return [(one.requirement, one.installed) for one in unmet(requirement, installed)]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("a", []),
        ("A>=1", []),
        ("a>=2", [("a>=2", "1.5")]),
        ("a!=1.5", [("a!=1.5", "1.5")]),
        ("gone", [("gone", "")]),
        ("gone>=1; sys_platform == 'win32'", []),
        ("gone; platform_machine == 'aarch64'", [('gone; platform_machine == "aarch64"', "")]),
        ("gone; extra == 'x'", []),
        ("pre>=2.0.dev1", []),
        ("local==2.14.0", []),
        ("a @ https://example.org/a.tgz", []),
        ("odd>=1", [("odd>=1", "not a version")]),
        ("needs-gone", [("gone>=3", "")]),
        ("needs-gone-extra", []),
        ("needs-gone-extra[x]", [('gone; extra == "x"', "")]),
        ("circle", []),
    ],
)
def test_one_requirement(requirement: str, expected: list[tuple[str, str]]) -> None:
    installed = environment(
        a=("1.5",),
        pre=("2.0.dev3",),
        local=("2.14.0+cu130",),
        odd=("not a version",),
        needs_gone=("1", "gone>=3", "a"),
        needs_gone_extra=("1", "gone; extra == 'x'"),
        circle=("1", "circle2"),
        circle2=("1", "circle"),
    )
    assert missing(requirement, installed) == expected


def test_the_chain_says_who_needs_it() -> None:
    (one,) = unmet("a", environment(a=("1", "b"), b=("1", "c>=2"), c=("1",)))
    assert (one.chain, one.name, one.installed) == (("a", "b", "c>=2"), "c", "1")


REQUIREMENTS = (
    "pytest>=8",
    "pytest<1",
    "build[uv]",
    "build[virtualenv]",
    "hypothesis[numpy]",
    "no-such-distribution>=3",
    "packaging",
    "requests[socks]",
    "PYDANTIC>=2; python_version > '3'",
    "pydantic<1; python_version < '3'",
    "nox[uv]; sys_platform == 'linux'",
)


@pytest.fixture(scope="module")
def here() -> Environment:
    answer = run_here(["-c", collector_source(), json.dumps(Request(python=sys.executable).to_json())])
    return Environment.of(json.loads(answer)["interpreter"])


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_the_same_answer_as_build_gives_in_its_own_interpreter(requirement: str, here: Environment) -> None:
    assert {one.chain for one in unmet(requirement, here)} == set(check_dependency(requirement))


def test_a_tree_with_a_table(tmp_path: Path) -> None:
    text = '[build-system]\nrequires = ["b>=1", "a"]\nbuild-backend = "own"\nbackend-path = ["tools"]\n'
    write_tree(tmp_path, {"pyproject.toml": text, "tools/own.py": ""})
    backend = read_backend(tmp_path)
    assert (backend.name, backend.path, backend.requires) == ("own", ("tools",), ("a", "b>=1"))


@pytest.mark.parametrize("files", [{"setup.py": ""}, {"pyproject.toml": "[project]\nname = 'a'\n"}])
def test_a_tree_without_a_table_has_the_legacy_backend(tmp_path: Path, files: dict[str, str]) -> None:
    backend = read_backend(write_tree(tmp_path, files))
    assert backend.name == LEGACY_BACKEND
    assert [text for text in backend.requires if text.startswith("setuptools")]


@pytest.mark.parametrize(
    "text",
    [
        "[build-system\n",
        "[build-system]\nrequires = 'a'\n",
        "[build-system]\nbuild-backend = 'a'\n",
        "[build-system]\nrequires = ['not a requirement']\n",
        "[build-system]\nrequires = []\nbackend-path = ['../out']\nbuild-backend = 'a'\n",
    ],
)
def test_a_table_that_breaks_the_rules(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path / "tree", {"pyproject.toml": text})
    with pytest.raises(PreflightError):
        read_backend(tmp_path / "tree")


def test_a_folder_that_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="cannot be read"):
        read_backend(tmp_path)


def test_torch_is_replaced_by_the_targets() -> None:
    requires = ("cmake", "torch == 2.14.0", "Torch>=2", "torchvision")
    assert replaced(requires, "torch==2.14.1") == ("cmake", "torch==2.14.1", "torch==2.14.1", "torchvision")
    assert replaced(requires, "") == requires
