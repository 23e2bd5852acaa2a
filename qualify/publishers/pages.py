"""The pages of a simple index: PEP 503 HTML and PEP 691 JSON, from one value.

A project's ``index.json`` is the state as well: the HTML page, the combined index and the root pages are made
from it, so that whatever a killed publish left behind is completed by the next.  What the two standards leave to
the server stands under keys with an underscore (PEP 691 reserves those).

Links are relative, so a folder can be served from any path or opened as ``file://``.  Every text from a wheel is
escaped, and file names outside a narrow alphabet are refused before they come here (:data:`SAFE_NAME`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any, TypeVar
from urllib.parse import quote

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from qualify.errors import UnverifiedError

API_VERSION = "1.1"  # PEP 700: size, upload-time, versions

# What wheel file names are made of (PEP 427 and PEP 440); nothing that a path, a link or HTML could trip over.
SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]{0,250}\.whl")
T = TypeVar("T")

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """One file of a project's page."""

    filename: str
    sha256: str
    size: int  # bytes
    requires_python: str  # "" where the wheel doesn't say
    metadata_sha256: str  # of its METADATA, served beside it (PEP 658, PEP 714)
    uploaded: str  # ISO 8601, UTC, ends in Z (PEP 700)
    profile: str  # with which it was qualified
    targets: tuple[str, ...]  # for which it was qualified; one in a target's own index
    verdict: str = "qualified"  # or "overridden": only waivers let it through

    @property
    def version(self) -> str:
        return str(parse_wheel_filename(self.filename)[1])

    @property
    def folder(self) -> str:
        """Where its files lie, from the root of the store: apart by sha256, since targets share file names."""
        return f"files/{self.sha256[:2]}/{self.sha256}"


def project_json(name: str, releases: Iterable[Release], *, up: str) -> str:
    """The PEP 691 page of one project; ``up`` leads from the page's folder to the root of the store."""
    files = _sorted(releases)
    versions = sorted({release.version for release in files}, key=Version)
    page = {
        "meta": {"api-version": API_VERSION},
        "name": name,
        "versions": versions,
        "files": [_file(release, up) for release in files],
    }
    return json.dumps(page, indent=1, ensure_ascii=True) + "\n"


def project_html(name: str, releases: Iterable[Release], *, up: str) -> str:
    """The PEP 503 page of one project, with PEP 658 and PEP 714 attributes."""
    lines = []
    for release in _sorted(releases):
        attributes = [f'href="{escape(_link(release, up))}#sha256={release.sha256}"']
        if release.requires_python:
            attributes.append(f'data-requires-python="{escape(release.requires_python)}"')
        # PEP 714: the first is the name that counts, the second is what older installers look for.
        attributes += [
            f'data-{key}="sha256={release.metadata_sha256}"' for key in ("core-metadata", "dist-info-metadata")
        ]
        lines.append(f"<a {' '.join(attributes)}>{escape(release.filename)}</a><br>")
    return _html(f"Links for {name}", lines)


def root_json(names: Iterable[str]) -> str:
    """The PEP 691 list of projects."""
    page = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in sorted(names)]}
    return json.dumps(page, indent=1, ensure_ascii=True) + "\n"


def root_html(names: Iterable[str]) -> str:
    """The PEP 503 list of projects."""
    return _html("Simple index", [f'<a href="{escape(quote(name))}/">{escape(name)}</a><br>' for name in sorted(names)])


def front_html(targets: Iterable[str]) -> str:
    """The page at the root of the store: an index for each target, and the combined one."""
    lines = [f'<a href="{escape(quote(target))}/simple/">{escape(target)}</a><br>' for target in sorted(targets)]
    return _html("Wheels by target", [*lines, '<a href="simple/">all targets</a><br>'])


def combined(by_target: Iterable[Iterable[Release]]) -> list[Release]:
    """What the combined index lists: a file name only while exactly one set of bytes has it.

    Two targets' wheels of one version may bear one file name; an installer that looks at both could take the
    wrong one without a word, so such a name is left to the targets' own indexes.
    """
    found: dict[str, dict[str, list[Release]]] = {}
    for releases in by_target:
        for release in releases:
            found.setdefault(release.filename, {}).setdefault(release.sha256, []).append(release)
    return [_merged(by_bytes.popitem()[1]) for by_bytes in found.values() if len(by_bytes) == 1]


