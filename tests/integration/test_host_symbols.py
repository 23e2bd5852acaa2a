"""What real wheels' host files take and give, against pyelftools and readelf."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from qualify.fetching import fetch_wheel
from qualify.readers.binary import Problems
from qualify.readers.hostelf import read_host_elf
from tests.support.pyelftools import ours, theirs
from tests.support.vllm import REQUIREMENT

pytestmark = pytest.mark.network

_ROW = re.compile(r"\s+\d+: [0-9a-f]+ +\S+ \S+ +(\S+(?: specific>: 10)?) +(\S+)(?: +\[.*?\])? +(\S+) ?(.*)$")


def host_files(wheel: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        contents = ((name, archive.read(name)) for name in archive.namelist())
        return [(name, content) for name, content in contents if content.startswith(b"\x7fELF")]


def listed(file: Path) -> tuple[set[tuple[str, str, bool]], set[str]]:
    """Undefined symbols as (name, version, weak) and defined ones, by readelf."""
    done = subprocess.run(["readelf", "-W", "--dyn-syms", file], capture_output=True, text=True, check=True)
    imports: set[tuple[str, str, bool]] = set()
    exports: set[str] = set()
    for binding, visibility, section, shown in (
        match.groups() for match in map(_ROW.match, done.stdout.splitlines()) if match
    ):
        name, _, version = re.sub(r" \(\d+\)$", "", shown).partition("@")
        if section == "UND" and binding != "LOCAL":
            imports.add((name, version.lstrip("@"), binding == "WEAK"))
        elif binding != "LOCAL" and visibility in ("DEFAULT", "PROTECTED"):
            exports.add(name)
    return imports, exports


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_host_file_of_the_released_wheel(machine: str, tmp_path: Path) -> None:
    assert shutil.which("readelf"), "readelf (binutils) is wanted as the reference"
    files = host_files(fetch_wheel(REQUIREMENT, machine, "3.12"))
    assert len(files) == 14
    for name, content in files:
        problems = Problems(name)
        facts = read_host_elf(content, problems).facts
        expected = theirs(content)
        assert problems.items == [], name
        assert ours(facts, stack_is_said=expected.executable_stack is not None) == expected, name
        file = tmp_path / "member"
        file.write_bytes(content)
        imports, exports = listed(file)
        assert {(each.name, each.version, each.weak) for each in facts.imports} == imports, name
        assert set(facts.exports) == exports, name
