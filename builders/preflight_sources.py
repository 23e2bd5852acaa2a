"""The judgement on sources that come before a compile: crates in the store, and builds that nobody ends."""

from __future__ import annotations

from collections.abc import Sequence

from builders.crates import CrateLock
from builders.preflight_items import Item, Status
from builders.store.claims import Claim
from builders.vendor import Vendoring


def judge_crates(locks: Sequence[CrateLock], vendoring: Vendoring) -> tuple[Item, ...]:
    """Whether the store has the crates of each lock; what it lacks is fetched before a build, so it doesn't refuse."""
    items = []
    for lock in locks:
        name = f"crates of {lock.path}"
        wanted = f"{len(lock.registry)} of a registry, {len(lock.git)} of git"
        found = vendoring.find(lock)
        if found is not None:
            items.append(Item(name, Status.FOUND, str(found.folder), wanted))
        else:
            action = "`python -m builders fetch TARGET` puts them into the store; `build` does so before it compiles"
            items.append(Item(name, Status.ABSENT, expected=wanted, action=action, optional=True))
    return tuple(items)


def judge_claims(stale: Sequence[Claim]) -> tuple[Item, ...]:
    """Claims whose processes have ended: the next build takes them over, and their folders hold what was compiled."""
    return tuple(
        Item(
            f"build of {claim.target}",
            Status.UNMET,
            version=f"{claim.holder} began it {claim.since} and has ended",
            expected="an end",
            action=f"its log is {claim.log}; the next build of the same plan goes on in its folder",
            optional=True,
        )
        for claim in stale
    )
