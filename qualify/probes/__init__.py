"""Probes: where a wheel is installed and imported to see what it reports.

A probe is a :class:`Runner`.  The one of this host is :mod:`qualify.probes.local`; whoever has containers brings one
of their own and runs the same program in it (:data:`INSIDE`), so that all of them observe alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

INSIDE = Path(__file__).with_name(
    "inside.py"
)  # `python -I inside.py REQUEST.json RESULT.json`; its docstring says more


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to install and to import."""

    wheel: Path
    sha256: str  # what the wheel must hold; a runner installs a copy that it hashed
    import_name: str
    distribution: str
    version_module: str  # dotted name of the module that holds __commit_id__; "" where there is none
    companions: tuple[str, ...]  # distributions whose installed versions are wanted
    dependencies: bool  # False: the wheel alone (pip's --no-deps)
    find_links: tuple[Path, ...]  # folders of wheels; nothing comes from a network
    timeout: float  # seconds for making the environment, and again for installing
    import_timeout: float

    def inside(self, wheel: str, work: str, find_links: tuple[str, ...]) -> dict[str, Any]:
        """The request as :data:`INSIDE` reads it, with paths as they are in there."""
        return {
            "wheel": wheel,
            "work": work,
            "import_name": self.import_name,
            "distribution": self.distribution,
            "version_module": self.version_module,
            "companions": list(self.companions),
            "dependencies": self.dependencies,
            "find_links": list(find_links),
            "timeout": self.timeout,
            "import_timeout": self.import_timeout,
        }


class Runner(Protocol):
    """A place where wheels are installed and imported."""

    @property
    def where(self) -> str:
        """In words, for the observation: "this host", "container sha256:…"."""

    def install_and_import(self, request: ProbeRequest) -> Mapping[str, Any]:
        """The result of :data:`INSIDE`, as it is (``qualify.measuring`` checks it).

        :raises UnavailableError: the place isn't there, or nothing can be installed in it.
        """
