"""The store: what builds share and keep, by content.  Git mirrors, crates and claims.

Everything in it can be made again from the network, so it may be removed at any time that no build runs.  It may lie
on a share that several hosts see (``folders.store`` of matrix.local.yaml); then no lock of a file system is trusted in
it, and names that are written whole by rename are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from builders.host import cache_folder

if TYPE_CHECKING:
    from qualify.matrix import LoadedMatrix


@dataclass(frozen=True, slots=True)
class Store:
    """The folders of a store; none of them has to be there yet."""

    root: Path

    @property
    def mirrors(self) -> Path:
        """Bare git repositories, one for each URL, named by the sha256 of the URL."""
        return self.root / "git"

    @property
    def crates(self) -> Path:
        """Vendored crates, one folder for each ``Cargo.lock``, named by its sha256."""
        return self.root / "crates"

    @property
    def claims(self) -> Path:
        """One file for each build key that is being built."""
        return self.root / "claims"


def store_of(loaded: LoadedMatrix) -> Store:
    """The store of this site: ``folders.store`` of matrix.local.yaml, else in this user's cache."""
    named = loaded.local.folders.store
    return Store(loaded.folder(named) if named else cache_folder() / "store")
