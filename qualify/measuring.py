"""What a wheel says of itself once it is installed, or, said so, as far as that can be read without running it.

Two grades, told apart by ``how``:

* ``version module``: nothing of the wheel runs.  The distribution's version comes from METADATA, the runtime
  version and the commit from the version module as text.
* ``import``: installed into a fresh environment by a :class:`~qualify.probes.Runner` and imported there, with every
  imported file proven to lie in that environment and the module's bytes to be the wheel's.

The two version strings of one build differ by design (a build backend may append a suffix for the metadata alone),
so both are kept; none is made from the other.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from qualify import identity
from qualify.errors import MalformedError, UnavailableError, UnverifiedError
from qualify.evidence import tool_version
from qualify.facts import VersionModule, WheelFacts
from qualify.matrix.model import Matrix
from qualify.probes import ProbeRequest, Runner

OBSERVATION_VERSION = 1
TIMEOUT = 900.0  # seconds for installing
IMPORT_TIMEOUT = 300.0

VERSION_MODULE = "version module"
IMPORT = "import"

_READ_ALONE = "qualify measure WHEEL"  # the way that takes no install

# Companions whose versions are part of a measurement: field -> the distributions that it may come from.
COMPANIONS = {"torch": ("torch",), "flashinfer": ("flashinfer-python",)}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured of a wheel: its distribution, the module to import, the module that holds the version."""

    distribution: str  # normalised
    import_name: str  # dotted; "" where it can't be told
    version_module: str  # path in the wheel; "" where there is none


@dataclass(frozen=True, slots=True)
class Observation:
    """One measurement.  Texts are "" where there is nothing; what keeps a value from counting stands in ``reason``."""

    version: int
    wheel: str  # file name
    sha256: str
    project: str
    conclusive: bool
    reason: str  # why not
    distribution_version: str
    runtime_version: str
    commit: str  # hex digits, as many as are stated
    commit_origin: str  # "METADATA", "axpy/_version.py", "__commit_id__ of axpy/_version.py"
    build_mode: str
    dirty: str  # "20260904" where the tree that it was built from had changes
    toolkit: str  # of the device code, "13.0"; several are listed
    torch: str
    flashinfer: str
    companions_origin: str  # "as installed" or "Requires-Dist"
    how: str  # starts with the grade: "import" or "version module"
    where: str
    python: str  # of the environment; "" where nothing was installed
    machine: str
    when: str  # ISO 8601, UTC
    tool: str

    @property
    def grade(self) -> str:
        """:data:`IMPORT` or :data:`VERSION_MODULE`."""
        return IMPORT if self.how.startswith(IMPORT) else VERSION_MODULE


def to_json(observation: Observation) -> dict[str, Any]:
    """The observation as ``measure --json`` prints it."""
    return asdict(observation)


def subject_of(facts: WheelFacts, matrix: Matrix | None) -> Subject:
    """What to measure: as the matrix says of its project, else as the wheel's own layout suggests."""
    if matrix is not None and matrix.project.name == facts.name:
        return Subject(facts.name, matrix.project.import_name, matrix.project.version_module)
    modules = sorted(facts.version_modules, key=lambda module: (module.path.count("/"), module.path))
    if modules:
        folder = PurePosixPath(modules[0].path).parent
        return Subject(facts.name, ".".join(folder.parts), modules[0].path)
    tops = {PurePosixPath(member.path).parts[0] for member in facts.members if "/" in member.path}
    packages = sorted(top for top in tops if not top.endswith((".dist-info", ".data", ".libs")))
    alike = [package for package in packages if canonicalize_name(package) == facts.name]
    chosen = alike or packages
    return Subject(facts.name, chosen[0] if len(chosen) == 1 else "", "")


def read(
    facts: WheelFacts, subject: Subject, *, now: datetime, machine: str = "", labels: Sequence[str] = ()
) -> Observation:
    """Measure without running anything of the wheel.

    :param machine: for which requirements are read ("aarch64"); "" is this one.
    :param labels: local version parts that are a target's label, not a build mode.
    :raises MalformedError: the wheel has no METADATA.
    """
    if facts.dist_info is None:
        raise MalformedError("no METADATA", where=facts.filename, expected="one .dist-info folder")
    module = _version_module(facts, subject) or VersionModule(subject.version_module, "", "")
    pins = {field: _pin(facts.dist_info.requires_dist, names, machine) for field, names in COMPANIONS.items()}
    observation = Observation(
        version=OBSERVATION_VERSION,
        wheel=facts.filename,
        sha256=facts.sha256,
        project=facts.name,
        conclusive=True,
        reason="",
        distribution_version=facts.dist_info.metadata_version,
        runtime_version=module.version,
        commit="",
        commit_origin="",
        build_mode="",
        dirty="",
        toolkit=_toolkits(facts),
        torch=pins["torch"],
        flashinfer=pins["flashinfer"],
        companions_origin="Requires-Dist",
        how=VERSION_MODULE,
        where="the file",
        python="",
        machine=machine or platform.machine(),
        when=now.astimezone(UTC).isoformat(timespec="seconds"),
        tool=tool_version(),
    )
    observation = _identified(observation, facts, module, labels)
    if not observation.runtime_version:
        wanted = subject.version_module or "a _version.py"
        return _inconclusive(
            observation, f"no runtime version: {wanted} is not in the wheel or states none as a literal"
        )
    return observation


