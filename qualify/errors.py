"""The one tree of errors, and the one owner of the exit codes.

Every error that a person can cause, or meet, is an :class:`AssayError`: where, what was found, what was
expected, what to do.  Three things are kept apart everywhere:

* it is wrong (:class:`MalformedError`): the bytes were looked at and break a rule;
* it could not be looked at (:class:`UnverifiedError`): no judgement was reached;
* the environment was at fault (:class:`UnavailableError`): an engine, a device or the network was not there.

Anything else that reaches ``main()`` is a bug of ours, and only then is a traceback shown.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What a command ends with; one per kind of outcome (docs/exit-codes.md)."""

    OK = 0
    REJECTED = 1
    USAGE = 2
    UNVERIFIED = 3
    UNAVAILABLE = 4
    BUILD_FAILED = 5
    REFUSED = 6
    DRIFT = 7
    PREFLIGHT = 8
    OVERRIDDEN = 9
    INTERRUPTED = 130

    @classmethod
    def worst(cls, codes: list[ExitCode]) -> ExitCode:
        """The code for several wheels at once: the first present of 4, 3, 1, 9, else 0."""
        for code in (cls.UNAVAILABLE, cls.UNVERIFIED, cls.REJECTED, cls.OVERRIDDEN):
            if code in codes:
                return code
        return cls.OK


class AssayError(Exception):
    """Base of every expected error.

    :param what: what was found, one sentence without a final full stop.
    :param where: a file, a member, a line, a setting; empty where there is no place.
    :param expected: what would have been right.
    :param action: what a person can do about it.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE

    def __init__(self, what: str, *, where: str = "", expected: str = "", action: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.action = action

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.action:
            parts.append(self.action)
        return "; ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries; keyword-only arguments do not survive the default pickling.
        return (_rebuild, (type(self), self.what, self.where, self.expected, self.action))


def _rebuild(kind: type[AssayError], what: str, where: str, expected: str, action: str) -> AssayError:
    return kind(what, where=where, expected=expected, action=action)


class UsageError(AssayError):
    """The command line is wrong: no such file, not a wheel's name, an unknown target."""


class ConfigurationError(UsageError):
    """matrix.yaml, matrix.local.yaml or a lock file is wrong."""


class MalformedError(AssayError):
    """Bytes from a wheel break the rules of their format."""

    exit_code = ExitCode.REJECTED


class UnverifiedError(AssayError):
    """Something that a judgement needs could not be looked at."""

    exit_code = ExitCode.UNVERIFIED


class UnavailableError(AssayError):
    """An engine, a device, a tool, the disk or the network was not there."""

    exit_code = ExitCode.UNAVAILABLE


class BuildError(AssayError):
    """A build failed after its compile began."""

    exit_code = ExitCode.BUILD_FAILED


class RefusedError(AssayError):
    """Recording, advancing or publishing was refused; nothing was written."""

    exit_code = ExitCode.REFUSED


_LONGEST = 1000  # characters of one text of an EvidenceError


class EvidenceError(RefusedError):
    """Evidence doesn't hold.

    Its texts quote what a stranger may have written: what could steer a terminal is escaped, and none goes on for ever.

    :param reason: the word for programs, one of :class:`qualify.refusals.Reason`; each way to fail has its own.
    """

    def __init__(self, reason: str, what: str, *, where: str = "", expected: str = "", action: str = "") -> None:
        what, where, expected = _tame(what), _tame(where), _tame(expected)
        super().__init__(what, where=where, expected=expected, action=action)
        self.reason = str(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_evidence, (self.reason, self.what, self.where, self.expected, self.action))


def _tame(text: str) -> str:
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return escaped if len(escaped) <= _LONGEST else escaped[:_LONGEST] + "…"


def _rebuild_evidence(reason: str, what: str, where: str, expected: str, action: str) -> EvidenceError:
    return EvidenceError(reason, what, where=where, expected=expected, action=action)


class DriftError(AssayError):
    """A measured value differs from the recorded one; nothing was written."""

    exit_code = ExitCode.DRIFT


class PreflightError(AssayError):
    """The preflight refused; nothing was compiled."""

    exit_code = ExitCode.PREFLIGHT
