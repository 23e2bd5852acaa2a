"""Compiled files in a fresh export: found by their first bytes, whatever they are called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.source_foreign import foreign_files, refuse_foreign
from qualify.errors import PreflightError, UnverifiedError
from tests.unit.builders_support import write_tree


def test_by_the_first_bytes_and_not_by_the_name(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"a.so": "text", "b.txt": "\x7fELF", "c/d": "\x7fELF", "e": "\x7fEL", "f": "", ".git/g": "\x7fELF"}
    )
    (tmp_path / "link.so").symlink_to("b.txt")
    os.mkfifo(tmp_path / "pipe")
    assert foreign_files(tmp_path) == ("b.txt", "c/d")
    assert foreign_files(tmp_path, ["c/*"]) == ("b.txt",)
    refuse_foreign(tmp_path, ["*"], "here")


def test_all_are_named_up_to_a_bound(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{number:02d}.o": "\x7fELF" for number in range(25)})
    with pytest.raises(PreflightError, match=r"25 compiled files.*00\.o, .*19\.o and 5 more") as caught:
        refuse_foreign(tmp_path, (), "tiny-1.0.tar.gz")
    assert caught.value.where == "tiny-1.0.tar.gz"


def test_a_tree_too_large_to_look_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {"a": "", "b": ""})
    monkeypatch.setattr("builders.source_foreign.MAX_FILES", 1)
    with pytest.raises(UnverifiedError, match="was not looked at"):
        foreign_files(tmp_path)
