"""A lab in a folder: a matrix, a wheel that qualifies, a key, the file that trusts it, and evidence that it signed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from securesystemslib.dsse import Envelope

from qualify import envelope, evidencejson, keys, matrix, trust
from qualify.envelope import Signature
from qualify.evidence import Demands, Document
from tests.support.line import axpy, judged, write_matrix

TARGET = "x86_64-sm90"
YEAR = timedelta(days=365)


@dataclass
class Lab:
    folder: Path
    wheel: Path
    path: Path  # of the evidence
    key: keys.PrivateKey
    now: datetime

    @property
    def matrix(self) -> Path:
        return self.folder / "matrix.yaml"

    @property
    def trusted(self) -> Path:
        return self.folder / "trusted-keys.yaml"

    def loaded(self) -> matrix.LoadedMatrix:
        return matrix.load(self.matrix)

    def document(self) -> Document:
        return evidencejson.load(self.path)

    def demands(self, **more: Any) -> Demands:
        return Demands(now=self.now, trust=trust.load(self.trusted), **{"signed": True, **more})

    def content(self) -> dict[str, Any]:
        """The statement that stands in the evidence file."""
        content: dict[str, Any] = json.loads(self.path.read_bytes())
        return json.loads(base64.b64decode(content["payload"])) if "payload" in content else content  # type: ignore[no-any-return]

    def put(self, content: dict[str, Any], key: keys.PrivateKey | None) -> None:
        """Write a statement, whatever it says; signed by ``key``, which needs no agreement of ours."""
        if key is None:
            self.path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
            return
        payload = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        made = Envelope(payload, envelope.PAYLOAD_TYPE, {}).sign(key.signer)
        self.path.write_text(envelope.to_text(payload, Signature(made.keyid, bytes.fromhex(made.signature))))

    def forge(self, change: Callable[[dict[str, Any]], object], key: keys.PrivateKey | None = None) -> None:
        """Change what the statement says, and have the lab's own key (or another) sign it anew."""
        content = self.content()
        change(content)
        self.put(content, key or self.key)

    def trust(self, start: datetime, end: datetime, *, revoked: str = "", key: keys.PrivateKey | None = None) -> None:
        """Trust the lab's key (or another one alone) from one day to another."""
        chosen = key or self.key
        entry = trust.entry(chosen.keyid, chosen.public, "the lab", start, end)
        if revoked:
            entry = entry.replace("revoked: false", f'revoked: true\n    why: "{revoked}"')
        self.trusted.write_bytes(trust.with_entry(None, entry, "x"))


def make_lab(folder: Path, *, target: str = TARGET, version: str = "0.1.0") -> Lab:
    now = datetime.now(UTC)
    wheel = axpy(folder / "w", target, version)
    made = judged(wheel, target, write_matrix(folder))
    lab = Lab(folder, wheel, made.path, keys.new(folder / "lab.key"), now)
    lab.trust(now - YEAR, now + YEAR)

    def fresh(content: dict[str, Any]) -> None:
        content["predicate"]["made"] = (now - timedelta(hours=1)).isoformat(timespec="seconds")

    lab.forge(fresh)
    return lab
