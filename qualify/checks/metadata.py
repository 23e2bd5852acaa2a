"""METADATA and licences: what index and installers take.

What is refused by whom was measured with pip 26.3, uv 0.13 and twine 7.0, one fault at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.facts import DistInfo
from qualify.report import Severity

if TYPE_CHECKING:
    from packaging.metadata import RawMetadata

_SHORT = 160
MOST_LINES = 20  # of one file that are named one by one
_FIELD = re.compile(r"^[^\s:]++(?=[ \t]*+:)", re.MULTILINE)
#: The specification has some thirty fields, and a content type of some thirty characters.  What has more of either is
#: wrong for certain, and parsing it takes the square of its size.
_MOST_FIELDS, _LONGEST_TYPE = 200, 1000
#: Fields of which other checks speak: NAM002, NAM003 and PYT002; requirements have a check of their own, MET002.
_ELSEWHERE = frozenset({"name", "version", "requires-python", "requires-dist"})


@dataclass(frozen=True, slots=True)
class Parsed:
    """The headers of METADATA as ``packaging.metadata`` sees them."""

    raw: RawMetadata
    unparsed: tuple[tuple[str, tuple[str, ...]], ...]  # fields that it does not know, or that are there twice; sorted
    broken: str  # the line that ends the headers early; "" where none does
    fields: int  # different names; where they are more than are looked at, nothing else is known


@lru_cache(maxsize=4)
def parse_headers(text: str) -> Parsed:
    """The headers of METADATA, as :attr:`~qualify.facts.DistInfo.metadata` keeps them: without a description."""
    from packaging.metadata import parse_email

    fields = len({match[0].lower() for match in _FIELD.finditer(text)})
    if fields > _MOST_FIELDS:
        return Parsed({}, (), "", fields)
    raw, unparsed = parse_email(text)
    # There is no description in the text, so what looks like one begins with a line that is no header.
    rest = raw.get("description") or ""
    described = "description" in unparsed
    broken = rest or (unparsed.pop("description")[0] if described else "")
    raw.pop("description", None)
    rows = sorted((name, tuple(str(value) for value in values)) for name, values in unparsed.items())
    return Parsed(raw, tuple(rows), broken.strip().partition("\n")[0], fields)


def _info(case: Case) -> DistInfo | None:
    """The ``.dist-info`` folder where its METADATA was read; NAM001 and ARC001 speak of one that wasn't."""
    info = case.facts.dist_info
    return info if info is not None and info.metadata else None


@check("MET001", "metadata-field-invalid", upstream=Severity.NOTE)
def metadata_field_invalid(case: Case) -> Iterator[Observation]:
    """A field of METADATA is not what the core metadata specification says.

    Why: an index refuses the upload, for an unknown field as for a licence that is no SPDX expression or a field that
    the stated Metadata-Version does not have. pip and uv install such a wheel all the same.

    Mend: correct the project's own metadata, and build with a backend that writes the version that its fields need.
    """
    info = _info(case)
    if info is None:
        return
    path = f"{info.folder}/METADATA"
    for field, why in invalid_fields(parse_headers(info.metadata)):
        if field not in _ELSEWHERE:
            expected = "a field as the core metadata specification has it"
            yield Observation(
                path, f"{field}: {_shortened(why)}", expected, "correct it in the project and build again"
            )


def invalid_fields(parsed: Parsed) -> Iterator[tuple[str, str]]:
    """Each field that is wrong, with what is wrong with it."""
    from packaging.metadata import Metadata

    if parsed.fields > _MOST_FIELDS:
        yield "headers", f"{parsed.fields} different fields, where the specification has some thirty"
        return
    for name, values in parsed.unparsed:
        known = name.replace("-", "_") in Metadata.__dict__ or name in _MANY
        if len(values) > 1 and known:
            yield f"{name} (repeated)", f"given {len(values)} times"
        else:
            yield name, "cannot be read" if known else "no field that is known"
    stated: dict[str, Any] = {
        key: value for key, value in parsed.raw.items() if key in ("metadata_version", "name", "version")
    }
    for key, value in parsed.raw.items():
        if key in ("name", "version"):
            continue
        if key == "description_content_type" and isinstance(value, str) and len(value) > _LONGEST_TYPE:
            yield "description-content-type", f"{len(value)} characters are no content type"
            continue
        document: Any = {**stated, key: value}
        yield from _refused(document, key)
    if "metadata_version" not in stated:
        yield "metadata-version", "missing"


#: Fields whose attribute has another name than the field.
_MANY = frozenset({"classifier", "platform", "supported-platform", "project-url", "license-file", "home-page"})


def _refused(document: RawMetadata, key: str) -> Iterator[tuple[str, str]]:
    """What ``packaging.metadata`` says of one field beside name, version and Metadata-Version."""
    from packaging.metadata import InvalidMetadata, Metadata

    try:
        Metadata.from_raw(document, validate=True)
    except ExceptionGroup as group:
        for error in group.exceptions:
            early = key == "license_files" and " introduced in " in str(error)
            # Backends wrote License-File years before Metadata-Version 2.4 had it, and indexes take it.
            if isinstance(error, InvalidMetadata) and _about(error.field, key) and not early:
                yield error.field, str(error)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets in brackets
        yield key.replace("_", "-"), str(error)


def _about(field: str, key: str) -> bool:
    """Whether a complaint is of the field that was asked for; others are said once, with their own."""
    plural = key.replace("_", "-")
    return field in (key, plural, plural.removesuffix("s"))


