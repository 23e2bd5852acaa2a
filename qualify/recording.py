"""Write what was measured of a qualified wheel into ``measured:`` of the matrix, and nothing else of it.

Only proven evidence comes this far, and the values are measured here and now; there is no way to hand them in.  A
value that stands there already is compared and never overwritten: a difference is drift.

The file keeps every byte outside the new entry.  The YAML reader is used to find the place, the entry is put in
as text, and the result is read again and held against what was meant before it is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from qualify import evidence as statements
from qualify import identity, matrix, measuring
from qualify.controls import Controls
from qualify.errors import AssayError, ConfigurationError, DriftError, RefusedError, UsageError
from qualify.evidence import Demands, Evidence, ReadProgress
from qualify.files import locked, write_atomic
from qualify.matrix import LoadedMatrix
from qualify.matrix.model import Measured
from qualify.measuring import Observation
from qualify.probes import Runner
from qualify.report import Verdict

_LOCK_SECONDS = 600.0  # a recorder proves and measures while it holds the matrix
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_ORDER = tuple(Measured.model_fields)
# What an entry says beside the values: how and when they were learned.  A second measurement differs in these.
_CIRCUMSTANCES = ("how", "when")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of it: the entry as it stands in the matrix now."""

    target: str
    path: Path
    measured: Measured
    new: bool  # False: the same values stood there already, and the file was not touched
    observation: Observation
    vouched: str  # who signed the evidence, or "unsigned"


def record(
    wheel: Path,
    target: str,
    *,
    matrix_path: Path | None = None,
    evidence_path: Path | None = None,
    runner: Runner | None = None,
    dependencies: bool = True,
    find_links: Sequence[Path] = (),
    accept_overridden: bool = False,
    control: Path | None = None,
    demands: Demands | None = None,
    now: datetime,
    progress: ReadProgress | None = None,
) -> Recorded:
    """Prove the evidence, measure the wheel, and write the values for ``target``.

    :param accept_overridden: take a wheel that only waivers let through; the entry says so.
    :param control: where the control that the matrix names lies on this machine; None: where the matrix says.
    :param demands: which signature and age the evidence must have; None: none is looked at.
    :param runner: where the wheel is installed and imported; None: nothing runs, the version module counts.
    :raises RefusedError: the evidence proves nothing, or the pin doesn't accept what was measured, or the matrix
        changed meanwhile; nothing was written.
    :raises DriftError: other values stand there; nothing was written.
    """
    if not wheel.is_file():
        raise UsageError("no such file", where=str(wheel), action="name a wheel")
    # Behind a link it is one file with one lock.
    path = matrix.load(matrix_path).path.resolve()
    _writable_matrix(path)
    with locked(path, timeout=_LOCK_SECONDS, purpose="qualify record"):
        before = path.read_bytes()
        loaded = matrix.load(path)
        if target not in loaded.matrix.targets:
            raise UsageError(f"target {target!r} is not in the matrix", where=str(path), action="see --target")
        document = statements.load(evidence_path or statements.path_for(wheel, target))
        if document.target != target:
            raise RefusedError(f"evidence for {document.target}", where=wheel.name, expected=f"evidence for {target}")
        evidence = statements.prove(
            document,
            wheel,
            loaded,
            progress=progress,
            accept_overridden=accept_overridden,
            controls=Controls(loaded, at=control).of_target,
            demands=demands,
        )
        observation = _measure(
            evidence, loaded, runner=runner, dependencies=dependencies, find_links=find_links, now=now
        )
        _accepted(observation, evidence, loaded)
        measured = _entry(observation, evidence)
        known = loaded.matrix.measured.get(target)
        if known is not None:
            _same(known, measured, target, path)
            return Recorded(target, path, known, False, observation, evidence.voucher.state)
        after = insert(before.decode("utf-8"), target, measured).encode("utf-8")
        if path.read_bytes() != before:
            raise RefusedError("the matrix changed since it was read", where=str(path), action="look at it, run again")
        write_atomic(path, after)
        return Recorded(target, path, measured, True, observation, evidence.voucher.state)


def to_json(recorded: Recorded) -> dict[str, Any]:
    """What ``record --json`` prints."""
    return {
        "version": measuring.OBSERVATION_VERSION,
        "target": recorded.target,
        "new": recorded.new,
        "evidence": recorded.vouched,
        "measured": recorded.measured.model_dump(mode="json"),
        "observation": measuring.to_json(recorded.observation),
    }


