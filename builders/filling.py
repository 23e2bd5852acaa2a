"""What a room is filled with before the compile, and the variables that point at it.

The source, the external sources at their commits, the crates, the patches and CMake's toolchain file.  All of it comes
from the store, so that the compile needs no network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.engines import Room, Step
from builders.environment import TOOLCHAIN, Prepared, build_variables, toolchain_file
from builders.externals import External
from builders.plan import Plan
from builders.progress import BuildLog
from builders.source_model import Source
from builders.source_patches import gather_patches, patch_commands
from builders.stations import listening
from builders.store.gitmirror import Mirrors
from builders.vendor import Vendored
from qualify.errors import BuildError, UnavailableError
from qualify.lines import first_line

_STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Materials:
    """What a build is made of, on this host.  ``root`` holds ``source.tree``; externals bear their commits."""

    source: Source
    root: Path
    externals: tuple[External, ...]
    vendored: tuple[Vendored, ...]


@dataclass(frozen=True, slots=True)
class State:
    """What a later try in the same work folder has to know of the first."""

    version: str  # of the clean tree, by setuptools-scm; "" where the tree doesn't use it
    began: float  # seconds since the epoch, by the clock of the room: nothing of the build is older


def put_external_sources(room: Room, plan: Plan, materials: Materials, mirrors: Mirrors, work: Path) -> None:
    """External sources, crates, patches and the toolchain file into the room's tools."""
    tools = room.paths.tools
    for external in materials.externals:
        if not external.needed:
            continue
        if external.copy:
            room.put(Path(external.copy), f"{tools}/external/{external.name}")
            continue
        mirror = mirrors.find(external.fetched_from or external.repository)
        if mirror is None:
            raise UnavailableError(
                f"{external.name} is no longer in the store", where=external.repository, action="run again"
            )
        folder = work / "external" / external.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        mirror.export(external.commit, folder, submodules=external.submodules or None)
        room.put(folder, f"{tools}/external/{external.name}")
    for vendored in materials.vendored:
        room.put(vendored.folder, f"{tools}/crates")
    files = _generated(room, plan, materials)
    if files:
        made = work / "generated"
        for name, text in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text(text, encoding="utf-8")
        room.put(made, tools)
    if materials.source.patches:
        gather_patches(materials.source.patches, work / "patches")
        room.put(work / "patches", f"{tools}/patches")


def variables_for(plan: Plan, room: Room, prepared: Prepared, materials: Materials) -> dict[str, str]:
    """The variables of the compile, those that point at what was put into the room among them."""
    tools = room.paths.tools
    variables = build_variables(plan, prepared, room.paths, room.machine)
    for external in materials.externals:
        if external.needed and external.variable:
            variables[external.variable] = _inside(room, external)
    if _toolchain(room, plan, materials):
        variables["CMAKE_TOOLCHAIN_FILE"] = f"{tools}/{TOOLCHAIN}"
    if materials.vendored:
        variables.update(CARGO_HOME=f"{tools}/cargo", CARGO_NET_OFFLINE="true")
    return variables


def apply_patches(room: Room, materials: Materials, tree: str, log: BuildLog) -> None:
    """Apply the pin's patches to the tree in the room, in their order.

    :raises BuildError: one does not apply there, though it did on this host.
    """
    commands = patch_commands(materials.source.patches, f"{room.paths.tools}/patches")
    for patch, command in zip(materials.source.patches, commands, strict=True):
        log.say(f"patch {patch.order}: {patch.name}")
        lines: list[str] = []
        outcome = room.run(Step("patch", command, folder=tree), listening(lines, log.line))
        if outcome.code != 0:
            raise BuildError(
                f"the patch {patch.name} does not apply: {lines[-1] if lines else outcome.code}",
                where="patch",
                action=f"the log is {log.path}",
            )


def remember(room: Room, state: State, work: Path) -> None:
    """Leave in the work folder what a later try has to know, and mark the folder whole."""
    folder = work / "state"
    folder.mkdir()
    (folder / _STATE).write_text(json.dumps({"version": state.version, "began": state.began}), encoding="utf-8")
    room.put(folder, f"{room.paths.tools}/state")
    room.keep()


def clock_of(room: Room, prepared: Prepared) -> float:
    """The time in the room: seconds since the epoch, a little in the past, since files' times are rounded.

    :raises UnavailableError: the room doesn't say.
    """
    lines: list[str] = []
    room.run(Step("clock", (prepared.python, "-I", "-c", "import time; print(time.time())")), listening(lines))
    try:
        return float(lines[-1]) - 1.0
    except (IndexError, ValueError) as error:
        raise UnavailableError("the room does not say its time", where="clock") from error


def recall(room: Room, work: Path) -> State:
    """What an earlier try left.

    :raises BuildError: nothing that can be read.
    """
    folder = work / "recalled"
    folder.mkdir()
    room.fetch(f"{room.paths.tools}/state", folder)
    try:
        document = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        return State(str(document["version"]), float(document["began"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(
            f"the kept build folder can't be used: {error}", where="resume", action="build again with --rebuild"
        ) from error


def _generated(room: Room, plan: Plan, materials: Materials) -> dict[str, str]:
    """Files that are made for this room: name below its tools -> text."""
    files: dict[str, str] = {}
    if text := _toolchain(room, plan, materials):
        files[TOOLCHAIN] = text
    if materials.vendored:
        files["cargo/config.toml"] = cargo_settings(materials.vendored, f"{room.paths.tools}/crates")
    return files


def _toolchain(room: Room, plan: Plan, materials: Materials) -> str:
    """CMake's toolchain file: the compilers of a cross build, and the sources for which the tree reads no variable.

    CMake reads it before anything is declared, whatever calls it, by CMAKE_TOOLCHAIN_FILE of the environment; and
    FETCHCONTENT_SOURCE_DIR_<NAME> is FetchContent's own way to a source that is at hand.
    """
    parts = [toolchain_file(plan.machine)] if room.machine != plan.machine else []
    parts += [
        f'set(FETCHCONTENT_SOURCE_DIR_{external.name.upper()} "{_inside(room, external)}" CACHE PATH "")\n'
        for external in materials.externals
        if external.needed and not external.variable and external.kind == "FetchContent"
    ]
    return "".join(parts)


def _inside(room: Room, external: External) -> str:
    place = f"{room.paths.tools}/external/{external.name}"
    return f"{place}/{external.folder}" if external.folder and not external.copy else place


def cargo_settings(vendored: Sequence[Vendored], inside: str) -> str:
    """One configuration for the crates of all locks, which lie in one folder; a source that two name stands once."""
    sections: dict[str, str] = {}
    for each in vendored:
        for part in re.split(r"(?m)^(?=\[)", each.configuration(inside)):
            if part.strip():
                sections.setdefault(first_line(part), part.rstrip() + "\n")
    return "\n".join(sections.values())