def _merged(same: list[Release]) -> Release:
    """One release for the same bytes in several targets' indexes: the earliest upload, the least of what is said."""
    profiles = {release.profile for release in same}
    return replace(
        same[0],
        uploaded=min(release.uploaded for release in same),
        profile="release" if profiles == {"release"} else "upstream",
        targets=tuple(sorted({target for release in same for target in release.targets})),
        verdict="overridden" if any(release.verdict == "overridden" for release in same) else "qualified",
    )


def read_project(data: bytes, where: str) -> list[Release]:
    """The releases of an ``index.json`` that this module wrote.

    :raises UnverifiedError: it is something else; an index that can't be read is not written over.
    """
    try:
        page = json.loads(data)
        name = page["name"]
        releases = [_release(file) for file in page["files"]]
        for release in releases:
            if canonicalize_name(parse_wheel_filename(release.filename)[0]) != name:
                raise ValueError(f"{release.filename} is no file of {name}")
        if len({release.filename for release in releases}) != len(releases):
            raise ValueError("a file name stands twice")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnverifiedError(
            f"not an index page that this tool wrote: {error!r}",
            where=where,
            action="put the right file back, or remove it and publish that project's wheels again",
        ) from error
    return releases


def _release(file: Mapping[str, object]) -> Release:
    text = {key: _checked(file[key], str) for key in ("filename", "upload-time", "_profile")}
    hashes: dict[str, Any] = _checked(file["hashes"], dict)
    core: dict[str, Any] = _checked(file["core-metadata"], dict)
    sha256, metadata = _checked(hashes["sha256"], str), _checked(core["sha256"], str)
    size = _checked(file["size"], int)
    if not SAFE_NAME.fullmatch(text["filename"]) or not _SHA256.fullmatch(sha256) or not _SHA256.fullmatch(metadata):
        raise ValueError(f"file name or hash of {text['filename']!r}")
    targets = tuple(_checked(target, str) for target in _checked(file["_targets"], list))
    return Release(
        filename=text["filename"],
        sha256=sha256,
        size=size,
        requires_python=_checked(file.get("requires-python", ""), str),
        metadata_sha256=metadata,
        uploaded=text["upload-time"],
        profile=text["_profile"],
        targets=targets,
        verdict=_verdict(file),
    )


def _verdict(file: Mapping[str, object]) -> str:
    """Pages that were written before waivers came say nothing: what they list was qualified."""
    verdict = _checked(file.get("_verdict", "qualified"), str)
    if verdict not in ("qualified", "overridden"):
        raise ValueError(f"verdict {verdict!r}")
    return verdict


def _checked(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _file(release: Release, up: str) -> dict[str, object]:
    metadata = {"sha256": release.metadata_sha256}
    file: dict[str, object] = {
        "filename": release.filename,
        "url": _link(release, up),
        "hashes": {"sha256": release.sha256},
        "size": release.size,
        "upload-time": release.uploaded,
        "core-metadata": metadata,
        "dist-info-metadata": metadata,
        "_profile": release.profile,
        "_verdict": release.verdict,
        "_targets": list(release.targets),
        "_evidence": {target: f"{_link(release, up)}.{target}.evidence.json" for target in release.targets},
    }
    if release.requires_python:
        file["requires-python"] = release.requires_python
    return file


def _link(release: Release, up: str) -> str:
    # quote() writes "+" as %2B, which servers that read "+" as a blank need.
    return f"{up}{release.folder}/{quote(release.filename, safe='')}"


def _sorted(releases: Iterable[Release]) -> list[Release]:
    return sorted(releases, key=lambda release: (Version(release.version), release.filename))


def _html(title: str, lines: Iterable[str]) -> str:
    head = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta name="pypi:repository-version" content="{API_VERSION}">',
        f"<title>{escape(title)}</title>",
        "</head>",
        "<body>",
        f"<h1>{escape(title)}</h1>",
    ]
    return "\n".join([*head, *lines, "</body>", "</html>", ""])
