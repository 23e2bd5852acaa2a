"""An installed environment, read from outside: nothing in it is run, and nothing of ours gets into it.

An interpreter runs what ``.pth`` files say as it starts, so none is started.  The folders where distributions lie are
found by their names, and METADATA, ``direct_url.json`` and the version module are read as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from qualify.errors import UsageError
from qualify.facts import VersionModule
from qualify.identity import Identity, identity_of_version, with_version_module
from qualify.readers.distinfo import read_version_module

_LAYOUTS = (
    "lib/python3*/site-packages",
    "lib64/python3*/site-packages",
    "lib/python3*/dist-packages",
    "lib/python3/dist-packages",
    "local/lib/python3*/dist-packages",
)
_LONGEST_MODULE = 1 << 20


def identity_of_environment(
    place: Path, project: str, version_module: str = "", labels: Sequence[str] = ()
) -> Identity:
    """What the installed ``project`` says of itself.

    :param place: the environment's folder, or its interpreter (a link is not followed: a virtual environment's
        interpreter is a link to another one).
    :param version_module: path of the version module below the folder of distributions; "" is ``PROJECT/_version.py``.
    :raises UsageError: no environment there, no project named, or none installed, or installed twice.
    """
    if not project:
        raise UsageError("an environment holds many projects", where=str(place), action="name one with --project")
    folders = list(_folders(place))
    if not folders:
        raise UsageError("no environment of Python 3", where=str(place), expected="its folder, or its interpreter")
    wanted = canonicalize_name(project)
    found: list[Distribution] = [
        distribution
        for distribution in distributions(name=wanted, path=[str(folder) for folder in folders])
        if canonicalize_name(_field(distribution, "Name")) == wanted
    ]
    if len(found) != 1:
        what = f"{len(found)} distributions of {wanted} are installed" if found else f"{wanted} isn't installed"
        raise UsageError(what, where=str(place), expected="exactly one")
    (distribution,) = found
    module = _version_module(distribution, version_module or f"{wanted.replace('-', '_')}/_version.py")
    identity = identity_of_version(_field(distribution, "Version"), labels, origin=f"{wanted} in {place}")
    return with_version_module(identity, module, labels, stated_by="METADATA", editable=_editable(distribution))


def _folders(place: Path) -> Iterator[Path]:
    """Folders of distributions, each once: lib64 is a link to lib in many an environment."""
    prefix = place if place.is_dir() else place.absolute().parent.parent
    seen = set()
    for layout in _LAYOUTS:
        for folder in sorted(prefix.glob(layout)):
            if folder.is_dir() and folder.resolve() not in seen:
                seen.add(folder.resolve())
                yield folder


def _field(distribution: Distribution, name: str) -> str:
    """A field of METADATA; "" where it isn't there, or more than once."""
    values = distribution.metadata.get_all(name) or []
    return str(values[0]) if len(values) == 1 else ""


def _version_module(distribution: Distribution, path: str) -> VersionModule | None:
    file = Path(str(distribution.locate_file(path)))
    try:
        if file.stat().st_size > _LONGEST_MODULE:
            return None
        return read_version_module(path, file.read_bytes())
    except OSError:
        return None


def _editable(distribution: Distribution) -> bool:
    """PEP 610: an editable installation says so in direct_url.json."""
    try:
        return bool(json.loads(distribution.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False
