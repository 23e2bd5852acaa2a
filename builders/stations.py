"""The stations of a build that run in a room before the compile: environment and preflight."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from builders.engines import Room, Say, Step
from builders.environment import EnvironmentSpec, Prepared, script
from builders.environment_volume import BUSY
from builders.host import process_mark
from builders.pip_words import index_is_silent
from builders.progress import BuildLog
from builders.source_model import Source
from builders.source_version import version_command
from qualify.errors import BuildError, PreflightError, UnavailableError

_WAIT_SECONDS = 6 * 3600.0  # for another build that prepares the same environment
_WAITING = "environment: "  # what the script says itself, in front of what pip does


def prepare(room: Room, spec: EnvironmentSpec, log: BuildLog, also: Sequence[str] = ()) -> Prepared:
    """Make or find the environment: the one step with a network.

    The lock is the environment's own, held by what prepares it: builds of other hosts and users may share its volume.

    :param also: requirements that come to those of ``spec``: what the build backend asks for.
    :raises UnavailableError: the package index does not answer, or another build prepares it for too long.
    :raises PreflightError: the requirements can't be had; nothing was compiled.
    """
    request = {
        **spec.request(room.paths.environment, also),
        "holder": f"the build of process {process_mark()} with the log {log.path}",
        "wait": _WAIT_SECONDS,
    }
    command = (room.python or "python3", "-c", script(), json.dumps(request))
    lines: list[str] = []

    def hear(text: str) -> None:
        (log.say if text.startswith(_WAITING) else log.line)(text)

    outcome = room.run(Step("environment", command, prepares=True), listening(lines, hear))
    if outcome.code == 0:
        return Prepared.of(_answer(lines))
    text = "\n".join(lines)
    if outcome.code == BUSY:
        raise UnavailableError(
            f"another build prepares the environment: {lines[-1].removeprefix(_WAITING) if lines else 'no word'}",
            where="environment",
            expected=f"its end within {_WAIT_SECONDS / 3600:g} h",
            action="see what that build does, end it if it hangs, and build again",
        )
    cause = next((line for line in lines if line.startswith("ERROR:")), lines[-1] if lines else "no word")
    if index_is_silent(text):
        raise UnavailableError(
            f"the package index does not answer: {cause}", where="environment", action=f"mend the network; {log.path}"
        )
    if outcome.killed_for_memory:
        raise UnavailableError("killed for memory", where="environment", action="give the engine more memory")
    raise PreflightError(f"the environment can't be made: {cause}", where="environment", action=f"see {log.path}")


def computed_version(room: Room, source: Source, prepared: Prepared, tree: str) -> str:
    """The version that setuptools-scm computes from the clean tree, in the room; "" where the tree doesn't use it.

    :raises BuildError: it computes none.
    """
    command = version_command(source.tree, prepared.python)
    if command is None:
        return ""
    lines: list[str] = []
    outcome = room.run(Step("version", command, source_variables(source), folder=tree), listening(lines))
    try:
        return str(json.loads(_answer(lines))["version"])
    except (ValueError, KeyError, TypeError):
        raise BuildError(
            f"the version of the clean tree can't be computed: {lines[-1] if lines else outcome.code}",
            where="version",
            action="see what setuptools-scm says of the tree at the pin",
        ) from None


def source_variables(source: Source) -> dict[str, str]:
    """What an sdist's version is computed with; a git tree is asked as it is."""
    return dict(source.environment) if source.kind == "sdist" else {}


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
