"""Publishers: where qualified wheels can be installed from.

A publisher is one module with ``publish(evidences, destination, *, now, progress) -> tuple[Published, …]`` and one
line in :data:`PUBLISHERS`.  It takes proven evidence and nothing else: there is no way to hand it a wheel alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, cast

from qualify.evidence import Evidence

PUBLISHERS = {
    "folder": "qualify.publishers.folder",
}

# what is being copied, bytes done, bytes in all
PublishProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Published:
    """One wheel in one target's index."""

    filename: str
    sha256: str
    target: str
    index: str  # where an installer is pointed at
    new: bool  # False: the same bytes were there already
    verdict: str  # "qualified", or "overridden" where waivers let it through


class Publisher(Protocol):
    """The contract that every publisher's module keeps: whole or absent, and the same again is no change."""

    def publish(
        self,
        evidences: Sequence[Evidence],
        destination: str,
        *,
        now: datetime,
        progress: PublishProgress | None = None,
    ) -> tuple[Published, ...]: ...


def publisher(kind: str) -> Publisher:
    """The publisher of that name.

    :raises KeyError: there is none; the command line offers only those that there are.
    """
    return cast(Publisher, importlib.import_module(PUBLISHERS[kind]))
