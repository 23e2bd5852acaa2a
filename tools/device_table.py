"""What a GPU's driver really loads, form by form, held against the rules of this project.

    python -m tools.device_table make FOLDER            on any host: compile one kernel for every architecture
    python3 tools/device_load.py FOLDER > TABLE.json    on the GPU's host: load and launch each (Python alone)
    python -m tools.device_table compare TABLE.json     on any host: the table against the rules

``make`` writes cubins and PTX of several toolkits, and fat binaries in every compression, and what our own readers say
of each into ``forms.json``.  ``compare`` ends with 1 where a form ran that the rules refuse, or the other way round.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qualify.arch import ComputeCapability, DriverAnswer, Support
from qualify.coverage import entry_driver, entry_support
from qualify.decompress import Libraries
from qualify.facts import Compression, Entry, EntryKind
from qualify.readers.binary import Problems
from qualify.readers.device import Context
from qualify.readers.members import read_member
from qualify.readers.ptx import read_ptx
from tools.ptxas import Toolkit, install

TOOLKITS = ("12.9.86", "13.0.88", "13.5.37")
#: Of these real architectures fat binaries are made in every compression; the rest of the rules need no more.
WRAPPED = ("sm_90",)
MODES = ("none", "speed", "balance", "size", "default")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("make", "compare"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--cache", type=Path, help="keep the toolkits there")
    arguments = parser.parse_args()
    if arguments.action == "compare":
        return compare(json.loads(arguments.path.read_text(encoding="utf-8")))
    arguments.path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        forms = list(make(arguments.path, arguments.cache or Path(scratch)))
    (arguments.path / "forms.json").write_text(json.dumps(forms, indent=1) + "\n", encoding="utf-8")
    print(f"{len(forms)} forms in {arguments.path}: {dict(Counter(form['kind'] for form in forms))}")
    return 0


def make(folder: Path, cache: Path) -> Iterator[dict[str, Any]]:
    """Write every form into ``folder``, and yield what is known of each."""
    for version in TOOLKITS:
        toolkit = install(version, cache)
        for name in toolkit.architectures():
            path = folder / f"{version}-{name}.cubin"
            if complaint := toolkit.compile(name, name, path):
                raise SystemExit(f"ptxas {version} does not compile for {name}: {complaint}")
            yield described(path, version)
            text = folder / f"{version}-{name.replace('sm_', 'compute_')}.ptx"
            text.write_text(toolkit.ptx(name), encoding="ascii")
            yield described(text, version)
            if name in WRAPPED and toolkit.fatbinary is not None:
                for mode in MODES:
                    for content in (path, text):
                        yield described(wrapped(toolkit, content, mode, folder), version)


def wrapped(toolkit: Toolkit, content: Path, mode: str, folder: Path) -> Path:
    kind = "ptx" if content.suffix == ".ptx" else "elf"
    sm = content.stem.rpartition("_")[2]
    out = folder / f"{content.stem}-{mode}.fatbin"
    command = [str(toolkit.fatbinary), "-64", f"--create={out}", f"--compress-mode={mode}", "--compress-all"]
    subprocess.run([*command, f"--image3=kind={kind},sm={sm},file={content}"], check=True)
    return out


def described(path: Path, toolkit: str) -> dict[str, Any]:
    """What our readers say of one file: the entry whose fate the rules foretell."""
    data = path.read_bytes()
    entry = ptx_entry(data) if path.suffix == ".ptx" else only_entry(path, data)
    return {
        "file": path.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "built_with": toolkit,
        "wrapped": path.suffix == ".fatbin",
        "kind": entry.kind.value,
        "architecture": entry.architecture,
        "isa": entry.isa,
        "toolkit": entry.toolkit,
        "compression": entry.compression.value,
    }


def only_entry(path: Path, data: bytes) -> Entry:
    problems = Problems(path.name)
    member = read_member(path.name, data, len(data), Context.make(Libraries()), problems)
    if found := problems.finish():
        raise SystemExit(f"{path.name}: {found[0].detail}")
    (entry,) = (entry for container in member.containers for entry in container.entries)
    if len(entry.kernels) != 1:
        raise SystemExit(f"{path.name}: {len(entry.kernels)} kernels instead of one")
    return entry


def ptx_entry(data: bytes) -> Entry:
    """A bare PTX file is no member of a wheel that counts; its entry is as a fat binary would hold it."""
    read = read_ptx(data)
    return Entry(
        kind=EntryKind.PTX,
        raw_kind=1,
        architecture=f"compute_{read.sm}{read.suffix}",
        isa=read.isa,
        toolkit="",
        compression=Compression.NONE,
        stored_size=len(data),
        size=len(data),
        debug=False,
        options="",
        kernels=(0,),
        functions=(),
        readable=True,
    )


def foretold(form: dict[str, Any], device: ComputeCapability, driver: str) -> tuple[Support, DriverAnswer]:
    """How the rules say that one form runs on a device under a driver of CUDA ``driver``."""
    entry = Entry(
        kind=EntryKind(form["kind"]),
        raw_kind=0,
        architecture=form["architecture"],
        isa=form["isa"],
        toolkit=form["toolkit"],
        compression=Compression(form["compression"]),
        stored_size=0,
        size=0,
        debug=False,
        options="",
        kernels=(0,),
        functions=(),
        readable=True,
    )
    return entry_support(entry, device), entry_driver(entry, driver)


def disagreements(table: dict[str, Any]) -> list[str]:
    """Each form of a recorded table on which the device and the rules differ, in a line."""
    device = ComputeCapability.parse(table["device"]["compute_capability"])
    driver = table["device"]["driver_cuda"]
    wrong = []
    for form in table["forms"]:
        support, answer = foretold(form, device, driver)
        runs = (support.native or support is Support.JIT) and answer is DriverAnswer.YES
        known = support is not Support.UNKNOWN and answer is not DriverAnswer.UNKNOWN
        if runs != (form["outcome"] == "runs") and (known or form["outcome"] == "runs"):
            said = f"{support.value}, driver {answer.value}"
            wrong.append(f"{form['file']}: {form['outcome']} on {device}; the rules say {said}")
    return wrong


def compare(table: dict[str, Any]) -> int:
    wrong = disagreements(table)
    device = table["device"]
    print(
        f"{device['name']}, compute capability {device['compute_capability']}, driver of CUDA {device['driver_cuda']}"
    )
    for outcome, names in sorted(outcomes(table).items()):
        print(f"  {outcome}: {', '.join(names)}")
    for line in wrong:
        print(f"  DISAGREES: {line}")
    print(f"{len(table['forms'])} forms, {len(wrong)} disagreements with the rules")
    return 1 if wrong or not table["forms"] else 0


def outcomes(table: dict[str, Any]) -> dict[str, list[str]]:
    """Outcome -> architectures, with the toolkit where they differ by it."""
    gathered: dict[str, dict[str, set[str]]] = {}
    for form in table["forms"]:
        name = form["architecture"] + ("" if not form["wrapped"] else f" in {form['compression']}")
        gathered.setdefault(form["outcome"], {}).setdefault(name, set()).add(form["built_with"])
    return {
        outcome: [
            f"{name} ({', '.join(sorted(v.rpartition('.')[0] for v in versions))})" for name, versions in names.items()
        ]
        for outcome, names in gathered.items()
    }


if __name__ == "__main__":
    sys.exit(main())
