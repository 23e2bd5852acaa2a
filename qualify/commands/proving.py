"""What every command that gives wheels away asks of them: evidence beside each, proven again here and now."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.commands.evidence_options import add_trust_arguments, demands_of
from qualify.errors import UsageError

if TYPE_CHECKING:
    from qualify.evidence import Evidence


def add_proof_arguments(parser: argparse.ArgumentParser) -> None:
    """Which evidence of a wheel counts, and where what it was held against lies."""
    parser.add_argument(
        "--target", default="", metavar="ID", help="default: every target whose evidence lies beside the wheel"
    )
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="default: as docs/matrix.md says")
    parser.add_argument(
        "--accept-profile",
        choices=["release", "upstream"],
        default="release",
        help="the least profile that the evidence must have; upstream: someone else's wheel, usable on the target",
    )
    parser.add_argument(
        "--accept-overridden", action="store_true", help="take wheels that only waivers let through; the page says so"
    )
    parser.add_argument(
        "--control", type=Path, metavar="FILE", help="where the control lies that the matrix names with its sha256"
    )
    add_trust_arguments(parser, signed=True)


def proven(wheel: Path, arguments: argparse.Namespace) -> tuple[Evidence, ...]:
    """Prove all evidence of one wheel that is asked for.

    :raises RefusedError: there is none, it proves nothing, or its profile is not enough.
    """
    from qualify import evidence, matrix
    from qualify.controls import Controls
    from qualify.errors import RefusedError

    if not wheel.is_file():
        raise UsageError("no such file", where=str(wheel), action="name a wheel")
    loaded = matrix.load(arguments.matrix)
    if arguments.target and arguments.target not in loaded.matrix.targets:
        raise UsageError(f"target {arguments.target!r} is not in the matrix", expected=", ".join(loaded.matrix.targets))
    targets = (arguments.target,) if arguments.target else evidence.targets_beside(wheel)
    if not targets:
        raise RefusedError(
            "no evidence beside the wheel",
            where=str(wheel),
            expected=evidence.path_for(wheel, "<target>").name,
            action="judge it: qualify check WHEEL --target ID --evidence",
        )
    documents = []
    for target in targets:
        path = evidence.path_for(wheel, target)
        document = evidence.load(path)
        if document.target != target:
            raise RefusedError(
                f"evidence for {document.target} under the name of {target}",
                where=path.name,
                action="put it back under its own name",
            )
        if document.profile != "release" and arguments.accept_profile != document.profile:
            raise RefusedError(
                f"judged with the profile {document.profile}",
                where=path.name,
                expected="profile release",
                action="judge it with --profile release, or say --accept-profile upstream",
            )
        documents.append(document)
    print(f"proving {wheel.name} for {', '.join(targets)} again", file=sys.stderr)
    controls = Controls(loaded, at=arguments.control).of_target
    return evidence.prove_each(
        documents,
        wheel,
        loaded,
        accept_overridden=arguments.accept_overridden,
        controls=controls,
        demands=demands_of(arguments, loaded, signed=arguments.signed),
    )
