"""Make ``axpy.bundle``, the git history of the example, out of ``source/``, and write its commit into matrix.yaml.

    python examples/axpy/make_bundle.py

Author, dates and messages are fixed, so the commit ids depend on the files of ``source/`` alone: the same files give
the same pin on every machine.  (The bundle's own bytes may differ between versions of git; its commits don't.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"
BUNDLE = HERE / "axpy.bundle"
MATRIX = HERE / "matrix.yaml"

#: What a build leaves in the tree; the same list as source/.gitignore, for a tree that git doesn't look at here.
LEFTOVERS = re.compile(r"(^|/)(build|dist|__pycache__|[^/]+\.egg-info)/|^axpy/_version\.py$|\.so$")


@dataclass(frozen=True, slots=True)
class Step:
    """One commit: its message, its date, the files that it still lacks, the tag that it gets."""

    message: str
    date: str
    without: str
    tag: str = ""


#: Every step builds; so any of them serves as "another commit than the pin's".
HISTORY = (
    Step(
        "Compute y = a*x + y and a dot product on the GPU\n",
        "2026-01-05T09:00:00+00:00",
        r"tests/.*|\.gitignore",
        "v0.1.0",
    ),
    Step("Hold the GPU's results against the CPU's\n", "2026-01-06T09:00:00+00:00", r"\.gitignore"),
    Step("Keep what a build leaves out of git\n", "2026-01-07T09:00:00+00:00", ""),
)


def source_files() -> dict[str, Path]:
    """Path inside the tree -> file, without what a build leaves behind."""
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*") if path.is_file()}
    return {name: path for name, path in sorted(files.items()) if not LEFTOVERS.search(name)}


def git(repository: Path, *arguments: str, date: str = HISTORY[0].date, given: str = "") -> str:
    """Run git without any setting of this machine or person."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(repository),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _person(date).items()},
    }
    done = subprocess.run(
        ["git", "-c", "pack.threads=1", *arguments],
        cwd=repository,
        env=environment,
        input=given,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def _person(date: str) -> dict[str, str]:
    return {"NAME": "axpy", "EMAIL": "axpy@example.invalid", "DATE": date}


def make_history(repository: Path) -> list[str]:
    """Lay the commits of HISTORY into an empty repository; their ids, oldest first."""
    git(repository, "init", "-q", "--initial-branch=main", "--object-format=sha1")
    files = source_files()
    commits: list[str] = []
    for step in HISTORY:
        git(repository, "read-tree", "--empty")
        for name, path in files.items():
            if step.without and re.fullmatch(step.without, name):
                continue
            blob = git(repository, "hash-object", "-w", "--no-filters", str(path))
            git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
        tree = git(repository, "write-tree")
        parents = ["-p", commits[-1]] if commits else []
        commits.append(git(repository, "commit-tree", tree, *parents, date=step.date, given=step.message))
        if step.tag:
            git(repository, "tag", "-a", "-m", step.tag, step.tag, commits[-1], date=step.date)
    git(repository, "update-ref", "refs/heads/main", commits[-1])
    return commits


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        commits = make_history(repository)
        made = repository / "axpy.bundle"
        git(repository, "bundle", "create", "-q", str(made), "HEAD", "main", "--tags")
        BUNDLE.write_bytes(made.read_bytes())
    text = MATRIX.read_text(encoding="utf-8")
    renewed, count = re.subn(r'^(  commit: )"[0-9a-f]{40}"', rf'\g<1>"{commits[-1]}"', text, flags=re.MULTILINE)
    if count != 1:
        print(f"{MATRIX.name}: no line with the pin's commit", file=sys.stderr)  # noqa: T201
        return 1
    if renewed != text:
        MATRIX.write_text(renewed, encoding="utf-8")
    print("\n".join(commits))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
