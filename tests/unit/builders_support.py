"""What the builders' tests share: small matrices, source trees, sdists, git repositories and tools that only talk."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qualify.matrix import LoadedMatrix, load

COMMIT = "4ba787ec9" + "0" * 31

MATRIX = """\
version: 1
project: {name: tiny, import_name: tiny, version_module: tiny/_version.py}
pin:
  repository: https://example.org/tiny
  requirement: ""
  source: SOURCE
  commit: "PINNED"
build:
  torch: true
  environment: {TINY_DEVICE: cuda}
  refused_environment: [TINY_USE_PRECOMPILED*]
  tools:
    - {name: nvcc, minimum: "12.9", why: "kernels"}
    - {name: ninja}
    - {name: cmake, minimum: "3.26.1"}
    - {name: c++, minimum: "13", why: "C++20 format"}
    - {name: python.h}
    - {name: git}
  external_sources: [CMakeLists.txt]
  cmake_variables: {TINY_DEVICE: $TINY_DEVICE}
  commit_files: [tiny/_version.py]
  shapes:
    - {when: {TINY_DEVICE: empty}, reason: the empty shell for tests, tools: [git], environment: {TINY_RUST: "0"}}
targets:
  x86_64-sm90: &no
    machine: x86_64
    compute_capability: "9.0"
    python: ["3.11", "3.12", "3.13", "3.14"]
    base: {bootstrap: debian-13}
    toolkit: "13.0.3"
    torch: torch==2.14.0
    arch_list: "9.0"
    ceilings: {glibc: "2.28", glibcxx: "3.4.25"}
    driver: {oldest_cuda: "13.0"}
  aarch64-sm121:
    machine: aarch64
    compute_capability: "12.1"
    python: ["3.12"]
    base: {image: quay.io/pypa/manylinux_2_28_aarch64}
    toolkit: "13.0"
    torch: torch==2.14.0
    arch_list: "12.1"
    ceilings: {glibc: "2.39", glibcxx: "3.4.33"}
    driver: {oldest_cuda: "13.0"}
    how: cross
    label: sm121
""".replace(" &no", "")

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", "torch == 2.13.0", "wheel"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
version = "1.0"
"""

CMAKE = """\
include(FetchContent)
if(DEFINED ENV{THING_SRC_DIR})
  set(THING_SRC_DIR $ENV{THING_SRC_DIR})
endif()
if(THING_SRC_DIR)
  FetchContent_Declare(thing SOURCE_DIR ${THING_SRC_DIR})
else()
  FetchContent_Declare(thing GIT_REPOSITORY https://example.org/thing.git GIT_TAG v1.2 GIT_SUBMODULES sub)
endif()
"""

VERSION = "__version__ = '1.0'\n__commit_id__ = commit_id = 'g4ba787ec9'\n"
FILES: Mapping[str, str] = {
    "pyproject.toml": PYPROJECT,
    "CMakeLists.txt": CMAKE,
    "tiny/_version.py": VERSION,
    "PKG-INFO": "Metadata-Version: 2.4\nName: tiny\nVersion: 1.0\n",
}


def write_tree(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def make_sdist(folder: Path, files: Mapping[str, str] = FILES, *, top: str = "tiny-1.0") -> tuple[Path, str]:
    """An sdist of ``files`` and its sha256."""
    path = folder / f"{top}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def sdist_matrix(folder: Path, files: Mapping[str, str] = FILES, *, pinned: str = "4ba787ec9") -> LoadedMatrix:
    """A matrix whose pin is an sdist of ``files`` beside it."""
    path, sha256 = make_sdist(folder, files)
    return write_matrix(folder, f"{{sdist: {path.name}, sha256: {sha256}}}", pinned)


def write_matrix(folder: Path, source: str, pinned: str, replacements: Mapping[str, str] | None = None) -> LoadedMatrix:
    text = MATRIX.replace("SOURCE", source).replace("PINNED", pinned)
    for old, new in (replacements or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "matrix.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def make_repository(folder: Path, files: Mapping[str, str] = FILES, *, tag: str = "v1.0") -> str:
    """A repository with two commits, the first of them tagged; its head."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    write_tree(folder, files)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    if tag:
        git(folder, "tag", tag)
    (folder / "more.txt").write_text("more\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "second")
    return git(folder, "rev-parse", "HEAD")


def make_tool(folder: Path, name: str, text: str) -> Path:
    """An executable that prints ``text`` (a shell script's body)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


NVCC = """case "$1" in
--list-gpu-arch) echo compute_90; echo compute_121;;
--list-gpu-code) echo sm_90; echo sm_121;;
*) echo "nvcc: NVIDIA (R) Cuda compiler driver"; echo "Cuda compilation tools, release 13.0, V13.0.88";;
esac"""


def seen(path: str, output: str, **lists: list[str]) -> dict[str, Any]:
    """One candidate as the collector tells it."""
    return {"path": path, "status": 0, "output": output, "marked": True, "lists": lists}


def facts(**changes: Any) -> dict[str, Any]:
    """The facts of a place where everything is right for the tiny matrix's x86_64 target."""
    tools = {
        "nvcc": [seen("/cuda/bin/nvcc", "release 13.0, V13.0.88", code=["sm_90", "sm_121"])],
        "ninja": [seen("/usr/bin/ninja", "1.11.1")],
        "cmake": [seen("/usr/bin/cmake", "cmake version 3.31.6")],
        "c++": [seen("/usr/bin/c++", "c++ (Debian 14.2.0-19) 14.2.0\nCopyright (C) 2024")],
        "git": [seen("/usr/bin/git", "git version 2.47.2")],
    }
    distributions = {"setuptools": "80.9.0", "torch": "2.14.0+cu130", "wheel": "0.45.1"}
    whole = {
        "version": 1,
        "machine": "x86_64",
        "path": ["/usr/bin"],
        "environment": {},
        "interpreter": {
            "executable": "/venv/bin/python",
            "version": "3.12.7",
            "short": "3.12",
            "prefix": "/venv",
            "base_prefix": "/usr",
            "include": ["/usr/include/python3.12"],
            "site": ["/venv/lib/python3.12/site-packages"],
            "distributions": [{"name": n, "version": v, "requires": []} for n, v in distributions.items()],
            "torch": {"path": "/venv/torch", "version": "2.14.0+cu130", "cuda": "13.0", "hip": None, "stated": True},
            "markers": {"python_version": "3.12", "sys_platform": "linux", "platform_machine": "x86_64"},
        },
        "interpreter_problem": "",
        "memory": {"total": 64 << 30, "available": 60 << 30, "limit": None},
        "cores": 8,
        "disk": {"/scratch": 100 << 30},
        "emulated": [],
        "hook": {"requirements": ["wheel"], "failed": "", "seconds": 0.1},
        "hook_asked": True,
        "looked_in": [],
        "tools": {name: {"on_path": found, "elsewhere": []} for name, found in tools.items()},
        "headers": {
            "own": [{"path": "/usr/include/python3.12/Python.h", "version": "3.12.7"}],
            "own_folders": ["/usr/include/python3.12"],
            "told": [],
            "elsewhere": [],
        },
        "remotes": {"https://example.org/thing.git": {"answers": True, "said": ""}},
    }
    return {**whole, **changes}
