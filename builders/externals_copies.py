"""Whether a local copy can stand for an external source: there, whole, and at the commit where it is a git checkout."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from builders.externals import External

GIT_SECONDS = 20
_COMMIT = re.compile(r"[0-9a-f]{40}")


def copy_fault(external: External) -> str:
    """What is wrong with ``external.copy``, a folder of this host; "" where nothing is, or where there is none."""
    if not external.copy:
        return ""
    if not external.variable and external.kind != "FetchContent":
        return "the tree reads no variable for it: name one in build.external_overrides"
    folder = Path(external.copy)
    if not folder.is_dir() or not any(folder.iterdir()):
        return "the local copy is no folder, or an empty one"
    empty = [sub for sub in external.submodules if not (folder / sub).is_dir() or not any((folder / sub).iterdir())]
    if empty:
        return f"submodules are missing in the local copy: git submodule update --init {' '.join(empty)}"
    head = _git(folder, "rev-parse", "HEAD")
    wanted = external.commit or (
        external.tag if _COMMIT.fullmatch(external.tag) else _git(folder, "rev-parse", f"{external.tag}^{{commit}}")
    )
    if head and wanted and head != wanted:
        return f"the local copy is at commit {head}, not at {external.tag}"
    return ""


def _git(folder: Path, *arguments: str) -> str:
    """What git says of a folder; "" where it is no checkout, or where git isn't there to say."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
