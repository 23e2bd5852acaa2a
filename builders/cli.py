"""The ``python -m builders`` command line: one line per command."""

from __future__ import annotations

from collections.abc import Sequence

from qualify.shell import dispatch

COMMANDS = {
    "targets": "builders.commands.targets",
    "plan": "builders.commands.plan",
    "fetch": "builders.commands.fetch",
    "lock": "builders.commands.lock",
    "doctor": "builders.commands.doctor",
    "build": "builders.commands.build",
    "build-all": "builders.commands.build_all",
    "base": "builders.commands.base",
    "measure": "builders.commands.measure",
    "record": "builders.commands.record",
    "prune": "builders.commands.prune",
    "demo": "builders.commands.demo",
}


def main(argv: Sequence[str] | None = None) -> int:
    return dispatch("python -m builders", "Make wheels for a target.", COMMANDS, argv)
