"""The version of the clean tree, computed where the build runs, and held against what the wheel says afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from builders.source_describe import project_settings, table_of

_NODE = re.compile(r"g?(?P<node>[0-9a-f]{7,40})")
_DATE = re.compile(r"d\d{8}")

# The same question to every setuptools-scm from 8 on, without its writing version files.  One line of JSON at the end.
_PROGRAM = """\
import contextlib, json, warnings
warnings.simplefilter("ignore")
from setuptools_scm import Configuration
context = contextlib.nullcontext()
try:
    from vcs_versioning._get_version_impl import parse_version
    from vcs_versioning._version_schemes import format_version
    from vcs_versioning.overrides import ensure_context
    context = ensure_context("SETUPTOOLS_SCM")
except ImportError:
    from setuptools_scm._get_version_impl import parse_version
    from setuptools_scm.version import format_version
with context:
    found = parse_version(Configuration.from_file("pyproject.toml"))
    if found is None:
        raise SystemExit("setuptools-scm finds no version in the tree")
    print(json.dumps({"version": str(format_version(found)), "node": found.node, "distance": found.distance or 0,
                      "dirty": bool(found.dirty)}))
"""


def version_command(tree: Path, python: str = "python") -> tuple[str, ...] | None:
    """The command that prints the version of the clean tree as one line of JSON, run in the tree's folder.

    The line has ``version``, ``node`` (``g`` and hexadecimal digits, or null), ``distance`` and ``dirty``.

    :param tree: the project's folder on this host.
    :param python: the interpreter that has the build's requirements, where the command runs.
    :return: None where pyproject.toml doesn't ask setuptools-scm for the version: then the tree states it, or nobody.
    """
    data = project_settings(tree)
    tool = table_of(data, "tool")
    # Releases from 9.2 on need no section where the requirement says setuptools-scm[simple].
    requires = table_of(data, "build-system").get("requires", ())
    simple = any(re.match(r"setuptools[-_.]scm\s*\[\s*simple", str(each), re.IGNORECASE) for each in requires)
    if "setuptools_scm" not in tool and not simple:
        return None
    return (python, "-c", _PROGRAM)


def static_version(tree: Path) -> str:
    """``project.version`` of pyproject.toml; "" where it is computed or not stated."""
    found = table_of(project_settings(tree), "project").get("version")
    return found if isinstance(found, str) else ""


def version_agrees(computed: str, wheel_version: str, allowed: Sequence[str] = ()) -> str:
    """What is wrong with a wheel's version, given the clean tree's; "" where nothing is.

    The public parts have to be equal, and the commits as far as both are written.  Whatever else the build adds to the
    local part (``+cu130``, a label) is its own, but for the date by which setuptools-scm marks a dirty tree.

    :param allowed: parts of the local version that look like a date and are meant.
    """
    try:
        was, now = Version(computed), Version(wheel_version)
    except InvalidVersion as error:
        return f"no version (PEP 440): {error}"
    if was.public != now.public:
        return f"the wheel says {wheel_version}, the clean tree {computed}"
    parts_was, parts_now = _parts(was), _parts(now)
    node_was, node_now = _node(parts_was), _node(parts_now)
    if node_was and not node_now:
        return f"the wheel says {wheel_version} and has lost the commit {node_was} of {computed}"
    length = min(len(node_was), len(node_now))
    if node_was and node_was[:length] != node_now[:length]:
        return f"the wheel names commit {node_now}, the clean tree {node_was}"
    dates = [part for part in parts_now if _DATE.fullmatch(part) and part not in (*parts_was, *allowed)]
    if dates:
        return f"the wheel says {wheel_version}, whose {dates[0]} marks a dirty tree"
    return ""


def _parts(version: Version) -> list[str]:
    return (version.local or "").split(".")


def _node(parts: Sequence[str]) -> str:
    for part in parts:
        if part.startswith("g") and (match := _NODE.fullmatch(part)):
            return match["node"]
    return ""
