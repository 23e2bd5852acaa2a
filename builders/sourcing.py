"""How sources come to a build at this site: its store, its mirrors and registries, and what a plan needs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builders.crates import CrateLock, read_crate_locks
from builders.plan import Plan
from builders.source_model import Progress, Source, say_nothing
from builders.store import store_of
from builders.store.gitmirror import Mirrors, mirrors_of
from builders.vendor import Vendoring

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix


def mirrors_for(loaded: LoadedMatrix, *, offline: bool = False, progress: Progress = say_nothing) -> Mirrors:
    """The git mirrors of this site's store."""
    return mirrors_of(loaded, offline=offline, progress=progress)


def vendoring_for(loaded: LoadedMatrix, *, offline: bool = False, progress: Progress = say_nothing) -> Vendoring:
    """How crates come into this site's store."""
    local = loaded.local
    return Vendoring(
        store_of(loaded).crates, offline=offline, registry=local.crates, replaced=local.git_mirrors, progress=progress
    )


def in_store(plan: Plan, mirrors: Mirrors) -> frozenset[str]:
    """The names of needed external sources that the store has whole, at their exact commits; nobody is asked."""
    found = set()
    for external in plan.needed_externals:
        mirror = mirrors.find(external.fetched_from or external.repository) if external.commit else None
        if mirror is not None and mirror.has(external.commit):
            found.add(external.name)
    return frozenset(found)


def crate_locks_of(loaded: LoadedMatrix, source: Source, plan: Plan) -> tuple[CrateLock, ...]:
    """The locks whose crates a plan needs."""
    rust = loaded.matrix.build.rust
    return read_crate_locks(source.tree, rust) if rust is not None and plan.crates else ()
