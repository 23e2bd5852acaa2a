"""A build's identity as a type, and what a version string says of it.

A version string is taken apart by ``packaging`` (PEP 440) and its local part segment by segment; no pattern runs over a
whole string.  What a string doesn't say stays unsaid: a suffix proves its build mode, and its absence proves nothing.
docs/identity.md shows what real ones say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from packaging.version import Version

from qualify.matrix.model import BUILD_MODES

UNSTATED = "unstated"
_COMMIT_PART = re.compile(r"g(?:it)?([0-9a-f]{7,40})")  # setuptools-scm writes g, torch git
_DIRTY_PART = re.compile(r"d([0-9]{8})")
_TOOLKIT_PART = re.compile(r"cu[0-9]{2,4}")
_ROCM_PART = re.compile(r"rocm[0-9]*")
_MODE_PARTS = frozenset(BUILD_MODES) - {"source", UNSTATED}


class Grade(IntEnum):
    """How an identity was learned; a lower grade never passes for a higher one."""

    SELF_REPORTED = 1  # a server said so
    METADATA = 2  # a version string, a file name, METADATA
    VERSION_MODULE = 3  # the version module, read as text
    IMPORT = 4  # the module, imported
    CONTENT = 5  # every file equals the source tree's
    BYTES = 6  # sha256


@dataclass(frozen=True, slots=True)
class Identity:
    """What a version string, a wheel or a pin says of the build.  Empty fields were not said."""

    text: str  # the version as it was given
    origin: str  # "version string", "axpy-0.1.0-….whl", "pin of matrix.yaml"
    grade: Grade
    base: str = ""  # release with epoch, pre and post: "0.28.1rc1"; "" where the text is no PEP 440 version
    dev: int | None = None  # development distance
    commit: str = ""  # hex digits without the g; at least seven
    commit_origin: str = ""  # "local version", "__commit_id__", "pin"
    build_mode: str = UNSTATED  # several that a text states are joined by "+"
    toolkit: str = ""  # "cu129", "rocm700"
    dirty: str = ""  # "20260904"; "dirty" where a text says so without a date
    labels: tuple[str, ...] = ()  # declared labels that were found
    other: tuple[str, ...] = ()  # segments of the local part that nothing explains
    local: tuple[str, ...] = ()  # all segments of the local part, in order
    runtime: str = ""  # the runtime version, where it is known beside the distribution's
    accepts: tuple[str, ...] = ()  # of a pin: the build modes that its policy accepts
    notes: tuple[str, ...] = ()  # why something above is empty or doubtful
    sdist: str = ""  # sha256 of the source distribution that it was built from, where a receipt says so
    patches: tuple[str, ...] | None = None  # sha256 of each patch that a receipt names, in order; None: not known

    def version(self) -> str:
        """The version in PEP 440's normal form; "" where there is none."""
        if not self.base:
            return ""
        dev = "" if self.dev is None else f".dev{self.dev}"
        return f"{self.base}{dev}" + (f"+{'.'.join(self.local)}" if self.local else "")


def identity_of_version(
    text: str, labels: Sequence[str] = (), *, origin: str = "version string", grade: Grade = Grade.METADATA
) -> Identity:
    """Take a version string apart.  ``dev`` and other text that is no version gives an identity that says nothing.

    :param labels: labels that targets declare; they count as such and as nothing else.
    """
    try:
        version = Version(text)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return Identity(text, origin, grade, notes=(f'"{text}" is no PEP 440 version',))
    release = public_base(version)
    identity = Identity(text, origin, grade, base=release, dev=version.dev)
    return _with_local(identity, tuple((version.local or "").split(".")) if version.local else (), labels)


def public_base(version: Version) -> str:
    """Epoch, release, pre and post of a version, in normal form."""
    pre = f"{version.pre[0]}{version.pre[1]}" if version.pre else ""
    post = "" if version.post is None else f".post{version.post}"
    return f"{f'{version.epoch}!' if version.epoch else ''}{'.'.join(map(str, version.release))}{pre}{post}"


def _with_local(identity: Identity, parts: tuple[str, ...], labels: Sequence[str]) -> Identity:
    found_labels, rest = _take_labels(parts, labels)
    commits, modes, toolkits, dates, other = [], [], [], [], []
    for part in _whole(rest):
        if match := _COMMIT_PART.fullmatch(part):
            commits.append(match[1])
        elif match := _DIRTY_PART.fullmatch(part):
            dates.append(match[1])
        elif part == "dirty":
            dates.append(part)
        elif _ROCM_PART.fullmatch(part.partition(".")[0]):
            modes.append("rocm")
            toolkits += [part] if part != "rocm" else []
        elif part in _MODE_PARTS:
            modes.append(part)
        elif _TOOLKIT_PART.fullmatch(part):
            toolkits.append(part)
        else:
            other.append(part)
    notes = identity.notes
    if len(set(commits)) > 1:
        notes = (*notes, f"several commits stand in it: {', '.join(commits)}")
    one = commits[0] if len(set(commits)) == 1 else ""
    return replace(
        identity,
        local=parts,
        commit=one,
        commit_origin="local version" if one else "",
        build_mode="+".join(sorted(set(modes))) or UNSTATED,
        toolkit="+".join(sorted(set(toolkits))),
        dirty="+".join(sorted(set(dates))),
        labels=found_labels,
        other=tuple(other),
        notes=notes,
    )


def _whole(parts: Sequence[str]) -> list[str]:
    """The segments, but a ROCm release is one: torch writes ``rocm6.4.1``, whose numbers are segments of their own."""
    whole: list[str] = []
    for part in parts:
        if part.isdigit() and whole and re.fullmatch(r"rocm[0-9]+(\.[0-9]+)*", whole[-1]):
            whole[-1] += f".{part}"
        else:
            whole.append(part)
    return whole


def _take_labels(parts: tuple[str, ...], labels: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Cut declared labels (each a run of segments) out of a local part."""
    rest, found = list(parts), []
    for label in sorted(set(labels), key=len, reverse=True):
        wanted = label.split(".")
        for start in range(len(rest) - len(wanted) + 1):
            if label and rest[start : start + len(wanted)] == wanted:
                del rest[start : start + len(wanted)]
                found.append(label)
                break
    return tuple(found), rest
