"""The worked examples of CONTRIBUTING.md work."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualify import evidence, matrix, publishers
from qualify.checks import elf, registry
from qualify.checks.case import Case
from qualify.files import write_atomic
from qualify.judging import judge, policy_for
from qualify.publishers import folder
from tests.mutants import case, making
from tests.support.line import NOW, qualified, write_matrix
from tests.support.store import listed
from tests.support.wheel import TAG
from tests.unit.judging_support import context

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(section: str, language: str, number: int = 0) -> str:
    body = TEXT.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"```{language}\n(.*?)```", body, re.DOTALL)[number]


def test_the_check_rejects_its_mutant_alone_and_accepts_its_near_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CHECKS", dict(registry._CHECKS))
    exec(block("A new check", "python"), names := dict(vars(elf)))
    cases: dict[str, Any] = {**vars(making), **vars(case), "TAG": TAG}
    exec(block("A new check", "python", 1), cases)
    function: Callable[[Case], Any] = names["starts_a_shell"]
    fault, fine = (cases[name].make() for name in ("MUTANT", "NEAR_MISS"))
    policy = policy_for(fault, context())
    assert [seen.member for seen in function(Case(fault, policy))] == ["axpy/_host.abi3.so"]
    assert list(function(Case(fine, policy))) == []
    for facts in (fault, fine):
        assert judge(facts, context()).verdict == "qualified"  # no check of today sees it


def test_the_target_loads(tmp_path: Path) -> None:
    text = (ROOT / "matrix.yaml").read_text(encoding="utf-8")
    (tmp_path / "matrix.yaml").write_text(
        text.replace("\ntargets:\n", "\ntargets:\n" + block("A new target", "yaml"), 1), encoding="utf-8"
    )
    assert matrix.load(tmp_path / "matrix.yaml").matrix.targets["x86_64-sm120"].arch_list == "12.0"


def test_the_publisher_publishes(tmp_path: Path) -> None:
    names: dict[str, Any] = {**vars(publishers), "folder": folder, "write_atomic": write_atomic, "Path": Path}
    exec(block("A new publisher", "python"), names)
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path, "x86_64-sm90")
    proof = evidence.prove(evidence.load(made.path), made.wheel, matrix.load(path))
    published = names["publish"]([proof], str(tmp_path / "to"), now=NOW)
    assert listed(tmp_path / "to", "")
    assert (tmp_path / "to" / "SHA256SUMS").read_text() == f"{published[0].sha256}  {made.wheel.name}\n"
