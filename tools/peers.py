"""What other tools say of a wheel and of its members, in the words of our own facts.

Each function runs one tool on one file and gives plain values; nothing is judged here.  The tools come from the package
index (the dependency group ``peers``), readelf from binutils.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import files
from pathlib import Path
from typing import Any


class RefusedError(Exception):
    """A tool ended with an error on a file: its last words."""


Kernels = dict[str, set[str]]  # architecture -> distinct kernel names
Counts = dict[str, int]  # "sm_90a" or "compute_80" -> images

_LISTED = re.compile(r"^(?:ELF|PTX) file +\d+: .*\.(sm_\d+[a-z]?)\.(cubin|ptx)$")
_ARCH = re.compile(r"^arch = (sm_\d+[a-z]?)$")  # here, unlike in its lists, cuobjdump keeps the f


def cuobjdump() -> Path:
    """Where the package put the program."""
    for file in files("nvidia-cuda-cuobjdump") or ():
        if file.name == "cuobjdump":
            return Path(str(file.locate()))
    raise FileNotFoundError("the package nvidia-cuda-cuobjdump holds no program")


def cuobjdump_images(path: Path) -> Counts:
    """Cubins and PTX by architecture.  cuobjdump drops the ``f``: sm_120f counts as sm_120."""
    found: Counter[str] = Counter()
    for option in ("--list-elf", "--list-ptx"):
        for line in _run(
            cuobjdump(), "--all-fatbin", option, path, harmless="not contain device code|No PTX"
        ).splitlines():
            if match := _LISTED.match(line):
                found[match[1] if match[2] == "cubin" else match[1].replace("sm_", "compute_")] += 1
    return dict(found)


def cuobjdump_kernels(path: Path) -> Kernels:
    """Distinct names of entry functions by architecture, ``a`` and ``f`` apart, cubins alone."""
    found: Kernels = {}
    architecture = ""
    text = _run(cuobjdump(), "--all-fatbin", "--dump-elf-symbols", path, harmless="not contain device code")
    for line in text.splitlines():
        if match := _ARCH.match(line):
            architecture = match[1]
            continue
        fields = line.split()
        # FUNC GLOBAL DEFAULT ENTRY name
        if len(fields) == 5 and fields[0] == "FUNC" and fields[3] == "ENTRY":
            found.setdefault(architecture, set()).add(fields[4])
    return found


def cubloaty(path: Path) -> tuple[Counts, Kernels]:
    """Images and kernels by architecture, ``a`` and ``f`` apart."""
    script = (
        "import json, sys\n"
        "from cubloaty.analysis import analyze_file\n"
        "report = analyze_file(sys.argv[1])\n"
        "rows = [(i.kind, i.arch, [f.name for f in i.functions.values() if f.is_kernel]) for i in report.images]\n"
        "json.dump(rows, sys.stdout)\n"
    )
    rows = json.loads(_run(sys.executable, "-c", script, path))
    counts: Counter[str] = Counter(architecture for _, architecture, _ in rows)
    kernels: Kernels = {}
    for kind, architecture, names in rows:
        if kind == "sass":
            kernels.setdefault(architecture, set()).update(names)
    return dict(counts), {architecture: names for architecture, names in kernels.items() if names}


def readelf_dynamic(path: Path) -> dict[str, list[str]]:
    """NEEDED, SONAME, RPATH and RUNPATH as the dynamic section holds them."""
    found: dict[str, list[str]] = {"NEEDED": [], "SONAME": [], "RPATH": [], "RUNPATH": []}
    for line in _run("readelf", "-dW", path).splitlines():
        if match := re.search(r"\((NEEDED|SONAME|RPATH|RUNPATH)\).*?\[(.*)\]$", line):
            values = [match[2]] if match[1] in ("NEEDED", "SONAME") else match[2].split(":")
            found[match[1]] += values
    return found


def readelf_needs(path: Path) -> set[tuple[str, str]]:
    """(library, symbol version) rows of the section of needed versions."""
    found: set[tuple[str, str]] = set()
    library = ""
    for line in _run("readelf", "-VW", path).splitlines():
        if match := re.search(r"Version: \d+  File: (\S+)  Cnt: \d+", line):
            library = match[1]
        elif (match := re.search(r"Name: (\S+)  Flags: ", line)) and library and "Parent" not in line:
            found.add((library, match[1]))
        elif "Version definition section" in line:
            library = ""
    return found


def readelf_symbols(path: Path) -> tuple[set[str], set[str]]:
    """Undefined names (with ``@version`` where bound to one), and the names that others can bind to."""
    undefined: set[str] = set()
    exported: set[str] = set()
    for line in _run("readelf", "-W", "--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        binding, visibility, section, name = fields[4], fields[5], fields[6], fields[7]
        if section == "UND":
            undefined.add(name.replace("@@", "@"))
        elif binding in ("GLOBAL", "WEAK", "UNIQUE") and visibility in ("DEFAULT", "PROTECTED"):
            exported.add(name.partition("@")[0])
    return undefined, exported


def auditwheel(wheel: Path) -> str:
    """The policy that the symbol versions alone ask for, "manylinux_2_28_x86_64".

    auditwheel also counts what the libraries need that it finds on this host, so that a host with libaom raises the tag
    of a wheel that bundles FFmpeg.  It is given an empty folder to look in, for the wheel's own answer.
    """
    script = "from auditwheel.main import main; import sys; sys.argv[0] = 'auditwheel'; sys.exit(main())"
    with tempfile.TemporaryDirectory() as nothing:
        text = _run(sys.executable, "-c", script, "show", "--json", "--ldpaths", nothing, wheel)
    answer: dict[str, Any] = json.loads(text)
    return str(answer["sym_tag"])


def abi3audit(wheel: Path) -> dict[str, tuple[set[str], dict[str, str]]]:
    """File name -> (symbols outside the stable ABI, symbols newer than the claim and their versions)."""
    command = [sys.executable, "-m", "abi3audit", "-R", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "{" not in done.stdout:
        raise RefusedError(f"abi3audit ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    (answer,) = json.loads(done.stdout)["specs"].values()
    results = {row["name"]: row["result"] for row in answer["wheel"]}
    return {
        name: (set(result["non_abi3_symbols"]), dict(result["future_abi3_objects"]))
        for name, result in results.items()
        if result["is_abi3"] or result["non_abi3_symbols"]
    }


def _run(*command: str | Path, harmless: str = "") -> str:
    """A tool's output; what it says on a file without anything for it is no error."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode and not (harmless and re.search(harmless, done.stderr)):
        raise RefusedError(done.stderr.strip()[-400:] or f"ended with {done.returncode}")
    return done.stdout
