"""The first true cause in the log of a build that failed, and the command that it came from: data, and one walk.

A log is full of lines that look like faults and are none: probes, warnings, names of files, what a tool says after
another one has failed.  So lines are told apart first.  Where Ninja says ``FAILED:``, the cause is looked for in what
that one command printed; elsewhere in the whole log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from re import Pattern

from builders.commandlines import brief, is_command, made_by, source_of

# Said by builds that end well, or only of something that has failed before; never the cause.
HARMLESS = (
    re.compile(r"Pytorch version \S+ expected for CUDA build, saw"),
    re.compile(r"Using default MoE config"),
    re.compile(r"^\s*(\S+:\d+(:\d+)?: |\S+\(\d+\): |\S+: )?warning( #\d+(-D)?)?\b", re.IGNORECASE),
    re.compile(
        r"^\s*(error: (subprocess-exited-with-error|metadata-generation-failed)|ERROR: Failed (building|to build) )"
    ),
    re.compile(r"^\s*\d* \|( |$)"),  # a compiler shows the source
)

# Kind and what it looks like, in ranks.  The first line that fits the first rank is the cause; where there is none, the
# first of the next rank: how build systems and Python report that something below them failed.
FIRST: tuple[tuple[str, Pattern[str]], ...] = (
    (
        "killed",
        re.compile(
            r"Killed signal terminated program|\bout of memory\b|virtual memory exhausted|^\s*Killed$|signal:? 9\b"
            r"|std::bad_alloc|^\s*MemoryError",
            re.IGNORECASE,
        ),
    ),
    ("missing header", re.compile(r"fatal error: \S+: No\b|cannot open source file")),
    (
        "unknown architecture",
        re.compile(
            r"Unsupported gpu architecture|is not defined for option 'gpu-architecture'|Unknown CUDA arch|"
            r"Unsupported architecture|Value '\S+' is not defined for option 'gpu"
        ),
    ),
    ("host compiler", re.compile(r"unsupported (GNU|clang) version")),
    (
        "compiler crash",
        re.compile(
            r"internal compiler error|Segmentation fault|signal:? (4|6|7|8|11)\b|core dumped"
            r"|compiler unexpectedly panicked"
        ),
    ),
    ("disk full", re.compile(r"No space left on device|Disk quota exceeded")),
    (
        "network",
        re.compile(
            r"Could not resolve host|name resolution|unable to access '|Name or service not known"
            r"|Network is unreachable|Connection (refused|timed out|reset)|Failed to connect to"
        ),
    ),
    (
        "crates",
        re.compile(
            r"error: no matching package|error: failed to (get|load source for|download|select a version)"
            r"|in offline mode"
        ),
    ),
    (
        "requirement",
        re.compile(
            r"^\s*ModuleNotFoundError: |Could not find a version that satisfies|No matching distribution found"
            r"|BackendUnavailable: Cannot|Some build dependencies for .* (are missing|conflict)"
        ),
    ),
    (
        "tool missing",
        re.compile(
            r"No CMAKE_\w+ could be found|CUDA_HOME environment variable is not set|can't find Rust compiler"
            r"|error: command '.*' failed: No such file|: (command )?not found$|unable to execute '|Failed to find nvcc"
            r"|Could not find compiler set in environment variable"
        ),
    ),
    (
        "not writable",
        re.compile(r"(error|Error)\b.*(Permission denied|Read-only file system)|: Read-only file system$"),
    ),
    ("ptxas", re.compile(r"^\s*ptxas (error|fatal)|^\s*ptxas .*; (error|fatal)")),
    (
        "link",
        re.compile(r"cannot find -l|undefined reference to|undefined symbol: |multiple definition of|ld returned"),
    ),
    (
        "compile",
        re.compile(r"\S:\d+(:\d+)?: error:|\S\(\d+\): (catastrophic )?error( #\d+(-D)?)?:|^\s*error(\[E\d+\]): "),
    ),
)
SECOND: tuple[tuple[str, Pattern[str]], ...] = (
    ("cmake", re.compile(r"^\s*CMake Error")),
    ("build", re.compile(r"^\s*ninja: error|^\s*make(\[\d+\])?: \*\*\*|^environment: ")),
    (
        "python",
        re.compile(
            r"^\s*(?!subprocess\.)([A-Za-z_]\w*\.)*\w*(Error|Exception|Interrupt|Exit)(:|$)(?! Error compiling obj)"
        ),
    ),
    ("compile", re.compile(r"^\s*error: command '.*' failed|^\s*(\S+ )?fatal( error)? ?: ")),
    ("build", re.compile(r"^\s*error: ", re.IGNORECASE)),
    (
        "build",
        re.compile(
            r"^\s*ninja: build stopped|^\s*subprocess\.\w+(Error|Expired): |^\s*RuntimeError: Error compiling obj"
        ),
    ),
)
# Kinds that a compiler's or a linker's own command brings about, so that the one before them in the log is theirs.
OF_A_COMMAND = frozenset(
    {"killed", "missing header", "unknown architecture", "host compiler", "compiler crash", "disk full", "ptxas"}
    | {"link", "compile", "crates"}
)

_STEP = re.compile(r"^\s*\[\d+/\d+\]")
_FAILED = re.compile(r"^\s*FAILED: (\[code=\d+\] ?)?")
_FRAME = re.compile(r'^\s*File ".*", line \d+')  # of a traceback; its source stands below
_STOPPED = re.compile(r"^\s*ninja: build stopped")
_CMAKE_WARNING = re.compile(r"^(\s*)CMake (Deprecation )?Warning")
_PLACE = re.compile(r"^\s*([^\s:()\[\]']+[.][\w+]+)(?::(\d+)|\((\d+)\))")
_MESSAGE = 4  # lines of a CMake message that are shown
_BEFORE = 400  # lines before the cause in which its command is looked for
_LONGEST = 8000  # characters of a line that are looked at; commands are long
_LONG = 400  # characters of one line that people get to see


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a build failed.

    ``kind`` is one of :data:`FIRST` or :data:`SECOND`; ``line`` counts from 1; ``lines`` are the log's.  ``command`` is
    the whole command that failed, "" where the log names none; ``file`` the file that it was about, with its line where
    that is said.
    """

    kind: str
    line: int
    lines: tuple[str, ...]
    command: str = ""
    file: str = ""

    def __str__(self) -> str:
        text = " ".join(" ".join(text.split()) for text in self.lines if text.strip())
        return text if len(text) <= _LONG else f"{text[:_LONG]} …"

    def brief_command(self) -> str:
        """The command as people know it again; "" where there is none."""
        return brief(self.command)


