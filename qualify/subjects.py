"""What a person names on the command line or in a matrix: a wheel's file, or a requirement that is fetched."""

from __future__ import annotations

import re
from pathlib import Path

#: A requirement, as opposed to a file's path: a project name and a version to compare with.
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*(===|==|~=|!=|<=|>=|<|>).+")


def is_requirement(subject: str) -> bool:
    """Whether ``subject`` is a requirement with a version, and no file of that name is there."""
    return _REQUIREMENT.fullmatch(subject) is not None and not Path(subject).exists()
