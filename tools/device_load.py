"""Load and launch every form of a folder on this host's first GPU.  It needs Python and the driver, nothing else.

Reads FOLDER/forms.json as ``python -m tools.device_table make FOLDER`` wrote it; prints a table with an outcome for
each form: ``runs``, or the error of the driver.  Each is loaded in a process of its own: a failed launch takes its
context with it.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

KERNEL = b"assay_probe"
ANSWER = 42


class Driver:
    """The few calls of the driver's library that loading takes."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def error(self, code: int) -> str:
        name = ctypes.c_char_p()
        self.library.cuGetErrorName(code, ctypes.byref(name))
        return (name.value or str(code).encode()).decode()

    def call(self, function: str, *arguments: object) -> None:
        code = getattr(self.library, function)(*arguments)
        if code:
            raise OSError(f"{function}: {self.error(code)}")

    def device(self) -> dict[str, str]:
        handle, version, major, minor = (ctypes.c_int() for _ in range(4))
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGet", ctypes.byref(handle), 0)
        self.call("cuDeviceGetName", name, 128, handle)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, handle)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, handle)
        cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
        capability = f"{major.value}.{minor.value}"
        return {"name": name.value.decode(), "compute_capability": capability, "driver_cuda": cuda}

    def outcome(self, image: bytes) -> str:
        """Load, launch, read the answer back."""
        handle, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        pointer, answer = ctypes.c_uint64(), ctypes.c_uint32()
        self.call("cuDeviceGet", ctypes.byref(handle), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self.call("cuCtxSetCurrent", context)
        code = self.library.cuModuleLoadData(ctypes.byref(module), image + b"\0")
        if code:
            return self.error(code)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, KERNEL)
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), 4)
        self.call("cuMemsetD32_v2", pointer, 0, 1)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(pointer), ctypes.c_void_p))
        self.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", ctypes.byref(answer), pointer, 4)
        return "runs" if answer.value == ANSWER else f"wrong answer {answer.value}"


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--one":
        print(Driver().outcome(Path(arguments[1]).read_bytes()))
        return 0
    if arguments == ["--device"]:
        print(json.dumps(Driver().device()))
        return 0
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    forms = json.loads((folder / "forms.json").read_text(encoding="utf-8"))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda form: load(folder, form), forms))
    table = {
        "device": json.loads(again("--device")),
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),  # noqa: UP017 - Python 3.10 on GPU hosts
        "forms": [{**form, "outcome": answer} for form, answer in zip(forms, answers)],  # noqa: B905
    }
    print(json.dumps(table, indent=1))
    return 0


def load(folder: Path, form: dict[str, str]) -> str:
    path = folder / form["file"]
    if hashlib.sha256(path.read_bytes()).hexdigest() != form["sha256"]:
        raise SystemExit(f"{path}: not the bytes that forms.json names")
    return again("--one", str(path)).strip()


def again(*arguments: str) -> str:
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
