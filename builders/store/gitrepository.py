"""A bare repository of the store, read without a network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.store.gitexport import Submodule, submodules_of
from builders.store.gitrun import Answer, checked, local, shown

FULL = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at ``path``; ``url`` is the address that it stands for."""

    path: Path
    url: str

    def has(self, commit: str) -> bool:
        """Whether the commit, all its folders and all its files are here (its submodules not counted)."""
        return self.has_commit(commit) and not self.missing(commit)

    def has_commit(self, commit: str) -> bool:
        """Whether the commit and its history are here, its files perhaps not.

        A branch, a tag or a pin of ours has to lead to it: git gives those a place only when all behind them is there.
        """
        if not FULL.fullmatch(commit):
            return False
        unreached = self.git("rev-list", "--max-count=1", commit, "--not", "--all")
        return unreached.code == 0 and not unreached.output.strip()

    def missing(self, commit: str) -> list[str]:
        """The objects (files, as a rule) of a commit's tree that are not here."""
        listed = self.git("rev-list", "--objects", "--missing=print", "--no-object-names", f"{commit}^{{tree}}")
        checked(listed, "listing the tree", f"{shown(self.url)} at {commit}")
        return [line[1:] for line in listed.lines() if line.startswith("?")]

    def resolve(self, tag: str) -> str:
        """The commit that a tag names; "" where no such tag was ever seen here."""
        found = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/tags/{tag}^{{commit}}")
        return found.text.strip() if found.code == 0 else ""

    def branch(self, name: str = "") -> str:
        """The commit of a branch as it was last fetched, of the default branch where none is named; "" if none is."""
        ref = f"refs/heads/{name}" if name else "refs/server/HEAD"
        found = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return found.text.strip() if found.code == 0 else ""

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``older`` is ``newer`` or lies in its history; both are here."""
        return self.git("merge-base", "--is-ancestor", older, newer).code == 0

    def submodules(self, commit: str, wanted: Sequence[str] | None = None) -> tuple[Submodule, ...]:
        """The submodules of a commit: those at the paths ``wanted``, all where it is None.

        :raises PreflightError: one that is wanted is not there, or has no address that can be followed.
        """
        return submodules_of(self.path, self.url, commit, wanted)

    def git(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Answer:
        """A git command on the mirror that reads what is here and speaks to nobody."""
        return local(*arguments, folder=self.path, environment=environment)
