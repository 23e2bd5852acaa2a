"""pip, asked what it would install on another machine and another Python.

``--platform`` and ``--python-version`` choose among files, but pip evaluates the markers of requirements for the
interpreter that runs it: a resolution for aarch64 made on x86_64 would follow the requirements of x86_64.  Here the
markers are those of the place that is meant, and a pip that does not take them is refused.

Run as a program with the interpreter that has pip: ``python pip_elsewhere.py MARKERS ARGUMENT…``, ``MARKERS`` a JSON
object.  It imports nothing of ours.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys

NOT_TAKEN = "this pip evaluates markers for the machine that it runs on"


def main() -> None:
    wanted: dict[str, str] = json.loads(sys.argv[1])
    try:
        markers = importlib.import_module("pip._vendor.packaging.markers")
    except ImportError as error:
        sys.exit(f"ERROR: {sys.executable} has no pip: {error}")
    markers.default_environment = lambda: dict(wanted)  # type: ignore[attr-defined]
    checks = (f"{name} == '{wanted[name]}'" for name in ("platform_machine", "python_version", "python_full_version"))
    if not all(markers.Marker(text).evaluate() for text in checks):
        sys.exit(f"ERROR: {NOT_TAKEN}")
    sys.argv = ["pip", *sys.argv[2:]]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
