"""The judgement on the ptxas that Triton brings: it assembles every kernel at run time, so it has to know the GPU.

Triton has more than one (``ptxas``, ``ptxas-blackwell``), takes one by the GPU, and lets variables name others
(``TRITON_PTXAS_PATH``).  It is asked itself which; then that one assembles an empty kernel for the architecture that
Triton would name, ``sm_121a`` for 12.1.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from builders.preflight_items import Item, Status
from qualify.lines import first_line, last_line

SECONDS = 120
NAME = "ptxas of Triton"
# Versions of PTX, of which each ptxas takes those up to its own; an architecture asks for its own or a newer one.
_PTX_VERSIONS = ("8.0", "8.6", "8.7", "8.8", "9.0", "9.3")
# Run by the interpreter that serves.  Where its Triton can't be imported, what lies in its folder is taken, by the
# rule of the releases that have two.
_ASK = """
import importlib.util, json, os, sys
capability = int(sys.argv[1])
spec = importlib.util.find_spec("triton")
folder = list(spec.submodule_search_locations)[0] if spec and spec.submodule_search_locations else ""
answer = {"triton": folder, "version": "", "ptxas": "", "architecture": "", "failed": ""}
if folder:
    try:
        from importlib.metadata import version
        answer["version"] = version("triton")
    except Exception:
        pass
    try:
        from triton.backends.nvidia import compiler
        if hasattr(compiler, "get_ptxas"):
            try:
                tool = compiler.get_ptxas(capability)
            except TypeError:
                tool = compiler.get_ptxas()
            answer["ptxas"] = tool[0] if isinstance(tool, tuple) else tool.path
        else:
            answer["ptxas"] = compiler._path_to_binary("ptxas")[0]
        if hasattr(compiler, "sm_arch_from_capability"):
            answer["architecture"] = compiler.sm_arch_from_capability(capability)
    except Exception as error:
        answer["failed"] = "%s: %s" % (type(error).__name__, error)
    if not answer["ptxas"]:
        bundled = os.path.join(folder, "backends", "nvidia", "bin")
        names = ["ptxas-blackwell", "ptxas"] if capability >= 100 else ["ptxas"]
        given = [os.environ.get("TRITON_" + n.upper().replace("-", "_") + "_PATH", "") for n in names[:1]]
        places = given + [os.path.join(bundled, n) for n in names]
        answer["ptxas"] = next((p for p in places if p and os.access(p, os.X_OK)), "")
    if not answer["architecture"]:
        answer["architecture"] = "sm_%d%s" % (capability, "a" if capability >= 90 else "")
print("\\n" + json.dumps(answer))
"""


def judge_triton(python: str, compute_capability: str) -> tuple[Item, ...]:
    """Whether the Triton of the interpreter that serves can assemble for a GPU of that compute capability."""
    if not compute_capability:
        return (Item(NAME, Status.NOT_LOOKED_AT, action="name a target: there is no GPU here to ask it for"),)
    number = compute_capability.replace(".", "")
    with tempfile.TemporaryDirectory() as empty:
        code, said = run([python, "-c", _ASK, number], cwd=empty)
    try:
        found = json.loads(last_line(said))
    except (ValueError, IndexError):
        why = last_line(said) or f"exit status {code}"
        return (Item(NAME, Status.NOT_LOOKED_AT, action=f"the interpreter could not be asked: {why}"),)
    if not found["triton"]:
        action = f"{python} has no triton: install what is served, then look again"
        return (Item(NAME, Status.ABSENT, expected="triton, which torch brings", action=action, optional=True),)
    if not found["ptxas"]:
        why = f" ({found['failed']})" if found["failed"] else ""
        return (Item(NAME, Status.ABSENT, found["triton"], action=f"it brings none{why}: reinstall triton"),)
    architecture = found["architecture"]
    refusal = assembles(found["ptxas"], architecture)
    release = f"triton {found['version']}".strip()
    expected = f"one that knows {architecture}"
    if refusal:
        variable = "TRITON_" + Path(found["ptxas"]).name.upper().replace("-", "_") + "_PATH"
        action = f"{refusal}; set {variable} to the ptxas of a toolkit that knows it, or upgrade triton"
        return (Item(NAME, Status.WRONG_VERSION, found["ptxas"], release, expected, action),)
    return (Item(NAME, Status.FOUND, found["ptxas"], f"{release}, knows {architecture}", expected),)


def assembles(ptxas: str, architecture: str) -> str:
    """Why a ptxas makes no cubin for an architecture; "" where it does."""
    refusals: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        for version in _PTX_VERSIONS:
            source.write_text(
                f".version {version}\n.target {architecture}\n.address_size 64\n.visible .entry k() {{ ret; }}\n",
                encoding="utf-8",
            )
            code, said = run([ptxas, f"--gpu-name={architecture}", str(source), "-o", f"{folder}/kernel.cubin"])
            if code == 0:
                return ""
            refusals.append(first_line(said).replace(f"{folder}/", "") or f"it ended with {code}")
    # That it doesn't know the GPU says more than that it doesn't know a version of PTX.
    return next((text for text in refusals if "gpu-name" in text), refusals[0])


def run(command: Sequence[str], *, cwd: str | None = None) -> tuple[int, str]:
    """Exit status (-1: it did not start or end) and everything that a command said."""
    try:
        done = subprocess.run(
            list(command),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stdout
