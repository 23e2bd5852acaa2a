"""``qualify explain``, and the page that is made from the same docstrings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualify.checks import CHECKS
from qualify.checks.catalogue import markdown
from qualify.cli import main
from qualify.report import Severity

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(CHECKS), (
        "write it anew: qualify explain --markdown > docs/checks.md"
    )


@pytest.mark.parametrize("name", ["DEV002", "jit-only-kernels"])
def test_one_check_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("DEV002 jit-only-kernels  (Device code; error; can be waived for a wheel or a pin)\n")
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


def test_it_is_said_what_can_be_waived(capsys: pytest.CaptureFixture[str]) -> None:
    for code, said in (("ARC001", "; can be waived never)"), ("DRV002", "; can be waived for a wheel alone)")):
        assert main(["explain", code]) == 0
        assert said in capsys.readouterr().out.partition("\n")[0]
    main(["explain", "DEV005"])
    assert "waived" not in capsys.readouterr().out.partition("\n")[0]


def test_the_catalogue_is_there_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["version"] == 1
    assert [row["code"] for row in value["checks"]] == [check.code for check in CHECKS]
    for row in value["checks"]:
        assert set(row) == {"code", "slug", "family", "severities", "waivable", "what", "why", "mend"}
        assert all(row.values())
        assert set(row["severities"]) == {"upstream", "release"}
        assert row["waivable"] in {"any", "wheel", "never"}
    assert main(["explain", "NAM004", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["checks"]
    assert row["severities"] == {"upstream": "note", "release": "error"}
    assert row["mend"].startswith("retag with")


def test_the_two_forms_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", "--markdown"]) == 2


@pytest.mark.parametrize(("wrong", "near"), [("DEV02", "DEV002"), ("DVE001", "DEV001"), ("WVR01", "WVR001")])
def test_a_mistyped_code_is_met_with_the_near_ones(wrong: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", wrong]) == 2
    assert near in capsys.readouterr().err


def test_every_severity_stands_in_the_head_of_the_page() -> None:
    head = markdown(CHECKS).partition("\n## ")[0]
    for severity in Severity:
        assert f"\n| {severity.value} | " in head
