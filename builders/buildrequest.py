"""What a person asks of a build, what comes of it, and what it gathers on its way."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from builders.engines import Engine
from builders.environment import Mode
from builders.plan import How
from builders.progress import BuildLog
from qualify.matrix import LoadedMatrix


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What a person asks for, beside the matrix."""

    target: str
    out: Path
    engine: str = ""  # "" takes the target's
    how: How | None = None
    arch_list: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = "isolated"
    python: str = ""  # the interpreter of the place that builds
    memory: int = 0  # bytes that a step may take; 0 for no limit
    engine_host: str = ""  # "" takes the target's, or the engine that answers here
    cores: int = 0  # that a step may use; 0 for all
    jobs: int = 0  # 0 for as many as cores and memory allow
    timeout: float = 0.0  # seconds that a compile may take; 0 for any
    offline: bool = False
    wait: bool = True  # where another process builds the same plan
    look_in: tuple[str, ...] = ()
    rebuild: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    wheel: Path
    receipt: Path
    log: Path
    reused: bool


@dataclass(slots=True)
class Run:
    """What one build gathers on its way."""

    loaded: LoadedMatrix
    request: BuildRequest
    log: BuildLog
    began: datetime
    engine: Engine
    host_name: str  # of the engine
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - began, 2)
