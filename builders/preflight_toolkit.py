"""The judgement on what belongs to nvcc: the ptxas beside it, and CUDA_HOME, by which torch and setup.py find it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from builders.preflight_items import Facts, Item, Status

_RELEASE = re.compile(r"release (\d+\.\d+)(?:, V(\d+\.\d+\.\d+))?")


def judge_toolkit(facts: Facts) -> tuple[Item, ...]:
    """``ptxas`` and ``CUDA_HOME``, for the first nvcc on PATH; () where no nvcc was asked for or none is there."""
    seen = facts.get("tools", {}).get("nvcc")
    first = next(iter(seen["on_path"]), None) if seen else None
    if first is None or first["status"] != 0 or "beside" not in first:
        return ()
    return (_ptxas(first), _home(seen, facts["cuda_home"]))


def _ptxas(nvcc: Mapping[str, Any]) -> Item:
    ptxas = nvcc["beside"]["ptxas"]
    said, wanted = _release(ptxas["output"]), _release(nvcc["output"])
    expected = f"that of nvcc, {wanted}"
    if ptxas["status"] != 0:
        action = f"nvcc calls the ptxas beside it, and {ptxas['path']} is {ptxas['output'] or 'not there'}"
        return Item("ptxas", Status.ABSENT, expected=expected, action=f"{action}: install the whole toolkit")
    # The first two numbers are the toolkit's; a ptxas of another makes cubins that the driver may refuse.
    if said.split(".")[:2] != wanted.split(".")[:2]:
        action = "nvcc and ptxas are of two toolkits: install one whole toolkit"
        return Item("ptxas", Status.WRONG_VERSION, ptxas["path"], said, expected, action)
    return Item("ptxas", Status.FOUND, ptxas["path"], said)


def _home(seen: Mapping[str, Any], home: Mapping[str, str]) -> Item:
    """CUDA_HOME has to lead to the nvcc on PATH; or, where that is a script that calls one, to one of its release."""
    name, first = "CUDA_HOME", seen["on_path"][0]
    whole = [each for each in (*seen["on_path"], *seen["elsewhere"]) if each["marked"] and each["status"] == 0]
    fitting = [each for each in whole if _release(each["output"]) == _release(first["output"])]
    if first["marked"]:
        fitting = [first]
    own = _folder(fitting[0]) if fitting else ""
    if home["nvcc"] and any(home["nvcc"] == each["real"] for each in fitting):
        return Item(name, Status.FOUND, home["value"])
    if not home["value"] and first["marked"]:
        return Item(name, Status.FOUND, version=f"not set; builds take the nvcc on PATH, of {own}")
    put = f'export CUDA_HOME="{own}"' if own else "install the whole toolkit, and name it by CUDA_HOME"
    if not home["value"]:
        action = f"{first['path']} is no part of a whole toolkit, and torch would look beside it: {put}"
        return _wrong(name, action, "not set", own)
    leads = f"leads to {home['nvcc']}" if home["nvcc"] else "has no bin/nvcc"
    return _wrong(name, f"it {leads}, and the nvcc on PATH is {first['real']}: {put}", home["value"], own)


def _folder(nvcc: Mapping[str, Any]) -> str:
    return posixpath.dirname(posixpath.dirname(str(nvcc["real"])))


def _wrong(name: str, action: str, value: str, own: str) -> Item:
    return Item(
        name,
        Status.UNMET,
        version=value,
        expected=f"the toolkit of the nvcc on PATH{f', {own}' if own else ''}",
        action=action,
    )


def _release(output: str) -> str:
    match = _RELEASE.search(output)
    return (match[2] or match[1]) if match else ""
