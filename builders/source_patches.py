"""The patches of a pin: held against their sha256 and tried on a copy, before anything else is done.

The tree itself stays clean here, since its version is computed from the clean tree; the patches are applied where the
build runs.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from builders.source_model import PatchFile
from builders.store.gitrun import Answer, local
from qualify.errors import ConfigurationError, PreflightError
from qualify.files import copy_atomic, sha256_of
from qualify.lines import lines_of

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix

MAX_PATCH = 64 << 20  # bytes

# Whatever repository the place lies in or is: the paths of a patch are those of the tree.
_NOWHERE = {"GIT_DIR": os.devnull}
_APPLY = ("apply", "--whitespace=nowarn")
_FAILED = re.compile(r"error: patch failed: (?P<file>.+):(?P<line>\d+)$")
_HUNK = re.compile(rb"@@ -(?P<line>\d+)(?:,\d+)? \+")


def read_patches(matrix: LoadedMatrix) -> tuple[PatchFile, ...]:
    """The patches that the pin names, each with the bytes that it names.

    :raises ConfigurationError: one isn't there.
    :raises PreflightError: one has other bytes.
    """
    found = []
    for order, patch in enumerate(matrix.matrix.pin.patches, 1):
        path = (matrix.path.parent / patch.file).resolve()
        where = f"{matrix.path.name}: pin.patches[{order - 1}]"
        if not path.is_file():
            raise ConfigurationError(
                f"no patch at {patch.file}",
                where=where,
                expected="a file, seen from the matrix",
                action="mend the path",
            )
        if path.stat().st_size > MAX_PATCH:
            raise PreflightError(f"the patch {patch.file} is larger than {MAX_PATCH >> 20} MiB", where=where)
        digest = sha256_of(path).sha256
        if digest != patch.sha256:
            raise PreflightError(
                f"the patch {patch.file} has sha256 {digest}",
                where=where,
                expected=patch.sha256,
                action="the patch changed since it was pinned: look at it, and pin what is meant",
            )
        found.append(PatchFile(patch.file, digest, order, path))
    return tuple(found)


def check_patches(tree: Path, patches: Sequence[PatchFile]) -> None:
    """Try the patches in their order on a copy of the files that they touch; ``tree`` is only read.

    :param tree: the project's folder, from which the paths in the patches are seen.
    :raises PreflightError: one doesn't apply, is there already, or touches what lies outside.
    """
    if not patches:
        return
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "tree"
        copy.mkdir()
        copied: set[str] = set()
        for patch in patches:
            touched = _touched(patch)
            for name in touched - copied:
                _copy(tree, copy, name, patch)
            copied |= touched
            done = _apply(copy, patch)
            if done.code == 0:
                continue
            if _apply(copy, patch, "--reverse", "--check").code == 0:
                raise PreflightError(
                    f"the patch {patch.name} is already in the tree",
                    where=_place(patch),
                    expected="a tree without it",
                    action="remove it from pin.patches: the commit has it",
                )
            raise PreflightError(
                f"the patch {patch.name} does not apply: {_why(patch, done)}",
                where=_place(patch),
                expected="a patch made for this commit" + (" and those before it" if patch.order > 1 else ""),
                action="make the patch anew from the pinned commit, or mend the order",
            )


def patch_commands(patches: Sequence[PatchFile], folder: str) -> tuple[tuple[str, ...], ...]:
    """The commands that apply the patches, in order, run in the project's folder where the build runs.

    :param folder: where :func:`gather_patches` put them, as it is seen there.
    """
    return tuple(
        ("env", f"GIT_DIR={os.devnull}", "git", *_APPLY, "--verbose", f"{folder.rstrip('/')}/{patch.inside}")
        for patch in patches
    )


def gather_patches(patches: Sequence[PatchFile], folder: Path) -> None:
    """Copy the patches into one folder, each under :attr:`PatchFile.inside`.

    :raises RefusedError: one changed since it was read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for patch in patches:
        copy_atomic(patch.path, folder / patch.inside, sha256=patch.sha256)


def _apply(folder: Path, patch: PatchFile, *options: str) -> Answer:
    return local(*_APPLY, *options, str(patch.path), folder=folder, environment=_NOWHERE)


def _place(patch: PatchFile) -> str:
    return f"pin.patches[{patch.order - 1}]"


def _touched(patch: PatchFile) -> set[str]:
    """The paths that a patch reads or writes: what it leads to, and, reversed, what it comes from."""
    found: set[str] = set()
    for direction in ((), ("--reverse",)):
        listed = local("apply", "--numstat", "-z", *direction, str(patch.path), environment=_NOWHERE)
        if listed.code != 0:
            raise PreflightError(
                f"the patch {patch.name} cannot be read: {listed.reason()}",
                where=_place(patch),
                expected="a patch as git diff or git format-patch writes it",
                action="make the patch anew",
            )
        found |= {entry.split("\t", 2)[2] for entry in listed.text.split("\0") if entry.count("\t") >= 2}
    return found


def _copy(tree: Path, copy: Path, name: str, patch: PatchFile) -> None:
    source = tree / name
    inside = not name.startswith("/") and ".." not in name.split("/") and name.split("/")[0] != ".git"
    if not inside or not source.parent.resolve().is_relative_to(tree.resolve()):
        raise PreflightError(
            f"the patch {patch.name} touches {name}, which lies outside the tree",
            where=_place(patch),
            action="make the patch anew from the project's own folder",
        )
    if source.is_symlink() or source.is_file():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


def _why(patch: PatchFile, done: Answer) -> str:
    """Which hunk of which file; else git's own words."""
    for line in lines_of(done.complaint):
        if match := _FAILED.match(line):
            number = _hunk_number(patch, match["file"], int(match["line"]))
            return f"{f'hunk {number}' if number else 'a hunk'} of {match['file']}, at line {match['line']}"
    errors = [line.removeprefix("error: ") for line in lines_of(done.complaint) if line.startswith("error: ")]
    return errors[0] if errors else done.reason()


def _hunk_number(patch: PatchFile, file: str, line: int) -> int:
    """Which hunk of the file begins at that line of the old file, counted from 1; 0 where it can't be told."""
    number, ours = 0, False
    for text in patch.path.read_bytes().split(b"\n"):
        if text.startswith((b"--- ", b"+++ ")):
            if text.startswith(b"--- "):
                number, ours = 0, False
            ours = ours or text[4:].split(b"\t")[0].strip().endswith(file.encode())
        elif match := _HUNK.match(text):
            number += 1
            if ours and int(match["line"]) == line:
                return number
    return 0
