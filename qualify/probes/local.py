"""The probe of this host: a fresh environment in a temporary folder, without a network index.

It runs the wheel's own code under the caller's account.  That is what ``measure --local`` asks for by name.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualify.errors import UnavailableError
from qualify.files import copy_atomic
from qualify.probes import INSIDE, ProbeRequest
from qualify.scratch import scratch_folder

_RESULT_LIMIT = 4 << 20  # bytes
_GRACE = 60.0  # seconds that the program may take beside its steps


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """``python``: the interpreter that the environment is made of."""

    python: str = sys.executable

    @property
    def where(self) -> str:
        return "this host"

    def install_and_import(self, request: ProbeRequest) -> Mapping[str, Any]:
        with scratch_folder("measure") as folder:
            wheel = folder / request.wheel.name
            # Installed from a copy of the judged bytes: what lies at the path may be exchanged meanwhile.
            copy_atomic(request.wheel, wheel, sha256=request.sha256)
            links = tuple(str(link.absolute()) for link in request.find_links)
            (folder / "work").mkdir()
            content = request.inside(str(wheel), str(folder / "work"), links)
            (folder / "request.json").write_text(json.dumps(content), encoding="utf-8")
            self._run(folder, 2 * request.timeout + request.import_timeout + _GRACE)
            return _result(folder / "result.json")

    def _run(self, folder: Path, timeout: float) -> None:
        command = [self.python, "-I", str(INSIDE), str(folder / "request.json"), str(folder / "result.json")]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnavailableError("the probe did not end in time", where=self.python) from error
        except OSError as error:
            raise UnavailableError(
                error.strerror or str(error), where=self.python, expected="a Python interpreter", action="see --python"
            ) from error
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().split("\n")
            raise UnavailableError(f"the probe failed: {lines[-1][:500]}", where=self.python, action="see --python")


def _result(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as stream:
        data = stream.read(_RESULT_LIMIT + 1)
    if len(data) > _RESULT_LIMIT:
        raise UnavailableError(f"the probe's result is larger than {_RESULT_LIMIT} bytes", where=str(path))
    result = json.loads(data)
    assert isinstance(result, dict)
    return result
