"""The documents agree with what they describe."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, NEAR_MISSES
from tests.mutants.matrix import judged, render

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
    given = (decorator for node in source.body for decorator in getattr(node, "decorator_list", ()))
    names = (keyword for each in given if isinstance(each, ast.Call) for keyword in each.keywords)
    sessions |= {str(each.value.value) for each in names if each.arg == "name" and isinstance(each.value, ast.Constant)}
    for document in DOCUMENTS:
        for name in re.findall(r"nox -s ([a-z][\w-]*)", document.read_text(encoding="utf-8")):
            assert name in sessions or name.startswith("build-"), f"{document.name}: nox -s {name}"


def test_the_page_of_proofs_says_what_the_mutants_prove_now() -> None:
    rows = [judged(case) for case in (*MUTANTS, *NEAR_MISSES)]
    assert f"```text\n{render(rows)[-1]}\n```" in (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_page_on_torch_says_what_the_table_holds() -> None:
    table = json.loads((ROOT / "qualify" / "data" / "torch_stable.json").read_text(encoding="utf-8"))
    functions = sum(len(names.split()) for names in table["functions"].values())
    oldest, newest = (list(table["sources"])[index].rpartition(".")[0] for index in (0, -1))
    page = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8")
    assert f"a table of {functions} functions, made from the headers of torch {oldest} to {newest}" in page


def test_every_exit_code_is_documented() -> None:
    from qualify.errors import ExitCode

    documented = {
        int(code) for code in re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "exit-codes.md").read_text(), re.M)
    }
    assert documented == {int(code) for code in ExitCode} | {70}
