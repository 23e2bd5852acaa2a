"""What an evidence document says, as a value and as text; reading it back is ``qualify.evidencejson``'s.

The text is an in-toto Statement v1 about one wheel, alone (unsigned) or as the payload of a DSSE envelope.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

from qualify import envelope
from qualify.envelope import Signature

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SCHEMA_VERSION = 3
PREDICATE_NAME = "urn:wheel-assay:evidence:v"
PREDICATE_TYPE = f"{PREDICATE_NAME}{SCHEMA_VERSION}"
SUFFIX = ".evidence.json"
CHECK_AGAIN = "judge the wheel again: qualify check WHEEL --target ID --evidence"


class Grade(StrEnum):
    """How far the looking went."""

    STATIC = "static"  # the file was read
    DEVICE = "device"  # and it ran on the target's device


@dataclass(frozen=True, slots=True)
class Document:
    """An evidence file's content, not proven.  ``report`` is the whole report as plain JSON values."""

    tool_version: str
    filename: str
    sha256: str
    size: int  # bytes
    target: str
    profile: str
    matrix_sha256: str  # of everything that the matrix asserts
    facts_sha256: str  # of the facts as canonical JSON
    report: Mapping[str, object]
    made: str  # ISO 8601, UTC
    expires: str = ""  # ISO 8601, UTC; "": never by itself
    observations: tuple[Mapping[str, object], ...] = ()  # what was measured of the wheel, as `measure --json` prints it
    device_runs: tuple[Mapping[str, object], ...] = ()  # what came of running it on a device
    signature: Signature | None = None  # None: unsigned

    @property
    def grade(self) -> Grade:
        """``device`` where it ran on the target's kind of device and every run passed; a claim, like all of it."""
        passed = [run.get("outcome") == "passed" for run in self.device_runs]
        return Grade.DEVICE if passed and all(passed) else Grade.STATIC

    def asked(self) -> Mapping[str, Any]:
        """The policy that the report says it was judged by; empty where nothing could be judged."""
        policy = self.report.get("policy")
        return policy if isinstance(policy, Mapping) else {}


def tool_version() -> str:
    """The installed version of this tool; "0+unknown" where it runs from a tree that isn't installed."""
    try:
        return metadata.version("wheel-assay")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def path_for(wheel: Path, target: str) -> Path:
    """Where the evidence of ``wheel`` for ``target`` lies: beside the wheel."""
    return wheel.with_name(f"{wheel.name}.{target}{SUFFIX}")


def targets_beside(wheel: Path) -> tuple[str, ...]:
    """Ids of the targets for which an evidence file lies beside ``wheel``, sorted."""
    start = f"{wheel.name}."
    names = (path.name for path in wheel.parent.iterdir()) if wheel.parent.is_dir() else ()
    found = [name[len(start) : -len(SUFFIX)] for name in names if name.startswith(start) and name.endswith(SUFFIX)]
    return tuple(sorted(target for target in found if target))


def statement(document: Document) -> dict[str, Any]:
    """The in-toto Statement of a document, as JSON values.

    What a consumer looks for first (policy, receipt, control, waivers, grade) is lifted out of the report; a file in
    which the two differ contradicts itself.
    """
    report, policy = document.report, document.asked()
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": document.filename, "digest": {"sha256": document.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "tool": {"name": "wheel-assay", "version": document.tool_version},
            "made": document.made,
            "expires": document.expires or None,
            "size": document.size,
            "target": document.target,
            "profile": document.profile,
            "grade": document.grade.value,
            "matrix": {"asserted_sha256": document.matrix_sha256},
            "policy": {"sha256": report.get("policy_sha256")},
            "facts": {"sha256": document.facts_sha256},
            "receipt": {"sha256": report["receipt"]} if report.get("receipt") else None,
            "control": policy.get("control"),
            "waivers": policy.get("waivers", []),
            "observations": list(document.observations),
            "device_runs": list(document.device_runs),
            "report": report,
        },
    }


def payload(document: Document) -> bytes:
    """What a signature is over: the statement in its one compact form."""
    return json.dumps(statement(document), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def to_json(document: Document) -> str:
    """The text of an evidence file: the envelope of a signed document, the bare statement of an unsigned one."""
    if document.signature is not None:
        return envelope.to_text(payload(document), document.signature)
    return json.dumps(statement(document), indent=2, sort_keys=True, allow_nan=False) + "\n"


def moment(when: datetime) -> str:
    """A moment as evidence writes it: ISO 8601, UTC, whole seconds."""
    return when.astimezone(UTC).isoformat(timespec="seconds")


def is_moment(text: str) -> bool:
    """Whether a text is what :func:`moment` writes."""
    try:
        return moment(datetime.fromisoformat(text)) == text
    except (ValueError, OverflowError):
        return False
