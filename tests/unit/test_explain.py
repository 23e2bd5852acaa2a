"""``qualify explain``, and the page that is made from the same docstrings."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.checks import CHECKS
from qualify.checks.catalogue import markdown
from qualify.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(CHECKS), (
        "write it anew: qualify explain --markdown > docs/checks.md"
    )


@pytest.mark.parametrize("name", ["DEV002", "jit-only-kernels"])
def test_one_check_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("DEV002 jit-only-kernels  (Device code; error)\n")
    assert "Why: " in out
    assert "Mend: " in out


def test_a_family_is_explained_by_the_beginning_of_its_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "DRV"]) == 0
    out = capsys.readouterr().out
    assert "DRV001 beyond-driver" in out
    assert "DRV002 driver-unknown" in out


def test_both_severities_are_said_where_the_profiles_differ(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "NAM004"])
    assert "note in upstream, error in release" in capsys.readouterr().out


def test_without_a_name_every_check_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [check.code for check in CHECKS]


def test_an_unknown_name_is_misuse_with_near_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "jit-olny"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "jit-only" in captured.err


def test_the_page_can_be_written_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--markdown"]) == 0
    assert capsys.readouterr().out == markdown(CHECKS)
