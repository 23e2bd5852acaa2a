"""Why evidence is refused: a word for each way, that a program can go by (docs/evidence.md lists them)."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """One word per way in which evidence fails to hold; ``verify --json`` prints it."""

    # The file
    MISSING = "no-evidence"
    TOO_LARGE = "too-large"
    NOT_JSON = "not-json"
    EARLIER_FORM = "earlier-form"
    NEWER_FORM = "newer-form"
    NOT_EVIDENCE = "not-evidence"
    OTHER_PREDICATE = "other-predicate"
    ENVELOPE = "malformed-envelope"
    PAYLOAD_TYPE = "other-payload-type"
    CONTRADICTION = "contradiction"
    NOT_CANONICAL = "not-canonical"
    # The signature
    UNSIGNED = "unsigned"
    NO_TRUST = "no-trusted-keys"
    UNKNOWN_KEY = "unknown-key"
    KEY_REVOKED = "key-revoked"
    KEY_EXPIRED = "key-expired"
    KEY_NOT_YET_VALID = "key-not-yet-valid"
    MADE_OUTSIDE_KEY = "made-outside-key-validity"
    BAD_SIGNATURE = "bad-signature"
    # Its age
    MADE_LATER = "made-in-the-future"
    EXPIRED = "expired"
    TOO_OLD = "too-old"
    # The wheel
    OTHER_WHEEL = "other-wheel"
    WHEEL_CHANGED = "wheel-changed"
    WHEEL_NAME = "wheel-name"
    # What it was judged by
    OTHER_MATRIX = "other-matrix"
    UNKNOWN_TARGET = "unknown-target"
    OTHER_POLICY = "other-policy"
    CONTROL = "other-control"
    RECEIPT = "other-receipt"
    # What came of it
    VERDICT = "other-verdict"
    REPORT = "other-report"
    FACTS = "other-facts"
    NOT_QUALIFIED = "not-qualified"
    # What joined it
    OBSERVATION = "foreign-observation"
    DEVICE_RUN = "foreign-device-run"
    # What is asked of it
    GRADE = "grade-too-low"
    PROFILE = "profile-too-low"
