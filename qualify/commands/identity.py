"""``qualify identity A --against B``: is A the build that B names?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualify.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from qualify.content import Content
    from qualify.facts import WheelFacts
    from qualify.identity import Grade

HELP = "compare two builds by their commit: version strings, wheels, environments or pins"

IDENTITY_VERSION = 1
_SHOWN = 10  # files of one kind
#: How an identity can be learned, the lowest first; the words of :class:`qualify.identity.Grade`.
GRADES = ("self-reported", "metadata", "version-module", "import", "content", "bytes")


def configure(parser: argparse.ArgumentParser) -> None:
    what = (
        "*.whl, *.yaml (its pin), *.md (its block), http(s)://… (its /version), a folder or an interpreter (that "
        "environment), else a version string"
    )
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("--against", required=True, metavar="B", help="the same; what A has to be")
    parser.add_argument("--label", action="append", default=[], help="a declared label in a local version; repeatable")
    parser.add_argument("--accept-mode", action="append", default=[], metavar="MODE", help="build modes that count")
    parser.add_argument("--accept-toolkit", action="append", default=[], metavar="CUNNN", help="toolkits that count")
    parser.add_argument("--project", default="", metavar="NAME", help="the distribution to look for in an environment")
    parser.add_argument(
        "--at-least",
        choices=GRADES,
        default=GRADES[0],
        help="how A must have been learned; one that was learned in a lower way is not decided (default: any)",
    )
    parser.add_argument(
        "--against-source",
        type=Path,
        metavar="TREE",
        help="hold every Python file of the wheel A against this source tree; then A is learned by content",
    )
    parser.add_argument(
        "--generated",
        action="append",
        default=[],
        metavar="PATTERN",
        help="Python files that no tree holds, beside project.generated of a matrix that is named; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(arguments: argparse.Namespace) -> ExitCode:
    from qualify.identity import Decision, Grade, Policy, compare, decide
    from qualify.matrix.model import BUILD_MODES

    for mode in arguments.accept_mode:
        if mode not in BUILD_MODES:
            raise UsageError(f'"{mode}" is no build mode', where="--accept-mode", expected=", ".join(BUILD_MODES))
    wheels = _Wheels()
    (a, b), generated = _identities((arguments.a, arguments.against), arguments.label, arguments.project, wheels)
    content = None
    if arguments.against_source is not None:
        listed = {**generated, **dict.fromkeys(arguments.generated, "")}
        content = _content(arguments.a, arguments.against_source, listed, wheels)
        if content.same:
            a = replace(a, grade=max(a.grade, Grade.CONTENT))
    modes = tuple(arguments.accept_mode) or b.accepts or Policy().build_modes
    decision = decide(a, b, Policy(modes, tuple(arguments.accept_toolkit)))
    if content is not None and not content.same and decision.accepted is not False:
        word = "differs from" if content.same is False else "could not be held against"
        decision = Decision(content.same, f"its content {word} {content.tree}: {content.summary}")
    wanted = next(grade for grade in Grade if _word(grade) == arguments.at_least)
    if decision.accepted and a.grade < wanted:
        decision = Decision(None, f"A was learned by {_word(a.grade)}, and {_word(wanted)} is asked at least")
    comparison = compare(a, b)
    code = {True: ExitCode.OK, False: ExitCode.REJECTED, None: ExitCode.UNVERIFIED}[decision.accepted]
    if arguments.json:
        answer = {
            "version": IDENTITY_VERSION,
            "a": _plain(a),
            "b": _plain(b),
            "result": comparison.result.value,
            "reason": comparison.reason,
            "differences": [asdict(difference) for difference in comparison.differences],
            "accepted": decision.accepted,
            "decision": decision.reason,
            "content": None if content is None else {"same": content.same, **asdict(content)},
        }
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
        return code
    lines = [f"{comparison.result.value}: {comparison.reason}"]
    for difference in comparison.differences:
        for value, origin in ((difference.a, difference.a_origin), (difference.b, difference.b_origin)):
            lines.append(f"  {difference.field}: {value or 'none'} ({origin})")
    if content is not None:
        lines.append(f"content: {content.summary}")
        lines += _listed(content)
    word = {True: "accepted", False: "refused", None: "not decided"}[decision.accepted]
    lines.append(f"{word}: {decision.reason}")
    lines += [f"note: {one.origin}: {note}" for one in (a, b) for note in one.notes]
    sys.stdout.write("\n".join(lines) + "\n")
    return code


def _listed(content: Content) -> list[str]:
    """The files that differ, the first of each kind, and patterns that fit nothing."""
    lines = []
    for word, paths in (
        ("changed", content.changed),
        ("not in the tree", content.unknown),
        ("left out", content.left_out),
        ("not read", content.unread),
    ):
        lines += [f"  {word}: {path!r}" if not path.isprintable() else f"  {word}: {path}" for path in paths[:_SHOWN]]
        if len(paths) > _SHOWN:
            lines.append(f"  {word}: {len(paths) - _SHOWN} more")
    return [*lines, *(f"  nothing fits {pattern}" for pattern in content.unused)]


def _content(text: str, tree: Path, generated: Mapping[str, str], wheels: _Wheels) -> Content:
    from qualify.content import compare_with_tree

    if not text.endswith(".whl"):
        raise UsageError("holds no files", where=text, expected="a wheel as A, with --against-source")
    return compare_with_tree(wheels.facts(Path(text)), tree, generated)


class _Wheels:
    """The facts of the wheels of one run: each is read once, though it is asked for its version and its content."""

    def __init__(self) -> None:
        self._read: dict[Path, WheelFacts] = {}

    def facts(self, path: Path) -> WheelFacts:
        from qualify.opening import read_wheel

        if path not in self._read:
            self._read[path] = read_wheel(path)
        return self._read[path]


def _plain(identity: Any) -> dict[str, Any]:
    value = asdict(identity)
    value["grade"] = _word(identity.grade)
    return value


def _word(grade: Grade) -> str:
    return grade.name.lower().replace("_", "-")


def _identities(
    texts: Sequence[str], labels: Sequence[str], project: str, wheels: _Wheels
) -> tuple[list[Any], Mapping[str, str]]:
    """Both sides, and which Python files no tree holds; a matrix on one side says so, where the other's version module
    lies, and which labels there are."""
    from qualify.matrix import LoadedMatrix, load

    matrices: dict[str, LoadedMatrix] = {text: load(Path(text)) for text in texts if text.endswith((".yaml", ".yml"))}
    known = next(iter(matrices.values()), None)
    declared = [*labels, *(t.label for m in matrices.values() for t in m.matrix.targets.values() if t.label)]
    module = known.matrix.project.version_module if known else ""
    name = project or (known.matrix.project.name if known else "")
    generated = known.matrix.project.generated if known else {}
    return [_identity(text, declared, module, name, matrices.get(text), wheels) for text in texts], generated


def _identity(text: str, labels: Sequence[str], module: str, project: str, matrix: Any, wheels: _Wheels) -> Any:
    from qualify.identity import (
        identity_of_block,
        identity_of_pin,
        identity_of_version,
        identity_of_wheel,
        with_receipt,
    )

    if matrix is not None:
        return identity_of_pin(matrix.matrix, origin=f"pin of {Path(text).name}")
    if text.endswith(".whl"):
        from qualify import provenance

        facts = wheels.facts(Path(text))
        return with_receipt(identity_of_wheel(facts, module, labels), facts, provenance.beside(Path(text)))
    if text.startswith(("http://", "https://")):
        from qualify.served import identity_of_server

        return identity_of_server(text, labels)
    if text.endswith(".md"):
        return identity_of_block(_block(Path(text), project), labels, origin=f"block of {Path(text).name}")
    if _is_environment(Path(text)):
        from qualify.environments import identity_of_environment

        return identity_of_environment(Path(text), project, module, labels)
    return identity_of_version(text, labels)


def _block(path: Path, project: str) -> Any:
    from qualify import pinblock

    try:
        with path.open("rb") as stream:
            data = stream.read(pinblock.MAX_SIZE + 1)
    except OSError as error:
        raise UsageError(
            error.strerror or str(error), where=str(path), expected="a Markdown file with a pin"
        ) from error
    return pinblock.read(data, str(path), project)


def _is_environment(path: Path) -> bool:
    """A folder with an interpreter, or an interpreter: a folder that is called like a version is neither."""
    if path.is_dir():
        return any((path / "bin").glob("python*"))
    return path.name.startswith("python") and path.is_file()
