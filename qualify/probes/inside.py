"""Install one wheel into a fresh environment, import it there, and say what came of it.

This file is a program as well: it needs Python 3.9 and pip (its own, or the environment's by ensurepip) and nothing
of ours, so that it runs in any container beside the wheel::

    python -I inside.py REQUEST.json RESULT.json

The request: ``wheel`` (path), ``work`` (an empty folder), ``import_name``, ``distribution``, ``version_module``
(dotted; may be ""), ``companions`` (distribution names), ``dependencies`` (install them, from ``find_links``
alone), ``timeout`` and ``import_timeout`` (seconds for installing and for importing).

The result: ``stage`` (what was reached: ``environment``, ``install``, ``import`` or ``done``), ``error`` (one line, ""
where the stage is done), ``output`` (the end of what was printed), and, of the environment, ``python``, ``machine``,
``distribution_version``, ``companions``, ``runtime_version``, ``commit_id``, ``outside`` (imported files that lie
outside the environment), ``module`` (path in site-packages) and ``module_sha256``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

OUTPUT_LIMIT = 64 << 10  # bytes kept of what a step prints; the rest is read and dropped
RESULT_LIMIT = 1 << 20

# Runs in the fresh environment, isolated (-I) and in an empty folder.  Writes to a file: imports print what they like.
PROBE = """
import importlib, importlib.metadata, json, sys
request, path = json.loads(sys.argv[1]), sys.argv[2]
found = {"distribution_version": "", "companions": {}, "runtime_version": "", "commit_id": ""}
found |= {"module_file": "", "files": [], "error": ""}
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
def text(value):
    return value if isinstance(value, str) else ""
def files(module):
    return [text(getattr(module, "__file__", None) or "")] + [text(entry) for entry in getattr(module, "__path__", [])]
def save():
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(found, stream)
found["distribution_version"] = version(request["distribution"])
found["companions"] = {name: version(name) for name in request["companions"]}
found["error"] = "the import ended the process"
save()
found["error"] = ""
try:
    module = importlib.import_module(request["import_name"])
    found["runtime_version"] = text(getattr(module, "__version__", ""))
    found["files"] = files(module)
    found["module_file"] = found["files"][0]
    if request["version_module"]:
        module = importlib.import_module(request["version_module"])
        found["commit_id"] = text(getattr(module, "__commit_id__", None) or getattr(module, "commit_id", None))
        found["files"] += files(module)
except BaseException as error:
    found["error"] = type(error).__name__ + ": " + " ".join(str(error).split())[:500]
save()
"""


def main(arguments: list[str]) -> int:
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    result = install_and_import(request)
    Path(arguments[1]).write_text(json.dumps(result), encoding="utf-8")
    return 0


def install_and_import(request: dict[str, Any]) -> dict[str, Any]:
    """The two steps; a dictionary as the module's docstring says."""
    work = Path(os.path.realpath(request["work"]))
    result: dict[str, Any] = {
        "stage": "environment",
        "error": "",
        "output": "",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "distribution_version": "",
        "companions": {},
        "runtime_version": "",
        "commit_id": "",
        "outside": [],
        "module": "",
        "module_sha256": "",
    }
    environment = work / "environment"
    for name in ("home", "tmp", "empty"):
        (work / name).mkdir(parents=True)
    variables = _variables(work)
    own_pip = _has_pip()
    make = [sys.executable, "-I", "-m", "venv", *(["--without-pip"] if own_pip else []), str(environment)]
    if not _step(make, work, variables, request["timeout"], result):
        return result
    python = environment / "bin" / "python"
    result["stage"] = "install"
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(python)] if own_pip else [str(python), "-I", "-m", "pip"]
    install = [
        *pip,
        "install",
        "--isolated",
        "--no-index",
        "--no-input",
        "--no-cache-dir",
        "--disable-pip-version-check",
    ]
    install += [f"--find-links={folder}" for folder in request["find_links"]]
    install += [] if request["dependencies"] else ["--no-deps"]
    if not _step([*install, request["wheel"]], work, variables, request["timeout"], result):
        return result
    result["stage"] = "import"
    found_path = work / "found.json"
    probe = [str(python), "-I", "-c", PROBE, json.dumps(request), str(found_path)]
    ran = _step(probe, work / "empty", variables, request["import_timeout"], result)
    module, files = _take(found_path, result)
    if not ran or result["error"]:
        return result
    _prove_place(environment, module, files, result)
    result["stage"] = "done"
    return result


