"""The shape of ``matrix.yaml``.

Two kinds of field, never mixed: ``pin``, ``targets`` and the rest are asserted by a person; ``measured`` is
written by ``record`` alone, from evidence of a qualified wheel.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StrictBool, StringConstraints, Tag

Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
DottedVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)+$")]
Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]*$")]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]
Reason = Annotated[str, StringConstraints(min_length=8)]
SonamePattern = Annotated[str, StringConstraints(pattern=r"^[^\s/]+$")]
TargetId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+-sm[0-9]+[af]?$")]


# Tags of the unions below.  They turn up in the places of pydantic's errors, so they are no word that a key can be.
_ONE, _EACH, _SDIST, _GIT = "(one)", "(each)", "(sdist)", "(git)"

# What a version's suffix or a receipt can state of how the compiled code came about.  "unstated" is the honest value
# where nothing says it, and "source" comes only from a receipt of a local compile.
BUILD_MODES = ("source", "unstated", "precompiled", "empty", "cpu", "rocm", "xpu", "tpu", "editable")


class Profile(StrEnum):
    UPSTREAM = "upstream"  # is someone else's wheel usable on this target?
    RELEASE = "release"  # is ours fit to publish?


class Presence(StrEnum):
    REQUIRED = "required"
    OPTIONAL = "optional"


class Code(StrEnum):
    """What device code a member must hold for the target."""

    NATIVE = "native"
    JIT = "jit"
    HOST = "host"
    ANY = "any"


T = TypeVar("T")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class ByProfile(Strict, Generic[T]):
    """One value per profile."""

    upstream: T
    release: T


def _one_or_each(value: Any) -> str:
    return _EACH if isinstance(value, dict | BaseModel) else _ONE


# One value, or one per profile.  Told apart by shape, so that a typo gives one complaint and not one for each reading.
PresencePerProfile = Annotated[
    Annotated[Presence, Tag(_ONE)] | Annotated[ByProfile[Presence], Tag(_EACH)], Discriminator(_one_or_each)
]
CodePerProfile = Annotated[
    Annotated[Code, Tag(_ONE)] | Annotated[ByProfile[Code], Tag(_EACH)], Discriminator(_one_or_each)
]


class JitOk(Strict):
    """Kernels that may be PTX only under ``code: native``."""

    pattern: str  # fnmatch pattern over the mangled kernel name
    reason: Annotated[str, StringConstraints(min_length=8)]


class Expectation(Strict):
    """What the target expects of one extension module or executable."""

    presence: PresencePerProfile = Presence.REQUIRED
    code: CodePerProfile = Code.NATIVE
    jit_ok: tuple[JitOk, ...] = ()
    kernels: tuple[str, ...] = ()  # fnmatch patterns: kernels that must run natively on the target

    def presence_for(self, profile: Profile) -> Presence:
        return self.presence if isinstance(self.presence, Presence) else getattr(self.presence, profile.value)

    def code_for(self, profile: Profile) -> Code:
        return self.code if isinstance(self.code, Code) else getattr(self.code, profile.value)


class SdistSource(Strict):
    sdist: str  # requirement with ==, fetched from the package index; or a relative path to an sdist
    sha256: Sha256


class GitSource(Strict):
    git: str = ""  # URL or path relative to the matrix file (a bundle, say); empty: the pin's repository
    subdirectory: str = ""
    tag: NonEmpty | None = None  # a tag that has to name the pin's commit; one that moved is refused


def _sdist_or_git(value: Any) -> str:
    if isinstance(value, dict):
        return _SDIST if "sdist" in value or "sha256" in value else _GIT
    return _SDIST if isinstance(value, SdistSource) else _GIT


class Patch(Strict):
    """A change to the tree that is part of the pin; patches are applied in the order in which they stand."""

    file: NonEmpty  # relative to the matrix file
    sha256: Sha256
    reason: Reason


class Upstream(Strict):
    """Where a fork comes from: the pin's commit is ``base`` and an overlay on top of it."""

    repository: NonEmpty
    base: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    branch: str = ""  # what "behind" is counted against; "": the repository's default branch


class Pin(Strict):
    repository: NonEmpty
    requirement: str  # "vllm==0.33.0": the released wheel of this pin, where there is one; may be ""
    source: Annotated[
        Annotated[SdistSource, Tag(_SDIST)] | Annotated[GitSource, Tag(_GIT)], Discriminator(_sdist_or_git)
    ]
    # A git source needs all 40 digits.  A source distribution that states no commit goes without: its sha256 is the
    # identity then, and the receipt of a build states which one it was made from.
    commit: Commit | None = None
    build_modes: tuple[str, ...] = ("source", "unstated")  # accepted build modes
    patches: tuple[Patch, ...] = ()
    upstream: Upstream | None = None  # of a fork


