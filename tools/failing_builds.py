"""The recipes of ``tests/data/logs/recipes.yaml``: builds that fail, each for one reason, and a few that end well.

A recipe is data: a place (Debian's packages and the index's, in a container), a tree (an sdist, or files that stand in
the recipe), and what is done to it.  Every one is built as the product builds: by ``pip wheel``, without a network, not
as root.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

LOGS = Path(__file__).resolve().parents[1] / "tests" / "data" / "logs"
BASE = "wheel-assay/base:debian-12-x86_64"
PACKAGES = ("g++", "cmake", "ninja-build", "git", "ca-certificates", "python3-dev", "python3-venv", "python3-pip")


@dataclass(frozen=True)
class Place:
    """Where builds run: an image from Debian's packages over a base that is here, and a venv."""

    requirements: tuple[str, ...]
    packages: tuple[str, ...] = PACKAGES
    base: str = BASE


@dataclass(frozen=True)
class Recipe:
    """One build.  ``kind`` and ``words`` are what its log is expected to say first; no kind where it names no cause."""

    name: str
    place: Place
    kind: str = ""
    words: str = ""  # stand in the line of the cause
    command: str = ""  # stands in the command that the cause names; "" where the log names none
    files: dict[str, str] = field(default_factory=dict)
    sdist: str = ""
    before: str = ""  # shell, in the tree, before the build
    environment: dict[str, str] = field(default_factory=dict)
    docker: tuple[str, ...] = ()  # further options of `docker run`
    seconds: int = 0  # cut off after so long, as a timeout does

    @property
    def fails(self) -> bool:
        return not self.name.startswith("good-")

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"


def read_recipes() -> tuple[dict[str, Recipe], dict[str, str]]:
    """The recipes by name, and the sha256 of each sdist."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load((LOGS / "recipes.yaml").read_text(encoding="utf-8"))
    places = {
        name: Place(**{key: _value(value) for key, value in fields.items()})
        for name, fields in document["places"].items()
    }
    recipes = {}
    for name, given in document["recipes"].items():
        fields = {key: _value(value) for key, value in given.items() if key not in ("tree", "files", "place")}
        files = {**document["trees"].get(given.get("tree", ""), {}), **given.get("files", {})}
        recipes[name] = Recipe(name, places[given.get("place", "cuda")], files=files, **fields)
    return recipes, document["sdists"]


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
