"""pip's answer to what a build's environment would be made of, for one Python and one machine; nothing is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from builders.pip_words import index_is_silent
from qualify.errors import AssayError, PreflightError, UnavailableError
from qualify.matrix.model import Target

PIP_SECONDS = 1800
PIP_ELSEWHERE = Path(__file__).with_name("pip_elsewhere.py")
_GLIBC_OF_DEBIAN = {"debian-12": "2.36", "debian-13": "2.41"}
_MANYLINUX = re.compile(r"manylinux_2_([0-9]+)")
# Names that policies had before PEP 600; pip takes neither name for the other.
_OLDER_NAMES = {"manylinux2014": 17, "manylinux2010": 12, "manylinux1": 5}


def resolve(
    requirements: Sequence[str],
    python: str,
    machine: str,
    *,
    glibc: str,
    with_dependencies: bool = True,
    environment: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """What pip would install for another Python on another machine, from wheels alone; nothing is installed.

    :param python: "3.12".
    :param glibc: the newest that a wheel may ask for: that of the image in which it will be installed.
    :param environment: pip's variables; those of this process where none are given.
    :return: the distributions as lines of the lock.
    :raises UnavailableError: the package index does not answer.
    :raises PreflightError: the requirements can't be had together.
    """
    if not requirements:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        report, log = Path(folder, "report.json"), Path(folder, "pip.log")
        command = [sys.executable, str(PIP_ELSEWHERE), json.dumps(markers_of(python, machine))]
        command += ["install", "--dry-run", "--ignore-installed", "--quiet", "--no-input"]
        command += ["--report", str(report), "--log", str(log)]
        command += ["--disable-pip-version-check", "--only-binary", ":all:"]
        command += ["--python-version", python, "--implementation", "cp"]
        command += ["--abi", f"cp{python.replace('.', '')}", "--abi", "abi3", "--abi", "none"]
        command += [part for platform in platforms(machine, glibc) for part in ("--platform", platform)]
        command += ["--target", str(Path(folder, "unused")), *([] if with_dependencies else ["--no-deps"])]
        try:
            done = subprocess.run(
                [*command, *requirements],
                env=dict(os.environ if environment is None else environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PIP_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"pip did not resolve within {PIP_SECONDS} s", where="package index") from error
        if done.returncode != 0:
            # Of an index that doesn't answer pip speaks in its log alone where it isn't to try again.
            whole = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
            raise _failed(done.stderr, f"{whole}\n{done.stderr}", f"Python {python} on {machine}")
        return distributions_of(json.loads(report.read_text(encoding="utf-8")))


def _failed(stderr: str, log: str, place: str) -> AssayError:
    told = stderr.rstrip("\n").split("\n")
    said = [line for line in told if line.startswith("ERROR:")] or [line for line in told if line]
    what = said[-1].removeprefix("ERROR:").strip() if said else "pip says nothing"
    if index_is_silent(log):
        return UnavailableError(f"the package index does not answer: {what}", where=place, action="mend the network")
    asked = list(dict.fromkeys(text.strip() for text in log.split("\n") if "The user requested" in text))
    return PreflightError(
        f"the requirements can't be had: {what}",
        where=place,
        expected="a wheel of each for that Python and machine" + (f" ({'; '.join(asked)})" if asked else ""),
        action="see that the index has them, or change them under build.requirements of the matrix",
    )


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


def markers_of(python: str, machine: str) -> dict[str, str]:
    """PEP 508's environment markers of CPython on Linux; of a version without its last part, ``X.Y.0``, as pip does."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def platforms(machine: str, glibc: str) -> list[str]:
    """The platform tags that a Linux of a machine with that glibc takes; pip wants each of them named."""
    newest = int(glibc.split(".")[1])
    oldest = 5 if machine == "x86_64" else 17
    older = [name for name, minor in _OLDER_NAMES.items() if oldest <= minor <= newest]
    names = [*(f"manylinux_2_{minor}" for minor in range(newest, oldest - 1, -1)), *older, "linux"]
    return [f"{name}_{machine}" for name in names]


def glibc_of(target: Target) -> str:
    """The glibc of the image in which a target is built, as far as its base tells; else the oldest that it runs on."""
    if target.base.bootstrap and not target.base.image:
        return _GLIBC_OF_DEBIAN[target.base.bootstrap]
    named = _MANYLINUX.search(target.base.image)
    return f"2.{named[1]}" if named else target.ceilings.glibc
