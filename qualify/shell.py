"""What both command lines share: parsing, errors as people read them, exit codes."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, TextIO

from qualify.errors import AssayError, ExitCode, UsageError

if TYPE_CHECKING:
    from typing_extensions import Buffer


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
    sys.stdout, sys.stderr = _heard_or_not(sys.stdout), _heard_or_not(sys.stderr)
    code = _run(prog, description, commands, arguments)
    # What is still in the buffer may meet a full disk; the interpreter would end with 120.
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard_output()
        print(explain_error(_from_os(error, "")), file=sys.stderr)
        return int(ExitCode.UNAVAILABLE)
    return code


class _Outlet(io.RawIOBase):
    """A descriptor that people read.  Once its reader went away (``| head``), what is written is dropped.

    The command goes on to its end, so that its exit code says the same as without the pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reader_left = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Buffer) -> int:
        if not self._reader_left:
            try:
                return os.write(self._descriptor, data)
            except BrokenPipeError:
                self._reader_left = True
        return memoryview(data).nbytes


def _heard_or_not(stream: TextIO | None) -> TextIO:
    """Standard output or error so that it fails for no lack of a listener; a stream put there by a caller stays."""
    if stream is None:
        # Closed (``>&-``): nobody listens, and the exit code still speaks.
        return Path(os.devnull).open("w", encoding="utf-8")
    if stream not in (sys.__stdout__, sys.__stderr__) or not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Outlet(stream.fileno())),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


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
