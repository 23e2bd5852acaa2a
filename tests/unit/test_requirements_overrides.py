"""What the matrix changes in the tree's build requirements, and where the tree's own files say otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.planning import make_plan
from builders.requirements import Environment, asked_by_backend, lacking_of_backend
from builders.requirements_overrides import MAX_BYTES, file_differences, overridden
from builders.toolsearch import Host
from qualify.errors import ConfigurationError, PreflightError
from qualify.matrix import load
from qualify.matrix.model import RequirementOverrides
from tests.unit.builders_support import FILES, sdist_matrix, write_tree

TREE = ("setuptools>=77", "setuptools-rust >= 1.9", "torch == 2.13.0", "wheel")
HOST = Host("x86_64", 8, 64 * 10**9)
WHY = "the reason for it"


def changed(**overrides: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return overridden(TREE, RequirementOverrides.model_validate(overrides))


def test_without_changes_the_list_is_the_tree_s() -> None:
    assert changed() == (TREE, ())


def test_each_change_is_made_and_said_with_its_reason() -> None:
    requirements, said = changed(
        remove=[{"name": "Wheel", "reason": WHY}],
        replace=[{"name": "setuptools_rust", "requirement": "setuptools-rust==1.12", "reason": WHY}],
        add=[{"requirement": "numpy>=2", "reason": WHY}],
    )
    assert requirements == ("setuptools>=77", "setuptools-rust==1.12", "torch == 2.13.0", "numpy>=2")
    assert said == (
        f"removed Wheel: {WHY}",
        f"replaced setuptools-rust >= 1.9 by setuptools-rust==1.12: {WHY}",
        f"added numpy>=2: {WHY}",
    )


def test_of_several_requirements_on_one_project_one_is_left() -> None:
    overrides = RequirementOverrides.model_validate({"replace": [{"name": "a", "requirement": "a==3", "reason": WHY}]})
    both = ("a>=1; python_version < '3.12'", "b", "a>=2; python_version >= '3.12'")
    assert overridden(both, overrides)[0] == ("a==3", "b")


@pytest.mark.parametrize(
    ("overrides", "where"),
    [
        ({"remove": [{"name": "numpy", "reason": WHY}]}, "build.requirements.remove"),
        ({"replace": [{"name": "numpy", "requirement": "numpy==2", "reason": WHY}]}, "build.requirements.replace"),
        (
            {
                "remove": [{"name": "wheel", "reason": WHY}],
                "replace": [{"name": "wheel", "requirement": "wheel==1", "reason": WHY}],
            },
            "build.requirements.replace",
        ),
    ],
)
def test_a_change_that_changes_nothing_is_a_mistake(overrides: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the tree asks for no (numpy|wheel)") as caught:
        changed(**overrides)
    assert caught.value.where == where
    assert caught.value.expected == "one of setuptools, setuptools-rust, torch, wheel"
    assert "remove the line from the matrix" in caught.value.action


def test_what_the_tree_asks_for_already_is_not_added() -> None:
    with pytest.raises(ConfigurationError, match=r"asks for setuptools-rust>=1\.9 already"):
        changed(add=[{"requirement": "setuptools-rust>=1.9", "reason": WHY}])


def test_what_is_no_requirement_is_refused() -> None:
    with pytest.raises(PreflightError, match="'numpy 2' is no requirement"):
        changed(add=[{"requirement": "numpy 2", "reason": WHY}])


def test_the_plan_has_the_changes(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    before = make_plan(loaded, "x86_64-sm90", host=HOST)
    text = loaded.path.read_text().replace(
        "  torch: true\n", f"  torch: true\n  requirements: {{add: [{{requirement: numpy>=2, reason: {WHY}}}]}}\n"
    )
    loaded.path.write_text(text)
    plan = make_plan(load(loaded.path), "x86_64-sm90", host=HOST)
    assert plan.requirements == (*before.requirements, "numpy>=2")
    assert plan.overrides == (f"added numpy>=2: {WHY}",)
    assert plan.key() != before.key()
    loaded.path.write_text(text.replace(WHY, "another reason"))
    assert make_plan(load(loaded.path), "x86_64-sm90", host=HOST).key() == plan.key()  # why decides no bytes


def test_differences_of_the_tree_s_files_are_notes(tmp_path: Path) -> None:
    tree = write_tree(
        tmp_path,
        {
            "requirements/build.txt": "# for a build\n-r common.txt\nsetuptools>=70 # old\n"
            "torch==2.13.0 \\\n --hash=x\n"
            "--extra-index-url https://example.org\nsetuptools_rust>=1.9\nnot a requirement\n",
            "requirements/common.txt": "ninja\n-r build.txt\n",
        },
    )
    assert file_differences(tree, ["requirements/build.txt"], TREE) == (
        "requirements/build.txt: 'not a requirement' can't be read as a requirement",
        "requirements/build.txt says ninja, [build-system].requires says nothing of ninja",
        "requirements/build.txt says setuptools>=70, [build-system].requires says setuptools>=77",
        "requirements/build.txt says nothing of wheel, [build-system].requires says wheel",
    )


@pytest.mark.parametrize(
    ("files", "name", "said"),
    [
        ({}, "gone.txt", "is not a file of the tree"),
        ({}, "../outside.txt", "is not a file of the tree"),
        ({"a.txt": "-r /etc/hostname\n"}, "a.txt", "is not a file of the tree"),
        ({"big.txt": "#" * (MAX_BYTES + 1)}, "big.txt", "too large"),
        ({f"{n}.txt": f"-r {n + 1}.txt\n" for n in range(30)}, "0.txt", "leads to too many files"),
    ],
)
def test_a_file_that_can_t_be_compared_is_named(tmp_path: Path, files: dict[str, str], name: str, said: str) -> None:
    (tmp_path / "outside.txt").write_text("x")
    (note,) = (
        file_differences(write_tree(tmp_path / "tree", files), [name], TREE)
        if files
        else file_differences(tmp_path / "tree", [name], TREE)
    )
    assert note.startswith(f"{name}: ")
    assert said in note
    assert note.endswith("it was not compared")


def test_the_plan_has_the_notes(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path, {**FILES, "build.txt": "setuptools>=77\ntorch==2.12.0\nwheel\n"})
    text = loaded.path.read_text().replace("  torch: true\n", "  torch: true\n  requirements_files: [build.txt]\n")
    loaded.path.write_text(text)
    assert make_plan(load(loaded.path), "x86_64-sm90", host=HOST).notes == (
        "build.txt says torch==2.12.0, [build-system].requires says torch==2.13.0",
    )


FACTS = {
    "interpreter": {
        "distributions": [{"name": "Torch", "version": "2.14.0+cu130", "requires": []}],
        "markers": {"python_version": "3.12"},
    },
    "hook": {"failed": "", "seconds": 1, "requirements": ["torch==2.13.0", "pybind11>=2", "pybind11>=2", "rusty"]},
}


def test_what_the_backend_asks_for_and_the_interpreter_lacks() -> None:
    assert Environment.of(FACTS["interpreter"]).version("torch") == "2.14.0+cu130"
    assert lacking_of_backend(FACTS, "torch==2.14.0") == ("pybind11>=2", "rusty")
    assert lacking_of_backend(FACTS, "torch==2.15.0", ["rusty"]) == ("torch==2.15.0", "pybind11>=2")
    assert asked_by_backend(FACTS, "torch==2.15.0", ["rusty"]) == ("torch==2.15.0", "pybind11>=2")
    assert lacking_of_backend(FACTS, "") == ("torch==2.13.0", "pybind11>=2", "rusty")


@pytest.mark.parametrize(
    "facts", [{}, {**FACTS, "hook": None}, {**FACTS, "interpreter": None}, {**FACTS, "hook": {"failed": "it raised"}}]
)
def test_of_a_backend_that_was_not_asked_nothing_is_known(facts: dict[str, Any]) -> None:
    assert lacking_of_backend(facts, "torch==2.14.0") == ()
