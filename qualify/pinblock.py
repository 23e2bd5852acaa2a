"""The ``key = value`` block by which other projects' harnesses name a pin in a Markdown file that people also read.

::

    vllm_commit = 5559679229bc961848b121ccdeaa8fa5d79bec98
    vllm_runtime_version = 0.23.1rc1.dev1511+g555967922
    vllm_distribution_version = 0.23.1rc1.dev1511+g555967922.precompiled
    flashinfer_version = 0.6.15.post1

The four lines stand one below the other, in any order, fenced, indented or quoted as Markdown has it; the word before
``_commit`` is the project's.  The file is bytes: lines end at ``\\n`` and nowhere else, and what is outside the values
is never touched.

A pin that is a released wheel (``0.33.0``) has no commit in its runtime version.  Its block says so by a fifth line,
which a person writes and nothing here ever does::

    vllm_asserted_commit = 4ba787ec9…  (40 digits)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from qualify.errors import ConfigurationError, RefusedError

MAX_SIZE = 16 << 20  # bytes of a file
COMPANION = "flashinfer_version"
ASSERTED = "asserted_commit"  # after the project's word; a line that may be there
_OWN = ("commit", "runtime_version", "distribution_version")
# What Markdown may put before a line of a block: blanks, and the marks of a quotation.
_LINE = re.compile(rb"([ \t>]*)([A-Za-z][A-Za-z0-9_]*)([ \t]*=[ \t]*)([^\r]*?)([ \t]*\r?)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PLAIN = re.compile(rb"[\x21-\x7e]+")
# A line that opens or closes a fence: the mark, and what stands behind it (nothing, where it closes one).
_FENCE = re.compile(rb"[ \t>]*(`{3,}|~{3,})([^\r]*)\r?")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class PinBlock:
    """The four values and where they stand.  Line numbers count from 1."""

    project: str  # "vllm": the word before "_commit"
    commit: str  # 40 hex digits
    runtime_version: str
    distribution_version: str
    flashinfer_version: str
    first_line: int
    last_line: int
    asserted_commit: str = ""  # 40 hex digits that a person stands for; "" where the runtime version names the commit

    def values(self) -> dict[str, str]:
        """Key -> value of the four lines that are measured, in the usual order."""
        own = {f"{self.project}_{name}": getattr(self, name) for name in _OWN}
        return {**own, COMPANION: self.flashinfer_version}


@dataclass(frozen=True, slots=True)
class _Found:
    line: int
    value: bytes
    start: int  # offset of the value in the file
    before: bytes  # what Markdown has before the key


def read(data: bytes, where: str, project: str = "") -> PinBlock:
    """The block of a file.

    :param where: the file's name, for what is said.
    :param project: the word before ``_commit``; "" takes the one that there is.
    :raises ConfigurationError: there is none, or two; a key is missing or repeated; the lines don't stand together; a
        value is no version (PEP 440), no commit, or contradicts the other; each with the line.
    """
    prefix, found = _lines(data, where, project)
    commit, runtime, distribution = (_value(found[f"{prefix}_{name}"], where) for name in _OWN)
    lines = [each.line for each in found.values()]
    companion = _value(found[COMPANION], where)
    asserted = found.get(f"{prefix}_{ASSERTED}")
    by_hand = _value(asserted, where) if asserted else ""
    block = PinBlock(prefix, commit, runtime, distribution, companion, min(lines), max(lines), by_hand)
    for key, value in {**block.values(), **({f"{prefix}_{ASSERTED}": by_hand} if by_hand else {})}.items():
        line = found[key].line
        if key.endswith("_commit"):
            if not _COMMIT.fullmatch(value):
                raise _refuse(f"{key} is {value!r}", where, line, "40 lower-case hex digits")
            continue
        try:
            Version(value)
        except (InvalidVersion, ValueError) as error:
            raise _refuse(f"{key} is {value!r}, which is no version", where, line, "a version of PEP 440") from error
    if why := misfit(block.runtime_version, block.commit, block.asserted_commit):
        line = found[f"{prefix}_runtime_version"].line
        raise _refuse(why, where, line, f"+g{block.commit[:9]} in {prefix}_runtime_version")
    return block


def misfit(runtime_version: str, commit: str, asserted: str = "") -> str:
    """Why a runtime version can't stand in a block beside a commit; "" where it can.

    A permanent rule of the harnesses: it carries a ``+g<sha>`` segment that prefixes the commit.  A plain release
    (``0.26.0``) carries none, and with it in the block every build would be refused, the pin's own included.

    :param asserted: the block's own asserted commit; with it, and only where it is the commit, a plain release may
        stand there.
    """
    if asserted and asserted != commit:
        return f"the block asserts commit {asserted}, and names {commit}"
    segments = (Version(runtime_version).local or "").split(".")
    named = [segment[1:] for segment in segments if re.fullmatch(r"g[0-9a-f]{7,40}", segment)]
    if not named and asserted:
        return ""
    if not named:
        return f"the runtime version {runtime_version} names no commit"
    if any(not commit.startswith(each) for each in named):
        return f"the runtime version {runtime_version} names commit {named[0]}, and the block {commit}"
    return ""


def replace(data: bytes, where: str, values: Mapping[str, str], project: str = "") -> bytes:
    """The file with other values in its block; every byte outside the values stays, line ends and blanks included.

    :param values: key -> value; keys that are not given keep theirs.
    :raises ConfigurationError: as :func:`read` says, of the file as it was.
    :raises RefusedError: the new values are none that a block may hold; nothing is returned.
    """
    before = read(data, where, project).values()
    _, found = _lines(data, where, project)
    after = data
    for key, line in sorted(found.items(), key=lambda item: -item[1].start):
        if key in values and key in before:  # what a person asserts is no value of ours
            value = values[key].encode("utf-8")
            after = after[: line.start] + value + after[line.start + len(line.value) :]
    try:
        block = read(after, where, project)
    except ConfigurationError as error:
        what = f"the new values make no block: {error.what}"
        raise RefusedError(what, where=error.where, expected=error.expected) from error
    if block.values() != {**before, **values}:
        # A key that it hasn't, or a value with a line of its own.
        wrong = sorted(key for key, value in values.items() if block.values().get(key) != value)
        raise RefusedError(f"the new values make no block: {', '.join(wrong)}", where=where, expected="one line each")
    return after


def _lines(data: bytes, where: str, project: str) -> tuple[str, dict[str, _Found]]:
    """The project's word, and each key of the block with its place."""
    if len(data) > MAX_SIZE:
        raise _refuse(f"is larger than {MAX_SIZE >> 20} MiB", where, 0, "a Markdown file")
    rows = list(_rows(data))
    prefix = project.replace("-", "_") or _prefix([key for key, _ in rows], where)
    wanted = {f"{prefix}_{name}" for name in _OWN} | {COMPANION}
    found: dict[str, _Found] = {}
    for key, row in rows:
        if key not in wanted and key != f"{prefix}_{ASSERTED}":
            continue
        if key in found:
            what = f"{key} stands here and in line {found[key].line}"
            raise _refuse(what, where, row.line, "one block, each key once", "remove one of them")
        found[key] = row
    if missing := sorted(wanted - found.keys()):
        if found.keys() <= {COMPANION, f"{prefix}_{ASSERTED}"}:
            raise _refuse(f"no block of {prefix}", where, 0, f"{prefix}_commit = … and three lines more")
        line = max(row.line for row in found.values())
        raise _refuse(f"the block lacks {', '.join(missing)}", where, line, "all four keys", "complete it")
    lines = sorted(row.line for row in found.values())
    if lines[-1] - lines[0] != len(found) - 1:
        raise _refuse(
            "the lines of the block don't stand together", where, lines[0], "four lines, nothing between them"
        )
    if len({row.before for row in found.values()}) > 1:
        raise _refuse("the lines of the block are indented differently", where, lines[0], "one indentation")
    if opened := _open_fence(data, lines[-1]):
        what = f"the block ends with the file, and the fence of line {opened} is not closed: it is truncated"
        raise _refuse(what, where, lines[-1], "the closing line of the fence", "put back what is missing")
    return prefix, found


