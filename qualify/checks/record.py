"""RECORD must list every file with the hash of its bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.report import Severity

_ACTION = "write RECORD anew (`wheel unpack` and `wheel pack`), after finding out what changed the files"


def _unlisted(case: Case) -> frozenset[str]:
    """Files that RECORD need not list, or need not hash: itself and its signatures."""
    folder = case.facts.dist_info.folder if case.facts.dist_info is not None else ""
    return frozenset(f"{folder}/{name}" for name in ("RECORD", "RECORD.jws", "RECORD.p7s"))


def _has_record(case: Case) -> bool:
    return case.facts.dist_info is not None and "RECORD" in case.facts.dist_info.files


@check("REC001", "no-record")
def no_record(case: Case) -> Iterator[Observation]:
    """The `.dist-info` folder has no RECORD.

    Why: without it an installer can neither verify nor later remove the files.

    Mend: pack the wheel with a tool that writes RECORD (`wheel pack`).
    """
    if case.facts.dist_info is not None and not _has_record(case):
        yield Observation(f"{case.facts.dist_info.folder}/RECORD", "missing", "a RECORD file", "use `wheel pack`")


@check("REC002", "hash-differs")
def hash_differs(case: Case) -> Iterator[Observation]:
    """A file's bytes are not those that RECORD hashed.

    Why: the file was changed after the wheel was packed: a repair tool, a damaged copy, or somebody.

    Mend: find out what changed it; then write RECORD anew or build again.
    """
    if not _has_record(case) or case.facts.dist_info is None:
        return
    members = {member.path: member for member in case.facts.members}
    for row in case.facts.dist_info.record:
        member = members.get(row.path)
        algorithm, _, value = row.hash.partition("=")
        if member is None or not member.sha256 or algorithm != "sha256":
            continue
        if _hex(value) != member.sha256:
            found = f"sha256 {member.sha256[:16]}…"
            yield Observation(row.path, found, f"{row.hash[:32]}…, as RECORD says", _ACTION)
        elif row.size and row.size != str(member.size):
            yield Observation(row.path, f"{member.size} bytes", f"{row.size}, as RECORD says", _ACTION)


def _hex(value: str) -> str:
    try:
        return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
    except (binascii.Error, ValueError):
        return ""


@check("REC003", "file-not-recorded")
def file_not_recorded(case: Case) -> Iterator[Observation]:
    """A file of the wheel is not listed in RECORD.

    Why: nothing vouches for it, and an uninstall leaves it behind. A stray extension of another build gets into
    wheels this way.

    Mend: remove the file, or write RECORD anew.
    """
    if not _has_record(case) or case.facts.dist_info is None:
        return
    listed = {row.path for row in case.facts.dist_info.record} | _unlisted(case)
    for member in case.facts.members:
        if member.path not in listed:
            yield Observation(member.path, "a file that RECORD does not list", "every file listed", _ACTION)


@check("REC004", "recorded-file-missing")
def recorded_file_missing(case: Case) -> Iterator[Observation]:
    """RECORD lists a file that the wheel does not hold.

    Why: a file was taken out after packing: a stripped extension, an interrupted copy.

    Mend: build again, or write RECORD anew if the file was meant to go.
    """
    if not _has_record(case) or case.facts.dist_info is None:
        return
    members = {member.path for member in case.facts.members}
    for row in case.facts.dist_info.record:
        if row.path not in members:
            yield Observation(row.path, "listed in RECORD, not in the wheel", "every listed file", _ACTION)


@check("REC005", "not-hashed")
def not_hashed(case: Case) -> Iterator[Observation]:
    """RECORD lists a file without a hash, or with one that the specification forbids.

    Why: only RECORD itself and its signatures may stand there without a hash, and md5 and sha1 prove nothing.

    Mend: write RECORD anew with sha256.
    """
    for path, algorithm in _rows(case):
        if algorithm in ("", "md5", "sha1"):
            yield Observation(path, algorithm or "no hash in RECORD", "a sha256 hash", _ACTION)


@check("REC006", "hash-not-looked-at", upstream=Severity.UNVERIFIED, release=Severity.UNVERIFIED)
def hash_not_looked_at(case: Case) -> Iterator[Observation]:
    """RECORD hashes a file with an algorithm that this tool does not compute.

    Why: only sha256 is computed while the wheel is read; another hash was not compared with anything.

    Mend: write RECORD with sha256, as every build backend does.
    """
    for path, algorithm in _rows(case):
        if algorithm not in ("", "md5", "sha1", "sha256"):
            yield Observation(path, f"a {algorithm} hash", "a sha256 hash", _ACTION)


def _rows(case: Case) -> Iterator[tuple[str, str]]:
    """Path and hash algorithm of every row that ought to have a hash."""
    if not _has_record(case) or case.facts.dist_info is None:
        return
    exempt = _unlisted(case)
    members = {member.path for member in case.facts.members}
    for row in case.facts.dist_info.record:
        if row.path in members and row.path not in exempt:
            yield row.path, row.hash.partition("=")[0]
