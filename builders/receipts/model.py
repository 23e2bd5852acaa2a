"""The shape of a receipt: what a wheel was made from, with what, how, and what came out.  A schema is made of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

RECEIPT_VERSION = 2
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WheelPart(Part):
    filename: str
    sha256: Sha256
    size: int
    made_as: str  # the file's name as the build backend left it


class Versions(Part):
    source: str  # what the source states, or git describe
    computed: str  # by setuptools-scm from the clean tree; "" where the tree doesn't use it
    wheel: str
    modules: dict[str, str]
    commit: str  # "same" or "cannot tell", beside the pin


class SourcePart(Part):
    kind: str
    origin: str
    commit: str
    sha256: str
    submodules: dict[str, str]  # path -> commit
    patches: dict[str, str]  # file -> sha256, in their order
    fork: str  # "3 overlay, 12 behind upstream"; "" where it is none


class ExternalPart(Part):
    name: str
    repository: str
    tag: str
    commit: str
    local_copy: bool  # from a folder of the site, not from the store


class CratesPart(Part):
    lock: str
    sha256: Sha256
    registry: int
    git: int


class ToolPart(Part):
    path: str
    version: str


class DistributionPart(Part):
    version: str
    sha256: str  # of the file that it was installed from; "" where pip did not say


class EnvironmentPart(Part):
    python: str
    mode: Literal["isolated", "host"]
    locked: bool
    reused: bool
    distributions: dict[str, DistributionPart]
    variables: dict[str, str]


class MemberArchitectures(Part):
    member: str
    requested: list[str]
    emitted: dict[str, str]  # "sm_120f (cubin)" -> how it serves the target
    served: dict[str, str]  # each that was requested -> what serves it; "" where the request is no known architecture
    toolkits: list[str]  # what the device code says it was compiled with


class LeftOutPart(Part):
    text: str
    line: int
    reason: str


class TryPart(Part):
    jobs: int
    code: int
    seconds: float
    killed_for_memory: bool
    timed_out: bool
    peak_memory: int  # bytes; 0 where nobody counted


class CachePart(Part):
    tool: str
    hits: int
    misses: int
    uncacheable: int
    server: str
    why: str


class MemberProofPart(Part):
    member: str
    provenance: str
    why: str
    sha256: Sha256
    build_id: str
    libraries: list[str]  # static libraries of the place that parts of it come from


class NinjaStep(Part):
    output: str
    milliseconds: int


class NinjaPart(Part):
    path: str
    format: str
    steps: int
    slowest: list[NinjaStep]
    again: list[str]  # outputs that two different commands made, one after the other


class ProofPart(Part):
    members: list[MemberProofPart]
    objects: dict[str, Sha256]  # path in the build folder -> what was compiled there
    objects_sha256: Sha256
    compilers: dict[str, int]  # what the objects say compiled them -> how many of them do
    ninja: list[NinjaPart]
    unread: list[str]


class RepairPart(Part):
    tool: str
    bundled: list[str]
    excluded: int
    said: str


class TagPart(Part):
    platform: str
    floors: dict[str, str]
    reason: str


class EnginePart(Part):
    name: str
    version: str
    detail: str
    machine: str
    image: str
    image_origin: str


class LimitsPart(Part):
    memory: int  # bytes; 0: none
    cores: int
    timeout: float  # seconds


class Receipt(Part):
    """Everything that is known of how a wheel was made."""

    version: Literal[2]
    key: Sha256
    wheel: WheelPart
    versions: Versions
    source: SourcePart
    externals: list[ExternalPart]
    crates: list[CratesPart]
    tools: dict[str, ToolPart]
    environment: EnvironmentPart
    architectures: list[MemberArchitectures]
    left_out: list[LeftOutPart]
    missing: dict[str, str]  # optional member that is not in the wheel -> why that is right
    torch_warnings: list[str]
    tries: list[TryPart]
    resumed: bool  # went on in the build folder of an earlier start
    peak_memory: int
    cache: CachePart
    proof: ProofPart
    repair: RepairPart
    tag: TagPart
    label: str
    sbom: str  # its member in the wheel
    how: str
    network: str
    limits: LimitsPart
    deviations: list[str]
    notes: list[str]
    engine: EnginePart
    host: dict[str, Any]
    seconds: dict[str, float]
    began: str
    ended: str
    log: str
    tool: dict[str, str]
    plan: dict[str, Any]
