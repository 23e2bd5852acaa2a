"""What both command lines share: parsing, errors as people read them, exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
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
    # A closed stream (``>&-``) is None in Python: nobody listens, and the exit code still speaks.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the very end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    code = _run(prog, description, commands, arguments)
    # What is still in the buffer may meet a full disk or a reader that went away; the interpreter would end with 120.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        _discard_output()
        print(explain_error(_from_os(error, "")), file=sys.stderr)
        return int(ExitCode.UNAVAILABLE)
    return code


def _discard_output() -> None:
    """Nothing more reaches stdout, nor fails there when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(prog: str, description: str, commands: Mapping[str, str], arguments: Sequence[str]) -> int:
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
        try:
            parsed = parser.parse_args(arguments)
        except SystemExit as done:  # --help, --version
            return int(done.code or 0)
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
        _discard_output()
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

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "HELP" for t in node.targets):
            return str(ast.literal_eval(node.value))
    return ""
