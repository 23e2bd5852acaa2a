"""What a GPU's host needs at run time: FlashInfer and Triton compile kernels there, with tools that no wheel brings.

The interpreter is the one that serves.  FlashInfer calls ninja, nvcc and the C++ compiler; Triton calls the C compiler
for its launchers, with ``Python.h``, and a ptxas of its own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from builders.preflight import collect
from builders.preflight_items import Item, Status
from builders.preflight_toolkit import judge_toolkit
from builders.preflight_tools import at_least, judge_headers, judge_tools
from builders.preflight_triton import judge_triton, run
from builders.toolsearch import (
    COMMANDS,
    Request,
    ToolDemand,
    header_folders,
    look_in_folders,
    question,
    run_here,
)
from qualify.lines import first_line, lines_of

_TOOLS = (
    ToolDemand("ninja", COMMANDS["ninja"], "", "FlashInfer compiles its kernels with it"),
    ToolDemand("nvcc", COMMANDS["nvcc"], "", "FlashInfer compiles its kernels with it"),
    ToolDemand("c++", COMMANDS["c++"], "", "FlashInfer compiles its host code with it"),
    ToolDemand("cc", COMMANDS["cc"], "", "Triton compiles its launchers with it"),
)
_CUDA = re.compile(r"CUDA Version:\s*(\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the driver's tool names it."""

    name: str
    compute_capability: str
    driver: str


def judge_runtime(
    python: str, compute_capability: str, look_in: Sequence[str], *, oldest_cuda: str = ""
) -> tuple[Item, ...]:
    """Everything that run-time compilation needs on this host.

    :param python: the interpreter that serves.
    :param compute_capability: of the target; "" takes that of the GPU here.
    :param oldest_cuda: the oldest CUDA that the driver has to support; "" for any.
    """
    devices, why = devices_here()
    wanted = compute_capability or (devices[0].compute_capability if devices else "")
    request = Request(
        python=python,
        look_in=look_in_folders(look_in),
        headers_in=header_folders(look_in),
        tools=tuple(question(tool) for tool in _TOOLS),
    )
    facts = collect(request, run_here)
    return (
        *_judge_devices(devices, why, wanted),
        *(_judge_driver(oldest_cuda) if devices else ()),
        *judge_tools(_TOOLS, facts, plan=None, compute_capability=wanted),
        *judge_toolkit(facts),
        *judge_headers(facts, demanded=True),
        *judge_triton(python, wanted),
    )


def devices_here() -> tuple[tuple[Device, ...], str]:
    """The GPUs that ``nvidia-smi`` names, and why there are none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return (), "no nvidia-smi on PATH: no driver is installed here, or it is out of sight"
    query = "--query-gpu=name,compute_cap,driver_version"
    code, said = run([tool, query, "--format=csv,noheader"])
    rows = [[part.strip() for part in line.split(",")] for line in lines_of(said)] if code == 0 else []
    devices = tuple(Device(*row) for row in rows if len(row) == 3)
    return devices, "" if devices else f"nvidia-smi: {first_line(said) or code}"


def _judge_devices(devices: Sequence[Device], why: str, wanted: str) -> tuple[Item, ...]:
    """One line for each kind of GPU; others beside the target's are told, and a host with none of those refuses."""
    expected = f"compute capability {wanted}" if wanted else ""
    if not devices:
        return (Item("GPU", Status.NOT_LOOKED_AT, expected=expected, action=why, optional=True),)
    items = []
    one_fits = any(device.compute_capability == wanted for device in devices)
    for device in dict.fromkeys(devices):
        fits = device.compute_capability == wanted
        count = devices.count(device)
        items.append(
            Item(
                f"GPU {device.name}",
                Status.FOUND if fits else Status.UNMET,
                version=f"compute capability {device.compute_capability}" + (f", {count} of them" if count > 1 else ""),
                expected=expected,
                action="" if fits else "this is another GPU than the target's",
                optional=one_fits,
            )
        )
    return tuple(items)


def _judge_driver(oldest_cuda: str) -> tuple[Item, ...]:
    """The newest CUDA that the driver runs, as the head of ``nvidia-smi``'s table says."""
    _, said = run([shutil.which("nvidia-smi") or "nvidia-smi"])
    match = _CUDA.search(said)
    expected = f"CUDA {oldest_cuda} or newer" if oldest_cuda else ""
    if match is None:
        return (Item("driver", Status.NOT_LOOKED_AT, expected=expected, action="nvidia-smi names no CUDA version"),)
    if oldest_cuda and not at_least(match[1], oldest_cuda):
        action = f"the target's wheels need a driver for CUDA {oldest_cuda}: install a newer one"
        return (Item("driver", Status.WRONG_VERSION, version=f"CUDA {match[1]}", expected=expected, action=action),)
    return (Item("driver", Status.FOUND, version=f"CUDA {match[1]}"),)
