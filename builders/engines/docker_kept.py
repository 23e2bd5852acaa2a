"""The volumes that a Docker engine keeps between builds: work folders under a key, environments and caches."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from builders.engines import Kept
from builders.engines.docker_client import APIError, Client, NotFound

# Labels: what a volume is, and, of a kept work volume, the key of its build.
KIND = "wheel-assay"
KEY = "wheel-assay.key"
LASTING = "lasting"
WORK = "build"
PREFIX = "wheel-assay"
_CONFLICT = 409


def kept_volumes(client: Client) -> tuple[Kept, ...]:
    """All of them, by name; the size is what the engine counts, which takes it a while."""
    found = [_kept(volume) for volume in client.df().get("Volumes") or []]
    return tuple(sorted((kept for kept in found if kept is not None), key=lambda kept: kept.name))


def drop_volume(client: Client, kept: Kept) -> bool:
    try:
        client.volumes.get(kept.name).remove()
    except NotFound:
        return True
    except APIError as error:
        if error.status_code == _CONFLICT:
            return False
        raise
    return True


def _kept(volume: dict[str, Any]) -> Kept | None:
    labels, name = volume.get("Labels") or {}, str(volume["Name"])
    if labels.get(KIND) == WORK and KEY in labels:
        kind = "work"
    elif labels.get(KIND) == LASTING:
        kind = "cache" if name.startswith(f"{PREFIX}-cache-") else "environment"
    else:
        return None
    usage = volume.get("UsageData") or {}
    return Kept(
        kind,  # type: ignore[arg-type]
        name,
        datetime.fromisoformat(volume["CreatedAt"]).timestamp() if volume.get("CreatedAt") else 0.0,
        int(usage.get("Size", -1)),
        int(usage.get("RefCount", 0)) > 0,
    )
