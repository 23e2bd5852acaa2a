"""What the place where a build runs is like: facts as JSON, without any judgement.

This file is handed as text to any Python 3.8 or newer, on the host or inside an image, so it imports the standard
library alone and nothing of ours but builders/machinefacts.py, whose text goes before it.  ``python3 -c TEXT REQUEST``
(or the request on stdin) prints one object;
:mod:`builders.toolsearch` makes the request and :mod:`builders.preflight` judges the answer.  Nothing is written, and
of the project's code only the build backend's hook runs, and only where the request names it.
"""

# Paths are plain strings here: they go into JSON, and they may be of another machine.
# ruff: noqa: PTH110, PTH112, PTH113, PTH118, PTH120, PTH123, PTH207
from __future__ import annotations

import fnmatch
import glob
import json
import os
import platform
import pwd
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from builders.machinefacts import cores, disk, emulated, memory  # not in the text that travels

__all__ = ["HOOK", "INTERPRETER", "VERSION", "collect", "cores", "disk", "emulated", "memory"]
VERSION = 1
PROBE_SECONDS = 10  # for one tool to say its version
REMOTE_SECONDS = 5  # for one repository to answer
HOOK_SECONDS = 600  # for the build backend, which may import torch
OUTPUT = 4000  # characters of a tool's answer that are kept
ELSEWHERE = 6  # candidates off PATH that are asked for their version, for each tool

# Run by the interpreter that builds, which need not be the one that runs this file.
INTERPRETER = r"""
import json, os, platform, sys, sysconfig
from importlib import metadata
from importlib.util import find_spec
sys.path[:] = [p for p in sys.path if p not in ("", ".")]
def distributions():
    seen = {}
    for d in metadata.distributions():
        m = d.metadata
        name = m["Name"] if m is not None else None
        if name and name.lower() not in seen:
            seen[name.lower()] = {"name": name, "version": d.version, "requires": list(d.requires or [])}
    return list(seen.values())
def torch():
    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = list(spec.submodule_search_locations)[0]
    found = {"path": folder, "version": "", "cuda": None, "hip": None, "stated": False}
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as f:
            body = __import__("ast").parse(f.read()).body
    except (OSError, SyntaxError, ValueError):
        return found
    for node in body:
        targets = node.targets if hasattr(node, "targets") else [getattr(node, "target", None)]
        value = getattr(getattr(node, "value", None), "value", None)
        for target in targets:
            name = getattr(target, "id", "")
            if name == "__version__":
                found["version"] = value
            if name in ("cuda", "hip"):
                found[name] = value
            if name == "cuda":
                found["stated"] = True
    return found
v, iv, paths = sys.version_info, sys.implementation.version, sysconfig.get_paths()
full = "{0.major}.{0.minor}.{0.micro}".format(iv)
full += "" if iv.releaselevel == "final" else iv.releaselevel[0] + str(iv.serial)
print("\n" + json.dumps({
    "executable": sys.executable,
    "version": "%d.%d.%d" % v[:3],
    "short": "%d.%d" % v[:2] + getattr(sys, "abiflags", ""),
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "include": sorted({paths[k] for k in ("include", "platinclude") if paths.get(k)}),
    "site": sorted({paths[k] for k in ("purelib", "platlib") if paths.get(k)} | {
        p for p in sys.path if p.endswith(("site-packages", "dist-packages"))}),
    "distributions": distributions(),
    "torch": torch(),
    "markers": {
        "implementation_name": sys.implementation.name, "implementation_version": full, "os_name": os.name,
        "platform_machine": platform.machine(), "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(), "platform_system": platform.system(),
        "platform_version": platform.version(), "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]), "sys_platform": sys.platform,
    },
}))
"""

# PEP 517: the hook runs with the tree as its working folder, and with backend-path, not the tree, before sys.path.
HOOK = r"""
import importlib, json, os, sys
request = json.loads(sys.argv[1])
sys.path[:] = [os.path.abspath(p) for p in request["backend_path"]] + [p for p in sys.path if p not in ("", ".")]
name, _, attributes = request["backend"].partition(":")
backend = importlib.import_module(name)
for attribute in filter(None, attributes.split(".")):
    backend = getattr(backend, attribute)
hook = getattr(backend, "get_requires_for_build_wheel", None)
print("\n" + json.dumps(list(hook({}) if hook else [])))
"""


