"""The DSSE envelope as text: one payload, one signature, and one way to write the two down.

DSSE (github.com/secure-systems-lab/dsse, version 1.0.2) lets a reader take standard and URL-safe base64, any order of
keys and any blanks.  Here one text stands for one envelope, so that a changed byte is a changed envelope: what can be
read in two ways is refused.  Signing and checking are elsewhere (``qualify.signing``); nothing here needs a library.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

from qualify.errors import EvidenceError
from qualify.refusals import Reason

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_LONGEST_KEYID = 256  # characters; ours have 64


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature, as it stands in an envelope.  That it holds is not said by this."""

    keyid: str  # a hint in DSSE's eyes: only the key that it names is tried
    sig: bytes


def is_envelope(content: Mapping[str, object]) -> bool:
    """Whether a JSON object means to be an envelope."""
    return bool({"payload", "payloadType", "signatures"} & set(content))


def to_text(payload: bytes, signature: Signature) -> str:
    """The envelope's text: indented, keys sorted, standard base64, one newline at the end."""
    content = {
        "payload": _encode(payload),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": signature.keyid, "sig": _encode(signature.sig)}],
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def parts(content: Mapping[str, object], where: str) -> tuple[bytes, Signature]:
    """Payload and signature of an envelope.

    :raises EvidenceError: it is none of ours: other keys, another type of payload, not exactly one signature, base64
        that is not written in the one way.
    """
    if set(content) != {"payload", "payloadType", "signatures"}:
        different = ", ".join(sorted(set(content) ^ {"payload", "payloadType", "signatures"}))
        raise _malformed(f"keys missing or unknown: {different}", where)
    if content["payloadType"] != PAYLOAD_TYPE:
        raise EvidenceError(
            Reason.PAYLOAD_TYPE,
            f"the envelope's payload is of type {content['payloadType']!r}",
            where=where,
            expected=PAYLOAD_TYPE,
            action="this is something else that was signed; name an evidence file",
        )
    signatures = content["signatures"]
    if not isinstance(signatures, list) or len(signatures) != 1:
        count = len(signatures) if isinstance(signatures, list) else "no list of"
        raise _malformed(f"{count} signatures", where)
    (row,) = signatures
    if not isinstance(row, dict) or set(row) != {"keyid", "sig"}:
        raise _malformed("a signature is not made of keyid and sig", where)
    keyid = row["keyid"]
    if not isinstance(keyid, str) or not 0 < len(keyid) <= _LONGEST_KEYID or not keyid.isprintable():
        raise _malformed("keyid is no id", where)
    payload = _decode(content["payload"], "payload", where)
    return payload, Signature(keyid, _decode(row["sig"], "sig", where))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(value: object, name: str, where: str) -> bytes:
    if not isinstance(value, str):
        raise _malformed(f"{name} is no text", where)
    try:
        data = base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _malformed(f"{name} is no base64", where) from error
    if _encode(data) != value:
        # Spare bits at the end, which base64 readers drop: two texts for one value.
        raise _malformed(f"{name} is not in base64's one form", where)
    return data


def _malformed(what: str, where: str) -> EvidenceError:
    return EvidenceError(
        Reason.ENVELOPE,
        f"not an evidence envelope: {what}",
        where=where,
        expected="a DSSE envelope with one signature",
        action="judge the wheel again: qualify check WHEEL --target ID --evidence --sign KEY",
    )
