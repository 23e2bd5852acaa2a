"""``python -m builders base``: make or refresh base images and the build images on them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from qualify.errors import ExitCode, UsageError

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
    from builders.bases import build_image, ensure_base, renew_lock, role_for
    from builders.engines.docker import DockerEngine
    from builders.plan import chosen_target
    from builders.progress import Console
    from qualify.matrix import load

    loaded = load(arguments.matrix)
    names = list(loaded.matrix.targets) if arguments.all else arguments.targets
    if not names:
        raise UsageError("no target named", expected="TARGET… or --all", where="base")
    targets = {name: chosen_target(loaded, name) for name in names}
    engine = DockerEngine()
    native = engine.info().machines[0]
    store = engine.images()
    if arguments.renew_lock:
        wanted = sorted({(target.base.image, target.machine) for target in targets.values() if target.base.image})
        changed = renew_lock(store, wanted)
        _print({"version": 1, "changed": changed}, arguments.json, [f"{name}: {new}" for name, new in changed.items()])
        return ExitCode.OK
    rows = []
    for name, target in targets.items():
        how = arguments.how or target.how
        machine = native if how == "cross" else target.machine
        role = role_for("cross" if machine != target.machine else "native")
        if arguments.refresh:
            ensure_base(store, target.base, machine, Console(sys.stderr), refresh=True)
        image, origin = build_image(store, target.base, machine, role, Console(sys.stderr))
        rows.append({"target": name, "role": role, "machine": machine, "image": image, "origin": origin})
    lines = [f"{row['target']}: {row['role']} on {row['machine']}, {row['origin']}, {row['image']}" for row in rows]
    _print({"version": 1, "images": rows}, arguments.json, lines)
    return ExitCode.OK


def _print(document: dict[str, object], as_json: bool, lines: list[str]) -> None:
    text = json.dumps(document, indent=2) if as_json else "\n".join(lines)
    if text:
        sys.stdout.write(f"{text}\n")
