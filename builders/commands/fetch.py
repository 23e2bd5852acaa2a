"""``python -m builders fetch``: everything that builds would fetch while they compile, into the store, before."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualify.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from builders.prefetch import Prefetched
    from qualify.matrix import LoadedMatrix

HELP = "fill the store: the source, external sources and crates of targets; or list all that it lacks"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--all", action="store_true", help="every target of the matrix")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="the matrix (default: matrix.yaml here or above)")
    parser.add_argument("--offline", action="store_true", help="fetch nothing: list what the store lacks")
    parser.add_argument(
        "--renew-lock", action="store_true", help="take what tags mean now, and write it into externals.lock.yaml"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.planning import chosen_target
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    names = list(loaded.matrix.targets) if arguments.all else arguments.targets
    if not names:
        raise UsageError("no target named", expected="TARGET… or --all", where="fetch")
    if arguments.offline and arguments.renew_lock:
        raise UsageError("--renew-lock asks the servers", where="--offline", expected="one of the two")
    for name in names:
        chosen_target(loaded, name)
    found = _fetch_all(loaded, names, arguments)
    if arguments.json:
        print(json.dumps({"version": 1, "targets": {name: _json(each) for name, each in found.items()}}, indent=2))
    else:
        print("\n".join(line for name, each in found.items() for line in lines(name, each)))
    holes = [hole for each in found.values() for hole in each.holes]
    if any(hole.refused for hole in holes):
        return ExitCode.PREFLIGHT
    return ExitCode.UNAVAILABLE if holes else ExitCode.OK


def _fetch_all(loaded: LoadedMatrix, targets: Sequence[str], arguments: argparse.Namespace) -> dict[str, Prefetched]:
    """Fetch for each target; the source is opened once, and no server is asked twice for the same."""
    from builders.externals_lock import write_externals_lock
    from builders.planning import make_plan
    from builders.prefetch import Tried, prefetch
    from builders.source import open_source
    from builders.sourcing import crate_locks_of, mirrors_for, vendoring_for
    from qualify.scratch import scratch_folder

    def say(message: str) -> None:
        print(message, file=sys.stderr)

    mirrors = mirrors_for(loaded, offline=arguments.offline, progress=say)
    tried = Tried()
    found = {}
    with scratch_folder("fetch") as folder:
        source = open_source(loaded, folder / "source", offline=arguments.offline, progress=say, mirrors=mirrors)
        for target in targets:
            plan = make_plan(loaded, target, source=source)
            found[target] = prefetch(
                plan.externals,
                crate_locks_of(loaded, source, plan),
                mirrors=mirrors,
                vendoring=vendoring_for(loaded, offline=arguments.offline, progress=say),
                tree=source.tree,
                renew=arguments.renew_lock,
                check_tags=not arguments.offline,
                progress=say,
                tried=tried,
            )
            if found[target].resolved:
                write_externals_lock(loaded.path.parent, found[target].resolved)
    return found


def _json(found: Prefetched) -> dict[str, Any]:
    return {
        "externals": [
            {
                "name": each.name,
                "repository": each.repository,
                "tag": each.tag,
                "commit": each.commit,
                "submodules": list(each.submodules),
                "needed": each.needed,
                "copy": each.copy,
            }
            for each in found.externals
        ],
        "crates": [
            {"lock": each.lock.path, "sha256": each.lock.sha256, "crates": len(each.lock.crates)}
            for each in found.vendored
        ],
        "holes": [
            {
                "name": hole.name,
                "wanted": hole.wanted,
                "why": hole.why,
                "action": hole.action,
                "refused": hole.refused,
                "members": list(hole.members),
            }
            for hole in found.holes
        ],
    }


def lines(target: str, found: Prefetched) -> list[str]:
    """What is in the store for a target, and what it lacks, as people read it."""
    lacking = {hole.name for hole in found.holes}
    said = [f"{target}:"]
    for each in found.externals:
        if not each.needed or f"external source {each.name}" in lacking:
            continue
        state = f"local copy {each.copy}" if each.copy else f"commit {each.commit}"
        said.append(f"  have  {each.name}: {each.repository} at {each.tag}, {state}")
    said += [f"  have  {len(each.lock.crates)} crates of {each.lock.path}" for each in found.vendored]
    for hole in found.holes:
        said.append(f"  hole  {hole.render()}")
        if len(hole.members) > 1:
            shown = ", ".join(hole.members[:6])
            rest = len(hole.members) - 6
            said.append(f"        {shown}" + (f" and {rest} more (--json lists them)" if rest > 0 else ""))
    if not found.holes:
        said.append("  no holes")
    return said
