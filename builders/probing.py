"""Install and import a wheel in a room of an engine: :class:`qualify.probes.Runner` for containers.

The room has no network, and the wheel in it is a copy of the judged bytes.  The program that runs there is the one
that every runner runs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.bases import BaseWish, wish_for
from builders.engines import Engine, Listener, RoomRequest, Step, choose_engine
from builders.host import work_folder
from builders.planning import chosen_target
from qualify.errors import UnavailableError
from qualify.files import copy_atomic
from qualify.matrix import LoadedMatrix
from qualify.probes import INSIDE, ProbeRequest, Runner
from qualify.probes.local import LocalRunner

_RESULT_LIMIT = 4 << 20  # bytes


class RoomRunner:
    """A fresh room for each wheel, with the programs of ``machine``."""

    def __init__(self, engine: Engine, base: BaseWish, machine: str, listener: Listener) -> None:
        self._engine = engine
        self._base = base
        self._machine = machine
        self._listener = listener
        self._image = ""

    @property
    def where(self) -> str:
        return f"container of image {self._image}" if self._image else f"engine {self._engine.name}"

    def install_and_import(self, request: ProbeRequest) -> Mapping[str, Any]:
        """The result of the program.

        :raises UnavailableError: no room, or the program gave no result.
        :raises RefusedError: the wheel isn't the one that was judged.
        """
        wanted = RoomRequest(f"measure-{secrets.token_hex(4)}", self._machine, "build", self._base, "measure")
        with work_folder() as work:
            with self._engine.open(wanted, self._listener) as room:
                self._image = room.image
                tools = room.paths.tools
                links = self._fill(request, work / "in", tools)
                content = request.inside(f"{tools}/{request.wheel.name}", f"{room.paths.out}/work", links)
                (work / "in" / "request.json").write_text(json.dumps(content), encoding="utf-8")
                for folder in ("work", "result"):
                    (work / "empty" / folder).mkdir(parents=True)
                room.put(work / "in", tools)
                room.put(work / "empty", room.paths.out)
                (work / "out").mkdir()
                said: list[str] = []
                program = (room.python or "python3", "-I", f"{tools}/{INSIDE.name}")
                files = (f"{tools}/request.json", f"{room.paths.out}/result/result.json")
                outcome = room.run(Step("measure", (*program, *files), folder=room.paths.out), said.append)
                if outcome.code != 0:
                    raise UnavailableError(
                        f"the probe failed: {said[-1] if said else outcome.code}", where=self.where, action="run again"
                    )
                room.fetch(f"{room.paths.out}/result", work / "out")
            return _result(work / "out" / "result.json")

    @staticmethod
    def _fill(request: ProbeRequest, folder: Path, tools: str) -> tuple[str, ...]:
        """Put the wheel, its companions and the program into a folder; returns where the companions will lie."""
        folder.mkdir()
        copy_atomic(request.wheel, folder / request.wheel.name, sha256=request.sha256)
        copy_atomic(INSIDE, folder / INSIDE.name)
        inside = []
        for number, links in enumerate(request.find_links):
            companions = folder / f"links{number}"
            companions.mkdir()
            for wheel in sorted(links.glob("*.whl")):
                copy_atomic(wheel, companions / wheel.name)
            inside.append(f"{tools}/links{number}")
        return tuple(inside)


def _result(path: Path) -> Mapping[str, Any]:
    """The program's result; the wheel's code may have written it, so its size is bounded and its shape checked."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_RESULT_LIMIT + 1)
        result = json.loads(data) if len(data) <= _RESULT_LIMIT else None
    except (OSError, ValueError):
        result = None
    if not isinstance(result, dict):
        raise UnavailableError("the probe left no result", where="container", action="run again")
    return result


def runner_for(loaded: LoadedMatrix, name: str, engine: str, listener: Listener) -> Runner:
    """The runner of an engine for a target's machine; on this host the wheel's code runs under the caller's account.

    :raises UsageError: no such target.
    :raises UnavailableError: the engine does not answer, or none can run that machine.
    """
    target = chosen_target(loaded, name)
    chosen = choose_engine(engine, target.machine, listener.say)
    if chosen.name == "local":
        return LocalRunner()
    return RoomRunner(chosen, wish_for(name, target.base, loaded.local), target.machine, listener)