def _variables(work: Path) -> dict[str, str]:
    # Nothing of the caller's: no PYTHONPATH, no PIP_*, no active environment, no configuration of a user.
    # LD_LIBRARY_PATH stays: it is how a container's driver is found.
    keep = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {
        **keep,
        "PATH": os.defpath,
        "HOME": str(work / "home"),
        "TMPDIR": str(work / "tmp"),
        "LANG": "C.UTF-8",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
    }


def _has_pip() -> bool:
    # An isolated child decides, since that is how pip will be called.
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pip') is None)"
    return subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == 0


def _step(command: list[str], folder: Path, variables: dict[str, str], timeout: float, result: dict[str, Any]) -> bool:
    """Run one step in a process group of its own, bounded in time and in what is kept of its output."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        kept = bytearray()
        assert process.stdout is not None
        reader = threading.Thread(target=_drain, args=(process.stdout, kept), daemon=True)
        reader.start()
        try:
            code = process.wait(timeout)
            error = "" if code == 0 else f"{_name(command)} ended with {_ending(code)}"
        except subprocess.TimeoutExpired:
            error = f"{_name(command)} took longer than {timeout:g} s"
        finally:
            # What the step started goes with it, else its pipe would keep this waiting.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        reader.join(10)
    result["output"] = bytes(kept).decode("utf-8", "replace")
    result["error"] = error
    return not error


def _drain(stream: IO[bytes], kept: bytearray) -> None:
    while True:
        chunk = os.read(stream.fileno(), 1 << 16)
        if not chunk:
            return
        kept += chunk
        del kept[:-OUTPUT_LIMIT]


def _name(command: list[str]) -> str:
    for word in ("venv", "pip"):
        if word in command:
            return word
    return "the import"


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"


def _take(path: Path, result: dict[str, Any]) -> tuple[str, list[str]]:
    """What the probe wrote.  It ran code of the wheel, so its shape is checked like any foreign input."""
    try:
        with path.open("rb") as stream:
            data = stream.read(RESULT_LIMIT + 1)
        found = json.loads(data) if len(data) <= RESULT_LIMIT else {}
    except (OSError, ValueError, RecursionError):
        found = {}
    if not isinstance(found, dict):
        found = {}
    for key in ("distribution_version", "runtime_version", "commit_id"):
        result[key] = found[key] if isinstance(found.get(key), str) else ""
    companions = found.get("companions")
    companions = companions if isinstance(companions, dict) else {}
    result["companions"] = {k: v for k, v in companions.items() if isinstance(v, str)}
    if not result["error"]:
        result["error"] = found["error"] if isinstance(found.get("error"), str) else "the import left no result"
    files = found.get("files")
    names = [name for name in files if isinstance(name, str) and name] if isinstance(files, list) else []
    module = found.get("module_file")
    return (module if isinstance(module, str) else ""), names


def _prove_place(environment: Path, module: str, files: list[str], result: dict[str, Any]) -> None:
    """Imported files must lie in the fresh environment; the module's own is hashed, to be held against the wheel."""
    site = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    result["outside"] = [name for name in files if environment not in Path(os.path.realpath(name)).parents]
    real = Path(os.path.realpath(module)) if module else environment
    if site in real.parents and real.is_file():
        result["module"] = real.relative_to(site).as_posix()
        result["module_sha256"] = hashlib.sha256(real.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
