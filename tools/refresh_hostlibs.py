"""Write qualify/data/hostlibs.json anew from the C and C++ libraries of a system.

    python tools/refresh_hostlibs.py "Debian 13, x86_64=/path/to/usr/lib/x86_64-linux-gnu" …

Each argument is what to call a system and the folder of its libraries: of this host, of a cross compiler
(`/usr/aarch64-linux-gnu/lib`), or copied out of a container image.  What is kept is the union: library -> symbol
version -> names, for default and old versions alike, since a reference without a version takes any of them (glibc,
`elf/dl-lookup.c`).  A name stands under the oldest version that defines it.

Needs pyelftools (dependency group `tests`).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

TARGET = Path(__file__).resolve().parents[1] / "qualify" / "data" / "hostlibs.json"
LIBRARIES = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
    "libstdc++.so.6",
    "libgcc_s.so.1",
)
LOADERS = ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
Versions = dict[str, str]  # name -> the oldest version that defines it


def number(version: str) -> tuple[str, list[int]]:
    """Versions of one family in their order: ``GLIBCXX_3.4.9`` before ``GLIBCXX_3.4.30``."""
    family = version.partition("_")[0]
    return family, [int(part) for part in re.findall(r"[0-9]+", version)]


def exports(path: Path) -> Versions:
    """Names that a library defines for others, each with the oldest version."""
    found: Versions = {}
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        table = elf.get_section_by_name(".dynsym")
        versions = elf.get_section_by_name(".gnu.version")
        definitions = elf.get_section_by_name(".gnu.version_d")
        assert isinstance(table, SymbolTableSection)
        assert isinstance(versions, GNUVerSymSection)
        assert isinstance(definitions, GNUVerDefSection)
        for index, symbol in enumerate(table.iter_symbols()):
            if symbol["st_shndx"] == "SHN_UNDEF" or symbol["st_info"]["bind"] == "STB_LOCAL" or not symbol.name:
                continue
            ndx = versions.get_symbol(index)["ndx"]
            row = ndx & 0x7FFF if isinstance(ndx, int) else 0
            version = "" if row < 2 else next(iter(definitions.get_version(row)[1])).name
            if version == "GLIBC_PRIVATE" or symbol.name == version:
                continue
            if symbol.name not in found or number(version) < number(found[symbol.name]):
                found[symbol.name] = version
    return found


def main(arguments: list[str]) -> None:
    systems = dict(argument.rsplit("=", 1) for argument in arguments)
    if not systems:
        raise SystemExit(__doc__)
    together: dict[str, Versions] = {}
    for folder in map(Path, systems.values()):
        for library in (*LIBRARIES, *LOADERS):
            path = folder / library
            if not path.exists():
                continue
            key = "ld.so" if library in LOADERS else library
            known = together.setdefault(key, {})
            for name, version in exports(path).items():
                if name not in known or number(version) < number(known[name]):
                    known[name] = version
    if lacking := set(LIBRARIES) - set(together):
        raise SystemExit(f"no folder holds {', '.join(sorted(lacking))}")
    blocks = []
    for library, names in together.items():
        by_version: dict[str, list[str]] = {}
        for name, version in sorted(names.items()):
            by_version.setdefault(version, []).append(name)
        rows = [
            f"  {json.dumps(version)}: {json.dumps(' '.join(by_version[version]))}"
            for version in sorted(by_version, key=number)
        ]
        blocks.append(f" {json.dumps(library)}: {{\n" + ",\n".join(rows) + "\n }")
    text = f'{{"systems": {json.dumps(list(systems))}, "libraries": {{\n' + ",\n".join(blocks) + "\n}}\n"
    TARGET.write_text(text, encoding="utf-8")
    total = sum(map(len, together.values()))
    sys.stderr.write(f"{TARGET.name}: {total} names of {len(together)} libraries, {len(text)} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
