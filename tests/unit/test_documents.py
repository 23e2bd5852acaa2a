"""The documents agree with what they describe."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def section(title: str) -> str:
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_ci_calls_the_readmes_test_command() -> None:
    command = re.search(r"```sh\n(.+)\n```", section("The tests"))
    assert command
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith(f"\n{command[1]}")


def test_every_session_that_a_document_names_is_one() -> None:
    source = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    sessions = {node.name for node in source.body if isinstance(node, ast.FunctionDef)}
    for document in DOCUMENTS:
        for name in re.findall(r"nox -s ([a-z][\w-]*)", document.read_text(encoding="utf-8")):
            assert name in sessions or name.startswith("build-"), f"{document.name}: nox -s {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_every_exit_code_is_documented() -> None:
    from qualify.errors import ExitCode

    documented = {
        int(code) for code in re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "exit-codes.md").read_text(), re.M)
    }
    assert documented == {int(code) for code in ExitCode} | {70}
