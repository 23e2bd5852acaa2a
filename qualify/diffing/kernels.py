"""Device code of two wheels: which kernels each architecture of each extension lost and gained."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from qualify.diffing.modules import Module, fewer
from qualify.diffing.values import Architecture, Kernels


def kernels_of_both(
    candidate: Mapping[str, Module], control: Mapping[str, Module], only: Collection[str] = ()
) -> Iterator[Kernels]:
    """The extensions and architectures that both hold, the equal ones as well.

    Kernels that an entry nobody could read may hold are neither lost nor gained: see :func:`unread`.

    :param only: architectures to look at; none: all.
    """
    for path, before in control.items():
        now = candidate.get(path)
        for architecture in sorted(before.kernels) if now is not None else ():
            if now is None or architecture not in now.kernels or (only and architecture not in only):
                continue
            blind = {"unknown", architecture}
            lost: tuple[str, ...] = ()
            gained: tuple[str, ...] = ()
            if before.kernels[architecture] != now.kernels[architecture]:
                old, new = before.split(architecture), now.split(architecture)
                lost = () if blind & now.unread.keys() else fewer(old, new)
                gained = () if blind & before.unread.keys() else fewer(new, old)
            yield Kernels(path, architecture, before.count(architecture), now.count(architecture), lost, gained)


def architectures_of_one(
    these: Mapping[str, Module], those: Mapping[str, Module], only: Collection[str] = ()
) -> Iterator[Architecture]:
    """Architectures that ``these`` hold in an extension which ``those`` hold without them."""
    for path, module in these.items():
        other = those.get(path)
        for architecture in sorted(module.kernels) if other is not None else ():
            if other is None or architecture in other.kernels or (only and architecture not in only):
                continue
            if not {"unknown", architecture} & other.unread.keys():
                yield Architecture(path, architecture, module.count(architecture))


def unread(candidate: Mapping[str, Module], control: Mapping[str, Module], only: Collection[str] = ()) -> Iterator[str]:
    """A sentence for each architecture of an extension in both of which a wheel's kernels could not be read."""
    for side, these, those in (("candidate", candidate, control), ("control", control, candidate)):
        for path, module in these.items():
            for architecture, entries in sorted(module.unread.items()):
                if path in those and (not only or architecture in (*only, "unknown")):
                    yield f"{path}: {entries} entries of {architecture} in the {side} could not be read"
