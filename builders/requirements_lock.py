"""``requirements.lock.yaml``: the distributions of a build's environment, exact and by sha256.

It lies beside the matrix.  pip resolves the requirements of a target for one Python and one machine, on whichever host,
and its report gives names, versions and hashes; a build then installs those, and pip refuses any other bytes.  Without
an entry the plan says so, and the receipt records what was installed.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from qualify.errors import ConfigurationError, PreflightError, UnavailableError
from qualify.files import write_atomic

FILE = "requirements.lock.yaml"
PIP_SECONDS = 1800
_LINE = re.compile(r"[a-z0-9-]+==[^\s;]+( sha256:[0-9a-f]{64})+")
_HEAD = """\
# What a build's environment is made of, by sha256.  Written by `python -m builders lock TARGET`.
"""
_NETWORK = ("Temporary failure in name resolution", "Max retries exceeded", "NewConnectionError", "CERTIFICATE_")


@dataclass(frozen=True, slots=True)
class Locked:
    """The entry of one target and Python: what was asked for, and what it resolves to."""

    requested: tuple[str, ...]
    distributions: tuple[str, ...]  # "<name>==<version> sha256:<hex> …", sorted

    def lines(self) -> list[str]:
        """As pip's requirements file with ``--require-hashes`` has them."""
        return [
            " ".join([text.split()[0], *(f"--hash={digest}" for digest in text.split()[1:])])
            for text in self.distributions
        ]


def read_requirements_lock(folder: Path) -> dict[str, dict[str, Locked]]:
    """Target -> Python ("3.12") -> entry; {} where there is no such file.

    :raises ConfigurationError: it is no such file.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        document = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        if document["version"] != 1:
            raise ValueError("its version is not 1")
        found = {
            str(target): {
                str(python): Locked(tuple(map(str, entry["requested"])), tuple(map(str, entry["distributions"])))
                for python, entry in pythons.items()
            }
            for target, pythons in document["targets"].items()
        }
    except (OSError, YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"no lock of requirements: {error}", where=str(path), action="python -m builders lock TARGET writes it anew"
        ) from error
    for pythons in found.values():
        for entry in pythons.values():
            for text in entry.distributions:
                if not _LINE.fullmatch(text):
                    raise ConfigurationError(
                        f"{text!r} is no locked distribution", where=str(path), expected="NAME==VERSION sha256:…"
                    )
    return found


def locked_for(
    lock: Mapping[str, Mapping[str, Locked]], target: str, pythons: Sequence[str], requirements: Sequence[str]
) -> dict[str, Locked]:
    """Python -> the entry of a target, for the Pythons that it is for; {} where the target isn't locked.

    :raises PreflightError: an entry was made for other requirements than the plan's.
    """
    found = {python: entry for python, entry in lock.get(target, {}).items() if python in pythons}
    for python, entry in found.items():
        if sorted(entry.requested) != sorted(requirements):
            gone = ", ".join(sorted(set(entry.requested) - set(requirements)))
            new = ", ".join(sorted(set(requirements) - set(entry.requested)))
            changes = [f"no longer {gone}"] * bool(gone) + [f"now {new}"] * bool(new)
            raise PreflightError(
                f"the locked environment was made for other requirements: {'; '.join(changes)}",
                where=f"{FILE}: {target}, Python {python}",
                action=f"python -m builders lock {target} --python {python}",
            )
    return found


def write_requirements_lock(folder: Path, target: str, python: str, entry: Locked) -> Path:
    """Put one entry into the lock; the others and the file's comments stay."""
    path = folder / FILE
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 4096
    document: Any = yaml.load(path.read_text(encoding="utf-8")) if path.exists() else None
    if document is None:
        document = yaml.load(_HEAD + "version: 1\ntargets: {}\n")
        document["targets"].fa.set_block_style()
    document["targets"].setdefault(target, {})[python] = {
        "requested": list(entry.requested),
        "distributions": list(entry.distributions),
    }
    stream = io.StringIO()
    yaml.dump(document, stream)
    write_atomic(path, stream.getvalue())
    return path


def resolve(requirements: Sequence[str], python: str, machine: str) -> Locked:
    """What pip would install for another Python on another machine, from wheels alone; nothing is installed.

    :param python: "3.12".
    :raises UnavailableError: the package index does not answer.
    :raises PreflightError: the requirements can't be had together.
    """
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    command += ["--only-binary", ":all:", "--python-version", python, "--implementation", "cp"]
    command += ["--abi", f"cp{python.replace('.', '')}", "--abi", "abi3", "--abi", "none"]
    command += [part for platform in platforms(machine) for part in ("--platform", platform)]
    command += ["--target", "unused", *requirements]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"pip did not resolve within {PIP_SECONDS} s", where="package index") from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")] or done.stderr.splitlines()
        what = said[-1] if said else f"pip ended with {done.returncode}"
        if any(word in done.stderr for word in _NETWORK):
            raise UnavailableError(
                f"the package index does not answer: {what}", where="lock", action="mend the network"
            )
        raise PreflightError(f"the requirements can't be had: {what}", where=f"Python {python} on {machine}")
    return Locked(tuple(requirements), distributions_of(json.loads(done.stdout)))


def distributions_of(report: Mapping[str, Any]) -> tuple[str, ...]:
    """The distributions of pip's installation report (pip's own format, version 1), as lines of the lock.

    :raises PreflightError: one has no sha256.
    """
    lines = []
    for item in report["install"]:
        name, version = canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"]
        archive = item["download_info"].get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
        if not digest:
            raise PreflightError(f"{name} {version} comes without a sha256", where="pip's report")
        lines.append(f"{name}=={version} sha256:{digest}")
    return tuple(sorted(lines))


def platforms(machine: str) -> list[str]:
    """The platform tags that a current Linux of a machine takes; pip wants each of them named."""
    newest = 40
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)]
    return [*names, f"manylinux2014_{machine}", f"linux_{machine}"]