def lines(recorded: Recorded) -> list[str]:
    """The same for people."""
    state = "recorded" if recorded.new else "recorded already, with the same values"
    values = recorded.measured.model_dump(mode="json")
    head = f"{recorded.path.name}: measured.{recorded.target}: {state}"
    return [
        head,
        f"  evidence: {recorded.vouched}",
        *(f"  {name}: {value or 'none'}" for name, value in values.items()),
    ]


def _writable_matrix(path: Path) -> None:
    if Path(__file__).parent in path.parents:
        raise RefusedError(
            "this is the copy of the matrix that came with the tool",
            where=str(path),
            expected="a matrix of yours",
            action="name one with --matrix",
        )


def _measure(
    evidence: Evidence,
    loaded: LoadedMatrix,
    *,
    runner: Runner | None,
    dependencies: bool,
    find_links: Sequence[Path],
    now: datetime,
) -> Observation:
    target = loaded.matrix.targets[evidence.target]
    labels = (target.label,) if target.label else ()
    subject = measuring.subject_of(evidence.facts, loaded.matrix)
    if runner is None:
        return measuring.read(evidence.facts, subject, now=now, machine=target.machine, labels=labels)
    return measuring.install(
        evidence.wheel,
        evidence.facts,
        subject,
        runner,
        now=now,
        dependencies=dependencies,
        find_links=find_links,
        machine=target.machine,
        labels=labels,
    )


def _accepted(observation: Observation, evidence: Evidence, loaded: LoadedMatrix) -> None:
    """What the pin takes: its own project, its own commit, its build modes, values that were really seen."""

    def refuse(what: str, expected: str, action: str = "") -> AssayError:
        return RefusedError(what, where=evidence.wheel.name, expected=expected, action=action)

    asserted = loaded.matrix
    if evidence.facts.name != asserted.project.name:
        raise refuse(f"a wheel of {evidence.facts.name}", f"a wheel of the matrix's project, {asserted.project.name}")
    if not observation.conclusive:
        raise refuse(f"the measurement is inconclusive: {observation.reason}", "values that were seen")
    seen = _identity(observation, evidence)
    if seen.build_mode not in asserted.pin.build_modes:
        raise refuse(
            f"build mode {seen.build_mode!r}",
            f"one of {', '.join(asserted.pin.build_modes)} (pin.build_modes)",
            "build it from source at the pin",
        )
    if observation.dirty:
        raise refuse(f"built from a changed tree ({observation.dirty})", "the pin's commit, unchanged")
    answer = identity.matches_pin(seen, asserted.pin)
    if answer is not identity.CommitMatch.SAME:
        pinned = identity.identity_of_pin(asserted)
        raise refuse(
            f"commit {seen.commit or 'not stated'}{f', sdist {seen.sdist[:12]}' if seen.sdist else ''}: {answer}",
            f"the pin's, {pinned.commit or f'sdist {pinned.sdist[:12]}'}",
            "record a wheel of the pin",
        )


def _identity(observation: Observation, evidence: Evidence) -> identity.Identity:
    """What was measured, and what the receipt of the build adds: the source, and that all of it was compiled there."""
    measured = identity.Identity(
        observation.distribution_version,
        evidence.wheel.name,
        identity.Grade.METADATA,
        commit=observation.commit,
        commit_origin=observation.commit_origin,
        build_mode=observation.build_mode,
    )
    return identity.with_receipt(measured, evidence.facts, evidence.receipt)


def _entry(observation: Observation, evidence: Evidence) -> Measured:
    # Whether an import ran in a container or on somebody's host is part of how it was learned.
    place = f", {observation.where}" if observation.grade == measuring.IMPORT else ""
    seen = _identity(observation, evidence)
    return Measured(
        runtime_version=observation.runtime_version,
        distribution_version=observation.distribution_version,
        build_mode=seen.build_mode,
        commit=observation.commit or seen.commit,
        sha256=observation.sha256,
        toolkit=observation.toolkit,
        torch=observation.torch,
        flashinfer=observation.flashinfer,
        how=observation.how + place,
        when=observation.when,
        verdict="overridden" if evidence.report.verdict is Verdict.OVERRIDDEN else "qualified",
    )


