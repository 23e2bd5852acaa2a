"""The stations of a build that run in a room before the compile: environment and preflight."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from builders.engines import Room, Say, Step
from builders.environment import SCRIPT, TOOLCHAIN, EnvironmentSpec, Prepared, build_variables, toolchain_file
from builders.host import cache_folder
from builders.plan import Plan
from builders.progress import BuildLog
from qualify.errors import PreflightError, UnavailableError
from qualify.files import locked

_LOCK_SECONDS = 6 * 3600.0
_NETWORK_WORDS = ("Temporary failure in name resolution", "Max retries exceeded", "NewConnectionError", "CERTIFICATE_")


def prepare(room: Room, spec: EnvironmentSpec, log: BuildLog, also: Sequence[str] = ()) -> Prepared:
    """Make or find the environment: the one step with a network.

    :param also: requirements that come to those of ``spec``: what the build backend asks for.
    :raises UnavailableError: the package index does not answer.
    :raises PreflightError: the requirements can't be had; nothing was compiled.
    """
    lock = cache_folder() / "locks" / f"environment-{room.engine}-{spec.key[:16]}"
    lock.parent.mkdir(parents=True, exist_ok=True)
    request = json.dumps(spec.request(room.paths.environment, also))
    command = (room.python or "python3", "-c", SCRIPT.read_text(encoding="utf-8"), request)
    lines: list[str] = []
    with locked(lock, timeout=_LOCK_SECONDS, purpose="preparing an environment"):
        outcome = room.run(Step("environment", command, prepares=True), listening(lines, log.line))
    if outcome.code == 0:
        return Prepared.of(_answer(lines))
    text = "\n".join(lines)
    cause = next((line for line in lines if line.startswith("ERROR:")), lines[-1] if lines else "no word")
    if any(word in text for word in _NETWORK_WORDS):
        raise UnavailableError(
            f"the package index does not answer: {cause}", where="environment", action=f"mend the network; {log.path}"
        )
    if outcome.killed_for_memory:
        raise UnavailableError("killed for memory", where="environment", action="give the engine more memory")
    raise PreflightError(f"the environment can't be made: {cause}", where="environment", action=f"see {log.path}")


def variables_for(plan: Plan, room: Room, prepared: Prepared) -> dict[str, str]:
    """The variables of the compile, with local copies of external sources and the toolchain file put into the room."""
    variables = build_variables(plan, prepared, room.paths, room.machine)
    for external in plan.needed_externals:
        if external.variable and external.copy:
            inside = f"{room.paths.tools}/external/{external.name}"
            room.put(Path(external.copy), inside)
            variables[external.variable] = inside
    if room.machine != plan.machine:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, TOOLCHAIN).write_text(toolchain_file(plan.machine), encoding="utf-8")
            room.put(Path(folder), room.paths.tools)
    return variables


def run_collector(room: Room, prepared: Prepared | None, variables: Mapping[str, str], arguments: Sequence[str]) -> str:
    """Run the collector in the room, as the compile will run, and return its answer.

    :raises UnavailableError: it gave none.
    """
    lines: list[str] = []
    python = prepared.python if prepared is not None else room.python or "python3"
    outcome = room.run(Step("preflight", (python, *arguments), dict(variables)), listening(lines))
    answer = _answer(lines)
    if outcome.code != 0 or not answer:
        raise UnavailableError(
            f"the facts of the build's place could not be collected: {lines[-1] if lines else outcome.code}",
            where=f"engine {room.engine}",
        )
    return answer


def tree_inside(room: Room, tree: Path, root: Path) -> str:
    """Where the project's folder lies in the room, when ``root`` was put there as the source."""
    return str(PurePosixPath(room.paths.source) / tree.relative_to(root).as_posix())


def listening(lines: list[str], say: Say | None = None) -> Say:
    """Keep every line; hand on all but the JSON answer, which is for us."""

    def listen(text: str) -> None:
        lines.append(text)
        if say is not None and not text.startswith('{"'):
            say(text)

    return listen


def _answer(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if line.startswith('{"')), "")