@check("MET002", "requirement-invalid")
def requirement_invalid(case: Case) -> Iterator[Observation]:
    """A `Requires-Dist` is no requirement, or METADATA's headers end before they are over.

    Why: pip and uv refuse the wheel for a requirement that they cannot parse. A line that is no header makes all that
    follow it description, and their requirements are not installed.

    Mend: correct the requirement (PEP 508) in the project and build again.
    """
    info = _info(case)
    if info is None:
        return
    path = f"{info.folder}/METADATA"
    broken = parse_headers(info.metadata).broken
    if broken:
        found = f"the headers end at the line {broken[:60]!r}, which is none"
        yield Observation(path, found, "headers alone before the first empty line", "correct it and build again")
    wrong = [(text, why) for text, why in ((text, _no_requirement(text)) for text in info.requires_dist) if why]
    for text, why in wrong[:MOST_LINES]:
        found = f"Requires-Dist {text[:80]!r}: {_shortened(why)}"
        yield Observation(path, found, "a requirement (PEP 508)", "correct it in the project and build again")
    yield from more(path, len(wrong), "requirements (PEP 508)")


@lru_cache(maxsize=4096)
def _no_requirement(text: str) -> str:
    """Why ``text`` is no requirement; "" where it is one."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except (InvalidRequirement, ValueError, RecursionError) as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return ""


@check("MET003", "metadata-field-deprecated", upstream=Severity.NOTE, release=Severity.NOTE)
def metadata_field_deprecated(case: Case) -> Iterator[Observation]:
    """METADATA has a field that the specification has replaced.

    Why: it works today. `Requires`, `Provides` and `Obsoletes` are read by nobody, `Home-page` and `Download-URL` are
    `Project-URL` now (PEP 753), and `License` and licence classifiers `License-Expression` (PEP 639).

    Mend: write the field that replaced it.
    """
    info = _info(case)
    if info is None:
        return
    raw = parse_headers(info.metadata).raw
    replaced = {field: by for field, by in _REPLACED.items() if raw.get(field.lower().replace("-", "_"))}
    if raw.get("license_expression"):
        replaced |= {"License": "License-Expression alone"} if raw.get("license") else {}
        if any(each.startswith("License ::") for each in raw.get("classifiers", ())):
            replaced["Classifier: License"] = "License-Expression alone"
    for field, by in replaced.items():
        yield Observation(f"{info.folder}/METADATA", field, by, "write the field that replaced it")


_REPLACED = {
    "Requires": "Requires-Dist",
    "Provides": "Provides-Dist",
    "Obsoletes": "Obsoletes-Dist",
    "Home-page": "Project-URL (PEP 753)",
    "Download-URL": "Project-URL (PEP 753)",
}


@check("MET004", "installers-own-file", upstream=Severity.NOTE)
def installers_own_file(case: Case) -> Iterator[Observation]:
    """The `.dist-info` folder brings a file that installers write.

    Why: `INSTALLER`, `REQUESTED` and `direct_url.json` say how a distribution came onto a machine. Packed into a wheel
    they say it of the machine that it was copied from, as with a wheel made from an installed package.

    Mend: build the wheel from its source.
    """
    info = case.facts.dist_info
    for name in ("INSTALLER", "REQUESTED", "direct_url.json"):
        if info is not None and name in info.files:
            yield Observation(f"{info.folder}/{name}", "an installer's file", "none", "build the wheel from its source")


@check("MET007", "licence-file-missing", upstream=Severity.NOTE)
def licence_file_missing(case: Case) -> Iterator[Observation]:
    """METADATA names a licence file that is not in the wheel.

    Why: from Metadata-Version 2.4 on (PEP 639) each `License-File` is a path below `.dist-info/licenses`, and an index
    refuses the upload without it. Whoever passes the wheel on is to pass on the licence.

    Mend: pack the file (`license-files` in the project), or take it off the list.
    """
    info = _info(case)
    if info is None:
        return
    there = frozenset(info.files)
    for name in parse_headers(info.metadata).raw.get("license_files", ()):
        places = {f"licenses/{name}", name, f"license_files/{name}", name.rpartition("/")[2]}
        if not places & there:
            found = f"License-File {name[:80]!r}"
            yield Observation(f"{info.folder}/METADATA", found, f"{info.folder}/licenses/{name[:80]}", "pack the file")


@check("MET008", "no-licence", upstream=Severity.NOTE, release=Severity.NOTE)
def no_licence(case: Case) -> Iterator[Observation]:
    """The wheel holds no licence file.

    Why: most licences ask that their text goes with the binaries.

    Mend: name the file under `license-files` in the project.
    """
    info = case.facts.dist_info
    if info is not None and not any(_LICENCE.match(path.rpartition("/")[2]) for path in _near(case, info)):
        yield Observation("", "no licence file", "one in .dist-info/licenses", "name it under license-files")


_LICENCE = re.compile(r"(?:un)?licen[cs]e|copying|copyright|notice|eula", re.IGNORECASE)


def _near(case: Case, info: DistInfo) -> Iterator[str]:
    """Files of the `.dist-info` folder, and those at the top of the packages."""
    yield from info.files
    yield from (member.path for member in case.facts.members if member.path.count("/") < 2)


def more(path: str, count: int, expected: str) -> Iterator[Observation]:
    """What is said in place of the lines of one file that are not named one by one."""
    if count > MOST_LINES:
        yield Observation(path, f"{count - MOST_LINES} more such lines", expected, "correct them in the project")


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else line[: _SHORT - 1] + "…"
