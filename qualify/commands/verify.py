"""``qualify verify WHEEL EVIDENCE``: does this evidence hold for these bytes, who says so, and since when."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualify.commands.evidence_options import add_trust_arguments, demands_of
from qualify.errors import AssayError, EvidenceError, ExitCode, UsageError
from qualify.files import Digest, sha256_of

if TYPE_CHECKING:
    from qualify.evidence import Demands, Document, Grade, Voucher
    from qualify.matrix import LoadedMatrix

HELP = "check a wheel's evidence: signature, bytes, policy and age; the wheel is judged again"

OUTPUT_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument(
        "evidence", type=Path, nargs="*", metavar="EVIDENCE", help="default: all that lies beside the wheel"
    )
    parser.add_argument("--matrix", type=Path, metavar="FILE", help="default: as docs/matrix.md says")
    add_trust_arguments(parser)
    parser.add_argument(
        "--accept-unsigned", action="store_true", help="take evidence that nobody has signed; the output calls it so"
    )
    parser.add_argument(
        "--accept-overridden",
        action="store_true",
        help="take a wheel that only waivers let through; the output says so",
    )
    parser.add_argument("--profile", choices=("upstream", "release"), default="upstream", help="the least to take")
    parser.add_argument(
        "--grade",
        choices=("static", "device"),
        default="static",
        help="the least to take; device: it ran on the target's device, and a trusted key says so",
    )
    parser.add_argument(
        "--control", type=Path, metavar="FILE", help="where the control lies that the matrix names with its sha256"
    )
    parser.add_argument(
        "--no-judging",
        action="store_true",
        help="hash the wheel alone, and take the judgement at the word of the trusted key: fast, and less",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, also for a refusal")


def run(arguments: argparse.Namespace) -> ExitCode:
    try:
        rows = _verified(arguments)
    except AssayError as error:
        if arguments.json:
            print(json.dumps(_refusal(arguments.wheel, error), indent=2))
        raise
    if arguments.json:
        print(json.dumps({"version": OUTPUT_VERSION, "verified": True, "results": rows}, indent=2))
    else:
        print("\n".join(line for row in rows for line in _lines(row)))
    return ExitCode.OK


def _verified(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Every document that is asked for, proven; or the first reason against one.

    :raises EvidenceError: one doesn't hold.
    """
    if not arguments.wheel.is_file():
        raise UsageError("no such file", where=str(arguments.wheel), action="name a wheel")
    # The wheel is hashed while the matrix and the libraries load: that time is free.
    with ThreadPoolExecutor(1) as pool:
        return _verified_with(arguments, pool.submit(sha256_of, arguments.wheel).result)


def _verified_with(arguments: argparse.Namespace, hashed: Callable[[], Digest]) -> list[dict[str, Any]]:
    from qualify import evidence, matrix
    from qualify.controls import Controls

    wheel = arguments.wheel
    paths = arguments.evidence or [evidence.path_for(wheel, target) for target in evidence.targets_beside(wheel)]
    if not paths:
        evidence.load(evidence.path_for(wheel, "<target>"))  # refuses, and says what to do
    documents = [evidence.load(path) for path in paths]
    loaded = matrix.load(arguments.matrix)
    demands = _demands(arguments, loaded)
    if arguments.no_judging:
        vouchers = evidence.take_at_word(
            documents, wheel, loaded, demands, accept_overridden=arguments.accept_overridden, hashed=hashed
        )
        return [
            _row(document, voucher, evidence.grade_of(document, voucher), demands, judged=False)
            for document, voucher in zip(documents, vouchers, strict=True)
        ]
    print(f"judging {wheel.name} again for {', '.join(each.target for each in documents)}", file=sys.stderr)
    proven = evidence.prove_each(
        documents,
        wheel,
        loaded,
        accept_overridden=arguments.accept_overridden,
        controls=Controls(loaded, at=arguments.control).of_target,
        demands=demands,
        hashed=hashed,
    )
    return [_row(each.document, each.voucher, each.grade, demands, judged=True) for each in proven]


def _demands(arguments: argparse.Namespace, loaded: LoadedMatrix) -> Demands:
    from qualify.evidence import Grade
    from qualify.matrix.model import Profile

    demands = demands_of(arguments, loaded, signed=not arguments.accept_unsigned)
    return replace(demands, profile=Profile(arguments.profile), grade=Grade(arguments.grade))


def _row(document: Document, voucher: Voucher, grade: Grade, demands: Demands, *, judged: bool) -> dict[str, Any]:
    """What holds of one document, as ``--json`` prints it."""
    from datetime import datetime

    report = document.report
    return {
        "wheel": document.filename,
        "sha256": document.sha256,
        "size": document.size,
        "target": document.target,
        "profile": document.profile,
        "grade": grade.value,
        "grade_claimed": document.grade.value,
        "verdict": report.get("verdict"),
        "signed": bool(voucher.signer),
        "signer": voucher.signer,
        "signer_name": voucher.name,
        "signature": voucher.state,
        "made": document.made,
        "age_seconds": max(0, int((demands.now - datetime.fromisoformat(document.made)).total_seconds())),
        "expires": document.expires,
        "observations": len(document.observations),
        "device_runs": len(document.device_runs),
        "tool_version": document.tool_version,
        "matrix_sha256": document.matrix_sha256,
        "policy_sha256": report.get("policy_sha256"),
        "facts_sha256": document.facts_sha256,
        "receipt_sha256": report.get("receipt"),
        "judged_again": judged,
    }


def _lines(row: dict[str, Any]) -> list[str]:
    """One result for people."""
    judged = "judged again" if row["judged_again"] else "not judged again: at the signer's word"
    claimed = " (device runs are claimed, and unsigned)" if row["grade"] != row["grade_claimed"] else ""
    joined = f"; joined: observations {row['observations']}, device runs {row['device_runs']}"
    until = f", expires {row['expires']}" if row["expires"] else ""
    return [
        f"holds: {row['wheel']} is {row['verdict']} for {row['target']}, profile {row['profile']}",
        f"  bytes      sha256 {row['sha256']}, {row['size']} bytes; {judged}",
        f"  signature  {row['signature']}",
        f"  grade      {row['grade']}{claimed}{joined if row['observations'] or row['device_runs'] else ''}",
        f"  made       {row['made']} by version {row['tool_version']}{until}",
        f"  policy     {str(row['policy_sha256'])[:12]}, matrix {row['matrix_sha256'][:12]}",
    ]


def _refusal(wheel: Path, error: AssayError) -> dict[str, Any]:
    """A refusal as ``--json`` prints it: ``reason`` is a word for programs, "" where no evidence is at fault."""
    return {
        "version": OUTPUT_VERSION,
        "verified": False,
        "wheel": wheel.name,
        "reason": error.reason if isinstance(error, EvidenceError) else "",
        "exit_code": int(error.exit_code),
        "where": error.where,
        "found": error.what,
        "expected": error.expected,
        "action": error.action,
    }
