"""The end of the line in one call: a small matrix, wheels that qualify for its targets, and their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from qualify import evidence, judging, matrix
from qualify.matrix.model import Profile
from qualify.opening import read_wheel
from tests.support.wheel import COMMIT, write_wheel

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

TARGETS = {"x86_64-sm90": "sm_90", "aarch64-sm110": "sm_110", "aarch64-sm121": "sm_121"}

MATRIX = f"""\
# The head comment stays.
version: 1

project: {{name: axpy, import_name: axpy, version_module: axpy/_version.py}}  # so does this one

pin:
  repository: 'axpy.bundle'   # single quotes and blanks stay
  requirement: ""
  source: {{git: axpy.bundle}}
  commit: "{COMMIT.removeprefix("g")}"

extensions:
  axpy/_C: {{presence: required, code: native}}
  axpy/_host: {{presence: required, code: host}}

targets:
""" + "".join(
    f"""\
  {target}:
    machine: {target.partition("-")[0]}
    compute_capability: "{device}"
    python: ["3.11", "3.13"]
    base: {{bootstrap: debian-12}}
    toolkit: "13.0"
    arch_list: "{device}"
    ceilings: {{glibc: "2.39", glibcxx: "3.4.33"}}
    driver: {{oldest_cuda: "13.0"}}
"""
    for target, device in (("x86_64-sm90", "9.0"), ("aarch64-sm110", "11.0"), ("aarch64-sm121", "12.1"))
)

INIT = "from ._version import __version__\n"


@dataclass(frozen=True)
class Qualified:
    """A wheel and, beside it, evidence that it is qualified."""

    wheel: Path
    target: str
    document: evidence.Document
    path: Path  # of the document


def write_matrix(folder: Path, end: str = "\nmeasured: {}\n") -> Path:
    path = folder / "matrix.yaml"
    path.write_bytes((MATRIX + end).encode())
    return path


def axpy(
    folder: Path,
    target: str = "x86_64-sm90",
    version: str = "0.1.0",
    *,
    files: Mapping[str, bytes | str] | None = None,
    **options: object,
) -> Path:
    """A wheel that qualifies for ``target`` of :data:`MATRIX`."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = target.partition("-")[0]
    options.setdefault("extensions", {"axpy/_C": {TARGETS[target]: ["axpy_kernel"]}, "axpy/_host": {}})
    content = {"axpy/__init__.py": INIT, **(files or {})}
    tag = f"cp311-abi3-manylinux_2_28_{machine}"
    return write_wheel(folder, version=version, tag=tag, files=content, **options)  # type: ignore[arg-type]


def judged(wheel: Path, target: str, matrix_path: Path, profile: Profile = Profile.RELEASE) -> Qualified:
    """Judge ``wheel`` and write the document, whatever the verdict is."""
    loaded = matrix.load(matrix_path)
    facts = read_wheel(wheel)
    report = judging.judge(facts, judging.Context(matrix=loaded.matrix, target=target, profile=profile))
    document = evidence.from_report(report, facts, loaded, NOW)
    return Qualified(wheel, target, document, evidence.write(document, wheel))


def qualified(folder: Path, matrix_path: Path, target: str = "x86_64-sm90", version: str = "0.1.0") -> Qualified:
    """A wheel with its evidence, each target's in a folder of its own: they may share a file name."""
    made = judged(axpy(folder / target, target, version), target, matrix_path)
    assert made.document.report["verdict"] == "qualified", made.document.report["findings"]
    return made
