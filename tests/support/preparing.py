"""One builder that prepares a small environment: ``python -m tests.support.preparing KEY LOG ENGINE-URL``.

It prints one JSON object: what was prepared, or the error.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from builders.engines import Room
from builders.engines.docker import DockerEngine
from builders.environment import EnvironmentSpec, Prepared
from builders.progress import BuildLog
from builders.stations import prepare
from qualify.errors import AssayError
from qualify.matrix.local import EngineHost
from tests.support.engines import Heard, request


def spec(key: str) -> EnvironmentSpec:
    """Of Debian 12's Python: small, and still long enough in the making that two of them meet."""
    wanted = ("setuptools==80.9.0", "ninja==1.13.0")
    return EnvironmentSpec("isolated", ("3.11",), wanted, None, "", "", {}, {}, (), (), key)


def prepared(room: Room, key: str, log: Path) -> Prepared:
    with BuildLog(log, sys.stderr) as build_log:
        return prepare(room, spec(key), build_log)


def main() -> int:
    key, log, *url = sys.argv[1:]
    engine = DockerEngine(EngineHost(url=url[0])) if url else DockerEngine()
    try:
        with engine.open(request(key=key), Heard()) as room:
            print(json.dumps(asdict(prepared(room, key, Path(log)))))
    except AssayError as error:
        print(json.dumps({"error": str(error), "exit": int(error.exit_code)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
