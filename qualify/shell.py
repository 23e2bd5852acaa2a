"""What both command lines share: parsing, errors as people read them, exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

from qualify.errors import AssayError, ExitCode, UsageError


class Command(Protocol):
    """A command module: a one-line ``HELP``, its arguments, and what it does."""

    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> ExitCode: ...


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, where=self.prog, action=f"see {self.prog} --help")


def explain_error(error: AssayError) -> str:
    """The lines that a person reads: where and what, then what was expected, then what to do."""
    lines = [f"error: {error.where}: {error.what}" if error.where else f"error: {error.what}"]
    if error.expected:
        lines.append(f"  expected: {error.expected}")
    if error.action:
        lines.append(f"  to do: {error.action}")
    return "\n".join(lines)


def dispatch(prog: str, description: str, commands: Mapping[str, str], argv: Sequence[str] | None) -> int:
    """Run one command module of ``commands`` (name -> dotted module) and return its exit code.

    Only here are errors caught and printed.  A traceback is shown for our own bugs alone.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parser = _Parser(prog=prog, description=description)
        parser.add_argument("--version", action="version", version=_version())
        subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
        chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
        for name, module in commands.items():
            # Only the chosen command is imported: starting up costs what that command needs, no more.
            if name == chosen:
                command: Command = importlib.import_module(module)
                command.configure(subparsers.add_parser(name, help=command.HELP, description=command.HELP))
            else:
                subparsers.add_parser(name, help=_help(module), add_help=False)
        parsed = parser.parse_args(arguments)
        if parsed.command is None:
            parser.print_help(sys.stderr)
            return ExitCode.USAGE
        return int(command.run(parsed))
    except AssayError as error:
        print(explain_error(error), file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader went away (``| head``): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except OSError as error:
        where = str(error.filename) if error.filename else ""
        print(explain_error(_from_os(error, where)), file=sys.stderr)
        return int(ExitCode.UNAVAILABLE)
    except Exception:
        traceback.print_exc()
        print("error: this is a bug in wheel-assay; please report it with the lines above", file=sys.stderr)
        return 70


def _from_os(error: OSError, where: str) -> AssayError:
    from qualify.errors import UnavailableError

    return UnavailableError(error.strerror or str(error), where=where, action="mend the disk or the path and run again")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wheel-assay")
    except PackageNotFoundError:
        return "0+unknown"


def _help(module: str) -> str:
    """The ``HELP`` of a command module, read without importing what the module needs."""
    import ast
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "HELP" for t in node.targets):
            return str(ast.literal_eval(node.value))
    return ""
