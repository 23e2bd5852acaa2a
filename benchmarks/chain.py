"""What people run today on a CUDA wheel: unzip, cuobjdump on each library, auditwheel, abi3audit, check-wheel-contents.

Each tool runs once, one after the other, as a script would.  cuobjdump is that of the PyPI package
``nvidia-cuda-cuobjdump``; the others are found beside this Python.  What they find is not looked at, only that they
came to their end.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from processes import measure

Step = tuple[str, float, int]  # what, seconds, peak of one process in bytes


def run(wheel: Path) -> Iterator[Step]:
    """Every step with its time; ``wheel`` is unpacked into a temporary folder that is removed afterwards.

    :raises SystemExit: a tool is not there, or broke off.
    """
    beside = Path(sys.executable).parent
    cuobjdump = _cuobjdump()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = measure(["unzip", "-q", str(wheel), "-d", name])
        yield "unzip", done.seconds, done.peak
        libraries = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_elf(path)]
        for option in ("--list-elf", "--list-ptx"):
            seconds, peak = 0.0, 0
            for library in libraries:
                # A library without device code ends it with 255, one whose old relocatable code it can't read with 1.
                done = measure([str(cuobjdump), option, str(library)], good=(0, 1, 255))
                seconds, peak = seconds + done.seconds, max(peak, done.peak)
            yield f"cuobjdump {option}, {len(libraries)} libraries", seconds, peak
    for tool, arguments in (
        ("auditwheel", ["show", str(wheel)]),
        ("abi3audit", ["--assume-minimum-abi3", "3.8", str(wheel)]),
        ("check-wheel-contents", [str(wheel)]),
    ):
        # abi3audit and check-wheel-contents end with 1 where they find something.
        done = measure([str(beside / tool), *arguments], good=(0, 1))
        yield f"{tool} {arguments[0] if arguments[0] == 'show' else ''}".strip(), done.seconds, done.peak


def _cuobjdump() -> Path:
    try:
        found = files("nvidia-cuda-cuobjdump") or []
    except PackageNotFoundError:
        found = []
    for file in found:
        if file.name == "cuobjdump":
            return Path(str(file.locate()))
    raise SystemExit("cuobjdump is not there: pip install nvidia-cuda-cuobjdump")


def _is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"
