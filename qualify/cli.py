"""The ``qualify`` command line: one line per command."""

from __future__ import annotations

from collections.abc import Sequence

from qualify.shell import dispatch

COMMANDS = {
    "inspect": "qualify.commands.inspect",
    "check": "qualify.commands.check",
    "diff": "qualify.commands.diff",
    "explain": "qualify.commands.explain",
    "identity": "qualify.commands.identity",
    "measure": "qualify.commands.measure",
    "record": "qualify.commands.record",
    "verify": "qualify.commands.verify",
    "key": "qualify.commands.key",
    "publish": "qualify.commands.publish",
}


def main(argv: Sequence[str] | None = None) -> int:
    return dispatch("qualify", "Read, judge, measure, record and publish wheels.", COMMANDS, argv)
