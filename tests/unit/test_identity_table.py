"""docs/identity.md: every row of its tables is what the parser says of that string."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.identitytext import identity_of_version
from tests.unit.test_identity import STRINGS

PAGE = Path(__file__).parents[2] / "docs" / "identity.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").split("\n")
    if line.startswith("| `")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
def test_a_row_of_the_page(row: list[str]) -> None:
    found = identity_of_version(row[0].strip("`"))
    assert row[1:] == [
        found.base or "no version",
        "" if found.dev is None else str(found.dev),
        found.commit,
        found.build_mode if found.base else "",
        found.toolkit,
        found.dirty,
        " ".join(found.other),
    ]


def test_the_page_names_each_string_once_and_leaves_few_of_the_tests_out() -> None:
    texts = [row[0].strip("`") for row in ROWS]
    assert len(texts) == len(set(texts)) >= 45
    assert len(STRINGS.keys() - set(texts)) <= 1


@pytest.mark.parametrize(
    ("text", "toolkit", "commit", "other"),
    [
        ("2.7.1+rocm6.4.1.git2a215e4a", "rocm6.4.1", "2a215e4a", ()),
        ("2.7.1+6.4", "", "", ("6", "4")),
        ("2.7.1+cu130.4", "cu130", "", ("4",)),
        ("2.7.1+git2a215e", "", "", ("git2a215e",)),
        ("2.7.1+rocm6.git2a215e4a.4", "rocm6", "2a215e4a", ("4",)),
    ],
)
def test_the_numbers_of_a_rocm_release_are_one_toolkit(
    text: str, toolkit: str, commit: str, other: tuple[str, ...]
) -> None:
    found = identity_of_version(text)
    assert (found.toolkit, found.commit, found.other) == (toolkit, commit, other)
    assert found.version() == text
