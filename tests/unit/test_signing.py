"""DSSE and in-toto: the specification's own vectors, and readers that are not ours."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from qualify import envelope, evidence, evidencedoc, evidencejson, evidenceschema, keys, signing, trust
from qualify.errors import EvidenceError
from qualify.evidencedoc import PREDICATE_TYPE, STATEMENT_TYPE
from qualify.refusals import Reason
from tests.support.line import Qualified, qualified, write_matrix

TARGET = "x86_64-sm90"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


@pytest.fixture
def made(tmp_path: Path) -> Qualified:
    return qualified(tmp_path, write_matrix(tmp_path), TARGET)


@pytest.fixture
def key(tmp_path: Path) -> keys.PrivateKey:
    return keys.new(tmp_path / "builder.key")


def pae(payload_type: bytes, payload: bytes) -> bytes:
    """Written down from protocol.md of DSSE 1.0.2, and from no library."""
    return b" ".join([b"DSSEv1", b"%d" % len(payload_type), payload_type, b"%d" % len(payload), payload])


def test_the_library_encodes_as_the_specification_says() -> None:
    """The example of protocol.md, with its signature and its key (ECDSA), and lengths that count bytes."""
    body, kind = b"hello world", "http://example.com/HelloWorld"
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert Envelope(body, kind, {}).pae() == pae(kind.encode(), body) == expected
    signature = base64.b64decode(
        "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="
    )
    numbers = ec.EllipticCurvePublicNumbers(
        46950820868899156662930047687818585632848591499744589407958293238635476079160,
        5640078356564379163099075877009565129882514886557779369047442380624545832820,
        ec.SECP256R1(),
    )
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    numbers.public_key().verify(utils.encode_dss_signature(r, s), expected, ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("", b"", b"DSSEv1 0  0 "),
        ("é", b"\x00\xff", b"DSSEv1 2 \xc3\xa9 2 \x00\xff"),
        ("a 1", b"b 1 c", b"DSSEv1 3 a 1 5 b 1 c"),
    ],
)
def test_lengths_count_bytes_and_nothing_runs_together(kind: str, body: bytes, expected: bytes) -> None:
    assert Envelope(body, kind, {}).pae() == pae(kind.encode(), body) == expected


def test_a_signed_file_is_read_by_the_reference_library(made: Qualified, key: keys.PrivateKey) -> None:
    """securesystemslib's own reader and verifier, over the bytes of the file, with a key made from its public half."""
    text = evidencejson.to_json(signing.sign(made.document, key))
    read = Envelope.from_dict(json.loads(text))
    public = SSlibKey.from_crypto(ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.public)))
    assert public.keyid == key.keyid
    assert list(read.verify([public], 1)) == [key.keyid]
    assert (read.payload_type, read.payload) == (envelope.PAYLOAD_TYPE, evidencedoc.payload(made.document))
    other = CryptoSigner.generate_ed25519().public_key
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads(text)).verify([other], 1)
    read.payload += b" "
    with pytest.raises(VerificationError):
        read.verify([public], 1)


def test_what_the_reference_library_signs_is_read_here(made: Qualified, tmp_path: Path) -> None:
    signer = CryptoSigner.generate_ed25519()
    foreign = Envelope(evidencedoc.payload(made.document), envelope.PAYLOAD_TYPE, {})
    foreign.sign(signer)
    content = foreign.to_dict()
    text = json.dumps(content, indent=2, sort_keys=True) + "\n"
    document = evidencejson.parse(text.encode(), "foreign")
    public = signer.public_key
    assert signing.holds(document, trusted(public.keyid, str(public.keyval["public"])))
    # The same envelope laid out otherwise says the same, and is not the file that was written.
    with pytest.raises(EvidenceError) as caught:
        evidencejson.parse(json.dumps(content).encode(), "foreign")
    assert caught.value.reason == Reason.NOT_CANONICAL


def test_the_signature_is_plain_ed25519_over_the_encoding(made: Qualified, key: keys.PrivateKey) -> None:
    """By the specification alone: no code of ours or of securesystemslib takes part in the check."""
    content = json.loads(evidencejson.to_json(signing.sign(made.document, key)))
    message = pae(content["payloadType"].encode(), base64.b64decode(content["payload"]))
    signature = base64.b64decode(content["signatures"][0]["sig"])
    ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.public)).verify(signature, message)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_openssl_agrees(made: Qualified, key: keys.PrivateKey, tmp_path: Path) -> None:
    content = json.loads(evidencejson.to_json(signing.sign(made.document, key)))
    public = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.public))
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(pem)
    (tmp_path / "sig").write_bytes(base64.b64decode(content["signatures"][0]["sig"]))
    message = pae(content["payloadType"].encode(), base64.b64decode(content["payload"]))
    for data, holds in ((message, True), (message + b"\n", False)):
        (tmp_path / "message").write_bytes(data)
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", "-in", "message"]
        done = subprocess.run([*command, "-sigfile", "sig"], cwd=tmp_path, capture_output=True, check=False)
        assert (done.returncode == 0) is holds, done.stderr


