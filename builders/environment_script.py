"""Make the environment of a build: an interpreter's venv, the requirements, the CUDA toolkit laid out.

This file is handed as text to a Python 3.8 or newer in the place where the build runs, so it imports the standard
library alone and nothing of ours.  ``python3 -c "$(cat FILE)" REQUEST`` ends with one JSON object on the last line
of its output: where things are, and every distribution with its version.  An environment is whole or absent: the
file that says it is complete is written last, and an incomplete one is made anew.  Who prepares one holds the lock of
its folder meanwhile (:mod:`builders.environment_volume`, which travels in front of this text).
"""

# ruff: noqa: PTH103, PTH107, PTH112, PTH114, PTH118, PTH119, PTH120, PTH123, PTH207, PTH208, PTH211
from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

from builders.environment_volume import (  # not in the text that travels
    BUSY,
    COMPLETE,
    LOCK,
    BusyError,
    FailedError,
    demand_whole,
    held,
    holder_of,
    locked,
    read_marker,
    say,
    write_marker,
)

ASK = "import sys, sysconfig, json; print(json.dumps({'version': '%d.%d' % sys.version_info[:2], 'full': sys.version.split()[0], 'purelib': sysconfig.get_paths()['purelib']}))"  # noqa: E501


def main() -> int:
    request = json.loads(sys.argv[1])
    try:
        answer = look(request) if request.get("look") else prepare(request)
    except FailedError as error:
        say("environment: %s" % error)  # noqa: UP031  -- read by old interpreters too
        return 1
    except BusyError as error:
        say("environment: %s prepares it" % error)  # noqa: UP031
        return BUSY
    say("\n" + json.dumps(answer))
    return 0


def prepare(request: dict[str, Any]) -> dict[str, Any]:
    """The environment of the request, found or made; one build at a time."""
    folder = request["folder"]
    with held(folder, request.get("holder") or "a build", request.get("wait") or 0):
        return found(request, folder) or made(request, folder)


def look(request: dict[str, Any]) -> dict[str, Any]:
    """The environment of the request, if it is there and whole; the folder may be read-only."""
    folder = request["folder"]
    try:
        handle = locked(folder, shared=True)
    except OSError as error:
        raise FailedError("not made yet") from error
    if handle < 0:
        raise BusyError(holder_of(folder) or "a build")
    try:
        known = read_marker(folder, request["key"])
    finally:
        os.close(handle)
    if known is None:
        raise FailedError("not made yet, or not whole")
    return dict(known["answer"], reused=True)


def found(request: dict[str, Any], folder: str) -> dict[str, Any] | None:
    """The environment as an earlier build left it, with what is asked for besides; None where it isn't whole."""
    known = read_marker(folder, request["key"])
    if known is None:
        return None
    answer: dict[str, Any] = known["answer"]
    missing = [text for text in (request.get("also") or []) if text not in known["also"]]
    if missing:
        # Should this be cut short, what is there no longer fits the digest.
        add(request, folder, answer, missing)
        write_marker(folder, request["key"], answer, known["also"] + missing)
    answer["reused"] = not missing
    return answer


