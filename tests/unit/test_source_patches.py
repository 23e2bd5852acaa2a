"""The patches of a pin: their bytes, whether they apply, and that the clean tree stays as it is."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from builders.source import open_source
from builders.source_model import PatchFile
from builders.source_patches import check_patches, gather_patches, patch_commands, read_patches
from qualify.errors import ConfigurationError, PreflightError, RefusedError
from qualify.matrix import LoadedMatrix
from tests.unit.builders_support import FILES, git, make_repository, make_sdist, write_matrix, write_tree

LINES = "".join(f"line {number}\n" for number in range(1, 41))
CODE = {**FILES, "src/a.c": LINES, "src/b.c": "b\n", "a b/ü.c": "odd\n"}


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make_patch(
    tmp_path: Path, name: str, *changes: dict[str, str | None], before: dict[str, str] | None = None
) -> Path:
    """The patch from ``before`` with all changes but the last to it with the last, as ``git diff`` writes it."""
    work = tmp_path / f"work of {name.replace('/', ' ')}"
    work.mkdir()
    git(work, "init", "-q")
    write_tree(work, before or CODE)
    for change in changes[:-1]:
        apply_change(work, change)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "before")
    apply_change(work, changes[-1])
    git(work, "add", "-A")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    git(work, "diff", "--cached", "-M", "--binary", f"--output={path}")
    return path


def apply_change(folder: Path, change: dict[str, str | None]) -> None:
    for name, text in change.items():
        if text is None:
            (folder / name).unlink()
        else:
            write_tree(folder, {name: text})


def patch_file(path: Path, order: int = 1) -> PatchFile:
    return PatchFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), order, path)


def pinned(tmp_path: Path, *names: str, sha256: str = "") -> LoadedMatrix:
    """A matrix whose pin is an sdist of CODE, with these patches."""
    path, digest = make_sdist(tmp_path, CODE)
    listed = "".join(
        f'    - {{file: "{name}", sha256: "{sha256 or hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}", '
        "reason: needed for the test}\n"
        for name in names
    )
    replacements = {"build:\n  torch": f"  patches:\n{listed}build:\n  torch"}
    return write_matrix(tmp_path, f"{{sdist: {path.name}, sha256: {digest}}}", "4ba787ec9", replacements)


def files_of(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


EDIT: dict[str, str | None] = {"src/a.c": LINES.replace("line 3\n", "line three\n").replace("line 33\n", "line 3³\n")}


def test_a_patch_applies_and_the_tree_stays_clean(tmp_path: Path) -> None:
    make_patch(tmp_path, "patches/edit.patch", EDIT)
    source = open_source(pinned(tmp_path, "patches/edit.patch"), tmp_path / "work")
    assert [(each.name, each.order, each.inside) for each in source.patches] == [
        ("patches/edit.patch", 1, "001-edit.patch")
    ]
    assert (source.tree / "src/a.c").read_text(encoding="utf-8") == LINES
    assert source.environment == {"SETUPTOOLS_SCM_PRETEND_METADATA": '{node="g4ba787ec9", dirty=false}'}


def test_the_commands_do_what_was_tried(tmp_path: Path) -> None:
    first = make_patch(tmp_path, "one/x.patch", EDIT)
    second = make_patch(tmp_path, "two/x.patch", EDIT, {"src/a.c": "all new\n", "src/b.c": None, "new/c.c": "c\n"})
    patches = (patch_file(first, 1), patch_file(second, 2))
    tree = write_tree(tmp_path / "outer" / "tree", CODE)
    before = files_of(tree)
    check_patches(tree, patches)
    assert files_of(tree) == before
    gather_patches(patches, tmp_path / "gathered")
    git(tmp_path / "outer", "init", "-q")  # a repository around the tree changes nothing
    for command in patch_commands(patches, str(tmp_path / "gathered")):
        subprocess.run(command, cwd=tree, check=True, capture_output=True)
    assert (tree / "src/a.c").read_text(encoding="utf-8") == "all new\n"
    assert not (tree / "src/b.c").exists()
    assert (tree / "new/c.c").read_text(encoding="utf-8") == "c\n"


def test_a_git_source_with_a_patch(tmp_path: Path) -> None:
    head = make_repository(tmp_path / "repository", CODE)
    path = make_patch(tmp_path, "edit.patch", EDIT)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    listed = f'  patches: [{{file: edit.patch, sha256: "{digest}", reason: needed for the test}}]\nbuild:\n  torch'
    loaded = write_matrix(tmp_path, "{git: repository}", head, {"build:\n  torch": listed})
    source = open_source(loaded, tmp_path / "work")
    assert source.environment == {"SETUPTOOLS_SCM_PRETEND_METADATA": f'{{node="g{head}", dirty=false}}'}
    assert git(source.tree, "status", "--porcelain") == ""
    gather_patches(source.patches, tmp_path / "gathered")
    for command in patch_commands(source.patches, str(tmp_path / "gathered")):
        subprocess.run(command, cwd=source.tree, check=True, capture_output=True)
    assert git(source.tree, "status", "--porcelain") == "M src/a.c"


def test_a_patch_that_does_not_apply(tmp_path: Path) -> None:
    moved = {**CODE, "src/a.c": LINES.replace("line 32\n", "another line\n")}
    path = make_patch(
        tmp_path,
        "edit.patch",
        {"src/a.c": moved["src/a.c"].replace("line 3\n", "x\n").replace("line 33\n", "y\n")},
        before=moved,
    )
    tree = write_tree(tmp_path / "tree", CODE)
    with pytest.raises(PreflightError, match=r"edit\.patch does not apply: hunk 2 of src/a\.c, at line 30") as caught:
        check_patches(tree, (patch_file(path),))
    assert caught.value.where == "pin.patches[0]"
    assert "make the patch anew" in caught.value.action


def test_a_patch_that_is_there_already(tmp_path: Path) -> None:
    path = make_patch(tmp_path, "edit.patch", EDIT)
    tree = write_tree(tmp_path / "tree", CODE)
    apply_change(tree, EDIT)
    with pytest.raises(PreflightError, match=r"edit\.patch is already in the tree") as caught:
        check_patches(tree, (patch_file(path),))
    assert "remove it from pin.patches" in caught.value.action
    clean = write_tree(tmp_path / "clean", CODE)
    with pytest.raises(PreflightError, match=r"edit\.patch is already in the tree") as caught:
        check_patches(clean, (patch_file(path, 1), patch_file(path, 2)))
    assert caught.value.where == "pin.patches[1]"


def test_a_new_file_that_is_there_already(tmp_path: Path) -> None:
    path = make_patch(tmp_path, "new.patch", {"new.c": "new\n"})
    tree = write_tree(tmp_path / "tree", {**CODE, "new.c": "new\n"})
    with pytest.raises(PreflightError, match="is already in the tree"):
        check_patches(tree, (patch_file(path),))
    write_tree(tree, {"new.c": "other\n"})
    with pytest.raises(PreflightError, match=r"does not apply: new\.c: already exists"):
        check_patches(tree, (patch_file(path),))


def test_the_order_counts(tmp_path: Path) -> None:
    first = make_patch(tmp_path, "1.patch", {"src/b.c": "bb\n"})
    second = make_patch(tmp_path, "2.patch", {"src/b.c": "bb\n"}, {"src/b.c": "bbb\n"})
    tree = write_tree(tmp_path / "tree", CODE)
    check_patches(tree, (patch_file(first, 1), patch_file(second, 2)))
    with pytest.raises(PreflightError, match=r"2\.patch does not apply: hunk 1 of src/b\.c"):
        check_patches(tree, (patch_file(second, 1), patch_file(first, 2)))


@pytest.mark.parametrize(
    "change",
    [
        {"src/b.c": None, "src/moved.c": "b\n"},
        {"a b/ü.c": "odder\n"},
        {"src/b.c": None},
        {"blob": "a\0b"},
    ],
)
def test_renames_odd_names_deletions_and_binaries(tmp_path: Path, change: dict[str, str | None]) -> None:
    path = make_patch(tmp_path, "x.patch", change)
    check_patches(write_tree(tmp_path / "tree", CODE), (patch_file(path),))


def test_other_bytes_than_those_that_were_pinned(tmp_path: Path) -> None:
    make_patch(tmp_path, "edit.patch", EDIT)
    loaded = pinned(tmp_path, "edit.patch", sha256="f" * 64)
    with pytest.raises(PreflightError, match=r"the patch edit\.patch has sha256") as caught:
        open_source(loaded, tmp_path / "work")
    assert caught.value.expected == "f" * 64
    assert "pin.patches[0]" in caught.value.where
    (tmp_path / "edit.patch").unlink()
    with pytest.raises(ConfigurationError, match="no patch at"):
        read_patches(loaded)


def test_a_patch_that_changes_between_reading_and_use(tmp_path: Path) -> None:
    path = make_patch(tmp_path, "edit.patch", EDIT)
    patches = (patch_file(path),)
    path.write_text("changed", encoding="utf-8")
    with pytest.raises(RefusedError, match="holds sha256"):
        gather_patches(patches, tmp_path / "gathered")


@pytest.mark.parametrize("text", ["", "words\n", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n"])
def test_what_is_no_patch(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.patch"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PreflightError, match=r"the patch x\.patch cannot be read"):
        check_patches(write_tree(tmp_path / "tree", CODE), (patch_file(path),))


@pytest.mark.parametrize("name", ["../outside.c", "link/outside.c", ".git/config"])
def test_a_patch_that_leads_out(tmp_path: Path, name: str) -> None:
    text = f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-b\n+c\n"
    path = tmp_path / "x.patch"
    path.write_text(text, encoding="utf-8")
    tree = write_tree(tmp_path / "tree", CODE)
    write_tree(tmp_path, {"outside.c": "b\n"})
    (tree / "link").symlink_to("..")
    with pytest.raises(PreflightError, match=r"outside the tree|cannot be read"):
        check_patches(tree, (patch_file(path),))
    assert (tmp_path / "outside.c").read_text(encoding="utf-8") == "b\n"
