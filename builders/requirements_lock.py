"""``requirements.lock.yaml``: the distributions of a build's environment, exact and by sha256.

It lies beside the matrix.  pip resolves the requirements of a target for one Python and one machine, on whichever host,
and its report gives names, versions and hashes; a build then installs those, and pip refuses any other bytes.  Without
an entry the plan says so, and the receipt records what was installed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from qualify.errors import ConfigurationError, PreflightError
from qualify.files import locked, write_atomic

FILE = "requirements.lock.yaml"
MAX_BYTES = 8 << 20
_LINE = re.compile(r"[a-z0-9-]+==[A-Za-z0-9.+!_-]+( sha256:[0-9a-f]{64})+")
_HEAD = """\
# What a build's environment is made of, by sha256.  Written by `python -m builders lock TARGET`.
"""


@dataclass(frozen=True, slots=True)
class Locked:
    """The entry of one target for one Python on one machine: what was asked for, and what it resolves to.

    ``target`` holds what a cross build links of the target's machine; () for any other build.
    """

    requested: tuple[str, ...]
    distributions: tuple[str, ...]  # "<name>==<version> sha256:<hex> …", sorted
    target: tuple[str, ...] = ()  # likewise


Lock = Mapping[str, Mapping[str, Locked]]  # target -> place -> entry


def place_of(python: str, machine: str) -> str:
    """What an entry is for: ``3.12 on x86_64``; the machine is the one whose programs run in the build."""
    return f"{python} on {machine}"


def read_requirements_lock(folder: Path) -> Lock:
    """The lock in a folder; {} where there is none.

    :raises ConfigurationError: it is no such file.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
        document = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        if document["version"] != 1:
            raise ValueError(f"its version is {document['version']}, not 1")
        return {
            str(target): {str(place): _entry(entry) for place, entry in places.items()}
            for target, places in document["targets"].items()
        }
    except (OSError, YAMLError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"no lock of requirements: {error}",
            where=str(path),
            expected="what `python -m builders lock TARGET` wrote",
            action="bring it back from its history, or remove it and lock the targets anew",
        ) from error


def _entry(entry: Any) -> Locked:
    """:raises ValueError: a line is no distribution with its sha256."""
    lines = {name: tuple(map(str, entry.get(name, ()))) for name in ("distributions", "target")}
    for text in (*lines["distributions"], *lines["target"]):
        if not _LINE.fullmatch(text):
            raise ValueError(f"{text!r} is not of the kind NAME==VERSION sha256:…")
    return Locked(tuple(map(str, entry["requested"])), **lines)


def locked_for(
    lock: Lock, target: str, pythons: Sequence[str], machine: str, requirements: Sequence[str]
) -> dict[str, Locked]:
    """Python -> the entry of a target, for the Pythons that it is for; {} where it isn't locked on that machine.

    :raises PreflightError: an entry was made for other requirements than the plan's.
    """
    entries = lock.get(target, {})
    found = {python: entries[place_of(python, machine)] for python in pythons if place_of(python, machine) in entries}
    for python, entry in found.items():
        if sorted(entry.requested) != sorted(requirements):
            gone = ", ".join(sorted(set(entry.requested) - set(requirements)))
            new = ", ".join(sorted(set(requirements) - set(entry.requested)))
            changes = [f"no longer {gone}"] * bool(gone) + [f"now {new}"] * bool(new)
            raise PreflightError(
                f"the locked environment was made for other requirements: {'; '.join(changes)}",
                where=f"{FILE}: {target}, Python {place_of(python, machine)}",
                action=f"python -m builders lock {target} --python {python}",
            )
    return found


def locked_elsewhere(lock: Lock, target: str, pythons: Sequence[str], machine: str) -> tuple[str, ...]:
    """A note where the lock knows the target, and not the machine or not every Python of this build."""
    wanted = [place_of(python, machine) for python in pythons]
    lacking = [place for place in wanted if place not in lock.get(target, {})]
    if not lacking or target not in lock:
        return ()
    known = ", ".join(sorted(lock[target])) or "nothing"
    return (f"{FILE} has {target} for {known}, and not for {', '.join(lacking)}",)


def lock_lines(found: Mapping[str, Locked]) -> tuple[str, ...]:
    """The entries as a plan has them: ``<python>: <line>``, and ``<python> target: <line>``."""
    own = [f"{python}: {text}" for python, entry in found.items() for text in entry.distributions]
    return (*own, *(f"{python} target: {text}" for python, entry in found.items() for text in entry.target))


def pip_lines(lines: Sequence[str], *, of_target: bool = False) -> dict[str, tuple[str, ...]]:
    """Python -> what pip installs with ``--require-hashes``, from a plan's lines."""
    found: dict[str, list[str]] = {}
    for text in lines:
        place, _, rest = text.partition(": ")
        python, _, kind = place.partition(" ")
        if (kind == "target") == of_target:
            name, *digests = rest.split()
            found.setdefault(python, []).append(" ".join([name, *(f"--hash={digest}" for digest in digests)]))
    return {python: tuple(texts) for python, texts in found.items()}


def write_requirements_lock(folder: Path, target: str, place: str, entry: Locked) -> Path:
    """Put one entry into the lock; the others and the file's comments stay."""
    path = folder / FILE
    with locked(path, purpose="locking requirements"):
        yaml = YAML(typ="rt", pure=True)
        yaml.width = 4096
        document: Any = yaml.load(path.read_text(encoding="utf-8")) if path.exists() else None
        if document is None:
            document = yaml.load(_HEAD + "version: 1\ntargets: {}\n")
            document["targets"].fa.set_block_style()
        written = {"requested": list(entry.requested), "distributions": list(entry.distributions)}
        document["targets"].setdefault(target, {})[place] = {
            **written,
            **({"target": list(entry.target)} if entry.target else {}),
        }
        stream = io.StringIO()
        yaml.dump(document, stream)
        write_atomic(path, stream.getvalue())
    return path