def execute(command: list[str], environment: dict[str, str], seconds: int, cwd: str | None = None) -> dict[str, Any]:
    """Run one command within ``seconds``; its exit status (None: it did not end, or did not start) and its output."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": None, "output": f"no answer within {seconds} s", "errors": ""}
    except OSError as error:
        return {"status": None, "output": str(error.strerror or error), "errors": ""}
    return {"status": done.returncode, "output": done.stdout, "errors": done.stderr}


def last_json(answer: dict[str, Any]) -> Any:
    """The JSON in the last line of an answer, or None; what a tool prints before it is passed over."""
    lines = answer["output"].strip().split("\n") if answer["status"] == 0 else []
    try:
        return json.loads(lines[-1]) if lines else None
    except ValueError:
        return None


def tail(answer: dict[str, Any]) -> str:
    """The last lines that a failed command said."""
    return str(answer["errors"].strip() or answer["output"].strip())[-OUTPUT:]


def folders_to_look_in(patterns: list[str], environment: dict[str, str], interpreter: dict[str, Any]) -> list[str]:
    """The folders that exist of ``patterns``: ``$NAME`` (a variable, or a fact of the interpreter), ``~``, globs."""
    facts = {
        "PYTHON_BIN": [os.path.dirname(interpreter.get("executable") or "")],
        "PYTHON_PREFIX": [interpreter.get("prefix") or "", interpreter.get("base_prefix") or ""],
        "SITE_PACKAGES": list(interpreter.get("site") or []),
    }
    found: list[str] = []
    for pattern in patterns:
        heads = [pattern]
        if pattern.startswith("$"):
            name, slash, rest = pattern[1:].partition("/")
            values = facts.get(name) or [environment.get(name, "")]
            heads = [glob.escape(value) + slash + rest for value in values if value]
        elif pattern.startswith("~/"):
            heads = [glob.escape(home) + pattern[1:] for home in homes(environment) if home]
        for head in heads:
            for folder in sorted(glob.glob(head)):
                if os.path.isdir(folder) and folder not in found:
                    found.append(folder)
    return found


def homes(environment: dict[str, str]) -> list[str]:
    """The home that the environment names and the account's own: a build may be given another HOME."""
    try:
        own = [pwd.getpwuid(os.getuid()).pw_dir]
    except KeyError:
        own = []
    return [environment.get("HOME", ""), *own]


def candidates(commands: list[str], folders: list[str]) -> list[str]:
    """Executable files with these names, folder by folder; a command that is itself a path comes first."""
    found = [path for path in commands if os.sep in path and os.access(path, os.X_OK) and os.path.isfile(path)]
    for command in commands:
        for folder in folders:
            path = os.path.join(folder, command)
            if os.sep not in command and os.path.isfile(path) and os.access(path, os.X_OK) and path not in found:
                found.append(path)
    return found


def look_for_tool(
    tool: dict[str, Any], path: list[str], look_in: list[str], environment: dict[str, str]
) -> dict[str, Any]:
    """Where one tool is, on PATH and off it, and what each says when asked for its version."""
    # CXX may hold options or a launcher's name before the compiler's: its first word is what has to be there.
    named, *rest = environment.get(tool.get("variable") or "", "").split() or [""]
    commands = [named] if named else tool["commands"]
    on_path = candidates(commands, path)
    seen = {os.path.realpath(found) for found in on_path}
    off_path = [
        found for found in candidates(commands, look_in) if os.path.realpath(found) not in seen and found not in on_path
    ]
    there = {
        "on_path": [asked(found, rest, tool, environment) for found in on_path[:2]],
        "elsewhere": [asked(found, rest, tool, environment) for found in off_path[:ELSEWHERE]],
    }
    # A trial costs more than a question: the one that would be called is tried, and no other.
    first = [found for found in [*there["on_path"], *there["elsewhere"]][:1] if found["status"] == 0]
    if first and tool.get("compiles"):
        first[0]["compiles"] = tried([first[0]["path"], *rest], tool["compiles"], environment)
    return {"named": named, **there}


