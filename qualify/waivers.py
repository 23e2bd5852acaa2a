"""Waivers: findings that somebody lets through, for one wheel or for one pin, never for the next.

A waiver for a wheel holds for the bytes of one sha256.  One for a pin holds while the matrix pins that commit, and for
wheels that name it as their own: a wheel that names none, or comes from a changed tree or in a mode that the pin does
not take, is no build of the pin as far as anybody can tell.  Such a wheel can still have a waiver of its own.

What a waiver lets through keeps its severity; the verdict is ``overridden``, never ``qualified``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from qualify.facts import WheelFacts
from qualify.identity import (
    UNSTATED,
    CommitMatch,
    Identity,
    commit_match,
    identity_of_wheel,
    matches_pin,
    with_receipt,
)
from qualify.matrix.model import Pin, Project, Waiver
from qualify.provenance import Receipt
from qualify.report import BLOCKING, Finding, Granted


class Waivable(StrEnum):
    """For what the findings of a check can be let through."""

    ANY = "for a wheel or a pin"
    WHEEL = "for a wheel alone"
    NEVER = "never"


class Standing(StrEnum):
    """What a waiver is to one wheel on one target."""

    HOLDS = "holds"
    ELSEWHERE = "is for another wheel or target"
    STALE = "is for a commit that is pinned no more"
    NOT_THE_PIN = "is for the pin, and the wheel is no build of it that could be told"


@dataclass(frozen=True, slots=True)
class Held:
    """One waiver held against one wheel."""

    waiver: Waiver
    standing: Standing
    why: str = ""  # for STALE and NOT_THE_PIN: one clause


def hold(
    waivers: Sequence[Waiver],
    facts: WheelFacts,
    target: str,
    project: Project | None,
    pin: Pin | None,
    labels: Sequence[str] = (),
    receipt: Receipt | None = None,
) -> tuple[Held, ...]:
    """Every waiver, in the matrix's order, with its standing for one wheel on one target.

    :param project: None where the matrix does not name the wheel's project; no pin is that wheel's then.
    :param labels: what targets put into the local version, which is no sign of another build.
    :param receipt: of the wheel's build, where there is one.
    """
    identity: Identity | None = None
    held = []
    for waiver in waivers:
        if waiver.target is not None and waiver.target != target:
            held.append(Held(waiver, Standing.ELSEWHERE))
        elif waiver.pin is None:
            same = bool(facts.sha256) and waiver.wheel == facts.sha256
            held.append(Held(waiver, Standing.HOLDS if same else Standing.ELSEWHERE))
        elif project is None or pin is None:
            held.append(Held(waiver, Standing.ELSEWHERE))
        elif commit_match(waiver.pin, pin.commit or "") is not CommitMatch.SAME:
            now = f"commit {pin.commit}" if pin.commit else "an sdist without a commit"
            held.append(Held(waiver, Standing.STALE, f"the pin is {now}"))
        else:
            if identity is None:
                identity = identity_of_wheel(facts, project.version_module, labels)
                identity = with_receipt(identity, facts, receipt)
            why = _no_build_of(identity, pin)
            held.append(Held(waiver, Standing.NOT_THE_PIN if why else Standing.HOLDS, why))
    return tuple(held)


def _no_build_of(identity: Identity, pin: Pin) -> str:
    """Why a wheel does not pass for a build of the pin; "" where it does."""
    match = matches_pin(identity, pin)
    if match is CommitMatch.OTHER:
        return f"the wheel is of commit {identity.commit}"
    if match is CommitMatch.CANNOT_TELL:
        return "the wheel names no commit" + (f" ({'; '.join(identity.notes)})" if identity.notes else "")
    if identity.dirty:
        return f"the wheel comes from a changed tree ({identity.dirty})"
    if identity.build_mode not in (UNSTATED, *pin.build_modes):
        return f"the wheel's build mode is {identity.build_mode}"
    if identity.other:
        return f"nothing explains {'.'.join(identity.other)} in the wheel's version"
    return ""


def covers(waiver: Waiver, finding: Finding, waivable: Waivable) -> bool:
    """Whether a waiver that holds lets this finding through."""
    allowed = waivable is Waivable.ANY or (waivable is Waivable.WHEEL and waiver.wheel is not None)
    meant = not waiver.member or fnmatchcase(finding.member, waiver.member)
    return allowed and meant and waiver.code == finding.code and finding.severity in BLOCKING


def grant(
    findings: Sequence[Finding],
    held: Sequence[Held],
    waivable: Callable[[str], Waivable],
    crashed: Container[str] = (),
) -> tuple[Finding, ...]:
    """The findings, those that a waiver lets through with the (first) waiver that does.

    :param waivable: of a code.
    :param crashed: codes of checks that failed themselves: nobody granted that, so none of their findings is covered.
    """
    standing = [each.waiver for each in held if each.standing is Standing.HOLDS]

    def granted(finding: Finding) -> Finding:
        for waiver in standing if finding.code not in crashed else ():
            if covers(waiver, finding, waivable(finding.code)):
                return replace(finding, waiver=_granted(waiver))
        return finding

    return tuple(map(granted, findings))


def _granted(waiver: Waiver) -> Granted:
    return Granted(waiver.reason, waiver.granted_by, waiver.wheel or "", waiver.pin or "")


def unused(
    findings: Sequence[Finding], held: Sequence[Held], waivable: Callable[[str], Waivable], crashed: Container[str] = ()
) -> Iterator[Waiver]:
    """The waivers that hold and let nothing through."""
    for each in held:
        if each.standing is Standing.HOLDS and not any(
            finding.code not in crashed and covers(each.waiver, finding, waivable(finding.code)) for finding in findings
        ):
            yield each.waiver


def describe(waiver: Waiver) -> str:
    """``DEV001 of axpy/_C* for pin 4ba787ec9, granted by A. Person``."""
    of = f" of {waiver.member}" if waiver.member else ""
    on = f" on {waiver.target}" if waiver.target else ""
    scope = f"wheel {waiver.wheel[:12]}" if waiver.wheel else f"pin {waiver.pin}"
    return f"{waiver.code}{of}{on} for {scope}, granted by {waiver.granted_by}"
