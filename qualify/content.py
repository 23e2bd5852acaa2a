"""Is what a wheel holds the source tree's?  Every Python member against the file of the same path, byte for byte.

Compiled members have no counterpart in a tree; what proves them is the receipt of a build.  Python members that a build
writes, or takes from elsewhere, stand in an explicit list with their reasons (``project.generated`` of the matrix).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from qualify.errors import UnavailableError, UsageError
from qualify.facts import WheelFacts, installed_path
from qualify.files import sha256_of

SUFFIXES = (".py", ".pyi")


@dataclass(frozen=True, slots=True)
class Content:
    """Python files by their path below site-packages, each list sorted."""

    tree: str
    equal: int  # files that are the tree's, byte for byte
    generated: tuple[str, ...]  # listed, and in no tree, or there with other bytes
    changed: tuple[str, ...]  # other bytes than the tree's
    unknown: tuple[str, ...]  # in the wheel alone, and not listed
    left_out: tuple[str, ...]  # in the tree's packages alone, and not listed
    unread: tuple[str, ...]  # could not be read in the wheel
    unused: tuple[str, ...]  # patterns of the list that fit nothing

    @property
    def same(self) -> bool | None:
        """None where something could not be looked at, or there is nothing that could be equal."""
        if self.changed or self.unknown or self.left_out:
            return False
        return None if self.unread or not self.equal else True

    @property
    def summary(self) -> str:
        """One line: how many files, and what differs."""
        counted = {
            "changed": self.changed,
            "not in the tree": self.unknown,
            "left out": self.left_out,
            "not read": self.unread,
        }
        wrong = [f"{len(paths)} {word}" for word, paths in counted.items() if paths]
        equal = f"{self.equal} Python files are the tree's"
        listed = f", {len(self.generated)} are listed as generated" if self.generated else ""
        return f"{equal}{listed}" + (f"; {', '.join(wrong)}" if wrong else "")


def compare_with_tree(facts: WheelFacts, tree: Path, generated: Mapping[str, str]) -> Content:
    """Hold a wheel's Python members against a source tree.

    :param tree: the folder that holds the packages, or one whose ``src`` does.
    :param generated: fnmatch pattern over paths below site-packages -> the reason.
    :raises UsageError: no such folder, or none of the wheel's packages lies in it.
    :raises UnavailableError: a file of the tree can't be read.
    """
    members = {installed_path(m.path): m.sha256 for m in facts.members if m.path.endswith(SUFFIXES)}
    members = {path: sha256 for path, sha256 in members.items() if ".dist-info/" not in path}
    tops = {path.partition("/")[0] for path in members}
    root = _root(tree, tops, facts.filename)
    found = dict(_hashes(root, tops))
    listed = {path for path in {*members, *found} if any(fnmatchcase(path, pattern) for pattern in generated)}
    both = members.keys() & found.keys()
    return Content(
        str(tree),
        sum(1 for path in both if members[path] == found[path]),
        tuple(sorted(path for path in members.keys() & listed if members[path] != found.get(path))),
        tuple(sorted(path for path in both if members[path] and members[path] != found[path] and path not in listed)),
        tuple(sorted(path for path in members.keys() - found.keys() if path not in listed)),
        tuple(sorted(path for path in found.keys() - members.keys() if path not in listed)),
        tuple(sorted(path for path, sha256 in members.items() if not sha256)),
        tuple(pattern for pattern in generated if not any(fnmatchcase(path, pattern) for path in listed)),
    )


def _root(tree: Path, tops: set[str], wheel: str) -> Path:
    if not tree.is_dir():
        raise UsageError("no such folder", where=str(tree), expected="the source tree")
    for root in (tree, tree / "src"):
        if any((root / top).exists() for top in tops):
            return root
    names = ", ".join(sorted(tops)) or "no Python file at all"
    raise UsageError(f"it holds nothing of {wheel} ({names})", where=str(tree), expected="the tree it was built from")


def _hashes(root: Path, tops: set[str]) -> Iterator[tuple[str, str]]:
    """Path below the root and sha256 of each Python file of the packages; links are not followed into folders."""

    def failed(error: OSError) -> None:
        raise _unreadable(error)

    for top in sorted(tops):
        if (root / top).is_file():
            yield top, _sha256(root / top)
        for folder, _, names in os.walk(root / top, onerror=failed if (root / top).is_dir() else None):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    path = Path(folder, name)
                    yield path.relative_to(root).as_posix(), _sha256(path)


def _sha256(path: Path) -> str:
    if not path.is_file():  # a link to nowhere, a device
        raise UnavailableError("is no file", where=str(path), expected="a source tree that can be read")
    try:
        return sha256_of(path).sha256
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> UnavailableError:
    return UnavailableError(
        error.strerror or str(error), where=str(error.filename), expected="a source tree that can be read"
    )
