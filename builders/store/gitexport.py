"""Writing the tree of one commit of a mirror into a folder, and finding its submodules.

With ``.git`` the folder is a repository by itself: no alternates, no path of this host in it.  It has the commit, the
tags and commits of its history (the files of the history are left out, as in any partial clone), which is what
``git describe``, ``git status`` and setuptools-scm look at.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.store.gitrun import checked, is_url, local, shown
from qualify.errors import PreflightError

MAX_SUBMODULES = 1000

_ENTRY = re.compile(r"160000 commit ([0-9a-f]{40})\t(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Submodule:
    """One submodule of a commit: its path in the tree, its address made whole, and the commit that the tree names."""

    path: str
    url: str
    commit: str


def export_tree(mirror: Path, commit: str, folder: Path, url: str, *, keep_git: bool) -> None:
    """Write the files of ``commit`` into the empty folder ``folder``.

    :raises PreflightError: the folder is in use.
    :raises UnavailableError: git failed, most often for want of room.
    """
    if folder.exists() and any(folder.iterdir()):
        raise PreflightError(
            "the folder for the checkout is not empty", where=str(folder), action="give a fresh folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    doing, where = f"checking out {commit}", shown(url)
    if keep_git:
        _make_repository(mirror, commit, folder, url)
        checked(local("checkout", "--quiet", "--force", "--detach", commit, folder=folder), doing, where)
        return
    # Not `read-tree -u`: in a partial repository it asks for objects before it has looked for them, and where the tree
    # has a single file it then fails although the file is here.
    with tempfile.TemporaryDirectory() as scratch:
        for command in (("read-tree", commit), ("checkout-index", "--all", "--force", "--quiet")):
            done = local(
                *(f"--work-tree={folder.resolve()}", *command),
                folder=mirror,
                environment={"GIT_INDEX_FILE": str(Path(scratch) / "index")},
            )
            checked(done, doing, where)


def _make_repository(mirror: Path, commit: str, folder: Path, url: str) -> None:
    """A repository of its own with the commit whole, and the commits and tags of its history."""
    doing, where = f"making a repository of {commit}", shown(url)
    tags = local(
        *("for-each-ref", f"--merged={commit}", "--format=%(objectname) %(refname)", "refs/tags"), folder=mirror
    )
    named = [line.split(" ", 1) for line in checked(tags, doing, where).lines()]
    roots = "\n".join([commit, *(identity for identity, _ in named)]) + "\n"
    history = local(
        *("rev-list", "--objects", "--no-object-names", "--filter=tree:0", "--stdin"),
        folder=mirror,
        stdin=roots.encode(),
    )
    tree = local("rev-list", "--objects", "--no-object-names", f"{commit}^{{tree}}", folder=mirror)
    objects = {*checked(history, doing, where).lines(), *checked(tree, doing, where).lines()}
    checked(local("init", "--quiet", "--template=", str(folder)), doing, where)
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.partialclonefilter": "tree:0",
        # Left to itself git writes as many digits as this repository needs, which has fewer objects than its origin.
        "core.abbrev": "9",
        # A path of this host means nothing where the tree is built.
        **({"remote.origin.url": shown(url)} if is_url(url) and not url.startswith("file:") else {}),
    }
    for name, value in settings.items():
        checked(local("config", name, value, folder=folder), doing, where)
    packs = folder.resolve() / ".git" / "objects" / "pack"
    packs.mkdir(parents=True, exist_ok=True)
    packed = local(
        *("pack-objects", "--quiet", "--window=0", str(packs / "pack")),
        folder=mirror,
        stdin=("\n".join(sorted(objects)) + "\n").encode(),
    )
    name = checked(packed, doing, where).text.strip()
    (packs / f"pack-{name}.promisor").touch()
    orders = "".join(f"create {ref} {identity}\n" for identity, ref in named)
    checked(local("update-ref", "--stdin", folder=folder, stdin=orders.encode()), doing, where)
    checked(local("pack-refs", "--all", folder=folder), doing, where)
    checked(local("update-ref", "--no-deref", "HEAD", commit, folder=folder), doing, where)


def refuse_links(folder: Path, where: str) -> None:
    """Refuse a tree with a symbolic link that leads out of it, or into a repository's own folder.

    :raises PreflightError: there is one.
    """
    root = folder.resolve()
    for parent, folders, files in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = Path(parent) / name
            if not path.is_symlink():
                continue
            end = Path(os.path.realpath(path))
            if not end.is_relative_to(root) or ".git" in end.relative_to(root).parts:
                raise PreflightError(
                    f"the tree holds a link that leads out of it: {path.relative_to(folder)} -> {path.readlink()}",
                    where=where,
                    expected="links that end in the tree",
                    action="pin a commit without it",
                )


def submodules_of(mirror: Path, url: str, commit: str, wanted: Sequence[str] | None) -> tuple[Submodule, ...]:
    """The submodules of a commit, by path; see :meth:`builders.store.gitmirror.Mirror.submodules`."""
    if wanted is not None and not wanted:
        return ()
    where = f"{shown(url)} at {commit}"
    listed = checked(local("ls-tree", "-r", "-z", "--full-tree", commit, folder=mirror), "listing the tree", where)
    links: dict[str, str] = {}
    for entry in listed.text.split("\0"):
        if match := _ENTRY.fullmatch(entry):
            links[match[2]] = match[1]
    chosen = links if wanted is None else _chosen(links, wanted, where)
    if len(chosen) > MAX_SUBMODULES:
        raise PreflightError(
            f"the tree names {len(chosen)} submodules", where=where, expected=f"{MAX_SUBMODULES} at most"
        )
    if not chosen:
        return ()
    addresses = _addresses(mirror, commit, where)
    return tuple(
        Submodule(path, _whole(addresses.get(path, ""), url, path, where), link)
        for path, link in sorted(chosen.items())
    )


def _chosen(links: dict[str, str], wanted: Sequence[str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in (each.strip("/") for each in wanted):
        under = {path: link for path, link in links.items() if path == name or path.startswith(f"{name}/")}
        if not under:
            raise PreflightError(
                f"the tree has no submodule {name}", where=where, expected=", ".join(sorted(links)) or "none at all"
            )
        found |= under
    return found


def _addresses(mirror: Path, commit: str, where: str) -> dict[str, str]:
    """Path -> URL, as ``.gitmodules`` says."""
    listed = local("config", "--blob", f"{commit}:.gitmodules", "--null", "--list", folder=mirror)
    if listed.code != 0:
        raise PreflightError(
            f"the tree has submodules, and its .gitmodules cannot be read: {listed.reason()}", where=where
        )
    values: dict[str, dict[str, str]] = {}
    for item in listed.text.split("\0"):
        key, _, value = item.partition("\n")
        section, _, rest = key.partition(".")
        name, _, setting = rest.rpartition(".")
        if section == "submodule":
            values.setdefault(name, {})[setting] = value
    return {each["path"].strip("/"): each.get("url", "") for each in values.values() if "path" in each}


def _whole(address: str, parent: str, path: str, where: str) -> str:
    """The address of a submodule, a relative one seen from the repository that names it.

    :raises PreflightError: there is none, or it names a place that only its author can have meant on this host.
    """
    url = _followed(parent, address) if address.startswith(("./", "../")) else address
    on_host = not is_url(parent) or parent.startswith("file:")
    # A repository from a server has no business with the folders of this host.
    usable = (is_url(url) and not url.startswith("file:")) or (on_host and url.startswith(("/", "file:")))
    if not usable or url.startswith("-") or any(ord(letter) < 33 for letter in url):
        raise PreflightError(
            f"the submodule {path} has the address {address!r}" if address else f"the submodule {path} has no address",
            where=f"{where}: .gitmodules",
            expected="the URL of a git server, or one relative to the repository's own",
        )
    return url


def _followed(parent: str, address: str) -> str:
    """``../x`` from ``https://host/a/b`` is ``https://host/a/x``, as git has it; "" where it leads too far up."""
    base = parent.rstrip("/")
    while address.startswith(("./", "../")):
        up = address.startswith("../")
        address = address[3:] if up else address[2:]
        if not up:
            continue
        head, slash, _ = base.rpartition("/")
        if not slash or head.endswith((":/", "/")):
            head, colon, _ = base.rpartition(":")
            if "://" in base or not colon or base.endswith(":"):
                return ""
            base = f"{head}:"
            continue
        base = head
    return f"{base}{address}" if base.endswith(":") else f"{base}/{address}"
