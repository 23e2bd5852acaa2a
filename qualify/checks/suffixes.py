"""File names of extension modules: which interpreter imports which of them.

Rules: PEP 3149 (``_C.cpython-312-x86_64-linux-gnu.so``) and ``importlib.machinery.EXTENSION_SUFFIXES`` of each version:
its own suffix, ``.abi3.so`` and ``.so``; from 3.15 on ``.abi3t.so`` as well, and both with the machine's name in them.
A free-threaded build of 3.15 or later takes no ``.abi3.so`` (PEP 803).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qualify.facts import Elf, installed_path

_SUFFIX = re.compile(
    r"\.(?:"
    r"(?P<stable>abi3t?)(?:-(?P<stable_host>[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*))?"
    r"|(?P<name>cpython|pypy|graalpy)-?(?P<major>[0-9])(?P<minor>[0-9]{0,3})(?P<flags>[a-z]*)"
    r"(?:-(?P<host>[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*))?"
    r")\.so$"
)


#: The versions for which a file is looked for: those that an installer of today or of the next years may have.
VERSIONS = tuple((3, number) for number in range(2, 41))


@dataclass(frozen=True, slots=True)
class Suffix:
    """What the name of an extension says of who imports it."""

    module: str  # the last part of the module's name, "_C"
    interpreter: str  # "cpython", "pypy", "graalpy"; "abi3" or "abi3t" for the stable ABI; "" for a bare ".so"
    version: tuple[int, int] | None  # of an interpreter; None where the suffix names none
    flags: str  # "t" free-threaded, "d" debug, "m" of 3.7 and before
    host: str  # "x86_64-linux-gnu"; "" where the suffix names none

    @property
    def stable(self) -> bool:
        return self.interpreter in ("abi3", "abi3t")

    def imported_by(self, version: tuple[int, int], machine: str) -> bool:
        """Whether a release build of CPython ``version`` with the GIL, on Linux with glibc, finds the file."""
        if self.host and not _is_host(self.host, machine):
            return False
        if not self.interpreter:
            return True
        if self.interpreter == "abi3":
            return version >= ((3, 15) if self.host else (3, 2))
        if self.interpreter == "abi3t":
            return version >= (3, 15)
        flags = "m" if version < (3, 8) else ""
        return self.interpreter == "cpython" and self.version == version and self.flags == flags


def suffix_of(path: str) -> Suffix | None:
    """What the name of a ``.so`` file says; None for a file that no interpreter takes for an extension."""
    name = installed_path(path).rpartition("/")[2]
    if not name.endswith(".so"):
        return None
    match = _SUFFIX.search(name)
    if match is None:
        module = name.removesuffix(".so")
        return None if "." in module else Suffix(module, "", None, "", "")
    module = name[: match.start()]
    if match["stable"]:
        return Suffix(module, match["stable"], None, "", match["stable_host"] or "")
    version = (int(match["major"]), int(match["minor"])) if match["minor"] else None
    return Suffix(module, match["name"], version, match["flags"], match["host"] or "")


def _is_host(host: str, machine: str) -> bool:
    """Whether ``host`` (a multiarch name; PyPy puts its ABI before it) is Linux with glibc on ``machine``."""
    return host == f"{machine}-linux-gnu" or host.endswith(f"-{machine}-linux-gnu")


def modules_of(elf: Elf) -> tuple[str, ...]:
    """Names of the modules that a file defines, by ``PyInit_`` (PEP 489) or ``PyModExport_`` (PEP 793); sorted."""
    exported = (name.removeprefix("PyModExport_") for name in elf.exports if name.startswith("PyModExport_"))
    return tuple(sorted({*elf.python_inits, *exported}))