@pytest.mark.parametrize("signed", [False, True])
def test_the_statement_is_one_to_in_totos_own_library(made: Qualified, key: keys.PrivateKey, signed: bool) -> None:
    document = signing.sign(made.document, key) if signed else made.document
    content = json.loads(evidencejson.to_json(document))
    body = base64.b64decode(content["payload"]) if signed else json.dumps(content).encode()
    message = json_format.Parse(body, statement_pb2.Statement())
    Statement.copy_from_pb(message).validate()
    assert (message.type, message.predicate_type) == (STATEMENT_TYPE, PREDICATE_TYPE)
    (subject,) = message.subject
    assert (subject.name, dict(subject.digest)) == (made.wheel.name, {"sha256": made.document.sha256})


def test_the_schemas_are_fresh_and_take_what_is_written(made: Qualified) -> None:
    stored = (SCHEMAS / evidenceschema.NAME).read_text(encoding="utf-8")
    report = (SCHEMAS / evidenceschema.REPORT_NAME).read_text(encoding="utf-8")
    assert stored == evidenceschema.schema_text(report), "run: python -m qualify.evidenceschema docs/schema"
    known = (SCHEMAS / evidenceschema.TRUST_NAME).read_text(encoding="utf-8")
    assert known == evidenceschema.trust_schema_text(), "run: python -m qualify.evidenceschema docs/schema"
    content = json.loads(made.path.read_bytes())
    jsonschema.validate(content, json.loads(stored))


@pytest.mark.parametrize("name", ["grade", "report", "waivers", "receipt", "made"])
def test_the_schema_refuses_what_the_reader_refuses(made: Qualified, name: str) -> None:
    schema = json.loads((SCHEMAS / evidenceschema.NAME).read_bytes())
    content = json.loads(made.path.read_bytes())
    for wrong in (7, "wrong"):
        changed: dict[str, Any] = copy.deepcopy(content)
        changed["predicate"][name] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(changed, schema)
        with pytest.raises(EvidenceError):
            evidencejson.parse((json.dumps(changed, indent=2, sort_keys=True) + "\n").encode(), "x")
    del content["predicate"][name]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema)


def trusted(keyid: str, public: str, **more: Any) -> trust.TrustedKey:
    values = {"name": "lab", "valid_from": "2026-01-01", "valid_until": "2030-12-31", **more}
    return trust.TrustedKey(id=keyid, public=public, **values)


def test_a_signature_holds_for_its_key_and_its_content_alone(made: Qualified, key: keys.PrivateKey) -> None:
    signed = signing.sign(made.document, key)
    assert signed.signature is not None
    assert evidence.to_json(signed) == evidencejson.to_json(evidencejson.parse(evidence.to_json(signed).encode(), "x"))
    mine = trusted(key.keyid, key.public)
    assert signing.holds(signed, mine)
    assert not signing.holds(made.document, mine), "unsigned"
    assert not signing.holds(dataclasses.replace(signed, made="2026-11-30T12:00:01+00:00"), mine)
    assert not signing.holds(signed, trusted("0" * 64, key.public)), "under another id"
    other = CryptoSigner.generate_ed25519().public_key
    assert not signing.holds(signed, trusted(key.keyid, str(other.keyval["public"]))), "another key under its id"
    for wrong in (b"", signed.signature.sig[:-1], signed.signature.sig + b"\0", bytes(64)):
        forged = dataclasses.replace(signed, signature=dataclasses.replace(signed.signature, sig=wrong))
        assert not signing.holds(forged, mine)


def test_a_signature_with_a_larger_scalar_of_the_same_value_is_no_second_signature(
    made: Qualified, key: keys.PrivateKey
) -> None:
    """RFC 8032 5.1.7: S is below the group's order, or one signature could be written in two ways."""
    signed = signing.sign(made.document, key)
    assert signed.signature is not None
    order = 2**252 + 27742317777372353535851937790883648493
    sig = signed.signature.sig
    larger = sig[:32] + (int.from_bytes(sig[32:], "little") + order).to_bytes(32, "little")
    forged = dataclasses.replace(signed, signature=dataclasses.replace(signed.signature, sig=larger))
    assert not signing.holds(forged, trusted(key.keyid, key.public))


def test_a_private_key_shows_its_public_half_alone(key: keys.PrivateKey, tmp_path: Path) -> None:
    secret = base64.b64decode("".join((tmp_path / "builder.key").read_text().split("\n")[1:-2]))[-32:]
    assert repr(key) == f"PrivateKey({key.keyid})"
    assert secret.hex() not in repr(key) + key.public + key.keyid
    for door in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            door(key)


def test_the_id_is_the_one_of_the_reference_library(key: keys.PrivateKey) -> None:
    assert trust.keyid_of(key.public) == key.keyid


def test_loading_evidence_imports_no_cryptography(made: Qualified) -> None:
    """``check`` looks at earlier evidence each time; a tenth of a second would be seen."""
    code = (
        "import sys; from pathlib import Path; from qualify.evidencejson import load\n"
        f"load(Path({str(made.path)!r}))\n"
        "print([name for name in ('cryptography', 'securesystemslib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
