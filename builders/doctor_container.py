"""The doctor inside a container of a target's image: what a build there would find, without a network.

Where the build's environment is there already, the look is the build's own last one before it compiles.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from builders.bases import ImageStore, build_image, find_image, role_for, wish_for
from builders.engines import EngineInfo, Listener, Room, RoomRequest, Step
from builders.environment import EnvironmentSpec, Prepared, build_variables, environment_spec, script
from builders.host import network_of
from builders.inroom import room_machine
from builders.plan import Plan
from builders.preflight import ask_backend, collect, hook_of, request_for, static_requirements_met
from builders.preflight_items import Facts, Item, Status
from builders.stations import listening, run_collector
from qualify.errors import BuildError, UnavailableError
from qualify.matrix import LoadedMatrix


class ContainerEngine(Protocol):
    """An engine whose rooms are containers of images; see :class:`builders.engines.docker.DockerEngine`."""

    def info(self) -> EngineInfo: ...

    def images(self) -> AbstractContextManager[ImageStore]: ...

    def open(self, request: RoomRequest, listener: Listener) -> AbstractContextManager[Room]: ...


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen: the items of the container itself, the facts in it (None: none), and its environment, if made."""

    items: tuple[Item, ...]
    facts: Facts | None = None
    prepared: Prepared | None = None


def look_in_container(
    loaded: LoadedMatrix,
    plan: Plan,
    engine: ContainerEngine,
    listener: Listener,
    *,
    look_in: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    make_image: bool = False,
    tree: Callable[[], Path] | None = None,
) -> Looked:
    """Facts of a container of the target's image.

    :param environment: what is set there besides the build's own variables.
    :param make_image: make the image where it isn't there; without it that is told instead.
    :param tree: opens the whole source, for the build backend's hook; None leaves it unasked.
    """
    name = "container"
    try:
        info = engine.info()
        machine = room_machine(plan, info)
    except UnavailableError as error:
        action = "; ".join(part for part in (error.what, error.action) if part)
        return Looked((Item(name, Status.NOT_LOOKED_AT, expected=error.expected, action=action),))
    role = role_for("cross" if machine != plan.machine else "native")
    base = wish_for(plan.target, loaded.matrix.targets[plan.target].base, loaded.local)
    with engine.images() as store:
        image = find_image(store, base, machine, role)
        if not image and make_image:
            image = build_image(store, base, machine, role, listener)[0]
    if not image:
        action = f"its image is not made yet: `python -m builders base {plan.target}` makes it, or --make-image"
        return Looked((Item(name, Status.NOT_LOOKED_AT, expected=f"an image of role {role}", action=action),))
    spec = environment_spec(plan, machine, "isolated")
    wanted = RoomRequest(
        build_id=f"doctor-{plan.target}-{secrets.token_hex(4)}",
        machine=machine,
        role=role,
        base=base,
        environment_key=spec.key,
        network=network_of(loaded.local),
    )
    with engine.open(wanted, listener) as room:
        found = Item(name, Status.FOUND, version=f"{room.machine}, {room.image_origin}, {room.image[:19]}")
        prepared, why = _prepared(room, spec)
        facts = _facts(room, plan, prepared, look_in, dict(environment or {}), tree)
    return Looked((found, _environment(prepared, why)), facts, prepared)


def _facts(
    room: Room,
    plan: Plan,
    prepared: Prepared | None,
    look_in: Sequence[str],
    environment: dict[str, str],
    tree: Callable[[], Path] | None,
) -> Facts:
    variables = build_variables(plan, prepared, room.paths, room.machine) if prepared else {}
    variables |= environment
    request = request_for(
        plan,
        python=prepared.python if prepared else "",
        look_in=look_in,
        environment=variables,
        folders=[room.paths.source],
        network=False,
    )

    def run(arguments: Sequence[str]) -> str:
        return run_collector(room, prepared, variables, arguments)

    facts = collect(request, run)
    if tree is not None and prepared is not None and static_requirements_met(plan.requirements, facts):
        room.put(tree(), room.paths.source)
        return ask_backend(replace(request, hook=hook_of(plan, room.paths.source)), facts, run)
    return facts


def _prepared(room: Room, spec: EnvironmentSpec) -> tuple[Prepared | None, str]:
    """The environment that a build would use, if an earlier one made it whole; else why there is none."""
    lines: list[str] = []
    request = json.dumps({"look": True, "folder": room.paths.environment, "key": spec.key})
    command = (room.python or "python3", "-c", script(), request)
    outcome = room.run(Step("environment", command), listening(lines))
    if outcome.code != 0:
        said = next((line for line in reversed(lines) if line), f"exit status {outcome.code}")
        return None, said.removeprefix("environment: ")
    try:
        return Prepared.of("\n".join(lines)), ""
    except BuildError as error:
        return None, error.what


def _environment(prepared: Prepared | None, why: str) -> Item:
    name = "isolated environment"
    if prepared is None:
        action = f"{why}: `build` makes it, and looks at what it brings before the compile"
        return Item(name, Status.NOT_LOOKED_AT, action=action, optional=True)
    said = f"Python {prepared.python_version}, {len(prepared.distributions)} distributions"
    return Item(name, Status.FOUND, prepared.python, said)


def engine_item(info: EngineInfo) -> Item:
    """What answered."""
    said = f"{info.name} {info.version}" + (f", API {info.api}" if info.api else "")
    room = f"{info.cores} cores, {info.memory / 1e9:.0f} GB" if info.cores and info.memory else ""
    return Item("engine", Status.FOUND, version=", ".join(part for part in (said, room) if part))