def install(
    wheel: Path,
    facts: WheelFacts,
    subject: Subject,
    runner: Runner,
    *,
    now: datetime,
    dependencies: bool = True,
    find_links: Sequence[Path] = (),
    timeout: float = TIMEOUT,
    import_timeout: float = IMPORT_TIMEOUT,
    machine: str = "",
    labels: Sequence[str] = (),
) -> Observation:
    """Measure by installing ``wheel`` and importing it.  Runs its code where ``runner`` says.

    Without its dependencies a wheel may not import; then the version module counts, and ``how`` says so.

    :raises UnavailableError: the place isn't there, or the wheel or a dependency can't be installed in it.
    :raises UnverifiedError: nothing says which module to import.
    """
    static = read(facts, subject, now=now, machine=machine, labels=labels)
    if not subject.import_name:
        raise UnverifiedError(
            "nothing says which module to import", where=facts.filename, action="measure a project of the matrix"
        )
    version_module = PurePosixPath(subject.version_module).with_suffix("").as_posix().replace("/", ".")
    known = {module.path for module in facts.version_modules}
    request = ProbeRequest(
        wheel=wheel,
        sha256=facts.sha256,
        import_name=subject.import_name,
        distribution=subject.distribution,
        version_module=version_module if subject.version_module in known else "",
        companions=tuple(name for names in COMPANIONS.values() for name in names),
        dependencies=dependencies,
        find_links=tuple(find_links),
        timeout=timeout,
        import_timeout=import_timeout,
    )
    result = runner.install_and_import(request)
    observation = replace(
        static, where=runner.where, python=_text(result, "python"), machine=_text(result, "machine") or static.machine
    )
    stage, error = _text(result, "stage"), _text(result, "error")
    if stage in ("environment", "install"):
        raise _not_installed(facts, stage, error, _text(result, "output"))
    if stage != "done" and not dependencies:
        return replace(observation, how=f"{VERSION_MODULE} (import without dependencies failed: {error})")
    imported = replace(
        observation,
        conclusive=True,
        reason="",
        how=IMPORT,
        distribution_version=_text(result, "distribution_version"),
        runtime_version=_text(result, "runtime_version"),
    )
    module = VersionModule(subject.version_module, imported.runtime_version, _text(result, "commit_id"))
    imported = _identified(imported, facts, module, labels)
    if dependencies:
        imported = replace(
            imported,
            torch=_installed(result, COMPANIONS["torch"]),
            flashinfer=_installed(result, COMPANIONS["flashinfer"]),
            companions_origin="as installed",
        )
    reason = f"the import failed: {error}" if stage != "done" else _doubt(result, facts, imported)
    if not reason and identity.commit_match(static.commit, imported.commit) is identity.CommitMatch.OTHER:
        reason = f"imported it states commit {imported.commit}, and its files {static.commit}"
    return _inconclusive(imported, reason) if reason else imported


def _doubt(result: Mapping[str, Any], facts: WheelFacts, observation: Observation) -> str:
    """Why an import that worked proves nothing; "" where it does."""
    outside = result.get("outside")
    if outside:
        found = str(outside)[:300]
        return f"the import found {found}, outside the fresh environment: a source tree or an editable install"
    module = _text(result, "module")
    if not module:
        return "the imported module has no file, so nothing ties it to the wheel"
    hashes = {member.path: member.sha256 for member in facts.members}
    installed = {path.split("/", 2)[2] if _DATA.match(path) else path: sha256 for path, sha256 in hashes.items()}
    if installed.get(module) != _text(result, "module_sha256"):
        return f"the imported {module} is not the wheel's file"
    if facts.dist_info is None or observation.distribution_version != facts.dist_info.metadata_version:
        return f"installed as version {observation.distribution_version!r}, which METADATA doesn't say"
    if not observation.runtime_version:
        return "the module has no __version__"
    return ""


