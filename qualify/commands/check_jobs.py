"""What ``qualify check`` is asked to judge: each wheel with each target, before anything is fetched or read."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qualify.errors import ConfigurationError, MalformedError, UsageError
from qualify.subjects import is_requirement

if TYPE_CHECKING:
    from qualify.judging import Context
    from qualify.matrix import LoadedMatrix


@dataclass(frozen=True)
class Job:
    """One wheel (a file, or a requirement to fetch) for one target."""

    subject: str
    context: Context

    @property
    def is_requirement(self) -> bool:
        return is_requirement(self.subject)


def matrix_of(arguments: argparse.Namespace) -> LoadedMatrix | None:
    """The matrix, or None where the target is given by machine and compute capability.

    :raises UsageError: the arguments contradict each other.
    :raises ConfigurationError: the matrix is wrong, or holds a waiver that nobody can grant.
    """
    if bool(arguments.machine) != bool(arguments.cc):
        raise UsageError("--machine and --cc belong together", action="give both, or --target")
    if not arguments.evidence and (
        arguments.sign or arguments.expires or arguments.observation or arguments.device_run
    ):
        what = "--sign, --expires, --observation and --device-run belong to --evidence"
        raise UsageError(what, action="give --evidence too")
    if arguments.evidence and (arguments.require or arguments.machine or arguments.torch or arguments.control):
        # Evidence is proven against the matrix as it stands; a run with other demands could never be proven again.
        action = "leave --require, --torch, --control, --machine and --cc out; the matrix names a target's control"
        raise UsageError("--evidence takes the matrix's own demands", action=action)
    if arguments.machine:
        if arguments.target or arguments.all_targets or arguments.pin or arguments.matrix:
            raise UsageError(
                "--machine and --cc stand for a target of no matrix", action="leave one of the two ways out"
            )
        return None
    from qualify.matrix import load
    from qualify.policies import require_grantable

    loaded = load(arguments.matrix)
    require_grantable(loaded)
    return loaded


def jobs_of(arguments: argparse.Namespace, loaded: LoadedMatrix | None) -> list[Job]:
    """Every wheel with every target that is asked for, before anything is fetched or read.

    :raises UsageError: nothing to judge, no such file, no such target.
    """
    from qualify.arch import ComputeCapability
    from qualify.judging import BareTarget, Context, offer
    from qualify.matrix.model import Code, Profile

    profile = Profile(arguments.profile)
    require = Code(arguments.require) if arguments.require else None
    subjects = list(arguments.wheels)
    if arguments.pin and loaded is not None:
        if not loaded.matrix.pin.requirement:
            raise ConfigurationError(
                "the pin has no requirement", where=str(loaded.path), action="name a wheel instead"
            )
        subjects.append(loaded.matrix.pin.requirement)
    if not subjects:
        raise UsageError("nothing to judge", action="name a wheel file or a requirement, or give --pin")
    for subject in subjects:
        if not is_requirement(subject) and not Path(subject).exists():
            raise UsageError(
                "no such file", where=subject, expected="a wheel file, or a requirement with a version (vllm==0.33.0)"
            )
    if loaded is None:
        try:
            device = ComputeCapability.parse(arguments.cc)
        except MalformedError as error:
            raise UsageError(error.what, where="--cc", expected=error.expected, action=error.action) from error
        bare = BareTarget(arguments.machine, device)
        return [Job(subject, Context(profile=profile, require=require, bare=bare)) for subject in subjects]
    matrix = loaded.matrix
    for target in arguments.target:
        if target not in matrix.targets:
            expected = offer(target, tuple(matrix.targets))
            raise UsageError(f"unknown target {target!r}", where=str(loaded.path), expected=expected)
    jobs = []
    for subject in subjects:
        chosen = tuple(dict.fromkeys(arguments.target))
        if arguments.all_targets or (arguments.pin and not chosen):
            chosen = tuple(matrix.targets)
        wanted = chosen or _targets_of(subject, loaded)
        jobs += [Job(subject, Context(matrix, target, profile, require)) for target in wanted]
    return jobs


def _targets_of(subject: str, loaded: LoadedMatrix) -> tuple[str, ...]:
    """Where no target is named: those of the machine that the file's name states, else all."""
    name = Path(subject).name
    targets = loaded.matrix.targets
    fitting = tuple(id_ for id_, target in targets.items() if name.endswith(f"_{target.machine}.whl"))
    return fitting or tuple(targets)