class Project(Strict):
    name: Word  # normalised project name, "vllm"
    import_name: NonEmpty
    version_module: str  # "vllm/_version.py"
    # Python members that no source tree holds: written by the build, or taken from elsewhere; fnmatch pattern -> why
    generated: dict[str, Reason] = Field(default_factory=dict)


class Base(Strict):
    """Where a target's build image comes from."""

    image: str = ""  # "registry/name:tag"; its digest stands in dockerfiles/bases.lock.yaml
    bootstrap: Literal["", "debian-12", "debian-13"] = ""  # made from Debian's packages where no registry answers


class Ceilings(Strict):
    glibc: DottedVersion
    glibcxx: DottedVersion
    preferred_glibc: DottedVersion | None = None
    cxxabi: DottedVersion | None = None  # None: not asked
    gcc: DottedVersion | None = None  # symbol versions of libgcc_s; None: not asked
    wheel_size: int | None = Field(default=None, ge=1)  # MiB of the file; None: any


class Driver(Strict):
    oldest_cuda: DottedVersion


class Tool(Strict):
    """A tool that the tree demands; the preflight looks for it."""

    name: Literal["nvcc", "ninja", "cmake", "c++", "python.h", "git", "cargo"]
    minimum: str = ""
    why: str = ""


class Shape(Strict):
    """A build of another kind than the target's, chosen by values in the build's environment (an empty shell, say)."""

    when: Annotated[dict[str, str], Field(min_length=1)]  # variable -> value; the shape applies where all are set so
    reason: Annotated[str, StringConstraints(min_length=8)]
    tools: tuple[str, ...] = ()  # names of Build.tools that this shape still demands
    external_sources: StrictBool = False  # are the external sources needed?
    toolkit: StrictBool = False  # is the CUDA toolkit needed?
    torch: StrictBool = False  # must torch be a CUDA build?
    environment: dict[str, str] = Field(default_factory=dict)  # over Build.environment
    # PEP 518 requirements that this shape does without, each with its reason
    without: dict[Word, Annotated[str, StringConstraints(min_length=8)]] = Field(default_factory=dict)


class AddedRequirement(Strict):
    requirement: NonEmpty  # PEP 508
    reason: Reason


class RemovedRequirement(Strict):
    name: NonEmpty
    reason: Reason


class ReplacedRequirement(Strict):
    name: NonEmpty  # whatever the tree asks of this project …
    requirement: NonEmpty  # … is replaced by this
    reason: Reason


class RequirementOverrides(Strict):
    """What differs from ``[build-system].requires`` of the tree; each with its reason."""

    add: tuple[AddedRequirement, ...] = ()
    remove: tuple[RemovedRequirement, ...] = ()
    replace: tuple[ReplacedRequirement, ...] = ()


class Rust(Strict):
    """The Rust part of a tree: its crates are vendored before the build, so that the compile needs no network."""

    locks: Annotated[tuple[NonEmpty, ...], Field(min_length=1)] = ("Cargo.lock",)  # paths in the tree
    toolchain: str = "rust-toolchain.toml"  # the file that names the toolchain; "" where the tree has none


class NotBuilt(Strict):
    """A line of the configure step's output that says of a part that it isn't built, and is expected to."""

    pattern: NonEmpty  # fnmatch pattern over the whole line, without CMake's "-- " and colours
    reason: Reason


class Configure(Strict):
    """What the configure step's output says of parts that are left out; a line that nothing expects fails the build."""

    announces: tuple[NonEmpty, ...] = ("Not building *",)  # fnmatch patterns over a line without CMake's "-- "
    expected: tuple[NotBuilt, ...] = ()  # for every target; a target's own come to them


