"""The branches and tags of a server, and what of them a mirror has seen before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from builders.store.gitrun import checked, local, remote, shown

MAX_REFS = 1_000_000

_LINE = re.compile(r"([0-9a-f]{40})\t(\S+)")
# git's own rules allow less still; whatever else a server sends is no name that is ever asked for.
_NAME = re.compile(r"(?!-)(?!.*(?:\.\.|@\{|//|\.lock$|/$|\.$))[^\x00-\x20\x7f~^:?*\[\\]+")


@dataclass(frozen=True, slots=True)
class ServerRefs:
    """What a server says it has; commits, with annotated tags followed to their ends."""

    heads: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    head: str = ""  # the commit of its default branch; "" where it says none


@dataclass(frozen=True, slots=True)
class Moved:
    """A tag that names another commit than when it was first seen; ``now`` is "" where the server has it no more."""

    tag: str
    was: str
    now: str

    def words(self) -> str:
        said = f"now names {self.now}" if self.now else "is gone from the server"
        return f"the tag {self.tag} moved: it named {self.was} when it was first seen, and {said}"


def server_refs(url: str, patterns: Sequence[str], *, seconds: float = 600.0) -> ServerRefs:
    """Ask a server for its refs.

    :param patterns: as ``git ls-remote`` takes them; none asks for all.
    :raises UnavailableError: it doesn't answer.
    """
    answer = checked(
        remote("ls-remote", "--", url, *patterns, seconds=seconds),
        "asking for the branches and tags",
        shown(url),
        "check the repository's address and the network",
    )
    heads: dict[str, str] = {}
    tags: dict[str, str] = {}
    head = ""
    for line in answer.lines()[:MAX_REFS]:
        if not (match := _LINE.fullmatch(line)):
            continue
        commit, name = match[1], match[2]
        if name == "HEAD":
            head = commit
        elif name.startswith("refs/heads/") and is_name(name[11:]):
            heads[name[11:]] = commit
        elif name.startswith("refs/tags/") and is_name(name[10:].removesuffix("^{}")):
            tags[name[10:].removesuffix("^{}")] = commit  # the line of what an annotated tag leads to comes second
    return ServerRefs(heads, tags, head)


def is_name(text: str) -> bool:
    """Whether it can be the name of a branch or tag."""
    return bool(_NAME.fullmatch(text))


def seen_tags(mirror: Path) -> dict[str, str]:
    """The tags of a mirror and what they lead to."""
    return {tag: commits[-1] for tag, commits in _meanings(mirror).items()}


def _meanings(mirror: Path, name: str = "") -> dict[str, list[str]]:
    """The tags of a mirror: the object of each and, of an annotated one, what it leads to."""
    form = "--format=%(refname) %(objectname) %(*objectname)"
    listed = local("for-each-ref", form, f"refs/tags/{name}" if name else "refs/tags", folder=mirror)
    checked(listed, "listing the tags", str(mirror))
    # A name may hold any white space but a plain one.
    rows = (line.split(" ") for line in listed.lines())
    return {tag.removeprefix("refs/tags/"): [commit for commit in commits if commit] for tag, *commits in rows}


def has_moved(mirror: Path, tag: str, now: str) -> bool:
    """Whether a tag that was seen here means something else now; a bundle names the annotated tag itself."""
    return now not in _meanings(mirror, tag).get(tag, [now])


def moved_tags(mirror: Path, refs: ServerRefs) -> tuple[Moved, ...]:
    """The tags that were seen here before and that the server gives another meaning, or none, now."""
    return tuple(
        Moved(tag, was[-1], refs.tags.get(tag, ""))
        for tag, was in sorted(_meanings(mirror).items())
        if refs.tags.get(tag, "") not in was
    )
