"""Who stands behind a document, and whether it is young enough: signature, key and age.

Nothing here looks at a wheel.  The clock comes in from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from qualify import signing
from qualify.errors import EvidenceError
from qualify.evidencedoc import CHECK_AGAIN, Document, Grade, moment
from qualify.matrix.model import Profile
from qualify.refusals import Reason
from qualify.trust import TrustedKey, TrustedKeys

#: How far the clock of the host that made a document may be ahead of this one.
CLOCK_SKEW = timedelta(minutes=5)

_SIGN_AGAIN = CHECK_AGAIN + " --sign KEY"


@dataclass(frozen=True, slots=True)
class Demands:
    """What is asked of evidence beside its being true of the wheel."""

    now: datetime
    trust: TrustedKeys | None = None  # None: no keys are named here, and no signature is looked at
    signed: bool = False  # refuse what no trusted key has signed
    max_age: timedelta | None = None
    profile: Profile = Profile.UPSTREAM  # the least: release is more than upstream
    grade: Grade = Grade.STATIC  # the least: device is more than static


@dataclass(frozen=True, slots=True)
class Voucher:
    """Who vouches for a document."""

    signer: str = ""  # id of the trusted key; "" where the document is unsigned, or its signature was not looked at
    name: str = ""  # whose key it is
    said_by: str = ""  # the key id that stands in the file, looked at or not

    @property
    def state(self) -> str:
        """In words: "signed by …", "unsigned", or that nobody looked."""
        if self.signer:
            return f"signed by {self.name} (key {self.signer[:12]})"
        if self.said_by:
            return f"signature not checked: no trusted keys are named here (it says key {self.said_by[:12]})"
        return "unsigned"


def vouch(document: Document, demands: Demands, where: str) -> Voucher:
    """Check a document's signature, its age and its rank against what is asked.

    :param where: the file's name, for messages.
    :raises EvidenceError: it doesn't meet them; each way with a reason of its own.
    """
    voucher = _signature(document, demands, where)
    _age(document, demands, where)
    if demands.profile is Profile.RELEASE and document.profile != Profile.RELEASE:
        raise EvidenceError(
            Reason.PROFILE,
            f"judged with the profile {document.profile}",
            where=where,
            expected="profile release",
            action="judge it with --profile release, or ask for less",
        )
    if demands.grade is Grade.DEVICE and grade_of(document, voucher) is not Grade.DEVICE:
        claimed = document.grade is Grade.DEVICE
        raise EvidenceError(
            Reason.GRADE,
            "its device runs are a claim that no trusted key has signed" if claimed else "of the grade static",
            where=where,
            expected="grade device: runs on the target's device that passed, signed by a trusted key",
            action="run it there, then: qualify check WHEEL --target ID --evidence --device-run FILE --sign KEY",
        )
    return voucher


def grade_of(document: Document, voucher: Voucher) -> Grade:
    """The grade that counts.  Reading a file again proves no device run, so a trusted signature is all that can."""
    return document.grade if voucher.signer else Grade.STATIC


def _signature(document: Document, demands: Demands, where: str) -> Voucher:
    signature = document.signature
    if signature is None:
        if demands.signed:
            raise EvidenceError(
                Reason.UNSIGNED,
                "unsigned: anybody can have written it",
                where=where,
                expected="a signature by a trusted key",
                action=f"{_SIGN_AGAIN}; or take it as it is with --accept-unsigned",
            )
        return Voucher()
    if demands.trust is None:
        if demands.signed:
            raise EvidenceError(
                Reason.NO_TRUST,
                f"signed by key {signature.keyid[:12]}, and no trusted keys are named here",
                where=where,
                expected="the public keys that count",
                action="name them with --trust, WHEEL_ASSAY_TRUST, or trusted-keys.yaml beside the matrix",
            )
        return Voucher(said_by=signature.keyid)
    key = demands.trust.keys.get(signature.keyid)
    if key is None:
        raise EvidenceError(
            Reason.UNKNOWN_KEY,
            f"signed by key {signature.keyid[:12]}, which is not trusted here",
            where=where,
            expected=f"a key of {demands.trust.path}",
            action=f"ask who signed it; add the key if you trust its owner, else {_SIGN_AGAIN}",
        )
    # The signature first: what an unsigned hand wrote about a moment says nothing.
    if not signing.holds(document, key):
        raise EvidenceError(
            Reason.BAD_SIGNATURE,
            f"the signature is not one of {key.name} (key {key.id[:12]}) over this content",
            where=where,
            expected="the content that was signed",
            action=f"the file was changed after it was signed: get it again, or {_SIGN_AGAIN}",
        )
    _key_counts(document, key, demands, where)
    return Voucher(key.id, key.name, signature.keyid)


def _key_counts(document: Document, key: TrustedKey, demands: Demands, where: str) -> None:
    """The key is not revoked, counts now, and counted when the document says that it was made."""
    named = f"key {key.id[:12]} of {key.name}"
    file = demands.trust.path if demands.trust is not None else ""
    if key.revoked:
        raise EvidenceError(
            Reason.KEY_REVOKED,
            f"{named} was revoked{f': {key.why}' if key.why else ''}",
            where=where,
            expected="a key that counts",
            action=f"{_SIGN_AGAIN}, with a key that counts",
        )
    if demands.now >= key.end:
        raise EvidenceError(
            Reason.KEY_EXPIRED,
            f"{named} counted until {key.valid_until}",
            where=where,
            expected="a key that counts today",
            action=f"{_SIGN_AGAIN}, with a key that counts; or move valid_until in {file}",
        )
    if demands.now < key.start:
        raise EvidenceError(
            Reason.KEY_NOT_YET_VALID,
            f"{named} counts from {key.valid_from} on",
            where=where,
            expected="a key that counts today",
            action=f"wait, or look at the clock and at valid_from in {file}",
        )
    made = datetime.fromisoformat(document.made)
    if not key.start <= made < key.end:
        raise EvidenceError(
            Reason.MADE_OUTSIDE_KEY,
            f"made on {document.made}, when {named} didn't count",
            where=where,
            expected=f"made between {key.valid_from} and {key.valid_until}",
            action=_SIGN_AGAIN,
        )


def _age(document: Document, demands: Demands, where: str) -> None:
    """It is not from the future, has not expired, and is not older than was asked."""
    made, now = datetime.fromisoformat(document.made), demands.now
    if made > now + CLOCK_SKEW:
        raise EvidenceError(
            Reason.MADE_LATER,
            f"made on {document.made}, which is yet to come",
            where=where,
            expected=f"made before {moment(now)}",
            action="look at the clocks of both hosts",
        )
    if document.expires and now >= datetime.fromisoformat(document.expires):
        raise EvidenceError(
            Reason.EXPIRED,
            f"it expired on {document.expires}",
            where=where,
            expected=f"evidence that holds at {moment(now)}",
            action=CHECK_AGAIN,
        )
    if demands.max_age is not None and now - made > demands.max_age:
        raise EvidenceError(
            Reason.TOO_OLD,
            f"made on {document.made}, {_days(now - made)} ago",
            where=where,
            expected=f"at most {_days(demands.max_age)}",
            action=CHECK_AGAIN,
        )


def _days(span: timedelta) -> str:
    if span < timedelta(days=2):
        return f"{span // timedelta(hours=1)} hours" if span >= timedelta(hours=2) else f"{span.seconds // 60} minutes"
    return f"{span.days} days"
