"""The evidence that ``qualify check --evidence`` writes: of each report a document, signed where a key is named."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.commands.evidence_options import age, joined

if TYPE_CHECKING:
    from qualify.facts import WheelFacts
    from qualify.matrix import LoadedMatrix
    from qualify.report import Report


class EvidenceWriter:
    """Writes evidence beside the wheels.  The key is opened at once: nothing is judged for want of a passphrase."""

    def __init__(self, arguments: argparse.Namespace, loaded: LoadedMatrix) -> None:
        """:raises AssayError: the key can't be used, or the age is none."""
        from qualify import keys

        self._arguments = arguments
        self._loaded = loaded
        self._key = keys.load(arguments.sign) if arguments.sign is not None else None
        self._span = age(arguments.expires, "--expires") if arguments.expires else None

    def write(self, report: Report, facts: WheelFacts, wheel: Path) -> str:
        """Write the document of one report, and return a line that says where it lies and who signed it.

        :raises UsageError: an observation or a device run is of other bytes.
        :raises EvidenceError: a device run is of another target.
        :raises UnavailableError: it can't be written.
        """
        from qualify import evidence, signing
        from qualify.evidencejson import parse

        now = datetime.now(UTC)
        document = evidence.from_report(
            report,
            facts,
            self._loaded,
            now,
            expires=now + self._span if self._span is not None else None,
            observations=[joined(path, facts.sha256, "an observation") for path in self._arguments.observation],
            device_runs=[joined(path, facts.sha256, "a device run") for path in self._arguments.device_run],
        )
        state = "unsigned"
        if self._key is not None:
            document = signing.sign(document, self._key)
            state = f"signed by key {self._key.keyid[:12]}"
        # What this can't read back nobody can; a device run of another target is refused here.
        parse(evidence.to_json(document).encode(), evidence.path_for(wheel, document.target).name)
        return f"evidence ({state}, {document.grade}): {evidence.write(document, wheel)}"
