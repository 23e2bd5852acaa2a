"""What would keep a server from taking a set of wheels, looked for before the first byte is sent."""

from __future__ import annotations

import contextlib
import fnmatch
import http.client
import io
import socket
import ssl
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from qualify.errors import RefusedError, UnavailableError
from qualify.evidence import Evidence
from qualify.files import sha256_of
from qualify.publishers.destination import Account, Destination

if TYPE_CHECKING:
    from twine.package import PackageFile
    from twine.repository import Repository

_PROBE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file to be uploaded, with what it was proven for."""

    path: Path
    filename: str
    sha256: str
    size: int  # bytes
    project: str  # normalised
    version: str
    requires_python: str
    evidences: tuple[Evidence, ...]
    package: PackageFile


def candidates(evidences: Sequence[Evidence], destination: Destination, account: Account) -> tuple[Candidate, ...]:
    """The files of a set, each once, all of which the server can take as far as its rules are known.

    :raises RefusedError: one of them can't be taken, or changed since it was judged; all reasons of the first such
        wheel are told.
    """
    grouped: dict[str, list[Evidence]] = {}
    for evidence in evidences:
        grouped.setdefault(evidence.facts.filename, []).append(evidence)
    for filename, group in grouped.items():
        if len({evidence.sha256 for evidence in group}) > 1:
            raise RefusedError(
                "two wheels of one name and different bytes",
                where=filename,
                expected=f"one set of bytes for {', '.join(evidence.target for evidence in group)}",
                action="give the targets labels, so that their wheels have names of their own",
            )
    return tuple(_candidate(group, destination, account) for group in grouped.values())


def _candidate(group: Sequence[Evidence], destination: Destination, account: Account) -> Candidate:
    facts, path = group[0].facts, group[0].wheel
    try:
        name, version, _, tags = parse_wheel_filename(facts.filename)
    except InvalidWheelFilename as error:
        raise RefusedError(str(error), where=str(path), action="build it under a valid name") from None
    requirements = facts.dist_info.requires_dist if facts.dist_info is not None else ()
    rules = destination.rules
    reasons = []
    if version.local is not None and not rules.local_versions:
        reasons.append(f"takes no local version (+{version.local})")
    if rules.platforms:
        strange = {
            tag.platform for tag in tags if not any(fnmatch.fnmatchcase(tag.platform, p) for p in rules.platforms)
        }
        reasons.extend(f"takes no tag {platform}" for platform in sorted(strange))
    if not rules.references:
        reasons.extend(f"takes no requirement with an address ({each})" for each in with_address(requirements))
    if rules.size_limit and facts.size > rules.size_limit:
        reasons.append(f"takes no file above {rules.size_limit} bytes, and it has {facts.size}")
    if reasons:
        raise RefusedError(
            f"{destination.shown} " + "; ".join(reasons),
            where=str(path),
            expected="a wheel that this server takes",
            action="build it so, publish it elsewhere, or say --size-limit or --rules any if the server takes more",
        )
    # Hashed before twine opens it, since twine trusts what it reads; and by twine, for what it tells the server.
    _require(path, sha256_of(path).sha256, group[0].sha256)
    package = _package(path, account)
    _require(path, package.sha2_digest or "", group[0].sha256)
    return Candidate(
        path=path,
        filename=facts.filename,
        sha256=group[0].sha256,
        size=facts.size,
        project=canonicalize_name(name),
        version=str(version),
        requires_python=facts.dist_info.requires_python if facts.dist_info is not None else "",
        evidences=tuple(group),
        package=package,
    )


def _require(path: Path, found: str, proven: str) -> None:
    if found != proven:
        raise RefusedError(
            f"holds sha256 {found}",
            where=str(path),
            expected=f"sha256 {proven}",
            action="the file changed since it was judged: judge it again",
        )


def _package(path: Path, account: Account) -> PackageFile:
    """What twine sends of a wheel, after its own check of the metadata.

    :raises RefusedError: twine finds fault with it.
    """
    from twine.commands.check import check
    from twine.exceptions import TwineException
    from twine.package import PackageFile

    said = io.StringIO()
    problem = ""
    try:
        package = PackageFile.from_filename(str(path), None)
        with contextlib.redirect_stdout(said):
            if check([str(path)]):
                problem = "the description can't be rendered"
    except (TwineException, ValueError, KeyError) as error:
        problem = str(error) or type(error).__name__
    if problem:
        raise RefusedError(
            f"twine refuses its metadata: {account.hide(problem)}", where=str(path), action=f"see twine check {path}"
        )
    return package


def with_address(requirements: Iterable[str]) -> list[str]:
    """Names of the requirements that point at a file themselves (PEP 508)."""
    found = []
    for text in requirements:
        with contextlib.suppress(InvalidRequirement):
            requirement = Requirement(text)
            if requirement.url:
                found.append(requirement.name)
    return found


def ask_first(repository: Repository, largest: Candidate, destination: Destination, account: Account) -> None:
    """Announce the largest file and send none of it: a server that answers at once says what it doesn't take.

    ``Expect: 100-continue`` (RFC 9110, 10.1.1) lets a server refuse a length or an account before the body.  Whatever
    else it answers, or nothing in time, means that nothing is known, and the upload itself will tell.

    :raises RefusedError: 413, the file is too large.
    :raises UnavailableError: 401 or 403, the account isn't taken.
    """
    import requests

    if requests.utils.get_environ_proxies(destination.url):
        return
    request = requests.Request("POST", destination.url, headers={"Content-Type": "application/octet-stream"})
    prepared = repository.session.prepare_request(request)
    status = _announce(
        destination.url,
        {name: str(prepared.headers[name]) for name in prepared.headers},
        largest.size,
        repository.session.verify,
    )
    if status == 413:
        raise RefusedError(
            f"{destination.shown} takes no file of {largest.size} bytes",
            where=str(largest.path),
            expected="a file below the server's limit",
            action="ask its keeper for a larger limit; nothing was sent",
        )
    if status in (401, 403):
        raise UnavailableError(
            f"the server answers {status} to this account",
            where=account.hide(destination.shown),
            expected="an account that may upload",
            action="check TWINE_USERNAME and TWINE_PASSWORD; nothing was sent",
        )


def _announce(url: str, headers: dict[str, str], length: int, verify: bool | str | None) -> int:
    """The status that a server answers to the head of a request alone; 0 where it answers none."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
            connection = http.client.HTTPSConnection(host, port, timeout=_PROBE_SECONDS, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_PROBE_SECONDS)
        with contextlib.closing(connection):
            connection.putrequest("POST", parts.path or "/")
            headers = {name: value for name, value in headers.items() if name.lower() != "content-length"}
            for name, value in (headers | {"Content-Length": str(length), "Expect": "100-continue"}).items():
                connection.putheader(name, value)
            connection.endheaders()
            sock = connection.sock
            assert isinstance(sock, socket.socket)
            words = sock.recv(64).split(b" ", 2)
    except (OSError, http.client.HTTPException, ValueError):
        return 0
    return int(words[1]) if len(words) > 1 and words[1][:3].isdigit() and len(words[1]) == 3 else 0


def talk_to_stderr() -> contextlib.AbstractContextManager[object]:
    """twine prints what it does; standard output is kept for results."""
    return contextlib.redirect_stdout(sys.stderr)