def _same(known: Measured, measured: Measured, target: str, path: Path) -> None:
    lines = []
    for name in _ORDER:
        old, new = getattr(known, name), getattr(measured, name)
        if old != new and name not in _CIRCUMSTANCES:
            lines.append(f"{name}: recorded {old!r}, measured {new!r}")
    if lines:
        raise DriftError(
            "; ".join(lines),
            where=f"{path.name}: measured.{target}",
            expected="the recorded values",
            action="find out which of the two is right; nothing was written",
        )


# -- the text --------------------------------------------------------------------------------------------------


def insert(text: str, target: str, measured: Measured) -> str:
    """The matrix's text with one more entry under ``measured:``; every other character stays.

    :raises ConfigurationError: the file is written in a way that leaves no safe place for it.
    """
    values = {name: str(getattr(measured, name)) for name in _ORDER}
    if measured.verdict == "qualified":
        del values["verdict"]  # an entry says it only where it is not so
    for name, value in values.items():
        if not _PRINTABLE.fullmatch(value):
            raise RefusedError(f"{name} is {value!r}", where=target, expected="printable ASCII")
    root = _compose(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    key, node = _child(root, "measured")
    if node is None:
        result = _after(text, _end(root), _block("measured", {target: values}, 0, newline), newline)
    elif key is not None and isinstance(node, MappingNode) and node.value and node.flow_style:
        result = _into_flow(text, node, target, values)
    elif key is not None and isinstance(node, MappingNode) and node.value:
        indent = node.value[0][0].start_mark.column
        result = _after(text, _end(node), _block(target, values, indent, newline), newline)
    elif key is not None and (isinstance(node, MappingNode) or node.tag == "tag:yaml.org,2002:null"):
        start, end = node.start_mark.index, node.end_mark.index
        # ``measured: {}  # a comment``: the braces go, the comment stays on its line.
        cut = text[:start].rstrip(" ") + text[end:] if end > start else text
        place = key.end_mark.index
        result = _after(cut, place, _block(target, values, key.start_mark.column + 2, newline), newline)
    else:
        raise _no_place("measured is no mapping")
    _verify(text, result, target, values)
    return result


def _compose(text: str) -> MappingNode:
    try:
        root = YAML(typ="rt", pure=True).compose(text)
    except YAMLError as error:
        raise _no_place(f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(root, MappingNode) or root.flow_style:
        raise _no_place("the top level is no block of keys")
    return root


def _child(root: MappingNode, name: str) -> tuple[Node | None, Node | None]:
    for key, value in root.value:
        if isinstance(key, ScalarNode) and key.value == name:
            return key, value
    return None, None


def _end(node: Node) -> int:
    """Where the last scalar or flow collection below a block node ends: its own mark runs on over comments."""
    while isinstance(node, CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        raise _no_place("the entry before it is a block of text")
    return int(node.end_mark.index)


def _after(text: str, place: int, block: str, newline: str) -> str:
    """Put ``block`` on the lines after the one that holds ``place``."""
    end = text.find("\n", place)
    if end < 0:
        return text + newline + block
    return text[: end + 1] + block + text[end + 1 :]


def _block(key: str, content: Mapping[str, object], indent: int, newline: str) -> str:
    lines = f"{' ' * indent}{key}:{newline}"
    for name, value in content.items():
        if isinstance(value, Mapping):
            lines += _block(name, value, indent + 2, newline)
        else:
            # A JSON string of printable ASCII is a double-quoted YAML string.
            lines += f"{' ' * (indent + 2)}{name}: {json.dumps(value)}{newline}"
    return lines


def _into_flow(text: str, node: MappingNode, target: str, values: Mapping[str, str]) -> str:
    place = int(node.value[-1][1].end_mark.index)
    inner = ", ".join(f"{name}: {json.dumps(value)}" for name, value in values.items())
    return f"{text[:place]}, {target}: {{{inner}}}{text[place:]}"


def _verify(before: str, after: str, target: str, values: Mapping[str, str]) -> None:
    """Read both texts: nothing may differ but the one entry, and what is outside ``measured`` not at all."""
    plain = YAML(typ="safe", pure=True)
    try:
        old, new = plain.load(before), plain.load(after)
    except YAMLError as error:
        raise _no_place(f"the entry would break it: {' '.join(str(error).split())}") from error
    expected = {**(old.get("measured") or {}), target: dict(values)}
    if new.get("measured") != expected or {**old, "measured": None} != {**new, "measured": None}:
        raise _no_place("the entry would change something else")


def _no_place(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"no safe place for the entry: {why}",
        where="measured",
        expected="`measured: {}` or a block of entries at the end of the file",
        action="write it so; nothing was changed",
    )
