"""What a GPU's host needs at run time: FlashInfer and Triton compile kernels there, with tools that no wheel brings.

The interpreter is the one that serves; its Triton brings a ptxas of its own, which has to know the GPU.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.preflight_items import Item, Status
from builders.preflight_toolkit import judge_toolkit
from builders.preflight_tools import judge_headers, judge_tools
from builders.toolsearch import (
    COMMANDS,
    Request,
    ToolDemand,
    collector_source,
    header_folders,
    look_in_folders,
    question,
    run_here,
)

SECONDS = 60
# Versions of PTX, the oldest first: an architecture asks for its own or newer, a ptxas takes its own or older.
_PTX_VERSIONS = ("8.0", "8.7", "8.8", "9.0")
_TOOLS = (
    ToolDemand("ninja", COMMANDS["ninja"], "", "FlashInfer compiles its kernels with it"),
    ToolDemand("nvcc", COMMANDS["nvcc"], "", "FlashInfer compiles its kernels with it"),
    ToolDemand("c++", COMMANDS["c++"], "", "Triton compiles its launchers with it"),
)
# Run by the interpreter that serves: where its Triton lies, without importing it.
_TRITON = """
import importlib.util, json, os
spec = importlib.util.find_spec("triton")
folder = list(spec.submodule_search_locations)[0] if spec and spec.submodule_search_locations else ""
names = ("ptxas", "ptxas-blackwell")
found = [os.path.join(folder, "backends", "nvidia", "bin", name) for name in names] if folder else []
print(json.dumps({"triton": folder, "ptxas": [path for path in found if os.path.exists(path)]}))
"""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the driver's tool names it."""

    name: str
    compute_capability: str
    driver: str


def judge_runtime(python: str, compute_capability: str, look_in: Sequence[str]) -> tuple[Item, ...]:
    """Everything that run-time compilation needs on this host.

    :param python: the interpreter that serves.
    :param compute_capability: of the target; "" takes that of the GPU here.
    """
    devices, why = devices_here()
    wanted = compute_capability or (devices[0].compute_capability if devices else "")
    request = Request(
        python=python,
        look_in=look_in_folders(look_in),
        headers_in=header_folders(look_in),
        tools=tuple(question(tool) for tool in _TOOLS),
    )
    facts: Mapping[str, Any] = json.loads(run_here(["-c", collector_source(), json.dumps(request.to_json())]))
    return (
        *_judge_devices(devices, why, wanted),
        *judge_tools(_TOOLS, facts, plan=None),
        *judge_toolkit(facts),
        *judge_headers(facts, demanded=True),
        *_judge_triton(python, wanted),
    )


def devices_here() -> tuple[tuple[Device, ...], str]:
    """The GPUs that ``nvidia-smi`` names, and why there are none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return (), "no nvidia-smi on PATH: no driver is installed here, or it is out of sight"
    query = "--query-gpu=name,compute_cap,driver_version"
    code, said = _run([tool, query, "--format=csv,noheader"])
    rows = [[part.strip() for part in line.split(",")] for line in said.splitlines()] if code == 0 else []
    devices = tuple(Device(*row) for row in rows if len(row) == 3)
    return devices, "" if devices else f"nvidia-smi: {said.strip().splitlines()[0] if said.strip() else code}"


def _judge_devices(devices: Sequence[Device], why: str, wanted: str) -> tuple[Item, ...]:
    if not devices:
        return (Item("GPU", Status.NOT_LOOKED_AT, expected=f"compute capability {wanted}", action=why, optional=True),)
    items = []
    for device in devices:
        fits = not wanted or device.compute_capability == wanted
        items.append(
            Item(
                "GPU",
                Status.FOUND if fits else Status.UNMET,
                version=f"{device.name}, {device.compute_capability}, driver {device.driver}",
                expected=f"compute capability {wanted}",
                action="" if fits else "this is another GPU than the target's",
            )
        )
    return tuple(items)


def _judge_triton(python: str, wanted: str) -> tuple[Item, ...]:
    """The ptxas that Triton brings: it assembles one empty kernel for the target."""
    name = "ptxas of Triton"
    code, said = _run([python, "-I", "-c", _TRITON])
    try:
        found = json.loads(said.strip().splitlines()[-1])
    except (ValueError, IndexError):
        why = said.strip().splitlines()[-1] if said.strip() else f"exit status {code}"
        return (Item(name, Status.NOT_LOOKED_AT, action=f"the interpreter could not be asked: {why}"),)
    if not found["triton"]:
        action = f"{python} has no triton: install what is served, then look again"
        return (Item(name, Status.ABSENT, expected="triton, which torch brings", action=action, optional=True),)
    if not found["ptxas"]:
        return (
            Item(name, Status.ABSENT, found["triton"], action="reinstall triton: its backends/nvidia/bin is empty"),
        )
    if not wanted:
        return (Item(name, Status.NOT_LOOKED_AT, found["ptxas"][0], action="no target and no GPU to ask it for"),)
    refusals = [(path, assembles(path, wanted)) for path in found["ptxas"]]
    fitting = next((path for path, refusal in refusals if not refusal), "")
    if fitting:
        return (Item(name, Status.FOUND, fitting, f"knows sm_{wanted.replace('.', '')}"),)
    path, refusal = refusals[-1]
    action = f"{refusal}; set TRITON_PTXAS_PATH to the ptxas of a toolkit that knows it, or upgrade triton"
    return (
        Item(name, Status.WRONG_VERSION, path, expected=f"one that knows sm_{wanted.replace('.', '')}", action=action),
    )


def assembles(ptxas: str, compute_capability: str) -> str:
    """Why a ptxas makes no cubin for a compute capability; "" where it does."""
    architecture = f"sm_{compute_capability.replace('.', '')}"
    refusal = ""
    with tempfile.TemporaryDirectory() as folder:
        for version in _PTX_VERSIONS:
            source = Path(folder, "kernel.ptx")
            source.write_text(
                f".version {version}\n.target {architecture}\n.address_size 64\n.visible .entry k() {{ ret; }}\n",
                encoding="utf-8",
            )
            code, said = _run([ptxas, f"-arch={architecture}", str(source), "-o", str(Path(folder, "kernel.cubin"))])
            if code == 0:
                return ""
            lines = [line for line in said.splitlines() if line.strip()]
            refusal = lines[0].replace(f"{folder}/", "") if lines else f"it ended with {code}"
    return refusal


def _run(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            list(command),
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
