"""What METADATA lets an installer take as torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qualify.linking.tables import Release, release_of

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

_MINORS, _PATCHES = 60, 4  # of torch 2, that are tried: there were 15 minors by 2026, with up to three patches


@dataclass(frozen=True)
class TorchPin:
    """The torch requirements of a wheel that hold on one host, together."""

    text: str  # "torch==2.14.0"
    specifier: SpecifierSet
    address: bool = False  # one of them names a file: the one torch that is meant

    def admits(self, version: str) -> bool:
        """Whether an installer may take this version (PEP 440; a local part is not compared unless it is named)."""
        return self.address or self.specifier.contains(version, prereleases=True)

    def below(self, minimum: str) -> str:
        """The newest release under ``minimum`` that it admits; "" for none."""
        found = [each for each in self._admitted() if _padded(each.release) < release_of(minimum)]
        return str(max(found)) if found else ""

    def reaches(self, minimum: str) -> bool:
        """Whether it admits ``minimum`` or any release above."""
        return self.address or any(_padded(each.release) >= release_of(minimum) for each in self._admitted())

    @property
    def exact(self) -> bool:
        """Whether it admits releases of one minor alone, which is what C++ compiled against one of them fits."""
        return self.address or len({each.release[:2] for each in self._admitted()}) == 1

    def _admitted(self) -> Iterator[Version]:
        from packaging.version import InvalidVersion, Version

        tried = [Version("1.13.1"), Version("3.0.0")]
        tried += [Version(f"2.{minor}.{patch}") for minor in range(_MINORS) for patch in range(_PATCHES)]
        for clause in self.specifier:
            # An exact release may be one that nobody thought of: a nightly, or one with a local part.
            try:
                tried.append(Version(clause.version.removesuffix(".*")))
            except InvalidVersion:
                continue
        return (each for each in tried if self.specifier.contains(each, prereleases=True))


def torch_pin(requirements: Iterable[str], machine: str, python: str) -> TorchPin | None:
    """The torch requirements that hold on Linux for a machine ("aarch64") and a Python ("3.12"), without any extra.

    None where there is none.  Lines that are no requirements are another check's business.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import SpecifierSet

    host = {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    texts: list[str] = []
    together, address = SpecifierSet(), False
    for line in requirements:
        if "torch" not in line.lower():
            continue
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.name.lower() != "torch" or (requirement.marker and not requirement.marker.evaluate(host)):
            continue
        together &= requirement.specifier
        address |= bool(requirement.url)
        texts.append(f"torch{requirement.specifier}" + (f" @ {requirement.url}" if requirement.url else ""))
    return TorchPin(", ".join(texts), together, address) if texts else None


def _padded(release: Release) -> Release:
    return (*release, *(0,) * (3 - len(release)))
