"""Sign a document, and tell whether a signature holds: DSSE over an Ed25519 key, by securesystemslib.

The library is imported when somebody signs or checks, and not before: it takes a tenth of a second.
"""

from __future__ import annotations

from dataclasses import replace

from qualify.envelope import PAYLOAD_TYPE, Signature
from qualify.evidencedoc import Document, payload
from qualify.keys import PrivateKey
from qualify.trust import TrustedKey


def sign(document: Document, key: PrivateKey) -> Document:
    """The same document with a signature by ``key``, in place of any that it has."""
    from securesystemslib.dsse import Envelope

    made = Envelope(payload(document), PAYLOAD_TYPE, {}).sign(key.signer)
    return replace(document, signature=Signature(made.keyid, bytes.fromhex(made.signature)))


def holds(document: Document, key: TrustedKey) -> bool:
    """Whether the document's signature is one of ``key`` over what the document says."""
    from securesystemslib import signer
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    if document.signature is None or document.signature.keyid != key.id:
        return False
    public = signer.SSlibKey(key.id, "ed25519", "ed25519", {"public": key.public})
    made = signer.Signature(key.id, document.signature.sig.hex())
    try:
        Envelope(payload(document), PAYLOAD_TYPE, {key.id: made}).verify([public], 1)
    except VerificationError:
        return False
    return True
