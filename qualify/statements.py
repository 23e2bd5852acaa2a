"""What a wheel says of itself: its file name, its ``.dist-info``, its version modules and path files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qualify.facts import DistInfo, Problem, VersionModule
from qualify.readers.binary import Limits, Problems
from qualify.readers.distinfo import (
    dist_info_folders,
    is_path_file,
    read_dist_info,
    read_path_file,
    read_version_module,
)


@dataclass(frozen=True, slots=True)
class Statements:
    """What file name, METADATA and the other texts say."""

    name: tuple[str, str, str, tuple[str, ...]]  # project, version, build tag, tags
    dist_info: DistInfo | None
    version_modules: tuple[VersionModule, ...]
    path_files: tuple[str, ...]
    problems: tuple[Problem, ...]


def read_statements(filename: str, paths: Sequence[str], texts: Mapping[str, bytes], limits: Limits) -> Statements:
    """All of it, with what is wrong as problems.

    :param paths: of every member but folders, in archive order.
    :param texts: path -> content of the members that are read as text, in the same order.
    """
    # Imported here, once the members are being read, so that reading begins early.
    from packaging.utils import canonicalize_name

    whole = Problems("")
    modules = [path for path in texts if path.endswith("_version.py")]
    if len(modules) > limits.version_modules:
        whole.unreadable("version modules", f"{len(modules)} of them, of which {limits.version_modules} were read")
    name = _file_name(filename, whole)
    folders = dist_info_folders(paths)
    own = [folder for folder in folders if canonicalize_name(folder.partition("-")[0]) == name[0]]
    dist_info = None
    if len(folders) > 1:
        whole.malformed("archive", f"has {len(folders)} .dist-info folders: {', '.join(folders[:5])}")
    if folders:
        dist_info = read_dist_info((own or list(folders))[0], paths, texts, whole)
    return Statements(
        name=name,
        dist_info=dist_info,
        version_modules=tuple(read_version_module(path, texts[path]) for path in modules[: limits.version_modules]),
        path_files=tuple(
            line for path, content in texts.items() if is_path_file(path) for line in read_path_file(path, content)
        ),
        problems=whole.finish(),
    )


def _file_name(filename: str, problems: Problems) -> tuple[str, str, str, tuple[str, ...]]:
    """Project, version, build tag and tags of a wheel's file name; empty where it is none (PEP 427, 491)."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, build, tags = parse_wheel_filename(filename)
    except (InvalidWheelFilename, ValueError) as error:
        problems.malformed("file name", f"is no wheel's name ({error})")
        return "", "", "", ()
    return str(name), str(version), "".join(map(str, build)), tuple(sorted(map(str, tags)))