_DATA = re.compile(r"[^/]+\.data/(purelib|platlib)/")


def _identified(
    observation: Observation, facts: WheelFacts, module: VersionModule, labels: Sequence[str]
) -> Observation:
    """Add commit and build mode, by the one rule of :mod:`qualify.identity`, from both version strings and the module.

    What an import saw takes the place of the version module's text and goes the same way.
    """
    seen = identity.identity_of_wheel(replace(facts, version_modules=(module,)), module.path, labels)
    observation = replace(
        observation, commit=seen.commit, commit_origin=seen.commit_origin, build_mode=seen.build_mode, dirty=seen.dirty
    )
    # Two commits in one wheel, two versions that differ in more than a suffix, a text that is no version ("dev").
    doubts = [*seen.notes, *(identity.identity_of_version(module.version).notes if module.version else ())]
    return _inconclusive(observation, "; ".join(doubts)) if doubts else observation


def _version_module(facts: WheelFacts, subject: Subject) -> VersionModule | None:
    found = [module for module in facts.version_modules if module.path == subject.version_module]
    return found[0] if found else None


def _toolkits(facts: WheelFacts) -> str:
    found = {
        entry.toolkit
        for member in facts.members
        for container in member.containers
        for entry in container.entries
        if entry.toolkit
    }
    return ", ".join(sorted(found, key=_version_key))


def _version_key(text: str) -> tuple[int, Version | str]:
    try:
        return (0, Version(text))
    except InvalidVersion:
        return (1, text)


def _pin(requirements: Sequence[str], names: Sequence[str], machine: str) -> str:
    """The version that Requires-Dist demands with ``==``; "" where it demands none."""
    environment = {"platform_machine": machine, "sys_platform": "linux", "platform_system": "Linux", "extra": ""}
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) not in names:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate(
            environment if machine else {"extra": ""}
        ):
            continue
        exact = [
            spec.version for spec in requirement.specifier if spec.operator == "==" and not spec.version.endswith(".*")
        ]
        if exact:
            return exact[0]
    return ""


def _installed(result: Mapping[str, Any], names: Sequence[str]) -> str:
    companions = result.get("companions")
    found = [companions.get(name) for name in names] if isinstance(companions, Mapping) else []
    return next((version for version in found if isinstance(version, str) and version), "")


def _inconclusive(observation: Observation, reason: str) -> Observation:
    return replace(observation, conclusive=False, reason=reason)


def _not_installed(facts: WheelFacts, stage: str, error: str, output: str) -> UnavailableError:
    lines = [line.strip() for line in output.split("\n") if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    why = errors[-1][:500] if errors else "; ".join([error, *(line[:200] for line in lines[-2:])])
    if "is not a supported wheel on this platform" in output:
        action = f"measure on a machine of the wheel's own platform, or by `{_READ_ALONE}`, which installs nothing"
    elif "No matching distribution" in output:
        action = "name a folder with the dependencies by --find-links, or leave them out by --no-deps"
    else:
        action = f"measure by `{_READ_ALONE}`, which installs nothing"
    return UnavailableError(f"{stage} failed: {why}", where=facts.filename, action=action)


def _text(result: Mapping[str, Any], key: str) -> str:
    """A text of a probe's result, short and in one line: a wheel's code may have written it."""
    value = result.get(key, "")
    if not isinstance(value, str):
        return ""
    return value if key == "output" else "".join(character for character in value if character.isprintable())[:500]


def lines(observation: Observation) -> list[str]:
    """The observation for people, one fact a line."""
    commit = f"{observation.commit} (from {observation.commit_origin})" if observation.commit else "not stated"
    rows = [
        ("wheel", observation.wheel),
        ("sha256", observation.sha256),
        ("distribution version", observation.distribution_version),
        ("runtime version", observation.runtime_version or "not seen"),
        ("commit", commit),
        ("build mode", observation.build_mode + (f", dirty ({observation.dirty})" if observation.dirty else "")),
        ("toolkit", observation.toolkit or "no note of one"),
        ("torch", observation.torch or "none"),
        ("flashinfer", observation.flashinfer or "none"),
        ("companions", observation.companions_origin),
        ("how", f"{observation.how}, {observation.where}"),
        ("outcome", "measured" if observation.conclusive else f"inconclusive: {observation.reason}"),
    ]
    width = max(len(name) for name, _ in rows)
    return [f"{name:{width}}  {value}" for name, value in rows]