def asked(path: str, rest: list[str], tool: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """What one candidate says of itself; ``rest`` are the words behind it where a variable names a whole command."""
    answer = execute([path, *rest, *tool["arguments"]], environment, PROBE_SECONDS)
    text = (answer["output"].strip() or answer["errors"].strip())[:OUTPUT]
    marked = all(os.path.isdir(os.path.join(os.path.dirname(path), "..", mark)) for mark in tool.get("marks", []))
    found: dict[str, Any] = {"path": path, "status": answer["status"], "output": text, "marked": marked, "lists": {}}
    found["real"] = os.path.realpath(path)
    found["beside"] = {words[0]: beside(path, words, environment) for words in tool.get("beside", [])}
    if answer["status"] == 0:
        for argument in tool.get("lists", []):
            listed = execute([path, argument], environment, PROBE_SECONDS)
            if listed["status"] == 0:
                found["lists"][argument] = listed["output"].split()[:500]
    return found


def tried(compiler: list[str], source: dict[str, str], environment: dict[str, str]) -> dict[str, Any]:
    """Whether a compiler makes a shared library of a few lines: it also needs an assembler, a linker and headers."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, source["name"])
        with open(file, "w", encoding="ascii") as stream:
            stream.write(source["text"])
        command = [*compiler, "-shared", "-fPIC", file, "-o", os.path.join(folder, "made.so")]
        answer = execute(command, environment, PROBE_SECONDS * 3)
        said = answer["errors"] + answer["output"]
        lines = [line.replace(folder + os.sep, "") for line in said.split("\n") if "error" in line] or [tail(answer)]
        return {"status": answer["status"], "output": lines[0][:OUTPUT] if answer["status"] != 0 else ""}


def beside(path: str, words: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """A program that has to lie beside another one, there or where that one's link leads, and what it says."""
    folders = dict.fromkeys((os.path.dirname(os.path.realpath(path)), os.path.dirname(path)))
    there = [os.path.join(folder, words[0]) for folder in folders]
    path = next((place for place in there if os.access(place, os.X_OK)), "")
    if not path:
        return {"path": there[0], "status": -1, "output": "not there"}
    answer = execute([path, *words[1:]], environment, PROBE_SECONDS)
    return {"path": path, "status": answer["status"], "output": (answer["output"] or answer["errors"]).strip()[:OUTPUT]}


def cuda_home(environment: dict[str, str]) -> dict[str, str]:
    """What CUDA_HOME says, and the compiler that it leads to; "" where it is not set or leads to none."""
    home = environment.get("CUDA_HOME", "")
    nvcc = os.path.join(home, "bin", "nvcc") if home else ""
    return {"value": home, "nvcc": os.path.realpath(nvcc) if nvcc and os.path.exists(nvcc) else ""}


def look_for_headers(interpreter: dict[str, Any], patterns: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Where ``Python.h`` is: in the interpreter's own include folder, in one that the compilers are told, elsewhere."""
    told: list[str] = []
    for name in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"):
        told += [folder for folder in environment.get(name, "").split(os.pathsep) if folder]
    expanded = [pattern.replace("{version}", interpreter.get("short") or "?") for pattern in patterns]
    elsewhere = folders_to_look_in(expanded, environment, interpreter)
    return {
        "own": headers_in(list(interpreter.get("include") or [])),
        "own_folders": list(interpreter.get("include") or []),
        "told": headers_in(told),
        "elsewhere": headers_in(elsewhere),
    }


def headers_in(folders: list[str]) -> list[dict[str, str]]:
    return [
        {"path": os.path.join(folder, "Python.h"), "version": header_version(folder)}
        for folder in folders
        if os.path.isfile(os.path.join(folder, "Python.h"))
    ]


def header_version(folder: str) -> str:
    """The ``PY_VERSION`` that the headers of a folder are of; "" where they don't say."""
    try:
        with open(os.path.join(folder, "patchlevel.h"), encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split()
                if words[:2] == ["#define", "PY_VERSION"]:
                    return words[2].strip('"')
    except OSError:
        return ""
    return ""


def remotes(urls: list[str], environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Whether each git repository answers from here."""
    quiet = dict(environment, GIT_TERMINAL_PROMPT="0", LC_ALL="C")

    def ask(url: str) -> dict[str, Any]:
        answer = execute(["git", "ls-remote", "--quiet", "--", url, "HEAD"], quiet, REMOTE_SECONDS)
        said = [line for line in tail(answer).split("\n") if line.strip()]
        return {"answers": answer["status"] == 0, "said": "" if answer["status"] == 0 or not said else said[0]}

    with ThreadPoolExecutor(max_workers=16) as pool:
        return dict(zip(urls, pool.map(ask, urls)))  # noqa: B905  -- `strict` came with 3.10


def run_hook(hook: dict[str, Any], python: str, environment: dict[str, str]) -> dict[str, Any]:
    """The build backend's own further requirements, or what it said when it failed."""
    started = time.monotonic()
    command = [python, "-c", HOOK, json.dumps({"backend": hook["backend"], "backend_path": hook["backend_path"]})]
    answer = execute(command, environment, HOOK_SECONDS, cwd=hook["tree"])
    listed = last_json(answer)
    failed = "" if isinstance(listed, list) else tail(answer) or "the hook said nothing"
    seconds = round(time.monotonic() - started, 2)
    return {"requirements": [] if failed else [str(item) for item in listed], "failed": failed, "seconds": seconds}


def collect(request: dict[str, Any]) -> dict[str, Any]:
    """All facts that the request asks for."""
    started = time.monotonic()
    environment = dict(os.environ)
    environment.update(request.get("environment") or {})
    python = request.get("python") or sys.executable
    path = [folder for folder in environment.get("PATH", os.defpath).split(os.pathsep) if folder]
    with tempfile.TemporaryDirectory() as empty:
        answer = execute([python, "-c", INTERPRETER], environment, PROBE_SECONDS * 3, cwd=empty)
    interpreter = last_json(answer)
    problem = "" if isinstance(interpreter, dict) else tail(answer) or "no answer"
    known: dict[str, Any] = interpreter if isinstance(interpreter, dict) else {"executable": python}
    emulators = emulated()
    facts: dict[str, Any] = {
        "version": VERSION,
        "machine": platform.machine(),
        "path": path,
        "environment": {
            name: value
            for name, value in sorted(environment.items())
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in request.get("watch") or [])
        },
        "interpreter": interpreter,
        "interpreter_problem": problem,
        "memory": memory(),
        "cores": cores(),
        "disk": disk(request.get("folders") or []),
        "emulated": sorted(emulators),
        "emulated_in_containers": sorted(name for name, flags in emulators.items() if "F" in flags),
        "cuda_home": cuda_home(environment),
        "hook": None,
    }
    look_in = facts["looked_in"] = folders_to_look_in(request.get("look_in") or [], environment, known)
    tools = request.get("tools") or []
    with ThreadPoolExecutor(max_workers=8) as pool:
        asked_remotes = pool.submit(remotes, request.get("remotes") or [], environment)
        answers = list(pool.map(lambda tool: look_for_tool(tool, path, look_in, environment), tools))
        facts["tools"] = {tool["name"]: found for tool, found in zip(tools, answers)}  # noqa: B905
        facts["headers"] = look_for_headers(known, request.get("headers_in") or [], environment)
        facts["remotes"] = asked_remotes.result()
    facts["seconds"] = round(time.monotonic() - started, 2)
    if request.get("hook"):
        facts["hook"] = run_hook(request["hook"], python, environment)
    return facts


def main() -> None:
    request = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
    sys.stdout.write(json.dumps(collect(request)) + "\n")


if __name__ == "__main__":
    main()