class Build(Strict):
    """How the project builds: data, so that no code knows a project by name."""

    arch_variable: str = "TORCH_CUDA_ARCH_LIST"
    environment: dict[str, str] = Field(default_factory=dict)
    refused_environment: tuple[str, ...] = ()  # fnmatch patterns; set in the caller's environment -> refused
    tools: tuple[Tool, ...] = ()
    external_sources: tuple[str, ...] = ()  # globs of CMake files to read FetchContent projects from
    external_overrides: dict[str, str] = Field(default_factory=dict)  # FetchContent name -> environment variable
    # FetchContent name -> the folder in its source that the variable points at; the root where none is named
    external_folders: dict[str, NonEmpty] = Field(default_factory=dict)
    commit_files: tuple[str, ...] = ()  # files of an untouched sdist that state the commit
    torch: StrictBool = False  # the build needs torch with CUDA
    expects_device_code: StrictBool = True
    shapes: tuple[Shape, ...] = ()  # the first one that applies counts
    cmake_variables: dict[str, str] = Field(
        default_factory=dict
    )  # what the target's build sets; decides CMake branches
    toolkit_extras: tuple[str, ...] = ("nvcc", "cudart", "cccl")  # of the cuda-toolkit distribution
    tag_match: str = "*[0-9]*"  # the tags that setuptools-scm sees, as its own git describe command says
    memory_per_job: int = Field(default=5, ge=1)  # GB that one nvcc thread needs
    # The variable that says how many threads one nvcc has ("NVCC_THREADS"); "" where the project has none.
    threads_variable: str = ""
    disk: int = Field(default=1, ge=1)  # GB that a build needs
    allowed_environment: tuple[str, ...] = ()  # fnmatch patterns: the caller's variables that reach the build
    requirements: RequirementOverrides = RequirementOverrides()
    requirements_files: tuple[NonEmpty, ...] = ()  # the tree's own lists of build requirements, to be compared
    rust: Rust | None = None
    configure: Configure = Configure()
    # Members that may be missing though setup.py names them (CMake's optional extensions); fnmatch pattern -> why.
    optional_members: dict[str, Reason] = Field(default_factory=dict)
    prebuilt: dict[str, Reason] = Field(default_factory=dict)  # compiled files that the tree may bring; pattern -> why
    repair: Literal["auditwheel", "tag"] = "auditwheel"  # tag: give the true tag and bundle nothing
    compiler_cache: Literal["", "ccache"] = "ccache"
    timeout: int = Field(default=0, ge=0)  # minutes that a compile may take; 0: any


class Control(Strict):
    """The wheel that a candidate is held against: the last good one of the target, or upstream's own."""

    wheel: NonEmpty  # a requirement with ==, fetched for the target's machine; or a path relative to the matrix
    sha256: Sha256 | None = None  # what the file must be; None: what the index gives
    required: StrictBool = False  # the release profile: what was lost rejects, and nothing is judged without a control


class Waiver(Strict):
    """A finding that somebody lets through, for one wheel or for one pin, never for the next."""

    code: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}[0-9]{3}$")]
    reason: Annotated[str, StringConstraints(min_length=8)]
    granted_by: NonEmpty
    wheel: Sha256 | None = None  # either this …
    pin: Commit | None = None  # … or this
    member: str = ""  # fnmatch pattern over the member's path; "": the wheel and every member
    target: TargetId | None = None  # None: every target


class Target(Strict):
    machine: Literal["x86_64", "aarch64"]
    compute_capability: DottedVersion
    python: Annotated[tuple[DottedVersion, ...], Field(min_length=1)]
    base: Base
    toolkit: DottedVersion
    torch: str = ""  # requirement; "" where the project needs none
    arch_list: NonEmpty  # as handed to Build.arch_variable
    ceilings: Ceilings
    driver: Driver
    how: Literal["native", "cross", "emulate"] = "native"
    engine: Word = "auto"
    engine_host: str = ""  # a name under `engines` of matrix.local.yaml; "": the engine that answers here
    not_built: tuple[NotBuilt, ...] = ()  # what the configure step leaves out for this target, beside Build.configure
    label: str = ""  # put into the local version by the builder
    extensions: dict[str, Expectation] = Field(default_factory=dict)
    control: Control | None = None


class Measured(Strict):
    """What a qualified install reported; written by ``record`` alone."""

    runtime_version: str
    distribution_version: str
    build_mode: str
    commit: str
    sha256: Sha256
    toolkit: str
    torch: str
    flashinfer: str
    # Normalised name -> installed version of what the wheel requires with ``==``, and of what else decides a result.
    companions: dict[str, str] = Field(default_factory=dict)
    how: str
    when: str
    verdict: Literal["qualified", "overridden"] = "qualified"  # overridden: only waivers let the wheel through


class Matrix(Strict):
    version: Literal[1]
    project: Project
    pin: Pin
    build: Build = Build()
    extensions: dict[str, Expectation] = Field(default_factory=dict)  # for every target; a target's own win
    # fnmatch pattern of a soname that the target provides, beyond those this tool knows -> the reason
    libraries: dict[SonamePattern, Annotated[str, StringConstraints(min_length=8)]] = Field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    targets: Annotated[dict[TargetId, Target], Field(min_length=1)]
    measured: dict[str, Measured] = Field(default_factory=dict)

    def expectations(self, target: str) -> dict[str, Expectation]:
        """Member path without suffix -> expectation, the target's own over the common ones."""
        return {**self.extensions, **self.targets[target].extensions}
