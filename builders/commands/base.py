"""``python -m builders base``: make or refresh base images and the build images on them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from builders.bases import BaseWish, ImageStore
    from qualify.matrix.model import Target

HELP = "make the base and build images of targets, or renew the lock of base images"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--all", action="store_true", help="every target of the matrix")
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="the matrix (default: matrix.yaml here or above)")
    parser.add_argument("--how", choices=("native", "cross", "emulate"), help="instead of the target's own way")
    parser.add_argument("--refresh", action="store_true", help="bootstrap anew even where a base is there")
    parser.add_argument(
        "--renew-lock",
        action="store_true",
        help="ask the registries for the digests of the named images and write dockerfiles/bases.lock.yaml",
    )
    parser.add_argument("--json", action="store_true", help="print what is there as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    from builders.bases import wish_for
    from builders.engines.docker import DockerEngine
    from builders.planning import chosen_target
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    names = list(loaded.matrix.targets) if arguments.all else arguments.targets
    if not names:
        raise UsageError("no target named", expected="TARGET… or --all", where="base")
    targets = {name: chosen_target(loaded, name) for name in names}
    engine = DockerEngine()
    with engine.images() as store:
        if arguments.renew_lock:
            _renew(store, targets, arguments.json)
        else:
            wishes = {name: wish_for(name, target.base, loaded.local) for name, target in targets.items()}
            _make(store, targets, wishes, engine.info().machines[0], arguments)
    return ExitCode.OK


def _renew(store: ImageStore, targets: Mapping[str, Target], as_json: bool) -> None:
    from builders.bases import renew_lock

    wanted = sorted({(target.base.image, target.machine) for target in targets.values() if target.base.image})
    changed = renew_lock(store, wanted)
    _print({"version": 1, "changed": changed}, as_json, [f"{name}: {new}" for name, new in changed.items()])


def _make(
    store: ImageStore,
    targets: Mapping[str, Target],
    wishes: Mapping[str, BaseWish],
    native: str,
    arguments: argparse.Namespace,
) -> None:
    from builders.bases import build_image, ensure_base, role_for
    from builders.progress import Console

    console = Console(sys.stderr)
    rows, refreshed = [], set()
    for name, target in targets.items():
        machine = native if (arguments.how or target.how) == "cross" else target.machine
        role = role_for("cross" if machine != target.machine else "native")
        if arguments.refresh and (wishes[name], machine) not in refreshed:
            ensure_base(store, wishes[name], machine, console, refresh=True)
            refreshed.add((wishes[name], machine))
        image, origin = build_image(store, wishes[name], machine, role, console)
        rows.append({"target": name, "role": role, "machine": machine, "image": image, "origin": origin})
    console.close_line()
    lines = [f"{row['target']}: {row['role']} on {row['machine']}, {row['origin']}, {row['image']}" for row in rows]
    _print({"version": 1, "images": rows}, arguments.json, lines)


def _print(document: dict[str, object], as_json: bool, lines: list[str]) -> None:
    text = json.dumps(document, indent=2) if as_json else "\n".join(lines)
    if text:
        sys.stdout.write(f"{text}\n")
