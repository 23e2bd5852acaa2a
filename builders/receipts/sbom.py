"""A software bill of materials for the wheel (CycloneDX, PEP 770): what it was made from, and with what.

It lies in ``<dist-info>/sboms/`` and says nothing of a time or a place: the same plan gives the same bytes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Commit, Component, ComponentType, Patch, PatchClassification, Pedigree
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from builders.crates import Crate
from builders.plan import Plan

FILE = "sboms/wheel-assay.cdx.json"  # below the .dist-info folder


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What a wheel was made of beside its plan."""

    version: str  # of the wheel
    crates: tuple[Crate, ...]
    distributions: Mapping[str, str]  # of the build's environment
    hashes: Mapping[str, str]  # distribution -> sha256 of its file
    bundled: tuple[str, ...]  # libraries that a repair put into the wheel


def make_sbom(plan: Plan, made_of: Ingredients) -> bytes:
    """The document as JSON, CycloneDX 1.6."""
    bom = Bom(serial_number=uuid.UUID(hashlib.sha256(f"sbom {plan.key()}".encode()).hexdigest()[:32], version=4))
    bom.metadata.timestamp = None  # type: ignore[assignment]  # a time would make every build another
    bom.metadata.tools.tools.clear()
    bom.metadata.tools.components.add(Component(name="wheel-assay", type=ComponentType.APPLICATION))
    root = _root(plan, made_of.version)
    bom.metadata.component = root
    parts = [*_externals(plan), *_crates(made_of.crates), *_toolkit(plan), *_bundled(made_of.bundled)]
    bom.components.update(parts)
    bom.register_dependency(root, parts)
    for tool in _tools(made_of):
        bom.metadata.tools.components.add(tool)
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    return (text + "\n").encode("utf-8")


def _root(plan: Plan, version: str) -> Component:
    source = plan.source
    return Component(
        name=plan.project,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pkg:pypi/{plan.project}@{version}",
        purl=PackageURL("pypi", name=plan.project, version=version),
        pedigree=Pedigree(
            commits=[Commit(uid=source.commit)] if source.commit else [],
            patches=[Patch(type=PatchClassification.UNOFFICIAL) for _ in plan.patches],
            notes="; ".join(f"patch {patch.file} sha256 {patch.sha256}" for patch in plan.patches) or None,
        )
        if source.commit or plan.patches
        else None,
        properties=[
            Property(name="wheel-assay:plan", value=plan.key()),
            Property(name="wheel-assay:target", value=plan.target),
            Property(name="wheel-assay:architectures", value=" ".join(plan.architectures)),
            *([Property(name="wheel-assay:sdist-sha256", value=source.sha256)] if source.sha256 else []),
        ],
        external_references=[_reference(ExternalReferenceType.VCS, source.origin)] if "://" in source.origin else [],
    )


def _externals(plan: Plan) -> Iterable[Component]:
    for external in plan.needed_externals:
        yield Component(
            name=external.name,
            version=external.commit or external.tag,
            type=ComponentType.LIBRARY,
            bom_ref=f"external:{external.name}",
            external_references=[_reference(ExternalReferenceType.VCS, external.repository)],
            properties=[Property(name="wheel-assay:tag", value=external.tag)] if external.tag else [],
        )


def _crates(crates: Sequence[Crate]) -> Iterable[Component]:
    # Two locks may name one crate; a reference stands once.
    for reference, crate in {_crate_reference(crate): crate for crate in crates}.items():
        yield Component(
            name=crate.name,
            version=crate.version,
            type=ComponentType.LIBRARY,
            bom_ref=reference,
            purl=PackageURL("cargo", name=crate.name, version=crate.version),
            hashes=[_sha256(crate.checksum)] if crate.checksum else [],
            external_references=[_reference(ExternalReferenceType.VCS, crate.repository)] if crate.repository else [],
        )


def _crate_reference(crate: Crate) -> str:
    return f"crate:{crate.name}@{crate.version}" + (f"#{crate.commit}" if crate.commit else "")


def _toolkit(plan: Plan) -> Iterable[Component]:
    """The toolkit is linked statically in part (the runtime, cudadevrt)."""
    for text in plan.toolkit.exact if plan.toolkit else ():
        name, _, version = text.partition("==")
        yield Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"pkg:pypi/{name}@{version}",
            purl=PackageURL("pypi", name=name, version=version),
        )


def _bundled(members: Sequence[str]) -> Iterable[Component]:
    for member in members:
        yield Component(name=member.rsplit("/", 1)[-1], type=ComponentType.LIBRARY, bom_ref=f"bundled:{member}")


def _tools(made_of: Ingredients) -> Iterable[Component]:
    for name, version in sorted(made_of.distributions.items()):
        digest = made_of.hashes.get(name, "")
        yield Component(
            name=name,
            version=version,
            type=ComponentType.APPLICATION,
            bom_ref=f"tool:{name}@{version}",
            purl=PackageURL("pypi", name=name.lower(), version=version),
            hashes=[_sha256(digest)] if digest else [],
        )


def _reference(kind: ExternalReferenceType, address: str) -> ExternalReference:
    return ExternalReference(type=kind, url=XsUri(address))


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)
