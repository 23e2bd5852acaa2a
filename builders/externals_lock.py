"""``externals.lock.yaml``: the commits that the tags of external sources meant when they were first resolved.

It lies beside the matrix and is tracked: a tag can be moved, a commit can't.  The tool writes it when a tag is resolved
for the first time, and again only when somebody asks for it by name.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from builders.externals import External
from qualify.errors import ConfigurationError
from qualify.files import locked, write_atomic

FILE = "externals.lock.yaml"
FULL = re.compile(r"[0-9a-f]{40}")
_HEAD = """\
# What the tags of external sources meant when they were first resolved: "REPOSITORY@TAG": commit.
# Written by `python -m builders fetch`; `--renew-lock` takes what they mean now.
"""


def read_externals_lock(folder: Path) -> dict[str, str]:
    """``REPOSITORY@TAG`` -> commit; {} where there is no such file.

    :raises ConfigurationError: it is no such file.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        document = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        tags = {str(name): str(commit) for name, commit in document["tags"].items()}
        wrong = next((name for name, commit in tags.items() if not FULL.fullmatch(commit) or "@" not in name), "")
        if document["version"] != 1 or wrong:
            raise ValueError(f"{wrong or 'its version'} is not right")
    except (OSError, YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"no lock of external sources: {error}",
            where=str(path),
            expected='version: 1, and under tags "REPOSITORY@TAG": all 40 digits',
        ) from error
    return tags


def name_of(external: External) -> str:
    """The external's name in the lock."""
    return f"{external.repository}@{external.tag}"


def resolved(externals: Sequence[External], lock: Mapping[str, str]) -> tuple[External, ...]:
    """The externals with their exact commits: their own, or what the lock says of their tag; "" where neither does."""
    return tuple(
        replace(each, commit=each.tag if FULL.fullmatch(each.tag) else lock.get(name_of(each), ""))
        for each in externals
    )


def write_externals_lock(folder: Path, fresh: Mapping[str, str]) -> Path:
    """Put resolved tags into the lock; the other entries and the file's comments stay."""
    path = folder / FILE
    with locked(path, timeout=60, purpose="locking external sources"):
        yaml = YAML(typ="rt", pure=True)
        yaml.width = 4096
        document: Any = yaml.load(path.read_text(encoding="utf-8")) if path.exists() else None
        if document is None:
            document = yaml.load(_HEAD + "version: 1\ntags: {}\n")
            document["tags"].fa.set_block_style()
        document["tags"].update(fresh)
        stream = io.StringIO()
        yaml.dump(document, stream)
        write_atomic(path, stream.getvalue())
    return path