def made(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """A new environment in place of what lies in the folder."""
    for name in sorted(os.listdir(folder), key=lambda name: name != COMPLETE):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif name != LOCK:
            os.remove(path)
    answer = make(request, folder)
    demand_whole(folder)
    if request.get("also"):
        add(request, folder, answer, (request.get("also") or []))
    write_marker(folder, request["key"], answer, (request.get("also") or []))
    return answer


def add(request: dict[str, Any], folder: str, answer: dict[str, Any], requirements: list[str]) -> None:
    """Install what the build backend asks for besides; the answer tells what is there then."""
    if request["mode"] == "host":
        raise FailedError("the interpreter of the place lacks " + ", ".join(requirements))
    held = answer["distributions"] if request.get("locks") else {}
    install(answer["python"], requirements, folder, answer["hashes"], held=held)
    answer["distributions"] = distributions(answer["python"])


def install(
    python: str,
    requirements: list[str],
    folder: str,
    hashes: dict[str, str],
    locked: bool = False,
    held: dict[str, str] | None = None,
    options: list[str] | None = None,
    suffix: str = "",
) -> None:
    """Install a list of requirements, and learn from pip's report which bytes they came from.

    ``held`` are distributions that must stay at their versions; ``suffix`` follows the names in ``hashes``.
    """
    report = os.path.join(folder, "report.json")
    options = [*(options or []), *(["--require-hashes"] if locked else [])]
    if held:
        lines = ["%s==%s" % pair for pair in sorted(held.items())]  # noqa: UP031
        options += ["-c", listed(folder, "constraints.txt", lines)]
    wanted = listed(folder, "requirements.txt", requirements)
    log = os.path.join(folder, "pip.log")
    try:
        call([*pip(python), "install", "--log", log, *reporting(python, report), *options, "-r", wanted])
    except FailedError:
        tell_pages_not_had(log)
        raise
    try:
        with open(report, encoding="utf-8") as file:
            items = json.load(file)["install"]
    except (OSError, ValueError, KeyError):
        return  # a pip that writes no report
    for item in items:
        archive = item["download_info"].get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").replace("sha256=", "")
        if digest:
            hashes[item["metadata"]["name"] + suffix] = digest


def tell_pages_not_had(log: str) -> None:
    """Say what pip says in its log alone: that the index gave no page, and why."""
    with contextlib.suppress(OSError), open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            start = line.find("Could not fetch URL ")
            if start >= 0:
                say(line[start:].rstrip("\n"))


def listed(folder: str, name: str, lines: list[str]) -> str:
    """A file for pip with these lines; its path."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


def reporting(python: str, report: str) -> list[str]:
    """pip's option for its report, which it has since 22.2."""
    said = subprocess.check_output([python, "-m", "pip", "--version"]).decode().split()
    numbers = [int(part) if part.isdigit() else 0 for part in said[1].split(".")[:2]] if len(said) > 1 else [0, 0]
    return ["--report", report] if numbers >= [22, 2] else []


def make(request: dict[str, Any], folder: str) -> dict[str, Any]:
    base = interpreter(request["python"], request.get("interpreter") or "")
    hashes: dict[str, str] = {}
    repair_python = ""
    if request["mode"] == "host":
        python = base["executable"]
        home = request.get("cuda_home") or ""
    else:
        venv = os.path.join(folder, "venv")
        call([base["executable"], "-m", "venv", venv])
        python = os.path.join(venv, "bin", "python")
        locks = request.get("locks") or {}
        if locks and base["version"] not in locks:
            raise FailedError(
                "requirements.lock.yaml has no entry for Python %s, only for %s" % (base["version"], ", ".join(locks))  # noqa: UP031
            )
        if locks or request["requirements"]:
            wanted = locks[base["version"]] if locks else request["requirements"]
            install(python, wanted, folder, hashes, bool(locks))
        home = lay_out(request, folder, ask(python), hashes)
        if request.get("repair"):
            repair = os.path.join(folder, "repair")
            call([base["executable"], "-m", "venv", repair])
            repair_python = os.path.join(repair, "bin", "python")
            install(repair_python, request["repair"], folder, hashes, suffix=" for repair")
    about = ask(python)
    return {
        "python": python,
        "python_version": about["full"],
        "purelib": about["purelib"],
        "cuda_home": home,
        "distributions": distributions(python),
        "provided_libraries": provided(about["purelib"]),
        "hashes": hashes,
        "repair_python": repair_python,
        "repair_tools": distributions(repair_python) if repair_python else {},
        "reused": False,
    }


def interpreter(wanted: list[str], only: str = "") -> dict[str, Any]:
    """An interpreter of the wanted versions: ``only`` that one, else the one that runs this, else one that is here.

    Looked for on PATH, and where manylinux images keep theirs.
    """
    places = [only] if only else [sys.executable]
    for version in wanted if not only else []:
        tag = "cp" + version.replace(".", "")
        places += [shutil.which("python" + version) or "", "/opt/python/%s-%s/bin/python" % (tag, tag)]  # noqa: UP031
    found = []
    for place in places:
        if place and os.access(place, os.X_OK):
            about = ask(place)
            if about["version"] in wanted:
                return dict(about, executable=place)
            found.append("%s at %s" % (about["full"], place))  # noqa: UP031
    raise FailedError(
        "no interpreter of %s here; found %s" % (" or ".join(wanted), ", ".join(found) or "none")  # noqa: UP031
    )


def ask(python: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(subprocess.check_output([python, "-I", "-c", ASK]))
    return answer


def pip(python: str) -> list[str]:
    return [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def call(command: list[str]) -> None:
    say("$ " + " ".join(command))
    environment = dict(os.environ, PIP_PROGRESS_BAR="off", PYTHONNOUSERSITE="1")
    # It writes to the folder, so it holds the lock too, and goes on holding it should we be killed.
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, close_fds=False, check=False)
    if done.returncode != 0:
        raise FailedError("%s ended with %d" % (" ".join(command[:5]), done.returncode))  # noqa: UP031


def lay_out(request: dict[str, Any], folder: str, about: dict[str, Any], hashes: dict[str, str]) -> str:
    """CUDA_HOME as build tools expect one; "" where no toolkit was asked for."""
    trees = sorted(glob.glob(os.path.join(about["purelib"], "nvidia", "cu[0-9]*", "bin", "nvcc")))
    if not trees:
        return ""
    tree = os.path.dirname(os.path.dirname(trees[-1]))
    home = os.path.join(folder, "cuda")
    if not request.get("target_requirements"):
        link_libraries(tree)
        os.symlink(tree, home)
        return home
    # A cross build: what runs is this machine's, what is included and linked is the target's.
    target = os.path.join(folder, "target")
    python = os.path.join(folder, "venv", "bin", "python")
    options = ["--no-deps", "--only-binary", ":all:", "--target", target]
    options += [part for platform in request["target_platforms"] for part in ("--platform", platform)]
    locks = (request.get("target_locks") or {}).get(about["version"])
    wanted, suffix = locks or request["target_requirements"], " for " + request["target_platforms"][0]
    install(python, wanted, folder, hashes, bool(locks), options=options, suffix=suffix)
    other = os.path.join(target, "nvidia", os.path.basename(tree))
    os.makedirs(home)
    for name in ("bin", "nvvm"):
        # Copied, not linked: nvcc finds its include and lib folders beside where it really lies.
        shutil.copytree(os.path.join(tree, name), os.path.join(home, name), symlinks=True)
    # nvcc's own headers come with the programs; the target's lie over them.
    shutil.copytree(os.path.join(tree, "include"), os.path.join(home, "include"))
    shutil.copytree(os.path.join(other, "include"), os.path.join(home, "include"), dirs_exist_ok=True)
    os.symlink(os.path.join(other, "lib"), os.path.join(home, "lib"))
    os.symlink("lib", os.path.join(home, "lib64"))
    link_libraries(other)
    return home


def link_libraries(tree: str) -> None:
    """``lib64``, where nvcc.profile looks, and ``libX.so`` beside ``libX.so.13``, which linkers ask for."""
    if not os.path.lexists(os.path.join(tree, "lib64")):
        os.symlink("lib", os.path.join(tree, "lib64"))
    for path in sorted(glob.glob(os.path.join(tree, "lib", "lib*.so.*"))):
        plain = re.sub(r"\.so\..*$", ".so", path)
        if not os.path.lexists(plain):
            os.symlink(os.path.basename(path), plain)


def distributions(python: str) -> dict[str, str]:
    listed = subprocess.check_output([*pip(python), "list", "--format", "json"], stderr=subprocess.DEVNULL)
    return {row["name"]: row["version"] for row in json.loads(listed.strip().split(b"\n")[-1])}


def provided(purelib: str) -> list[str]:
    """Names of the libraries that torch and its CUDA packages bring: a wheel needs them and bundles none."""
    if not os.path.isdir(os.path.join(purelib, "torch", "lib")):
        return []
    found = glob.glob(os.path.join(purelib, "torch", "lib", "lib*.so*"))
    found += glob.glob(os.path.join(purelib, "nvidia", "*", "lib", "lib*.so*"))
    return sorted({os.path.basename(path) for path in found})


if __name__ == "__main__":
    sys.exit(main())
