"""The file name, METADATA and WHEEL must tell one story."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name
from packaging.version import Version

from qualify.checks.case import Case
from qualify.checks.registry import Observation, check
from qualify.report import Severity


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return None


@check("NAM001", "no-metadata")
def no_metadata(case: Case) -> Iterator[Observation]:
    """There is no `.dist-info` folder, or its METADATA or WHEEL is missing.

    Why: an installer refuses such a file, and nothing in it states which project and version it is.

    Mend: build the wheel with a PEP 517 backend; don't zip it by hand.
    """
    info = case.facts.dist_info
    if info is None:
        yield Observation("", "no .dist-info folder", "one, with METADATA, WHEEL and RECORD", "build the wheel again")
        return
    for name in ("METADATA", "WHEEL"):
        if name not in info.files:
            yield Observation(f"{info.folder}/{name}", "missing", f"a {name} file", "build the wheel again")


@check("NAM002", "name-differs")
def name_differs(case: Case) -> Iterator[Observation]:
    """METADATA's `Name` is another project than the file name says.

    Why: an index lists the file under one name and the installer records it under another.

    Mend: rename the project in its own metadata and build again; never rename the file alone.
    """
    info = case.facts.dist_info
    stated = case.has_wheel_name and info is not None and "METADATA" in info.files
    if info is not None and stated and canonicalize_name(info.metadata_name) != case.facts.name:
        path = f"{info.folder}/METADATA"
        yield Observation(path, f"Name {info.metadata_name!r}", f"{case.facts.name!r}, as the file name says", _REBUILD)


@check("NAM003", "version-differs")
def version_differs(case: Case) -> Iterator[Observation]:
    """METADATA's `Version` is another one than the file name says.

    Why: a local version that was put into the file name alone (`+cu130` by `sed`) is lost at installation, so that
    two builds can no longer be told apart.

    Mend: relabel the wheel as a whole: file name, `.dist-info` folder, METADATA and RECORD together.
    """
    info = case.facts.dist_info
    if info is None or "METADATA" not in info.files or not case.has_wheel_name:
        return
    inside, outside = _version(info.metadata_version), _version(case.facts.wheel_version)
    if inside is None or inside != outside:
        path = f"{info.folder}/METADATA"
        found = f"Version {info.metadata_version!r}"
        yield Observation(path, found, f"{case.facts.wheel_version!r}, as the file name says", _REBUILD)


@check("NAM004", "tags-differ", upstream=Severity.NOTE)
def tags_differ(case: Case) -> Iterator[Observation]:
    """WHEEL's `Tag` lines are other tags than the file name's.

    Why: a retag that renames the file alone leaves WHEEL behind: vLLM's released wheels say manylinux in the file
    name and linux in WHEEL. Installers go by the file name; other tools by WHEEL.

    Mend: retag with `wheel tags`, which writes both.
    """
    info = case.facts.dist_info
    if (
        not case.has_wheel_name
        or info is None
        or "WHEEL" not in info.files
        or set(info.wheel_tags) == set(case.facts.tags)
    ):
        return
    found = f"Tag {', '.join(info.wheel_tags) or 'none'}"
    expected = f"{', '.join(case.facts.tags)}, as the file name says"
    yield Observation(f"{info.folder}/WHEEL", found, expected, "retag with `wheel tags`, which writes both")


@check("NAM005", "folder-differs")
def folder_differs(case: Case) -> Iterator[Observation]:
    """The `.dist-info` folder is named after another project or version than METADATA says.

    Why: pip refuses a wheel whose `.dist-info` folder does not begin with the project's name.

    Mend: relabel the wheel as a whole: file name, `.dist-info` folder, METADATA and RECORD together.
    """
    info = case.facts.dist_info
    if info is None:
        return
    stated = "METADATA" in info.files and _version(info.metadata_version) is not None
    name, version = (
        (info.metadata_name, info.metadata_version) if stated else (case.facts.name, case.facts.wheel_version)
    )
    folder_name, _, folder_version = info.folder.removesuffix(".dist-info").partition("-")
    same_name = canonicalize_name(folder_name) == canonicalize_name(name)
    # A folder that follows the file name where METADATA doesn't is METADATA's fault, and said there.
    as_file = canonicalize_name(folder_name) == case.facts.name and _same(folder_version, case.facts.wheel_version)
    if not as_file and not (same_name and _same(folder_version, version)):
        expected = f"{case.facts.name.replace('-', '_')}-{case.facts.wheel_version}.dist-info"
        yield Observation(info.folder, f"the folder {info.folder}", expected, _REBUILD)


def _same(a: str, b: str) -> bool:
    return _version(a) is not None and _version(a) == _version(b)


@check("NAM006", "wheel-format")
def wheel_format(case: Case) -> Iterator[Observation]:
    """WHEEL states a version of the wheel format that installers refuse.

    Why: an installer must refuse a `Wheel-Version` whose major number it does not know; there is none but 1 today. A
    missing one says that WHEEL was not written by a build backend.

    Mend: build the wheel with a PEP 517 backend.
    """
    info = case.facts.dist_info
    if info is not None and "WHEEL" in info.files and info.wheel_version.partition(".")[0] != "1":
        found = f"Wheel-Version {info.wheel_version or 'missing'}"
        yield Observation(f"{info.folder}/WHEEL", found, "1.0", "build the wheel again")


@check("NAM007", "build-differs", upstream=Severity.NOTE)
def build_differs(case: Case) -> Iterator[Observation]:
    """WHEEL's `Build` is another build tag than the file name's.

    Why: the build tag decides which of two files of one version an installer takes. Put into the file name alone, it is
    lost as soon as the wheel is unpacked and packed again.

    Mend: set it with `wheel pack --build-number` or `wheel tags --build`, which write both.
    """
    info = case.facts.dist_info
    if case.has_wheel_name and info is not None and "WHEEL" in info.files and info.build != case.facts.build_tag:
        found = f"Build {info.build[:40] or 'missing'}"
        expected = f"{case.facts.build_tag or 'none'}, as the file name says"
        yield Observation(
            f"{info.folder}/WHEEL", found, expected, "set it with `wheel tags --build`, which writes both"
        )


_REBUILD = "build the wheel again, or relabel file name, folder, METADATA and RECORD together"
