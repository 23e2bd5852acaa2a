"""What is asked of a mirror: whether it has that already, and what of it a server has to give."""

from __future__ import annotations

from dataclasses import dataclass

from builders.store.gitrefs import Moved, ServerRefs, has_moved, seen_tags
from builders.store.gitrepository import Repository
from builders.store.gitrun import shown
from qualify.errors import PreflightError

TAGS = "tags-seen"  # in a mirror: when the server was last asked for all its tags


@dataclass(frozen=True, slots=True)
class Asked:
    """What a mirror shall have; see :meth:`builders.store.gitmirror.Mirrors.ensure`."""

    commit: str = ""
    tag: str = ""
    tags: bool = False
    branch: str | None = None
    files: bool = True
    branches: bool = False  # all of them

    @property
    def may_change(self) -> bool:
        """Whether the server may say something else tomorrow; a commit alone never changes."""
        return bool(self.tag) or self.tags or self.branches or self.branch is not None

    def met_by(self, mirror: Repository) -> bool:
        """Whether the mirror has it all, as far as anyone can say without asking the server."""
        tagged = mirror.resolve(self.tag) if self.tag else ""
        if (self.tag and not tagged) or (self.branch is not None and not mirror.branch(self.branch)):
            return False
        if self.tags and not (mirror.path / TAGS).is_file():
            return False
        at = self.commit or tagged
        return not at or (mirror.has(at) if self.files else mirror.has_commit(at))

    def patterns(self) -> list[str]:
        """What ``git ls-remote`` is asked for."""
        found = [f"refs/tags/{self.tag}", f"refs/tags/{self.tag}^{{}}"] if self.tag and not self.tags else []
        if self.tags:
            found.append("refs/tags/*")
        if self.branches:
            found.append("refs/heads/*")
        if self.branch is not None:
            found.append(f"refs/heads/{self.branch}" if self.branch else "HEAD")
        return found

    def refspecs(self, mirror: Repository, refs: ServerRefs) -> list[str]:
        """What has to be fetched: tags that were never seen here, and branches that went on."""
        seen = seen_tags(mirror.path)
        tags = list(refs.tags) if self.tags else [self.tag] if self.tag in refs.tags else []
        found = [f"refs/tags/{tag}:refs/tags/{tag}" for tag in tags if tag not in seen]
        if self.branches:
            found += [
                f"+refs/heads/{name}:refs/heads/{name}"
                for name, commit in refs.heads.items()
                if mirror.branch(name) != commit
            ]
        if self.branch:
            if self.branch not in refs.heads:
                raise PreflightError(f"the repository has no branch {self.branch}", where=shown(mirror.url))
            if not self.branches and refs.heads[self.branch] != mirror.branch(self.branch):
                found.append(f"+refs/heads/{self.branch}:refs/heads/{self.branch}")
        elif self.branch == "" and refs.head and refs.head != mirror.branch():
            found.append("+HEAD:refs/server/HEAD")
        return found

    def words(self) -> str:
        """For people."""
        parts = [f"commit {self.commit}"] if self.commit else []
        parts += [f"tag {self.tag}"] if self.tag else []
        parts += ["tags"] if self.tags else []
        parts += ["branches"] if self.branches else []
        parts += [f"branch {self.branch}" if self.branch else "default branch"] if self.branch is not None else []
        return " and ".join(parts) or "repository"


def refuse_tag(mirror: Repository, tag: str, refs: ServerRefs) -> None:
    """A tag that the server has not, or that it moved since it was first seen here."""
    was, now = mirror.resolve(tag), refs.tags.get(tag, "")
    if not was and not now:
        raise PreflightError(
            f"the repository has no tag {tag}", where=shown(mirror.url), action="push the tag there, or mend the pin"
        )
    if was and has_moved(mirror.path, tag, now):
        raise PreflightError(
            Moved(tag, was, now).words(),
            where=shown(mirror.url),
            expected=f"{tag} at {was}",
            action="ask its owner which commit is meant, and pin that",
        )