def _open_fence(data: bytes, line: int) -> int:
    """The line that opens the fence around ``line``, where nothing closes it before the file ends; else 0."""
    opened, mark = 0, b""
    for number, text in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
        match = _FENCE.fullmatch(text)
        if match is None:
            continue
        if not opened:
            if b"`" in match[2] and match[1].startswith(b"`"):
                continue  # code in a line of text
            if number > line:
                return 0
            opened, mark = number, match[1]
        elif match[1].startswith(mark) and not match[2].strip():
            opened = 0
    return opened if opened <= line else 0


def _rows(data: bytes) -> list[tuple[str, _Found]]:
    rows, start = [], len(_BOM) if data.startswith(_BOM) else 0
    for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
        match = _LINE.fullmatch(line)
        if match:
            rows.append((match[2].decode("ascii"), _Found(number, match[4], start + match.start(4), match[1])))
        start += len(line) + 1
    return rows


def _prefix(keys: list[str], where: str) -> str:
    found = sorted({key.removesuffix("_runtime_version") for key in keys if key.endswith("_runtime_version")})
    if len(found) > 1:
        what = f"blocks of several projects: {', '.join(found)}"
        raise _refuse(what, where, 0, "one of them", "say which one (--project)")
    if not found:
        raise _refuse("no block: no line is PROJECT_runtime_version = …", where, 0, "the four lines of a pin")
    return found[0]


def _value(row: _Found, where: str) -> str:
    if not _PLAIN.fullmatch(row.value):
        raise _refuse(f"{row.value[:60]!r} is no value", where, row.line, "one word of printable ASCII")
    return row.value.decode("ascii")


def _refuse(what: str, where: str, line: int, expected: str, action: str = "") -> ConfigurationError:
    return ConfigurationError(what, where=f"{where}:{line}" if line else where, expected=expected, action=action)