def first_cause(log: Iterable[str]) -> Cause | None:
    """The first line that says why a build failed; None where no line is known to."""
    lines = [_plain(line) for line in log]
    told = _told(lines)
    block = _failed_block(lines)
    found = _look([pair for pair in told if pair[0] in block]) if block else None
    if found is None:
        block = range(0)
        found = _look(told)
    if found is None:
        return None
    number, kind = found
    command = lines[block.start].strip() if block else ""
    if not block and kind in OF_A_COMMAND:
        command = _command_before(lines, number)
    message = _message(lines, number) if kind == "cmake" else ()
    return Cause(kind, number, (lines[number - 1], *message), command, _file(lines[number - 1], command))


def _told(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Lines that may be a cause, each with its number: no command, no step, nothing known as harmless."""
    told: list[tuple[int, str]] = []
    warned = -1  # how far a CMake warning is indented whose text is being read; -1: none
    for number, text in enumerate(lines, 1):
        if warned >= 0 and text.strip() and _indent(text) <= warned:
            warned = -1
        if match := _CMAKE_WARNING.match(text):
            warned = len(match[1])
        if warned >= 0 or _STEP.match(text) or _FAILED.match(text) or is_command(text):
            continue
        above = lines[number - 2] if number > 1 else ""
        if _FAILED.match(above) or (_FRAME.match(above) and _indent(text) > _indent(above)):
            continue  # the command that failed, or the source of a traceback
        if not any(harm.search(text) for harm in HARMLESS):
            told.append((number, text))
    return told


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _failed_block(lines: Sequence[str]) -> range:
    """Numbers of the lines that the first failed command of Ninja printed; its command stands before them.

    The range's start is the command's index in ``lines`` (numbers count from 1); empty where nothing failed so.
    """
    begin = next((number for number, text in enumerate(lines, 1) if _FAILED.match(text)), 0)
    if not begin or begin >= len(lines):
        return range(0)
    for number in range(begin + 2, len(lines) + 1):
        text = lines[number - 1]
        if _STEP.match(text) or _FAILED.match(text) or _STOPPED.match(text):
            return range(begin, number)
    return range(begin, len(lines) + 1)


def _look(told: Sequence[tuple[int, str]]) -> tuple[int, str] | None:
    found = _first(told, FIRST)
    for row in SECOND:
        found = found or _first(told, (row,))
    return found


def _first(told: Sequence[tuple[int, str]], rows: tuple[tuple[str, Pattern[str]], ...]) -> tuple[int, str] | None:
    return next(((number, kind) for number, text in told for kind, pattern in rows if pattern.search(text)), None)


def _command_before(lines: Sequence[str], number: int) -> str:
    """The nearest command line before a cause."""
    for text in reversed(lines[max(0, number - 1 - _BEFORE) : number - 1]):
        bare = _STEP.sub("", text).strip()
        if is_command(bare):
            return bare
    return ""


def _message(lines: Sequence[str], number: int) -> tuple[str, ...]:
    """What CMake says below ``CMake Error at FILE:LINE (message):``, up to the end of its first paragraph."""
    found: list[str] = []
    for text in lines[number : number + 2 * _MESSAGE]:
        ended = found and not text.strip() and not found[-1].rstrip().endswith(":")
        if "Call Stack" in text or ended or len(found) == _MESSAGE:
            break
        if text.strip():
            found.append(text)
    return tuple(found)


def _file(text: str, command: str) -> str:
    place = _PLACE.match(text)
    if place:
        return f"{place[1]}:{place[2] or place[3]}"
    return source_of(command) or made_by(command)


def _plain(line: str) -> str:
    """Without the colours that compilers and pip write, and no longer than a cause is."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line[:_LONGEST]).rstrip()
